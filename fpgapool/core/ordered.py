#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Small ordered containers: sorted keys and timers."""

import bisect
import heapq
import math
import typing
from collections import abc

#: A sort key. Keys of one container have members that compare, and no two
#: are equal; a job's key ends with its id.
Key: typing.TypeAlias = tuple[typing.Any, ...]

# Lists of this length are split in two: long enough that there are few of
# them, short enough that inserting moves little memory.
_MAX_CHUNK = 1024


class SortedKeys:
    """A sorted set of keys with cheap insertion, removal and rank."""

    __slots__ = ("_chunks", "_last_keys", "_length")

    def __init__(self) -> None:
        self._chunks: list[list[Key]] = []
        self._last_keys: list[Key] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> abc.Iterator[Key]:
        for chunk in self._chunks:
            yield from chunk

    def __contains__(self, key: Key) -> bool:
        return self.at_or_after(key) == key

    def __getitem__(self, rank: int) -> Key:
        for chunk in self._chunks:
            if rank < len(chunk):
                return chunk[rank]
            rank -= len(chunk)
        raise IndexError(rank)

    def add(self, key: Key) -> None:
        """Insert a key that is not in the set."""
        self._length += 1
        last_keys = self._last_keys
        number = bisect.bisect_left(last_keys, key)
        if number < len(last_keys):
            chunk = self._chunks[number]
            bisect.insort(chunk, key)
        elif last_keys:
            number -= 1
            chunk = self._chunks[number]
            chunk.append(key)
            last_keys[number] = key
        else:
            self._chunks.append([key])
            last_keys.append(key)
            return
        if len(chunk) > _MAX_CHUNK:
            self._split(number)

    def _split(self, number: int) -> None:
        chunk = self._chunks[number]
        half = len(chunk) // 2
        self._chunks[number : number + 1] = [chunk[:half], chunk[half:]]
        self._last_keys.insert(number, chunk[half - 1])

    def remove(self, key: Key) -> None:
        """Take a key out.

        :raises KeyError: if it is not there.
        """
        number = bisect.bisect_left(self._last_keys, key)
        chunk = self._chunks[number] if number < len(self._chunks) else []
        place = bisect.bisect_left(chunk, key)
        if place == len(chunk) or chunk[place] != key:
            raise KeyError(key)
        self._length -= 1
        del chunk[place]
        if not chunk:
            del self._chunks[number], self._last_keys[number]
        elif place == len(chunk):
            self._last_keys[number] = chunk[-1]

    def first(self) -> Key | None:
        """The smallest key, or None."""
        return self._chunks[0][0] if self._chunks else None

    def at_or_after(self, key: Key) -> Key | None:
        """The smallest key that is not below this one, or None."""
        number = bisect.bisect_left(self._last_keys, key)
        if number == len(self._chunks):
            return None
        chunk = self._chunks[number]
        return chunk[bisect.bisect_left(chunk, key)]

    def below(self, key: Key | None) -> list[Key]:
        """All keys below this one, in order; None: all there are."""
        keys: list[Key] = []
        for chunk, last in zip(self._chunks, self._last_keys, strict=True):
            if key is not None and last >= key:
                keys.extend(chunk[: bisect.bisect_left(chunk, key)])
                break
            keys.extend(chunk)
        return keys

    def rank(self, key: Key) -> int:
        """How many keys are below this one."""
        number = bisect.bisect_left(self._last_keys, key)
        before = sum(map(len, self._chunks[:number]))
        if number == len(self._chunks):
            return before
        return before + bisect.bisect_left(self._chunks[number], key)


class Timers:
    """The times at which something falls due for jobs, one for each."""

    def __init__(self) -> None:
        self._times_s: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._times_s)

    def set(self, job_id: int, time_s: float) -> None:
        """Set a job's time; an infinite one never falls due."""
        if math.isinf(time_s):
            self.discard(job_id)
        elif self._times_s.get(job_id) != time_s:
            self._times_s[job_id] = time_s
            heapq.heappush(self._heap, (time_s, job_id))
            self._compact()

    def discard(self, job_id: int) -> None:
        """Forget a job's time, if it has one."""
        self._times_s.pop(job_id, None)

    def get(self, job_id: int) -> float | None:
        """A job's time, if it has one."""
        return self._times_s.get(job_id)

    def pop_due(self, now: float) -> list[int]:
        """Take out the jobs whose time has come, the earliest first."""
        due: list[int] = []
        while (time_s := self.earliest_s()) is not None and time_s <= now:
            job_id = heapq.heappop(self._heap)[1]
            del self._times_s[job_id]
            due.append(job_id)
        return due

    def earliest_s(self) -> float | None:
        """The earliest time set, or None."""
        heap, times_s = self._heap, self._times_s
        while heap and times_s.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def _compact(self) -> None:
        # Entries of jobs that have gone would stay until they fall due.
        if len(self._heap) > 2 * len(self._times_s) + 64:
            self._heap = [(t, job_id) for job_id, t in self._times_s.items()]
            heapq.heapify(self._heap)
