# SPDX-License-Identifier: Apache-2.0

"""Sorted containers of keys."""

import bisect
import itertools
import math
import typing
from collections import abc

from fpgapool.core import native

#: A sort key. Keys of one container are comparable, and no two are equal; a
#: job's key ends with its id.
Key: typing.TypeAlias = tuple[typing.Any, ...]

#: (time_s, job id)
Timer: typing.TypeAlias = tuple[float, int]

_Bucket = typing.TypeVar("_Bucket")

# Longer lists are split. This length balances the number of lists against the
# time to insert and sort.
_MAX_CHUNK = 1024

# Number of changes that Ranks applies at once, in a few milliseconds.
_MAX_CHANGES = 2048


@native.mypyc_attr(allow_interpreted_subclasses=True)
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
        """Return the smallest key, or None."""
        return self._chunks[0][0] if self._chunks else None

    def at_or_after(self, key: Key) -> Key | None:
        """Return the smallest key that is not below this one, or None."""
        number = bisect.bisect_left(self._last_keys, key)
        if number == len(self._chunks):
            return None
        chunk = self._chunks[number]
        return chunk[bisect.bisect_left(chunk, key)]

    def rank(self, key: Key) -> int:
        """Return how many keys are below this one."""
        number = bisect.bisect_left(self._last_keys, key)
        before = sum(map(len, self._chunks[:number]))
        if number == len(self._chunks):
            return before
        return before + bisect.bisect_left(self._chunks[number], key)


@native.mypyc_attr(allow_interpreted_subclasses=True)
class _Queue(typing.Generic[_Bucket]):
    """A priority queue of keys.

    Only the front is sorted. The other keys are in buckets, and each bucket is
    sorted when it becomes the front. So most keys of a long queue are only
    compared with the bounds of the buckets.

    :ivar front: the smallest keys, in order; read-only. It is empty if the
        queue is, and always the same list object.
    """

    __slots__ = ("_bounds", "_buckets", "front")

    def __init__(self) -> None:
        self.front: list[Key] = []
        #: The lower bound of each bucket's keys.
        self._bounds: list[Key] = []
        self._buckets: list[_Bucket] = []

    def __bool__(self) -> bool:
        return bool(self.front)

    def __iter__(self) -> abc.Iterator[Key]:
        yield from self.front
        for bucket in self._buckets:
            yield from self._in_order(bucket)

    def _in_order(self, bucket: _Bucket) -> list[Key]:
        raise NotImplementedError

    def _put(self, number: int, keys: list[Key]) -> None:
        """Put sorted keys into a new bucket."""
        raise NotImplementedError

    def _take(self, number: int) -> list[Key]:
        """Remove a bucket and return its keys, sorted."""
        del self._bounds[number]
        return self._in_order(self._buckets.pop(number))

    def _split_front(self) -> None:
        front = self.front
        half = len(front) // 2
        self._put(0, front[half:])
        del front[half:]

    def _fill_front(self) -> None:
        while self._buckets and not self.front:
            self.front.extend(self._take(0))


