# SPDX-License-Identifier: Apache-2.0

"""The contract between agents, workers and the boards of a host.

A driver is instantiated twice from the same plain settings: in the agent,
which discovers boards and watches them, and in the worker process of each
slot, which programs, opens and scrubs that slot. The two instances share
nothing but the boards and the state directory.
"""

from __future__ import annotations

import abc
import collections.abc
import dataclasses
import hashlib
import typing

from fpgapool.accelerators import base as accelerators
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import formats

Core = accelerators.Core
InvalidInput = accelerators.InvalidInput
InvalidParams = accelerators.InvalidParams
Profile = accelerators.Profile
NAME_PATTERN = accelerators.NAME_PATTERN

#: How long an agent waits for a board's first check.
CHECK_TIMEOUT_S = 10.0
#: The message of a board whose first check takes longer.
UNANSWERED = "no answer yet"

_READ_BYTES = 1 << 20


class DriverError(exceptions.CodedError):
    """A driver cannot do its task.

    :ivar code: stable machine-readable code.
    """


def one_line(text: str) -> str:
    """Return what a driver or its runtime says in one line, for people."""
    return " ".join(text.split())


@dataclasses.dataclass(frozen=True, slots=True)
class SlotInfo:
    """One reconfigurable region.

    :ivar number: from 0 within its device.
    :ivar shape: decides which bitstreams fit.
    :ivar programmed: accelerator in it now, None if there is none.
    :ivar resources: its amounts of resources of bitstreams, such as ``lut``
        or ``dsp``; None if unknown.
    """

    number: int
    shape: str
    programmed: str | None
    resources: collections.abc.Mapping[str, int] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class BitstreamFile:
    """A bitstream of the pool's library, in a file of this host.

    :ivar accelerator: the library's name of the accelerator.
    :ivar path: of the file. The file may be gone or replaced when it is
        opened.
    :ivar format: one of :data:`formats.FORMATS`.
    """

    accelerator: str
    path: str
    checksum_sha256: str
    size_bytes: int
    format: str = formats.BINARY

    def read(self, max_bytes: int) -> bytes:
        """Return the verified contents of the file.

        Blocks for as long as reading takes. A driver has to program what was
        verified, so the contents must be in memory, unless the driver verifies
        the programmed data itself.

        :param max_bytes: the largest size that the driver can use.
        :raises DriverError: ``BITSTREAM_UNKNOWN`` if it is longer, or
            ``BITSTREAM_DAMAGED`` if it cannot be read or its checksum is
            wrong.
        """
        if self.size_bytes > max_bytes:
            raise DriverError(
                codes.BITSTREAM_UNKNOWN,
                f"the bitstream is {self.size_bytes} bytes, larger than the "
                f"limit of {max_bytes}",
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
                codes.BITSTREAM_DAMAGED, f"{self.path}: {exc.strerror}"
            ) from exc
        if (
            len(contents) != self.size_bytes
            or digest.hexdigest() != self.checksum_sha256
        ):
            raise DriverError(
                codes.BITSTREAM_DAMAGED, f"{self.path}: checksum mismatch"
            )
        return bytes(contents)


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One board.

    :ivar name: unique in the host and stable over reboots; files are named
        after it, so it has no slash.
    :ivar dma_bytes_per_s: input rate that its slots share.
    :ivar programming_time_s: approximate time to program a slot.
    :ivar slots: in the order of their numbers.
    :ivar builtins: the accelerators that its slots can be programmed with
        without a file, each with the values of those of its parameters that it
        does not take all values of; None: all accelerators of the library.
    """

    name: str
    model: str
    dma_bytes_per_s: float
    programming_time_s: float
    slots: tuple[SlotInfo, ...]
    builtins: (
        collections.abc.Mapping[
            str, collections.abc.Mapping[str, collections.abc.Sequence[str]]
        ]
        | None
    ) = None


@dataclasses.dataclass(frozen=True, slots=True)
class Health:
    """Whether a board can be used."""

    healthy: bool
    message: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Telemetry:
    """The measurements of a board.

    :ivar power_w: present power, None if it is not measured.
    :ivar temperature_c: of the chip, None if it is not measured.
    """

    power_w: float | None
    temperature_c: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Traffic:
    """The path of a session's data.

    :ivar local: it stays on the host of the board.
    :ivar origin_host_uuid: the host where the session's program runs; None
        if it is not one of the pool's hosts, or unknown.
    """

    local: bool = True
    origin_host_uuid: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Checksums:
    """Sums of a core's input and output since it was opened.

    A CRC-32 is that of IEEE 802.3, as :func:`zlib.crc32` computes it; of no
    bytes it is 0.

    :ivar input_bytes: input that reached the core.
    :ivar output_bytes: output that the core produced.
    """

    input_bytes: int = 0
    input_crc32: int = 0
    output_bytes: int = 0
    output_crc32: int = 0


class ChecksummedCore(Core):
    """A core with a CRC unit beside it, on the board.

    Optional: a driver whose boards have none opens a plain :class:`Core`,
    and sessions in its slots cannot be checked end to end. The unit has to be
    at the core, because it detects changes on the way between the core and the
    client, including the driver's own part. A driver that computes the sums
    from its own buffers detects nothing.
    """

    @abc.abstractmethod
    def start_checksums(self) -> None:
        """Start the sums. Must not block.

        Called once at most, before the first call of ``process`` or
        ``finish``, and only for a session with checksums; without it a core
        should spend nothing on them.
        """

    @abc.abstractmethod
    def checksums(self) -> Checksums:
        """Return the sums of all calls of ``process`` and ``finish`` so far.

        Called after each of them, by the same thread, if they were started.
        Must not block for longer than reading a register takes. May raise
        any exception; the session then ends as after a failed ``process``.
        """


class Driver(abc.ABC):
    """The boards of one host.

    Methods may be called from any thread, but for one slot at most one of
    ``program``, ``open`` and ``scrub`` at a time. Each of them may raise
    :class:`DriverError` with ``NO_SUCH_SLOT`` if the board is not there.

    :param settings: plain values: ``state_dir``, a directory where the
        driver may keep files, ``host_uuid``, the UUID of this host, and the
        options of the driver, by name.
    :raises DriverError: ``INVALID_SETTINGS``.
    """

    @classmethod
    def options(cls) -> collections.abc.Sequence[typing.Any]:
        """List the driver's options. Called by agents.

        They are read from the section of the configuration that has the
        driver's name. Import oslo.config in this method: workers do not load
        it.
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

        :returns: the boards, also faulty ones, in a stable order.
        :raises DriverError: if the host's boards cannot be listed at all.
        """

    def check(self, device: str) -> Health:
        """Test whether a board can run accelerators. Called by agents when
        they start, after :meth:`discover`.

        It tries what sessions need: compilers, libraries, permissions and the
        board's answers. The agent reports a board that fails as unhealthy
        until :meth:`health` returns otherwise, so :meth:`health` must
        remember the result. The test must return within
        :data:`CHECK_TIMEOUT_S`, with the message :data:`UNANSWERED` if it
        continues in the background. Idempotent; disturbs no running slot.

        :returns: the message names what is missing, in one line.
        """
        return self.health(device)

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
        Idempotent: programming the same bitstream again may cost nothing. The
        same bitstream means the same name: another version of the accelerator
        is another bitstream, and has to be programmed.

        With a file, verify the checksum of the programmed data right before
        programming the slot; see :meth:`BitstreamFile.read`. The contents of
        the file come from a tenant.

        :param bitstream: name of the bitstream: ``builtin:<accelerator>``,
            or ``bitstream:<SHA-256 of the file>``.
        :param file: of the bitstream; None if it is the driver's own.
        :returns: the profile of the accelerator; with a file, its name is the
            file's ``accelerator``.
        :raises DriverError: ``BITSTREAM_UNKNOWN`` (this driver cannot use
            it), ``BITSTREAM_UNFIT`` (it does not fit this slot),
            ``BITSTREAM_DAMAGED`` (the file is missing or wrong), which all
            leave the slot as it was and do not count against it; or
            ``PROGRAMMING_FAILED`` (the slot may be unusable).
        """

    def expect(self, device: str, slot: int, traffic: Traffic) -> None:
        """Announce the path of the next session's data. Called by workers.

        Called before each ``open``, in the same thread. Must not block;
        idempotent. A driver may ignore it.
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
        idempotent; there is one session at a time, until ``scrub``. In a
        group's slot each task opens the slot anew, and the core before is not
        used again; see :meth:`clear_task`.

        :param params: the session's parameters, as its client sent them.
        :returns: the core that processes the session's data; it may raise any
            exception when it cannot continue, such as ``DEVICE_FAILED``. A
            :class:`ChecksummedCore` if the board has CRC units.
        :raises ~fpgapool.accelerators.base.InvalidParams: if the
            accelerator does not accept them.
        :raises DriverError: ``NOT_PROGRAMMED``.
        """

    @abc.abstractmethod
    def scrub(self, device: str, slot: int) -> None:
        """Remove all data of a session from a slot. Called after every
        session.

        May block for as long as it takes. Idempotent, and safe in a slot
        that was never opened or programmed.

        :raises DriverError: ``SCRUB_FAILED``; the slot must not be used. Or
            ``PROCESS_SPENT``: only the end of this process removes the data,
            and the worker ends; the next one can use the slot.
        """

    def clear_task(self, device: str, slot: int) -> None:
        """Remove all data of a client's tasks from a slot of a group.

        Called between the tasks of different clients, and of different
        projects in a shared group: the next task must find nothing of the ones
        before. The accelerator stays programmed. A driver that can do so in
        less time than :meth:`scrub`, which this calls, overrides it.

        :raises DriverError: as :meth:`scrub`.
        """
        self.scrub(device, slot)

    @abc.abstractmethod
    def health(self, device: str) -> Health:
        """Return whether a board can be used. Called by agents, often.

        Must not block for longer than a second; idempotent.
        """

    def power_cap_w(self) -> float | None:
        """Return the operator's cap on this host. Called by agents, often.

        The conductor gives no slot with which the slots in use would take
        more. Must not block for longer than a second; idempotent.

        :returns: W, in addition to idle boards, at least 0; None: no cap.
        """
        return None

    @abc.abstractmethod
    def telemetry(self, device: str) -> Telemetry:
        """Read a board's sensors. Called by agents, often.

        Must not block for longer than a second; idempotent.

        :raises DriverError: ``NO_SUCH_SLOT`` if there is no such board.
        """
