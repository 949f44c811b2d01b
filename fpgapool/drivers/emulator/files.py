# SPDX-License-Identifier: Apache-2.0

"""The files of a host's emulated boards.

The boards file may be replaced while a worker runs, and a file with faults may
appear next to it. So a worker that opens them reads their whole directory. If
there are other files, which may have secrets, a helper opens them instead.
"""

from __future__ import annotations

import collections.abc
import contextlib
import os
import pathlib

from fpgapool.drivers import base
from fpgapool.drivers import common
from fpgapool.drivers import documents
from fpgapool.drivers import helper
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import shapes

_RECORD = "programmed"

BOARDS = "boards"
FAULTS = "faults"

_WHICH = shapes.Members({"which": shapes.one_of((BOARDS, FAULTS))})
_WORD = shapes.text(1000, printable=True)
_WORDS = shapes.Members({"words": shapes.list_of(_WORD, most=3)})
_KEY = shapes.Members({"key": shapes.matching("[0-9a-f]{16}", "a digest")})

#: Returns what does the duties for a device's slot.
Asked = collections.abc.Callable[[str, int], helper.Local]


class Files:
    """Files that the processes of one host share.

    :ivar paths: boards file, and the faults file next to it.
    :ivar faults_dir: directory with what has happened to whole boards.
    """

    def __init__(self, directory: pathlib.Path, boards_file: str) -> None:
        boards = pathlib.Path(boards_file)
        self.paths = {
            BOARDS: boards,
            FAULTS: boards.with_suffix(".faults.yaml"),
        }
        self.faults_dir = directory / "faults"
        self._directory = directory

    def duties(
        self, device: str, slot: int
    ) -> collections.abc.Mapping[str, helper.Duty]:
        """Return all that the worker of a slot asks for."""

        def read_file(_data: bytes, which: str) -> bytes:
            try:
                contents, version = documents.load(self.paths[which])
            except OSError as exc:
                raise base.DriverError(
                    codes.INVALID_SETTINGS, f"{which} file: {exc}"
                ) from exc
            return f"{version}\n".encode() + contents

        def write_record(_data: bytes, words: list[str]) -> bytes:
            path = self.slot_dir(device, slot) / _RECORD
            try:
                path.parent.mkdir(mode=0o700, exist_ok=True)
                common.replace_file(path, "\n".join(words).encode())
            except OSError as exc:
                raise base.DriverError(
                    codes.PROGRAMMING_FAILED, f"{path}: {exc}"
                ) from exc
            return b""

        def read_record(_data: bytes) -> bytes:
            with contextlib.suppress(OSError):
                return (self.slot_dir(device, slot) / _RECORD).read_bytes()
            return b""

        def count_draw(_data: bytes, key: str) -> bytes:
            # The count is kept in a file: if the first draw kills a slot's
            # process, the next process would otherwise repeat that draw.
            path = self.slot_dir(device, slot) / f"{key}.draws"
            path.parent.mkdir(mode=0o700, exist_ok=True)
            draw = 0
            with contextlib.suppress(OSError, ValueError):
                draw = int(path.read_text())
            path.write_text(str(draw + 1))
            return b"%d" % draw

        def claim(_data: bytes, key: str) -> bytes:
            try:
                self.marker(device, key).touch(0o600, exist_ok=False)
            except FileExistsError:
                return b""
            return b"claimed"

        return {
            "read_file": helper.Duty(read_file, _WHICH),
            "write_record": helper.Duty(write_record, _WORDS),
            "read_record": helper.Duty(read_record),
            "count_draw": helper.Duty(count_draw, _KEY),
            "claim": helper.Duty(claim, _KEY),
        }

    def slot_dir(self, device: str, slot: int) -> pathlib.Path:
        """Return the directory that only a slot's worker changes."""
        return self._directory / f"{device}.{slot}"

    def are_apart(self) -> bool:
        """Whether a worker can read the boards file's directory.

        Then it has no other files than this driver's.
        """
        directory = self.paths[BOARDS].parent
        return all(name.endswith(".yaml") for name in os.listdir(directory))

    def marker(self, device: str, key: str) -> pathlib.Path:
        """Return the file that exists once a fault has happened."""
        return self.faults_dir / f"{device}.{key}.happened"


def duties(
    directory: str, boards_file: str, device: str, slot: int
) -> collections.abc.Mapping[str, helper.Duty]:
    """Return the duties of a slot's helper."""
    return Files(pathlib.Path(directory), boards_file).duties(device, slot)


def asked_contents(asked: helper.Local, which: str) -> tuple[bytes, str]:
    """Return the contents and the version of a file.

    :raises base.DriverError: ``INVALID_SETTINGS`` if it cannot be read.
    """
    version, _, contents = asked.ask("read_file", which=which).partition(b"\n")
    return contents, version.decode()
