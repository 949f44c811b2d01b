# SPDX-License-Identifier: Apache-2.0

"""The contract between agents, workers and the boards of a host.

A driver is built twice from the same plain settings: in the agent, which
discovers boards and watches them, and in the worker process of each slot,
which programs, opens and scrubs that slot. The two instances share nothing
but the boards and the state directory.
"""

from __future__ import annotations

import abc
import collections.abc
import dataclasses
import hashlib
import typing

from fpgapool.accelerators import base as accelerators
from fpgapool.vocabulary import exceptions

Core = accelerators.Core
InvalidInput = accelerators.InvalidInput
InvalidParams = accelerators.InvalidParams
Profile = accelerators.Profile
NAME_PATTERN = accelerators.NAME_PATTERN

# Do not change the string values. Once set, they are set.
DRIVER_UNKNOWN = "DRIVER_UNKNOWN"
INVALID_SETTINGS = "INVALID_SETTINGS"
NO_SUCH_SLOT = "NO_SUCH_SLOT"
NOT_PROGRAMMED = "NOT_PROGRAMMED"
BITSTREAM_UNKNOWN = "BITSTREAM_UNKNOWN"
BITSTREAM_UNFIT = "BITSTREAM_UNFIT"
PROGRAMMING_FAILED = "PROGRAMMING_FAILED"
SCRUB_FAILED = "SCRUB_FAILED"
DEVICE_FAILED = "DEVICE_FAILED"
BITSTREAM_DAMAGED = "BITSTREAM_DAMAGED"

#: What is in a bitstream's file: something for a board, or a declaration of
#: the emulator's.
BINARY = "binary"
DECLARATION = "declaration"

_READ_BYTES = 1 << 20


