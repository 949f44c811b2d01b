# SPDX-License-Identifier: Apache-2.0

"""Programs that send tasks to groups, each task at its time."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import threading
import time
from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from demo import errors
from fpgapool import client
from fpgapool.sim.outcomes import group_results

_SAMPLE_INTERVAL_S = 0.25
#: For the first member of a group, and for the last task after its arrival.
_TIMEOUT_S = 60.0


@dataclasses.dataclass(frozen=True)
class Program:
    """A client of a group; all its tasks are equal.

    :ivar group: its name.
    :ivar params: of each task; may hold a key.
    :ivar data: the input of each task.
    :ivar arrivals_s: when it sends them, from the start of the run.
    """

    group: str
    params: Mapping[str, object] = dataclasses.field(repr=False)
    data: bytes = dataclasses.field(repr=False)
    arrivals_s: Sequence[float]


class Tally:
    """Counts the tasks of a group, in many threads.

    :ivar latencies_s: of ended tasks, from their arrivals on.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent = 0
        self.latencies_s: list[float] = []

    def sent(self) -> None:
        """Count a task that was sent."""
        with self._lock:
            self._sent += 1

    def ended(self, latency_s: float) -> None:
        """Count a task that has ended."""
        with self._lock:
            self.latencies_s.append(latency_s)

    def counts(self) -> tuple[int, int]:
        """Return how many tasks were sent, and how many have ended."""
        with self._lock:
            return self._sent, len(self.latencies_s)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """All tasks have ended.

    :ivar course: of the groups, in their order.
    :ivar latencies_s: of all tasks, from their arrivals on.
    :ivar outputs: by program, the output of each of its tasks.
    """

    course: group_results.Course
    latencies_s: list[float]
    outputs: list[bytes]


def run(
    programs: Sequence[Program],
    task_s: Mapping[str, float],
    members: Callable[[str], set[Hashable]],
    api_url: str,
) -> Outcome:
    """Let programs send their tasks; stop all when one fails.

    :param task_s: by group, the time of a task in a slot.
    :param members: returns the slots that serve a group.
    :param api_url: of the pool's API.
    :raises DemoError: if a task fails, or has another output than the tasks
        before it.
    """
    cancel = client.CancelToken()
    tallies = {name: Tally() for name in task_s}
    ready = threading.Barrier(len(programs) + 1)

    def run_one(program: Program) -> bytes:
        with client.group_open(
            program.group,
            front_door=client.PoolApi.at(api_url),
            timeout_s=_TIMEOUT_S,
            cancel=cancel,
        ) as group:
            ready.wait()
            return _send(program, group, tallies[program.group], cancel)

    with concurrent.futures.ThreadPoolExecutor(len(programs)) as executor:
        try:
            # An interrupt during submission ends the programs, too.
            futures = [executor.submit(run_one, one) for one in programs]
            for future in futures:
                future.add_done_callback(
                    functools.partial(_abort_after_failure, ready)
                )
            course = _watch(futures, ready, task_s, tallies, members)
        finally:
            # If all went well, this changes nothing.
            cancel.cancel()
            ready.abort()
    _raise_failure(programs, futures)
    return Outcome(
        course,
        [each for tally in tallies.values() for each in tally.latencies_s],
        [future.result() for future in futures],
    )


def _abort_after_failure(
    ready: threading.Barrier, future: concurrent.futures.Future[bytes]
) -> None:
    if future.exception() is not None:
        ready.abort()


def _send(
    program: Program,
    group: client.Group,
    tally: Tally,
    cancel: client.CancelToken,
) -> bytes:
    """Send the tasks of a program, and return their output."""
    started_s = time.monotonic()
    futures = []
    for arrival_s in program.arrivals_s:
        due_s = started_s + arrival_s
        cancel.wait(max(0.0, due_s - time.monotonic()))
        tally.sent()
        future = group.submit(program.data, params=program.params)
        future.add_done_callback(
            functools.partial(_count, tally, time.monotonic())
        )
        futures.append(future)
    try:
        outputs = {bytes(future.result(_TIMEOUT_S)) for future in futures}
    except TimeoutError as error:
        raise errors.DemoError(
            errors.JOB_FAILED,
            f"a task of group {program.group} did not end within "
            f"{_TIMEOUT_S:g} s",
        ) from error
    if len(outputs) > 1:
        raise errors.DemoError(
            errors.WRONG_OUTPUT,
            f"equal tasks of group {program.group} had different outputs",
        )
    return outputs.pop()


def _count(
    tally: Tally,
    sent_s: float,
    _future: concurrent.futures.Future[object],
) -> None:
    tally.ended(time.monotonic() - sent_s)


def _watch(
    futures: Sequence[concurrent.futures.Future[bytes]],
    ready: threading.Barrier,
    task_s: Mapping[str, float],
    tallies: Mapping[str, Tally],
    members: Callable[[str], set[Hashable]],
) -> group_results.Course:
    """Look at the groups until all programs have ended."""
    course = group_results.Course(
        [], [[] for _ in task_s], [[] for _ in task_s], [[] for _ in task_s]
    )
    try:
        ready.wait()
    except threading.BrokenBarrierError:
        return course
    started_s = time.monotonic()
    running: set[concurrent.futures.Future[bytes]] = set(futures)
    while running:
        sizes = count_once(members(name) for name in task_s)
        for at, (name, each_s) in enumerate(task_s.items()):
            sent, ended = tallies[name].counts()
            size = sizes[at]
            course.members[at].append(size)
            course.waiting_s[at].append(max(sent - ended - size, 0) * each_s)
            course.ended[at].append(ended)
        course.times_s.append(time.monotonic() - started_s)
        done, running = concurrent.futures.wait(
            running,
            _SAMPLE_INTERVAL_S,
            return_when=concurrent.futures.FIRST_EXCEPTION,
        )
        if any(future.exception() is not None for future in done):
            break
    return course


def count_once(found: Iterable[set[Hashable]]) -> list[int]:
    """Return how many slots each group has, counting no slot twice.

    :param found: the slots of each group, asked for one after the other: a
        slot that has moved in the meantime is in two of them.
    """
    sizes: list[int] = []
    seen: set[Hashable] = set()
    for slots in reversed(list(found)):
        sizes.insert(0, len(slots - seen))
        seen |= slots
    return sizes


def _raise_failure(
    programs: Sequence[Program],
    futures: Sequence[concurrent.futures.Future[bytes]],
) -> None:
    failures = [
        (program, error)
        for program, future in zip(programs, futures, strict=True)
        if (error := future.exception()) is not None
    ]
    # Cancelled programs come last: another failure is the cause.
    failures.sort(
        key=lambda item: isinstance(
            item[1], client.Cancelled | threading.BrokenBarrierError
        )
    )
    for program, error in failures:
        if isinstance(error, errors.DemoError):
            raise error
        raise errors.DemoError(
            errors.JOB_FAILED, f"a task of group {program.group}: {error}"
        ) from error