@native.mypyc_attr(allow_interpreted_subclasses=True)
class KeyQueue(_Queue[list[Key]]):
    """A priority queue of keys whose last elements differ.

    Most keys are removed when they are the smallest. A key that is removed
    from a bucket is only marked as gone.
    """

    __slots__ = ("_behind", "_gone")

    def __init__(self) -> None:
        super().__init__()
        #: Number of keys in the buckets, including those that are gone.
        self._behind = 0
        #: The keys that are gone, by their last elements.
        self._gone: dict[typing.Any, Key] = {}

    def __len__(self) -> int:
        return len(self.front) + self._behind - len(self._gone)

    def first(self) -> Key | None:
        return self.front[0] if self.front else None

    def below(self, key: Key | None) -> list[Key]:
        """Return all keys below this one, in order; None: all keys."""
        front = self.front
        if key is None:
            return list(self)
        if not front or key <= front[-1]:
            return front[: bisect.bisect_left(front, key)]
        return list(itertools.takewhile(key.__gt__, self))

    def add(self, key: Key) -> None:
        bounds, front = self._bounds, self.front
        if self._gone and key[-1] in self._gone and self._revive(key):
            return
        if not bounds or key < bounds[0]:
            bisect.insort(front, key)
            if len(front) > _MAX_CHUNK:
                self._split_front()
        else:
            number = bisect.bisect_right(bounds, key) - 1
            bucket = self._buckets[number]
            bucket.append(key)
            self._behind += 1
            if len(bucket) > _MAX_CHUNK:
                self._split(number)

    def remove(self, key: Key) -> None:
        bounds, front = self._bounds, self.front
        if front[0] == key:
            del front[0]
            if bounds and not front:
                self._fill_front()
        elif not bounds or key < bounds[0]:
            del front[bisect.bisect_left(front, key)]
        else:
            self._gone[key[-1]] = key
            if 2 * len(self._gone) > self._behind:
                self._sweep()

    def _revive(self, key: Key) -> bool:
        """Drop the gone key that has the same last element as a new key.

        :returns: whether the two are equal, so that the key is already back.
        """
        former = self._gone.pop(key[-1])
        if former == key:
            return True
        number = bisect.bisect_right(self._bounds, former) - 1
        self._buckets[number].remove(former)
        self._behind -= 1
        return False

    def _kept(self, bucket: list[Key]) -> list[Key]:
        gone = self._gone
        if not gone:
            return bucket
        return [key for key in bucket if key[-1] not in gone]

    def _in_order(self, bucket: list[Key]) -> list[Key]:
        return sorted(self._kept(bucket))

    def _put(self, number: int, keys: list[Key]) -> None:
        self._bounds.insert(number, keys[0])
        self._buckets.insert(number, keys)
        self._behind += len(keys)

    def _split(self, number: int) -> None:
        # Keep the keys that are gone: removing them here would take longer.
        bucket = self._buckets[number]
        bucket.sort()
        half = len(bucket) // 2
        self._bounds.insert(number + 1, bucket[half])
        self._buckets.insert(number + 1, bucket[half:])
        del bucket[half:]

    def _take(self, number: int) -> list[Key]:
        bucket = self._buckets[number]
        keys = super()._take(number)
        self._behind -= len(bucket)
        if len(keys) < len(bucket):
            for key in bucket:
                self._gone.pop(key[-1], None)
        return keys

    def _sweep(self) -> None:
        """Drop the keys that are gone, and buckets that become empty."""
        kept = zip(self._bounds, map(self._kept, self._buckets), strict=True)
        pairs = [(bound, keys) for bound, keys in kept if keys]
        self._bounds = [bound for bound, _ in pairs]
        self._buckets = [keys for _, keys in pairs]
        self._behind = sum(map(len, self._buckets))
        self._gone.clear()


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Timers(_Queue[dict[int, float]]):
    """A priority queue of jobs by due time.

    Its keys are :data:`Timer` tuples. Most are removed before they reach the
    front, so a bucket maps each job to its time.
    """

    __slots__ = ()

    def first_s(self) -> float:
        """Return the earliest time; infinite if there is none."""
        return self.front[0][0] if self.front else math.inf

    def add(self, time_s: float, job_id: int) -> None:
        """Add a job; the caller makes sure that the time is finite."""
        timer = (time_s, job_id)
        number = bisect.bisect_right(self._bounds, timer) - 1
        if number < 0:
            bisect.insort(self.front, timer)
            if len(self.front) > _MAX_CHUNK:
                self._split_front()
            return
        bucket = self._buckets[number]
        bucket[job_id] = time_s
        if len(bucket) > _MAX_CHUNK:
            self._split(number)

    def remove(self, time_s: float, job_id: int) -> None:
        """Remove a job that was added with this time."""
        timer = (time_s, job_id)
        number = bisect.bisect_right(self._bounds, timer) - 1
        if number < 0:
            del self.front[bisect.bisect_left(self.front, timer)]
            self._fill_front()
            return
        bucket = self._buckets[number]
        del bucket[job_id]
        if len(bucket) <= _MAX_CHUNK // 8:
            self._merge(number)

    def take_due(self, now: float) -> list[int]:
        """Remove and return the jobs that are due, the earliest first."""
        front = self.front
        due: list[int] = []
        while front and front[0][0] <= now:
            due.append(front.pop(0)[1])
            if not front:
                self._fill_front()
        return due

    def _in_order(self, bucket: dict[int, float]) -> list[Key]:
        return sorted(zip(bucket.values(), bucket, strict=True))

    def _put(self, number: int, keys: list[Key]) -> None:
        self._bounds.insert(number, keys[0])
        self._buckets.insert(number, {key[1]: key[0] for key in keys})

    def _split(self, number: int) -> None:
        bucket = self._buckets[number]
        keys = self._in_order(bucket)
        later = keys[len(keys) // 2 :]
        for _, job_id in later:
            del bucket[job_id]
        self._put(number + 1, later)

    def _merge(self, number: int) -> None:
        """Merge a small bucket with a small neighbour."""
        bounds, buckets = self._bounds, self._buckets
        for left in range(
            max(number - 1, 0), min(number + 1, len(bounds) - 1)
        ):
            right = left + 1
            if len(buckets[left]) + len(buckets[right]) <= _MAX_CHUNK // 2:
                buckets[left].update(buckets[right])
                del bounds[right], buckets[right]
                return


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Ranks:
    """Ranks of keys in a set that is kept elsewhere.

    After a query, it tracks changes of the set in batches, until it has not
    been queried for a while. It costs almost nothing while it is unused.

    :ivar followed: whether the caller must report changes through
        :meth:`note`.
    """

    __slots__ = ("_asked_ago", "_changed", "_keys", "_sorted", "followed")

    def __init__(self, keys: abc.Callable[[], abc.Iterable[Key]]) -> None:
        self._keys = keys
        self._sorted: SortedKeys | None = None
        self.followed = False
        #: Keys that were added or removed since the last update, but not both.
        self._changed: set[Key] = set()
        #: Number of changed keys applied since the last query.
        self._asked_ago = 0

    def rank(self, key: Key) -> int:
        self._asked_ago = 0
        if self._sorted is None:
            self._sorted = SortedKeys(self._keys())
            self.followed = True
        else:
            self._follow(self._sorted)
        return self._sorted.rank(key)

    def note(self, key: Key) -> None:
        """Note that a key was added or removed."""
        if self._sorted is None:
            return
        self._changed ^= {key}
        if len(self._changed) < _MAX_CHANGES:
            return
        self._asked_ago += len(self._changed)
        if self._asked_ago > len(self._sorted):
            self._sorted = None
            self.followed = False
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
