# SPDX-License-Identifier: Apache-2.0

"""A reader who does what a tutorial says, in a directory of his own."""

from __future__ import annotations

import contextlib
import doctest
import os
import pathlib
import queue
import subprocess
import sysconfig
import threading
import typing

from tests.functional.tutorials import steps
from tests.harness import waiting
from tests.services import process

#: That of the pages; the reader's is free.
PORT = "8778"
#: What a pool prints when it is ready.
READY = "fpgapool-allinone: ready"

_CHECKER = doctest.OutputChecker()


class Reader:
    """One who follows a page.

    :param directory: where files are written and sockets are; its path is
        short.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        # Workers may not read the home directory.
        self._directory = directory / "work"
        self._directory.mkdir()
        self._port = str(process.free_port())
        self._exported = ""
        self._stack = contextlib.ExitStack()
        scripts = sysconfig.get_path("scripts")
        self._environment = {
            **{k: v for k, v in os.environ.items() if k[:3] != "OS_"},
            "HOME": str(directory / "home"),
            "PATH": os.pathsep.join((scripts, os.environ["PATH"])),
            "XDG_RUNTIME_DIR": str(directory),
        }

    def __enter__(self) -> typing.Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def follow(self, step: steps.File | steps.Commands) -> None:
        """Do what a step says, and compare what it prints."""
        if isinstance(step, steps.File):
            path = self._directory / step.name
            path.parent.mkdir(exist_ok=True)
            path.write_text(self._own(step.text))
        elif step.elsewhere:
            self._stack.enter_context(self._start(self._own(step.text)))
        else:
            self._paste(self._own(step.text), step.prints)

    def _own(self, text: str) -> str:
        return text.replace(PORT, self._port)

    def _paste(self, commands: str, prints: str | None) -> None:
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", self._exported + commands],
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=waiting.COMMAND_LIMIT_S,
        )
        what = f"{commands}printed:\n{done.stdout}{done.stderr}"
        assert done.returncode == 0, what
        # Each block is a shell of its own here, and one for the reader.
        self._exported += "".join(
            f"{line}\n"
            for line in commands.splitlines()
            if line.startswith("export ")
        )
        if prints is not None:
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            wanted = prints.replace("…", "...")
            assert _CHECKER.check_output(wanted, done.stdout, flags), what

    @contextlib.contextmanager
    def _start(self, commands: str) -> typing.Iterator[None]:
        lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        with subprocess.Popen(
            ["bash", "-eu", "-c", _with_exec(commands)],
            cwd=self._directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as pool:
            assert pool.stdout is not None
            reading = threading.Thread(
                target=_pump, args=(pool.stdout, lines), daemon=True
            )
            reading.start()
            try:
                _wait_ready(lines)
                yield
            finally:
                pool.terminate()
                pool.wait(waiting.LIMIT_S)
                reading.join()


def _with_exec(commands: str) -> str:
    """Have the last command replace the shell, so that it gets signals."""
    *before, last = commands.strip().splitlines()
    return "\n".join([*before, f"exec {last}"])


def _pump(lines: typing.Iterable[str], into: queue.SimpleQueue[str]) -> None:
    for line in lines:
        into.put(line)
    into.put("")


def _wait_ready(lines: queue.SimpleQueue[str]) -> None:
    said = ""
    while True:
        line = lines.get(timeout=waiting.COMMAND_LIMIT_S)
        said += line
        assert line, f"the pool ended:\n{said}"
        if line.startswith(READY):
            return
