# SPDX-License-Identifier: Apache-2.0

"""What must hold whatever happens."""

from __future__ import annotations

import collections
import dataclasses
import math
import pathlib
import re
import typing
from collections.abc import Iterable
from collections.abc import Mapping

from fpgapool.client import errors as client_errors
from fpgapool.vocabulary import codes
from tests.chaos import clients
from tests.chaos import grouptasks
from tests.chaos import jobs
from tests.chaos import measure
from tests.harness import processes

if typing.TYPE_CHECKING:
    from tests.chaos import pool as pools

#: Growth that is none: pools of threads and connections fill up, and another
#: conductor may lead.
SLACK_DESCRIPTORS = 40
SLACK_THREADS = 80
SLACK_MEMORY_SHARE = 0.5
SLACK_MEMORY_BYTES = 64 << 20

#: Whatever comes from outside, none of these may: they are bugs.
_BUGS = {
    one.__name__
    for one in (
        ArithmeticError,
        AssertionError,
        AttributeError,
        BufferError,
        IndexError,
        KeyError,
        NameError,
        NotImplementedError,
        OverflowError,
        RecursionError,
        RuntimeError,
        TypeError,
        UnboundLocalError,
        UnicodeDecodeError,
        UnicodeEncodeError,
        ValueError,
        ZeroDivisionError,
    )
}

#: What client and worker tell each other when data is not what it should be.
_CORRUPTED = {
    codes.BAD_OFFSET,
    codes.CHECKSUM_MISMATCH,
    codes.CREDIT_EXCEEDED,
    codes.PROTOCOL_ERROR,
}

#: What a run has of the library's work after a loss, at least: of the faults
#: that move streams this share does so, …
REOPENS_SHARE = 0.5
#: … and so often in a minute a stream goes on over another connection.
RESUMES_PER_MINUTE = 2.0

#: How long after a fault whoever asks by the API may hear of its slot.
LATE_NEWS_S = 10.0

_KNOWN = {
    value
    for module in (codes, client_errors)
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, str)
} - {codes.INTERNAL_ERROR}
_RAISED = re.compile(
    r"^(?:\S+ \S+ \d+ \w+ \S+ )?([\w.]+(?:Error|Exception))\b"
)


@dataclasses.dataclass(frozen=True)
class Use:
    """What a process has of the system."""

    descriptors: int
    threads: int
    memory_bytes: int

    @classmethod
    def of(cls, pid: int) -> Use:
        """Look at a process."""
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        (resident,) = re.findall(r"^VmRSS:\s+(\d+) kB$", status, re.M)
        return cls(
            processes.descriptor_count(pid),
            processes.thread_count(pid),
            int(resident) * 1024,
        )

    def exceeds(self, before: Use) -> bool:
        """Tell whether it is more than growth that is none.

        :param before: what it was after the warm-up.
        """
        limit_bytes = (
            before.memory_bytes * (1 + SLACK_MEMORY_SHARE) + SLACK_MEMORY_BYTES
        )
        return (
            self.descriptors > before.descriptors + SLACK_DESCRIPTORS
            or self.threads > before.threads + SLACK_THREADS
            or self.memory_bytes > limit_bytes
        )


def uses(pool: pools.Pool) -> dict[str, Use]:
    """Look at all long-lived processes.

    :returns: by name; of conductors and of a host's workers, the most of any.
    """
    found = {daemon.name: Use.of(daemon.pid) for daemon in pool.daemons()}
    # Which of them leads is another matter.
    conductors = [found.pop(one.name) for one in pool.conductors]
    found["conductors"] = _most(conductors)
    found[pool.api.name] = Use.of(pool.api.serving_pid())
    for host in pool.hosts.values():
        each = [Use.of(worker.pid) for worker in host.workers()]
        if each:
            found[f"workers of {host.name}"] = _most(each)
    return found


def _most(each: list[Use]) -> Use:
    return Use(
        max(use.descriptors for use in each),
        max(use.threads for use in each),
        max(use.memory_bytes for use in each),
    )


def growth(before: Mapping[str, Use], after: Mapping[str, Use]) -> list[str]:
    """Compare what processes have."""
    return [
        f"{name} has grown: {after[name]}; it was {before[name]}"
        for name in after
        if after[name].exceeds(before[name])
    ]


def wrong(outcomes: Iterable[clients.Outcome]) -> list[str]:
    """Find outputs that are wrong and errors that are none."""
    found = []
    for one in outcomes:
        if one.wrong or one.code in _CORRUPTED:
            found.append(f"corrupted: {one}")
        if one.bug:
            found.append(f"not an error of the library: {one}")
        if one.code and one.code not in _KNOWN:
            found.append(f"not an error that says something: {one}")
    return found


