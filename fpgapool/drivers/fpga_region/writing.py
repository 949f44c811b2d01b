# SPDX-License-Identifier: Apache-2.0

"""What writes to an FPGA: done by the helper of a slot's worker.

The worker runs tenants' data through an operator's class, and has no right to
program. So the helper checks everything that decides what is programmed: that
the contents are signed, if this host requires that, and are for this board.
"""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import hashlib
import pathlib

from fpgapool.drivers import base
from fpgapool.drivers import common
from fpgapool.drivers import helper
from fpgapool.drivers.fpga_region import boards
from fpgapool.drivers.fpga_region import dfl
from fpgapool.drivers.fpga_region import sysfs
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import formats
from fpgapool.vocabulary import shapes

#: Maximum size of a region's bitstream file.
MAX_FILE_BYTES = 256 << 20

_NAME = shapes.text(200, least=1, printable=True)
_OWN = shapes.Members({"accelerator": _NAME})
_FILE = shapes.Members({"accelerator": _NAME, "signature": shapes.text(2048)})


@dataclasses.dataclass(frozen=True, slots=True)
class Slot:
    """A slot, with its board and region."""

    board: boards.Board
    entry: boards.RegionEntry
    number: int

    @property
    def file_name(self) -> str:
        return f"{self.board.name}.{self.number}"

    @property
    def port(self) -> str:
        """Its DFL port; only boards with an FME have one."""
        assert self.entry.port is not None
        return self.entry.port


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """Where a host has its files, and whom it trusts.

    :ivar directory: the driver's own directory.
    :ivar root: directory with ``sys``, ``dev`` and ``proc``.
    :ivar keys_dir: directory with the keys that sign bitstreams; None: there
        are no such keys.
    :ivar signature_required: whether files of the library must be signed.
    """

    directory: pathlib.Path
    firmware_dir: pathlib.Path
    root: pathlib.Path
    keys_dir: str | None = None
    signature_required: bool = False

    @property
    def platform(self) -> pathlib.Path:
        return self.root / "sys" / "bus" / "platform" / "devices"

    def region(self, name: str) -> pathlib.Path:
        return self.root / "sys" / "class" / "fpga_region" / name

    def node(self, name: str) -> pathlib.Path:
        return self.root / "dev" / name

    def manager(self, name: str) -> sysfs.Manager:
        directory = self.root / "sys" / "class" / "fpga_manager" / name
        return sysfs.Manager(directory, self.firmware_dir)

    def boot(self) -> str:
        """Return what identifies the time since the host started."""
        path = self.root / "proc" / "sys" / "kernel" / "random" / "boot_id"
        return sysfs.read(path) or ""


class Writer:
    """Programs the region of one slot, and records what is in it."""

    def __init__(self, host: Host, slot: Slot) -> None:
        self._host = host
        self._slot = slot

    def duties(self) -> collections.abc.Mapping[str, helper.Duty]:
        """Return all that the slot's worker asks for."""
        return {
            "find_programmed": helper.Duty(self._find_programmed),
            "program_own": helper.Duty(self._program_own, _OWN),
            "program_file": helper.Duty(
                self._program_file, _FILE, MAX_FILE_BYTES
            ),
        }

    def programmed(self) -> tuple[str | None, str]:
        """:returns: the accelerator in the slot, and its file's SHA-256."""
        with contextlib.suppress(OSError, ValueError):
            accelerator, digest, boot = self._path.read_text().split("\n")
            # An FPGA loses its configuration when it loses power.
            if boot == self._host.boot() and self._operates():
                return accelerator, digest
        return None, ""

    def _operates(self) -> bool:
        manager = self._slot.board.manager
        return manager is None or self._host.manager(manager).operates

    def _find_programmed(self, _data: bytes) -> bytes:
        return (self.programmed()[0] or "").encode()

    def _program_own(self, _data: bytes, accelerator: str) -> bytes:
        """Program the file that the boards file names.

        :raises base.DriverError: ``BITSTREAM_UNKNOWN``, ``BITSTREAM_DAMAGED``;
            also see :meth:`_program`.
        """
        known = self._slot.board.accelerators.get(accelerator)
        if known is None or known.file is None:
            raise base.DriverError(
                codes.BITSTREAM_UNKNOWN,
                "the boards file sets no 'file' for this accelerator, so a"
                " bitstream from the library is required",
            )
        try:
            contents = pathlib.Path(known.file).read_bytes()
        except OSError as error:
            raise base.DriverError(
                codes.BITSTREAM_DAMAGED, f"{known.file}: {error.strerror}"
            ) from error
        self._program(accelerator, contents)
        return b""

    def _program_file(
        self, contents: bytes, accelerator: str, signature: str
    ) -> bytes:
        """Program a file of the library.

        :raises base.DriverError: ``SIGNATURE_REQUIRED`` or
            ``INVALID_SIGNATURE``; also see :meth:`_program`.
        """
        if self._host.signature_required:
            self._check_signed(contents, signature)
        self._program(accelerator, contents)
        return b""

    def _check_signed(self, contents: bytes, signature: str) -> None:
        # Imported here so that only helpers load it, when they need it.
        from fpgapool.bitstreams import signatures
        from fpgapool.common import exception

        if self._host.keys_dir is None:
            raise base.DriverError(
                codes.SIGNATURE_REQUIRED,
                "this host trusts no keys (see [bitstreams] trusted_keys_dir)",
            )
        digest = hashlib.sha256(contents).hexdigest()
        try:
            signatures.TrustedKeys(self._host.keys_dir).signer(
                signature, digest, formats.BINARY, required=True
            )
        except exception.FpgapoolException as error:
            raise base.DriverError(error.code, str(error)) from error

    def _program(self, accelerator: str, contents: bytes) -> None:
        """Program the region, unless it has these contents already.

        :raises base.DriverError: ``PROGRAMMING_FAILED``; see also
            :func:`dfl.payload`.
        """
        # The digest shows whether the operator has replaced a file.
        wanted = (accelerator, hashlib.sha256(contents).hexdigest())
        if self.programmed() == wanted:
            return
        board, entry = self._slot.board, self._slot.entry
        if board.fme is not None:
            region = self._host.region(entry.region)
            compat_id = sysfs.read(region / "compat_id")
            contents = dfl.payload(contents, compat_id)
        try:
            # A manager cannot program two regions at once.
            with sysfs.exclusive(self._host.directory / f"{board.name}.lock"):
                self._record()
                self._write(contents)
                self._record(*wanted, self._host.boot())
        except OSError as error:
            raise base.DriverError(
                codes.PROGRAMMING_FAILED, f"{self._slot.file_name}: {error}"
            ) from error

    def _write(self, contents: bytes) -> None:
        slot, board = self._slot, self._slot.board
        if board.manager is not None:
            self._host.manager(board.manager).program(
                contents,
                f"fpgapool-{slot.file_name}.bin",
                partial=board.partial,
            )
            return
        assert board.fme is not None
        port_id = dfl.port_id(self._host.platform / slot.port)
        dfl.program(self._host.node(board.fme), port_id, contents)

    @property
    def _path(self) -> pathlib.Path:
        name = f"{self._slot.file_name}.programmed"
        return self._host.directory / name

    def _record(self, *words: str) -> None:
        common.replace_file(self._path, "\n".join(words).encode())
