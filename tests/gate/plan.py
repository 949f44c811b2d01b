# SPDX-License-Identifier: Apache-2.0

"""The jobs of the gate, and their order. Decides only; runs nothing."""

from __future__ import annotations

import dataclasses
import enum
import os
import pathlib
import typing
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence

_OPENSTACK_VENV = ".venv-openstack"

#: Versions of libraries with which unit tests pass, besides the newest ones:
#: each has an environment.
_VERSIONS = ("2026.1", "lowest")

#: Folders of tests that have an installation of their own: what makes it, and
#: the interpreter, if it is another one.
APART = (
    ("ui", "browser", ""),
    ("moves", "libvirt", ""),
    ("spark", "spark-venv", ".venv-spark/bin/python"),
    ("clients", "languages", ""),
    ("notebooks", "notebook-venv", ".venv-notebooks/bin/python"),
    ("deploy", "deploy-venv", ".venv-deploy/bin/python"),
    ("tempest", "tempest-venv", ""),
    ("horizon", "horizon-venv", ""),
    ("heat", "heat-venv", ""),
    ("blazar", "blazar-venv", ""),
    ("upgrade", "old-release", ""),
)

#: Folders of tests that need no servers, and of those that do: there, what one
#: process runs for longest comes first, so that none ends much later.
_QUICK = ("tests/property", "tests/unit")
_SLOW = ("tests/integration", "tests/walls", "tests/functional")

#: What the simulator of whole pools plays: about a minute.
WORLD = ("--kept", "--bugs", "--seeds=1:8")


class State(enum.Enum):
    """How far a job has come."""

    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    #: Something that it needs did not pass.
    SKIPPED = "skipped"


@dataclasses.dataclass(frozen=True)
class Job:
    """Something to run.

    :ivar name: unique; the file with its output is named like that.
    :ivar command: a command line, or what a thread calls.
    :ivar needs: jobs that must have passed before.
    :ivar after: jobs that must have ended before, however they did.
    :ivar junit: the file in which its tests are told; None if it has none.
    """

    name: str
    command: tuple[str, ...] | Callable[[], object]
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    junit: pathlib.Path | None = None


@dataclasses.dataclass(frozen=True)
class Settings:
    """What differs from run to run.

    :ivar python: the interpreter that runs tests.
    :ivar start_servers: starts the servers that tests share.
    :ivar long: whether the tests that are marked so run, too.
    :ivar processes: how many run tests that wait more than they compute.
    :ivar cores: how many processors there are.
    """

    python: str
    directory: pathlib.Path
    start_servers: Callable[[], object]
    long: bool = False
    processes: int = 3
    cores: int = os.cpu_count() or 1

    def tests(
        self,
        name: str,
        *arguments: str,
        marks: Sequence[str] = (),
        python: str = "",
        **waits: tuple[str, ...],
    ) -> Job:
        """Make a job that runs tests.

        :param marks: which tests, besides what is said of long ones.
        :param waits: what the job waits for.
        """
        chosen = [*marks, *([] if self.long else ["not long"])]
        junit = self.directory / f"{name}.xml"
        command = (
            *(python or self.python, "-m", "pytest", "--quiet"),
            *("-p", "tests.gate.plugin", f"--junit-xml={junit}"),
            *(("-m", " and ".join(chosen)) if chosen else ()),
            *arguments,
        )
        return Job(name, command, junit=junit, **waits)


def _make(
    name: str, target: str, needs: tuple[str, ...], **waits: typing.Any
) -> Job:
    command = ("make", "--no-print-directory", target)
    return Job(name, command, needs, **waits)


def plan(settings: Settings) -> list[Job]:
    """Return the jobs, in the order in which they begin if all may."""
    style = ("style",)
    side_by_side = ("--no-loadscope-reorder", "--numprocesses")
    # What takes seconds has to pass before what takes minutes begins.
    quick = ("types", "unit", "cli")
    jobs = [
        _make("style", "style", ()),
        # A clone has no compiled modules. Processes that run tests side by
        # side import the same at the same time, and each would compile all.
        Job(
            "collect",
            (
                *(settings.python, "-m", "pytest", "-qq"),
                *("--collect-only", *_QUICK),
            ),
            needs=("install-services",),
        ),
        settings.tests(
            "unit",
            *(*side_by_side, str(settings.processes), *_QUICK),
            needs=("collect",),
        ),
        _make("types", "types", style),
        _make("cli", "test-cli", style),
        _make("install-openstack", f"{_OPENSTACK_VENV}/.installed", style),
        _make("install-services", "services", style),
        Job("servers", settings.start_servers, ("install-services",)),
        # It keeps busy what tests beside it leave idle while they wait: all
        # its clocks are its own. Where Linux groups processes by session,
        # "nice" does not hold between jobs, and it takes a share from them.
        Job(
            "world",
            ("nice", settings.python, *("-m", "tests.world"), *WORLD),
            needs=style,
            after=("install-openstack", "servers"),
        ),
        settings.tests(
            "functional",
            *(*side_by_side, str(settings.processes)),
            *_SLOW,
            marks=["not alone"],
            needs=(*quick, "install-openstack", "servers"),
        ),
        _make("docs", "docs", quick),
        settings.tests(
            "nova-filters",
            *("--confcutdir=tests/nova_filters", "tests/nova_filters"),
            python=f"{_OPENSTACK_VENV}/bin/python",
            needs=(*quick, "install-openstack"),
            after=("docs",),
        ),
    ]
    if settings.long:
        after: tuple[str, ...] = ("functional", "docs", "nova-filters")
        for name in _VERSIONS:
            install, tests = f"install-{name}", f"unit-{name}"
            venv = f".venv-{name}"
            jobs += [
                # One after the other: each prepares the same sources.
                _make(install, f"{venv}/.installed", ("world",), after=after),
                settings.tests(
                    tests,
                    *(*side_by_side, str(settings.cores), "tests/unit"),
                    python=f"{venv}/bin/python",
                    needs=(install,),
                ),
            ]
            after = (*after, install, tests)
        for name, target, python in APART:
            install = f"install-{name}"
            jobs += [
                _make(install, target, ("world",), after=after),
                settings.tests(
                    name,
                    f"tests/{name}",
                    python=python or settings.python,
                    needs=(install, "install-openstack", "servers"),
                ),
            ]
            after = (*after, install, name)
        jobs.append(
            settings.tests(
                "alone",
                *("tests/integration", "tests/functional"),
                marks=["alone"],
                needs=("world", "servers"),
                after=after,
            )
        )
    return jobs


def next_jobs(
    jobs: Collection[Job], states: Mapping[str, State]
) -> tuple[list[Job], list[Job]]:
    """Decide what follows.

    :param states: of those that have begun or are skipped.
    :returns: those that can begin now, and those that never will.
    """
    begin, skip = [], []
    for job in jobs:
        if job.name in states:
            continue
        needed = [states.get(name) for name in job.needs]
        awaited = [states.get(name) for name in job.after]
        if State.FAILED in needed or State.SKIPPED in needed:
            skip.append(job)
        elif all(state is State.PASSED for state in needed) and not {
            None,
            State.RUNNING,
        }.intersection(awaited):
            begin.append(job)
    return begin, skip
