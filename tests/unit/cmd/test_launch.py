# SPDX-License-Identifier: Apache-2.0

"""Standard streams of all commands: closed, full, or without a reader."""

from __future__ import annotations

import fcntl
import os
import pathlib
import subprocess
import sys
import tomllib
import typing
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[3]
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "scripts"
]

# Stands for the command's own module, of which only main() is called.
_COMMAND = """
import importlib, os, sys, types
module, function = {script!r}.split(":")
def main():
    stream = open("/dev/null", "rb")
    print("opened" if stream.fileno() > 2 else "mixed up", {more!r})
    print("told", file=sys.stderr)
    for descriptor in range(3):
        assert os.get_inheritable(descriptor)
    {end}
made = types.ModuleType("fpgapool.cmd." + function)
made.main = main
sys.modules[made.__name__] = made
sys.exit(getattr(importlib.import_module(module), function)())
"""


def _run(
    script: str,
    redirection: str = "",
    *,
    more: str = "",
    end: str = "return 0",
    **streams: typing.Any,
) -> subprocess.CompletedProcess[str]:
    program = _COMMAND.format(script=SCRIPTS[script], more=more, end=end)
    return subprocess.run(
        [
            *("bash", "-c", f'exec "$0" -c "$1" {redirection}'),
            *(sys.executable, program),
        ],
        cwd=ROOT,
        text=True,
        check=False,
        timeout=60,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
    )


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_command_is_guarded(script: str) -> None:
    done = _run(script, ">/dev/full")
    assert done.returncode == 1
    assert done.stderr == (
        f"told\n{script}: FILE_ERROR: standard output: No space left on"
        " device\n"
    )
    assert _run(script, "2>/dev/full").returncode == 0


@pytest.mark.parametrize(
    ("redirection", "status", "output", "error"),
    [
        (">&-", 1, "", "Bad file descriptor"),
        ("2>&-", 0, "opened \n", ""),
        ("<&-", 0, "opened \n", "told\n"),
        ("2>&- >&- <&-", 1, "", ""),
        (">/dev/full 2>&1", 1, "", ""),
    ],
)
@pytest.mark.parametrize("more", ["", "more than a buffer" * 1000])
def test_streams_that_are_closed_or_full(
    redirection: str, status: int, output: str, error: str, more: str
) -> None:
    done = _run("fpgapool-sim", redirection, more=more)
    assert done.returncode == status
    assert done.stdout == output.replace(" \n", f" {more}\n")
    assert error in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("end", "status", "error"),
    [
        ("return 7", 7, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('why')", 1, "why\n"),
        ("raise KeyboardInterrupt", 130, "CANCELLED: interrupted\n"),
    ],
)
def test_ends(end: str, status: int, error: str) -> None:
    done = _run("fpgapool-run", end=end)
    assert (done.returncode, done.stdout) == (status, "opened \n")
    assert done.stderr.startswith("told\n")
    assert done.stderr.endswith(error)
    broken = _run("fpgapool-run", ">&-", end=end)
    assert broken.returncode == (status or 1)


@pytest.fixture
def unread() -> Iterator[int]:
    """Give a pipe whose reader has left."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_reader_that_is_gone(script: str, unread: int) -> None:
    """As of ``| head -1``: no command complains."""
    done = _run(script, stdout=unread)
    assert (done.returncode, done.stderr) == (141, "told\n")


def test_a_failure_shows_when_nobody_reads(unread: int) -> None:
    done = _run("fpgapool-sim", end="return 3", stdout=unread)
    assert (done.returncode, done.stderr) == (3, "told\n")


def test_nobody_reads_the_messages(unread: int) -> None:
    done = _run("fpgapool-sim", stderr=unread)
    assert (done.returncode, done.stdout) == (0, "opened \n")


def test_nobody_reads_the_accelerators_output(unread: int) -> None:
    """It is written by another way than what the command prints."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "fpgapool.cmd.run", "copy"),
            *("--in", __file__, "--out", "-", "--fallback", "cpu"),
        ],
        cwd=ROOT,
        env={**os.environ, "FPGAPOOL_SOCKET": "/nonexistent"},
        stdout=unread,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 141
    (told,) = done.stderr.splitlines()
    assert told.endswith("computing on this machine's CPU")


def test_a_slow_reader_of_a_pipe_that_does_not_block() -> None:
    """Whoever started the command may have set it so."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    program = _COMMAND.format(
        script=SCRIPTS["fpgapool-sim"], more="x" * 100_000, end="return 0"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdout=writing,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(writing)
        with open(reading, "rb") as stream:
            assert len(stream.read()) == len("opened \n") + 100_000
    assert process.returncode == 0
