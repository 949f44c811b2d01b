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

"""Small ordered containers."""

import bisect
import heapq
import math
import typing
from collections import abc

#: A sort key. Keys of one container have members that compare, and no two
#: are equal; a job's key ends with its id.
Key: typing.TypeAlias = tuple[typing.Any, ...]

#: (time_s, job id)
Timer: typing.TypeAlias = tuple[float, int]

# Lists of this length are split in two: long enough that there are few of
# them, short enough that inserting moves little memory.
_MAX_CHUNK = 1024

# So few timers are never worth tidying up.
_MIN_TIMERS = 1024

# So many changes are followed at once: some milliseconds.
_MAX_CHANGES = 2048


class SortedKeys:
    """A sorted set of keys with cheap insertion, removal and rank."""

    __slots__ = ("_chunks", "_last_keys", "_length")

    def __init__(self, keys: abc.Iterable[Key] = ()) -> None:
        ordered = sorted(keys)
        self._chunks = [
            ordered[start : start + _MAX_CHUNK]
            for start in range(0, len(ordered), _MAX_CHUNK)
        ]
        self._last_keys = [chunk[-1] for chunk in self._chunks]
        self._length = len(ordered)

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

    def rank(self, key: Key) -> int:
        """How many keys are below this one."""
        number = bisect.bisect_left(self._last_keys, key)
        before = sum(map(len, self._chunks[:number]))
        if number == len(self._chunks):
            return before
        return before + bisect.bisect_left(self._chunks[number], key)


class KeyHeap:
    """A set of keys of which the smallest is always at hand.

    Taking out a key that is not the smallest only notes that it is gone:
    it leaves the heap when it comes up, or when most keys in it are gone.

    :ivar heap: for reading: empty if the set is, else the first of it is the
        smallest key of the set. It is always the same list.
    """

    __slots__ = ("_gone", "heap")

    def __init__(self) -> None:
        self.heap: list[Key] = []
        self._gone: set[Key] = set()

    def __len__(self) -> int:
        return len(self.heap) - len(self._gone)

    def __bool__(self) -> bool:
        return bool(self.heap)

    def __iter__(self) -> abc.Iterator[Key]:
        return iter(self.below(None))

    def first(self) -> Key | None:
        """The smallest key, or None."""
        return self.heap[0] if self.heap else None

    def add(self, key: Key) -> None:
        """Insert a key that is not in the set."""
        gone = self._gone
        if gone and key in gone:
            gone.remove(key)
        else:
            heapq.heappush(self.heap, key)

    def remove(self, key: Key) -> None:
        """Take out a key that is in the set."""
        heap, gone = self.heap, self._gone
        if heap[0] == key:
            heapq.heappop(heap)
            while gone and heap[0] in gone:
                gone.remove(heapq.heappop(heap))
            return
        gone.add(key)
        if 2 * len(gone) > len(heap):
            heap[:] = [key for key in heap if key not in gone]
            heapq.heapify(heap)
            gone.clear()

    def below(self, key: Key | None) -> list[Key]:
        """All keys below this one, in order; None: all there are."""
        heap, gone = self.heap, self._gone
        found: list[Key] = []
        # Nothing under a key in the heap is smaller than that key.
        places = [0]
        while places:
            place = places.pop()
            if place < len(heap) and (key is None or heap[place] < key):
                found.append(heap[place])
                places += (2 * place + 1, 2 * place + 2)
        return sorted(key for key in found if key not in gone)


class Timers:
    """Jobs by the time when something falls due for them.

    An entry is not taken out when it loses its meaning, as most do: it is
    dropped when it comes up, or when there are too many of them.

    :param is_valid: whether an entry has its meaning still.
    :ivar heap: for reading: all entries; none is earlier than the first.
    """

    __slots__ = ("_is_valid", "_limit", "heap")

    def __init__(self, is_valid: abc.Callable[[Timer], bool]) -> None:
        self.heap: list[Timer] = []
        self._is_valid = is_valid
        self._limit = _MIN_TIMERS

    def add(self, timer: Timer) -> None:
        """Add an entry; that its time is infinite is the caller's care."""
        heap = self.heap
        heapq.heappush(heap, timer)
        if len(heap) > self._limit:
            heap[:] = filter(self._is_valid, heap)
            heapq.heapify(heap)
            self._limit = max(2 * len(heap), _MIN_TIMERS)

    def first(self, before_s: float = math.inf) -> Timer | None:
        """The earliest valid entry, if it is earlier than a time."""
        heap = self.heap
        while heap and heap[0][0] < before_s:
            if self._is_valid(heap[0]):
                return heap[0]
            heapq.heappop(heap)
        return None

    def pop_due(self, now: float) -> list[int]:
        """Take out the jobs whose time has come, the earliest first."""
        heap = self.heap
        due: list[int] = []
        while heap and heap[0][0] <= now:
            timer = heapq.heappop(heap)
            if self._is_valid(timer):
                due.append(timer[1])
        return due


class Ranks:
    """How many keys come before others, for a set that is kept elsewhere.

    Costs next to nothing while nobody asks. Once asked it follows the
    changes, many at a time, until nobody has asked for long.

    :param keys: gives all keys of the set, in any order.
    """

    __slots__ = ("_asked_ago", "_changed", "_keys", "_sorted")

    def __init__(self, keys: abc.Callable[[], abc.Iterable[Key]]) -> None:
        self._keys = keys
        self._sorted: SortedKeys | None = None
        #: Keys that came or went since it was last up to date. One that did
        #: both is not there.
        self._changed: set[Key] = set()
        #: How many changes were followed since somebody asked.
        self._asked_ago = 0

    def rank(self, key: Key) -> int:
        """How many keys are below this one."""
        self._asked_ago = 0
        if self._sorted is None:
            self._sorted = SortedKeys(self._keys())
        else:
            self._follow(self._sorted)
        return self._sorted.rank(key)

    def note(self, key: Key) -> None:
        """Note that a key came or went."""
        if self._sorted is None:
            return
        self._changed ^= {key}
        if len(self._changed) < _MAX_CHANGES:
            return
        self._asked_ago += len(self._changed)
        if self._asked_ago > len(self._sorted):
            self._sorted = None
            self._changed.clear()
        else:
            self._follow(self._sorted)

    def _follow(self, keys: SortedKeys) -> None:
        for key in self._changed:
            if key in keys:
                keys.remove(key)
            else:
                keys.add(key)
        self._changed.clear()
