# SPDX-License-Identifier: Apache-2.0

"""Uses without bound what others need, too. Each attempt gives up at an amount
in the scene, and gives back what it has.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import threading
from collections.abc import Callable

from tests.walls.attacks.registry import BOUNDED
from tests.walls.attacks.registry import Scene
from tests.walls.attacks.registry import attack
from tests.walls.attacks.registry import each

_MIB = 1 << 20
_PIECE_BYTES = 64 * _MIB


def _fill(what: str, wanted_bytes: int, take: Callable[[int], object]) -> str:
    """Take pieces until there are enough, or no more."""
    taken = 0
    while taken < wanted_bytes:
        try:
            take(_PIECE_BYTES)
        except (OSError, MemoryError) as error:
            # The whole text of an error may need memory, too.
            return f"{BOUNDED}: {taken // _MIB} MiB, {type(error).__name__}"
        taken += _PIECE_BYTES
    return f"{taken // _MIB} MiB of {what}"


@attack("takes pages that are reserved for others", "seccomp", {errno.ENOMEM})
def reserved_pages(scene: Scene) -> str:
    huge = 0x40000
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | huge

    def shared() -> None:
        os.close(os.memfd_create("reserved", os.MFD_HUGETLB))

    def private() -> None:
        # The host may have none: that is no wall.
        mmap.mmap(-1, 2 << 20, flags=flags).close()

    return each({"private": private, "shared": shared})


@attack("takes memory", "a limit, or its control group", expected=BOUNDED)
def own_memory_bound(scene: Scene) -> str:
    # Nothing is written there, so that the machine has as much as before.
    with contextlib.ExitStack() as stack:

        def take(size: int) -> None:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            stack.enter_context(mmap.mmap(-1, size, flags))

        return _fill("memory", scene["memory_bytes"], take)


@attack(
    "takes memory that is shared",
    "its control group",
    expected=BOUNDED,
    cgroup=True,
)
def shared_memory_bound(scene: Scene) -> str:
    with contextlib.ExitStack() as stack:

        def take(size: int) -> None:
            file = os.memfd_create("walls")
            stack.callback(os.close, file)
            os.posix_fallocate(file, 0, size)

        return _fill("shared memory", scene["shared_bytes"], take)


@attack("fills a disk", "Landlock, limits", expected=BOUNDED)
def disk_bound(scene: Scene) -> str:
    first: OSError | None = None
    for place in (".", *scene["shared_dirs"]):
        try:
            return f"{_fill_disk(place, scene['disk_bytes'])} in {place}"
        except OSError as error:
            # Walls are not why nobody can write to a read-only file system.
            if error.errno != errno.EROFS:
                first = first or error
    raise first or OSError("no directory")


def _fill_disk(place: str, wanted_bytes: int) -> str:
    """Fill a directory.

    :raises OSError: if it cannot be written to.
    """
    name = os.path.join(place, f"walls-{os.getpid()}-")
    with contextlib.ExitStack() as stack:
        # Files that must be removed one by one show what went wrong.
        numbers = iter(range(1 << 30))

        def take(size: int) -> None:
            path = f"{name}{next(numbers)}"
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            stack.callback(os.unlink, path)
            stack.callback(os.close, file)
            os.posix_fallocate(file, 0, size)

        take(1)
        return _fill("files", wanted_bytes, take)


@attack("makes processes", "its control group", expected=BOUNDED, cgroup=True)
def processes(scene: Scene) -> str:
    reader, writer = os.pipe()
    children: list[int] = []
    try:
        for _ in range(scene["tasks"]):
            children.append(_waiting_child(reader, writer))
    except OSError as error:
        return f"{BOUNDED}: {len(children)}, {error.strerror}"
    finally:
        # They end when nobody can write any more.
        os.close(writer)
        for child in children:
            os.waitpid(child, 0)
        os.close(reader)
    return f"{len(children)} processes"


def _waiting_child(reader: int, writer: int) -> int:
    child = os.fork()
    if child == 0:
        try:
            os.close(writer)
            os.read(reader, 1)
        finally:
            os._exit(0)
    return child


@attack("makes threads", "its control group", expected=BOUNDED, cgroup=True)
def threads(scene: Scene) -> str:
    enough = threading.Event()
    made: list[threading.Thread] = []
    usual = threading.stack_size(128 * 1024)
    try:
        for _ in range(scene["tasks"]):
            thread = threading.Thread(target=enough.wait, daemon=True)
            thread.start()
            made.append(thread)
    except RuntimeError as error:
        return f"{BOUNDED}: {len(made)}, {error}"
    finally:
        threading.stack_size(usual)
        enough.set()
        for thread in made:
            thread.join()
    return f"{len(made)} threads"


@attack("opens descriptors", "a limit", expected=BOUNDED)
def descriptors(scene: Scene) -> str:
    held: list[int] = []
    try:
        for _ in range(scene["descriptors"]):
            held.append(os.dup(1))
    except OSError as error:
        return f"{BOUNDED}: {len(held)}, {error.strerror}"
    finally:
        for one in held:
            os.close(one)
    return f"{len(held)} descriptors"
