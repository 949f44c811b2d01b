# SPDX-License-Identifier: Apache-2.0

"""When workers and desks give up what they do not need."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pyseccomp
import pytest

from fpgapool.agent.child import room
from fpgapool.agent.child import settings as child_settings
from fpgapool.common.walls import calls
from fpgapool.common.walls import landlock

known = pyseccomp.resolve_syscall

_IN_CONTAINER = """
import errno, sys
import pyseccomp as lib
from fpgapool.agent.child import room, settings

its = lib.SyscallFilter(lib.ALLOW)
its.add_rule(lib.ERRNO(errno.EPERM), "seccomp")
its.add_rule(lib.ERRNO(errno.EPERM), "prctl", lib.Arg(0, lib.EQ, 22))
its.load()
print(room.missing(sys.argv[1]))
try:
    room.enter(room.Room(), settings.ChildSettings(
        control_socket="/none/control.sock",
        data_socket="/none/data.sock",
        isolation=sys.argv[1],
    ))
    print("entered")
except room.Unwalled as error:
    print(error)
"""


def _settings(isolation: str) -> child_settings.ChildSettings:
    return child_settings.ChildSettings(
        control_socket="/none/control.sock",
        data_socket="/none/data.sock",
        isolation=isolation,
    )


def _enter(isolation: str, *, lacks: bool = False) -> str:
    """Enter a room in a process of its own; return what it finds there."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def run() -> None:
        if lacks:
            landlock.version = lambda: 0
        try:
            room.enter(room.Room(), _settings(isolation))
            os.listdir("/etc")
        except OSError as exc:
            theirs.send(type(exc).__name__)
        else:
            theirs.send("reaches all")

    process = context.Process(target=run)
    process.start()
    assert ours.poll(30)
    process.join()
    found: str = ours.recv()
    return found


@pytest.mark.security
@pytest.mark.parametrize(
    ("isolation", "lacks", "found"),
    [
        ("none", False, "reaches all"),
        ("preferred", False, "PermissionError"),
        ("required", False, "PermissionError"),
        ("preferred", True, "reaches all"),
        ("required", True, "Unwalled"),
    ],
)
def test_a_process_gives_up_what_it_can_or_does_not_run(
    isolation: str, lacks: bool, found: str
) -> None:
    assert _enter(isolation, lacks=lacks) == found


def test_what_is_missing_is_said_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert room.missing("preferred") == []
    assert room.missing("none") == [
        "Workers are not isolated: set [agent] isolation = preferred"
    ]
    monkeypatch.setattr(landlock, "version", lambda: 0)
    monkeypatch.setattr(calls, "problem", lambda: "there is no libseccomp")
    files, network = room.missing("required")
    assert "no Landlock. Use Linux 5.13" in files
    assert "there is no libseccomp. Install libseccomp" in network


@pytest.fixture
def forgotten() -> Iterator[None]:
    """What was found about this machine is looked for again."""
    calls.problem.cache_clear()
    yield
    calls.problem.cache_clear()


@pytest.mark.usefixtures("forgotten")
def test_a_missing_library_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    assert "libseccomp cannot be used" in str(calls.problem())
    assert calls.refuse() is False


def _old_library(architecture: int, name: str) -> int:
    """Know the calls of Linux 5.9."""
    number = known(architecture, name)
    return -1 if number >= 440 else number


@pytest.mark.usefixtures("forgotten")
def test_an_old_library_refuses_new_calls_by_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pyseccomp, "resolve_syscall", _old_library)
    assert calls.problem() is None


@pytest.mark.usefixtures("forgotten")
def test_a_library_that_lacks_calls_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pyseccomp, "resolve_syscall", lambda *_: -1)
    assert "libseccomp cannot be used" in str(calls.problem())


@pytest.mark.parametrize("isolation", ["preferred", "required"])
def test_a_container_that_refuses_filters_is_a_problem(isolation: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", _IN_CONTAINER, isolation],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    assert "the filter of a container" in found
    assert ("entered" in found) is (isolation == "preferred")


def test_a_log_that_is_large_already_can_grow(
    tmp_path: pathlib.Path,
) -> None:
    log = tmp_path / "log"
    with open(log, "wb") as file:
        file.truncate(3 << 30)
    assert room._log_bytes(str(log)) == 3 << 30
    assert room._log_bytes(str(tmp_path / "none")) == 0