def wrong_tasks(batches: Iterable[grouptasks.Batch]) -> list[str]:
    """Find tasks of groups whose ends are not what they should be."""
    found = []
    for one in batches:
        if one.wrong or one.not_once:
            found.append(f"a task with a wrong end: {one}")
        if one.bug:
            found.append(f"not an error of the library: {one}")
        if one.code and one.code not in _KNOWN:
            found.append(f"not an error that says something: {one}")
        if one.opened and one.code:
            found.append(f"a task of a group without a result: {one}")
        if one.opened and not one.code and one.right != one.sent:
            found.append(f"not as many results as tasks: {one}")
    return found


def charged(usage: Iterable[Mapping[str, float]], lived_s: float) -> list[str]:
    """Check what members of groups were charged.

    :param usage: of the projects, when there are no groups any more.
    :param lived_s: for how long there were groups.
    """
    rows = list(usage)
    busy_s = sum(one["group_busy_s"] for one in rows)
    idle_s = sum(one["group_idle_s"] for one in rows)
    groups = len(grouptasks.GROUPS)
    # Faults take members, but not for half of the time.
    least_s = lived_s * groups * grouptasks.LEAST_MEMBERS / 2
    most_s = lived_s * groups * grouptasks.MOST_MEMBERS
    if busy_s > 0 and least_s <= busy_s + idle_s <= most_s:
        return []
    return [
        f"members of groups were charged for {busy_s:.1f} s busy and"
        f" {idle_s:.1f} s idle, together {least_s:.1f} to {most_s:.1f} s"
        " expected"
    ]


def lost(
    outcomes: Iterable[clients.Outcome], lasted_s: float = 0.0
) -> list[str]:
    """Find sessions that no fault of the pool may cost.

    Who cannot be told of a slot for as long as it waits for its client loses
    it.

    :param outcomes: of jobs, while no client had a fault.
    :param lasted_s: how long the fault lasted.
    """
    was_long = lasted_s + LATE_NEWS_S >= jobs.CONNECT_TIMEOUT_S
    found = []
    for one in outcomes:
        if was_long and one.code == codes.CONNECT_TIMEOUT:
            continue
        if measure.lost_queued(one):
            found.append(f"lost while it waited: {one}")
        if measure.lost_stateless(one):
            found.append(f"lost though stateless: {one}")
    return found


@dataclasses.dataclass(frozen=True)
class Resent:
    """How often streams sent several pieces of input again."""

    reopens: int
    resumes: int

    @classmethod
    def of(cls, outcomes: Iterable[clients.Outcome]) -> Resent:
        """Count it."""
        found = list(outcomes)
        return cls(
            sum(one.resent_reopens for one in found),
            sum(one.resent_resumes for one in found),
        )

    @classmethod
    def least(cls, moves: int, duration_s: float) -> Resent:
        """Return what a run needs, so that it says something.

        :param moves: faults, alone, that streams had to move for.
        :param duration_s: how long there were streams.
        """
        return cls(
            math.ceil(REOPENS_SHARE * moves),
            math.ceil(RESUMES_PER_MINUTE * duration_s / 60),
        )


def untried(resent: Resent, least: Resent) -> list[str]:
    """Tell what the run says nothing about."""
    return [
        f"only {found} of at least {needed} {name} sent several pieces of a"
        " long stream again: a fault in sending again would not have been"
        " seen; find out why streams do not flow when workers and connections"
        " are lost"
        for name, found, needed in (
            ("reopens", resent.reopens, least.reopens),
            ("resumes", resent.resumes, least.resumes),
        )
        if found < needed
    ]


def raised(log: str) -> dict[str, int]:
    """Count the errors that a log shows the traceback of."""
    found: collections.Counter[str] = collections.Counter()
    inside = False
    for line in log.splitlines():
        if "Traceback (most recent call last)" in line:
            inside = True
        elif inside and (match := _RAISED.match(line)):
            found[match[1]] += 1
            inside = False
    return dict(found)


def refusals(log: str) -> list[str]:
    """Find messages in a log that were refused though nobody forged any.

    A broker that was lost may deliver a message a second time, which is
    refused rightly.
    """
    lines = (line for line in log.splitlines() if " MESSAGE_REFUSED: " in line)
    return [
        line.partition(" MESSAGE_REFUSED: ")[2]
        for line in lines
        if not line.endswith(" it was received before")
    ]


def bugs(log: str) -> list[str]:
    """Find errors in a log that no fault and no nonsense may lead to."""
    return [
        f"{count} times {name} in its log"
        for name, count in raised(log).items()
        if name in _BUGS
    ]