class DriverError(exceptions.CodedError):
    """A driver cannot do what was asked.

    :ivar code: stable machine-readable code.
    :ivar message: explanation for operators; it may change.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class SlotInfo:
    """One reconfigurable region.

    :ivar number: from 0 within its device.
    :ivar shape: which bitstreams fit.
    :ivar programmed: accelerator in it now, None if there is none.
    :ivar resources: how much it has of what bitstreams take, such as
        ``lut`` or ``dsp``; None if that is not known.
    """

    number: int
    shape: str
    programmed: str | None
    resources: collections.abc.Mapping[str, int] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class BitstreamFile:
    """A bitstream of the pool's library, in a file of this host.

    :ivar accelerator: what a slot with it has, as the library calls it.
    :ivar path: of the file. It may be gone or another one by the time that
        it is opened.
    :ivar checksum_sha256: what it must be, hexadecimal.
    :ivar size_bytes: of the file.
    :ivar format: :data:`BINARY` or :data:`DECLARATION`.
    """

    accelerator: str
    path: str
    checksum_sha256: str
    size_bytes: int
    format: str = BINARY

    def read(self, max_bytes: int) -> bytes:
        """Return what is in the file, once it has been found to be right.

        Blocks for as long as reading takes. What a driver programs has to
        be what was checked, so it has to be in memory, unless the driver
        checks by itself what it hands over.

        :param max_bytes: most that the driver can use.
        :returns: the contents.
        :raises DriverError: ``BITSTREAM_UNKNOWN`` if it is longer, or
            ``BITSTREAM_DAMAGED`` if it cannot be read or is not what it
            should be.
        """
        if self.size_bytes > max_bytes:
            raise DriverError(
                BITSTREAM_UNKNOWN,
                f"a bitstream of {self.size_bytes} bytes, where {max_bytes} "
                "are the most",
            )
        digest = hashlib.sha256()
        contents = bytearray()
        try:
            with open(self.path, "rb") as file:
                while piece := file.read(_READ_BYTES):
                    digest.update(piece)
                    contents += piece
                    if len(contents) > self.size_bytes:
                        break
        except OSError as exc:
            raise DriverError(
                BITSTREAM_DAMAGED, f"{self.path}: {exc.strerror}"
            ) from exc
        if (
            len(contents) != self.size_bytes
            or digest.hexdigest() != self.checksum_sha256
        ):
            raise DriverError(
                BITSTREAM_DAMAGED, f"{self.path}: the checksum is wrong"
            )
        return bytes(contents)


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One board.

    :ivar name: unique in the host and stable over reboots; files are named
        after it, so it has no slash.
    :ivar model: what kind of board it is.
    :ivar dma_bytes_per_s: input rate that its slots share.
    :ivar programming_time_s: how long programming a slot takes, about.
    :ivar slots: in the order of their numbers.
    """

    name: str
    model: str
    dma_bytes_per_s: float
    programming_time_s: float
    slots: tuple[SlotInfo, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Health:
    """Whether a board can be used.

    :ivar healthy: it can.
    :ivar message: why not, or an empty string.
    """

    healthy: bool
    message: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Telemetry:
    """What a board measures about itself.

    :ivar power_w: power drawn now, None if it is not measured.
    :ivar temperature_c: of the chip, None if it is not measured.
    """

    power_w: float | None
    temperature_c: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Traffic:
    """Which way a session's data goes.

    :ivar local: it stays on the host of the board.
    :ivar origin_host_uuid: the host where the session's program runs; None
        if it is on none of the pool's hosts, or not known.
    """

    local: bool = True
    origin_host_uuid: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Checksums:
    """What went into a core and came out of it, since it was opened.

    A CRC-32 is that of IEEE 802.3, as :func:`zlib.crc32` computes it; of no
    bytes it is 0.

    :ivar input_bytes: input that reached the core.
    :ivar input_crc32: CRC-32 of that input.
    :ivar output_bytes: output that the core produced.
    :ivar output_crc32: CRC-32 of that output.
    """

    input_bytes: int = 0
    input_crc32: int = 0
    output_bytes: int = 0
    output_crc32: int = 0


class ChecksummedCore(Core):
    """A core with a CRC unit beside it, on the board.

    Optional: a driver whose boards have none opens a plain :class:`Core`,
    and sessions in its slots cannot be checked end to end. The unit has to
    be at the core, since it is for finding what changes on the way between
    the core and the client, the driver's own part included. What the driver
    computes of the buffers that it hands over finds nothing.
    """

    @abc.abstractmethod
    def start_checksums(self) -> None:
        """Begin to sum up. Must not block.

        Called once at most, before the first call of ``process`` or
        ``finish``, and only for a session that wants it; without it a core
        should spend nothing on checksums.
        """

    @abc.abstractmethod
    def checksums(self) -> Checksums:
        """Return the sums of all calls of ``process`` and ``finish`` so far.

        Called after each of them, by the same thread, if they were started.
        Must not block for longer than reading a register takes. May raise
        what it likes; the session ends then as after a failed ``process``.
        """


class Driver(abc.ABC):
    """The boards of one host.

    Methods may be called from any thread, but for one slot at most one of
    ``program``, ``open`` and ``scrub`` at a time. Each of them may raise
    :class:`DriverError` with ``NO_SUCH_SLOT`` if the board is not there.

    :param settings: plain values: ``state_dir``, a directory where the
        driver may keep files, ``host_uuid``, which host this is, and the
        options of the driver, by name.
    :raises DriverError: ``INVALID_SETTINGS``.
    """

    @classmethod
    def options(cls) -> collections.abc.Sequence[typing.Any]:
        """List what an operator may configure. Called by agents.

        They are read from the section of the configuration that has the
        driver's name. Import oslo.config in here: workers start without it.

        :returns: options of oslo.config with plain values.
        """
        return ()

    @abc.abstractmethod
    def __init__(
        self, settings: collections.abc.Mapping[str, typing.Any]
    ) -> None:
        pass

    @abc.abstractmethod
    def discover(self) -> tuple[DeviceInfo, ...]:
        """Find the boards. Called by agents when they start.

        May block for seconds; idempotent; disturbs no running slot.

        :returns: the boards, sick ones too, in a stable order.
        :raises DriverError: if the host's boards cannot be listed at all.
        """

    @abc.abstractmethod
    def program(
        self,
        device: str,
        slot: int,
        bitstream: str,
        file: BitstreamFile | None = None,
    ) -> Profile:
        """Put an accelerator into a slot. Called by workers.

        May block for as long as programming takes; the caller bounds it.
        Idempotent: programming what is there already is allowed to cost
        nothing. What is there already is the bitstream of the same name: the
        same accelerator in another version is another bitstream, and has to
        be programmed.

        With a file the checksum has to be verified right before the slot is
        programmed, of what it is programmed with; see
        :meth:`BitstreamFile.read`. What is in the file comes from a tenant.

        :param device: name of the device.
        :param slot: number of the slot in it.
        :param bitstream: name of the bitstream: ``builtin:<accelerator>``,
            or ``bitstream:<SHA-256 of the file>``.
        :param file: of the bitstream; None if it is the driver's own.
        :returns: the profile of the accelerator; with a file, by the name
            that the file's ``accelerator`` is.
        :raises DriverError: ``BITSTREAM_UNKNOWN`` (nothing that this driver
            can use), ``BITSTREAM_UNFIT`` (not in this slot),
            ``BITSTREAM_DAMAGED`` (the file is missing or wrong), all of
            which leave the slot as it was and are not held against it; or
            ``PROGRAMMING_FAILED`` (it may hold nothing that works).
        """

    def expect(self, device: str, slot: int, traffic: Traffic) -> None:
        """Hear which way the next session's data goes. Called by workers.

        Called before each ``open``, in the same thread. Must not block;
        idempotent. A driver to which all ways are equal need not care.

        :param device: name of the device.
        :param slot: number of the slot in it.
        :param traffic: of the session that is about to be opened.
        """
        return

    @abc.abstractmethod
    def open(
        self,
        device: str,
        slot: int,
        params: collections.abc.Mapping[str, typing.Any],
    ) -> Core:
        """Start a session on a programmed slot. Called by workers.

        Must not block for longer than milliseconds: a client waits. Not
        idempotent; there is one session at a time, until ``scrub``.

        :param device: name of the device.
        :param slot: number of the slot in it.
        :param params: the session's parameters, as its client sent them.
        :returns: what processes the session's data; it raises what it likes
            when it cannot go on, such as ``DEVICE_FAILED``. A
            :class:`ChecksummedCore` if the board has CRC units.
        :raises InvalidParams: if they do not suit the accelerator.
        :raises DriverError: ``NOT_PROGRAMMED``.
        """

    @abc.abstractmethod
    def scrub(self, device: str, slot: int) -> None:
        """Remove what a holder left in a slot. Called after every holder.

        May block for as long as it takes. Idempotent, and safe in a slot
        that was never opened or programmed.

        :param device: name of the device.
        :param slot: number of the slot in it.
        :raises DriverError: ``SCRUB_FAILED``; the slot must not be used.
        """

    @abc.abstractmethod
    def health(self, device: str) -> Health:
        """Say whether a board can be used. Called by agents, often.

        Must not block for longer than a second; idempotent.

        :param device: name of the device.
        :returns: its health; a board that is gone is not healthy.
        """

    @abc.abstractmethod
    def telemetry(self, device: str) -> Telemetry:
        """Read a board's sensors. Called by agents, often.

        Must not block for longer than a second; idempotent.

        :param device: name of the device.
        :returns: the values that can be had.
        :raises DriverError: ``NO_SUCH_SLOT`` if there is no such board.
        """
