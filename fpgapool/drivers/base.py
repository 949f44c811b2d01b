# SPDX-License-Identifier: Apache-2.0

"""The contract between agents, workers and the boards of a host.

A driver is instantiated from the same plain settings in the agent, which
discovers and watches boards, and in each slot's worker process, which
programs, opens and scrubs that slot. These instances share nothing but the
boards and the state directory.
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
#: The health message of a board whose first check takes longer.
UNANSWERED = "no answer yet"

_READ_BYTES = 1 << 20


class DriverError(exceptions.CodedError):
    """A driver cannot perform an operation."""


#: Agents keep so much of a message. One that holds a whole input would not fit
#: into what a worker may send.
_LONGEST = 1000


def one_line(text: str) -> str:
    """Return the beginning of a message of a driver or core, on one line."""
    return " ".join(text[:_LONGEST].split())


@dataclasses.dataclass(frozen=True, slots=True)
class SlotInfo:
    """One reconfigurable region.

    :ivar number: its number within the device, from 0.
    :ivar shape: determines which bitstreams fit.
    :ivar programmed: accelerator that it currently contains, if any.
    :ivar resources: amounts of the resources that bitstreams use, such as
        ``lut`` or ``dsp``; None: unknown.
    """

    number: int
    shape: str
    programmed: str | None
    resources: collections.abc.Mapping[str, int] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class BitstreamFile:
    """A bitstream from the pool's library, in a file on this host.

    :ivar accelerator: the accelerator's name in the library.
    :ivar path: path of the file, which may be missing or replaced when it is
        opened.
    :ivar format: one of :data:`formats.FORMATS`.
    :ivar signature: signature of the checksum in base64; empty: none.
    """

    accelerator: str
    path: str
    checksum_sha256: str
    size_bytes: int
    format: str = formats.BINARY
    signature: str = ""

    def read(self, max_bytes: int) -> bytes:
        """Return the verified contents of the file.

        This blocks until the file has been read. A driver must program exactly
        the data that was verified, so the contents are kept in memory, unless
        the driver verifies the programmed data itself.

        :param max_bytes: maximum size that the driver can use.
        :raises DriverError: ``BITSTREAM_UNKNOWN`` if the file is larger, or
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

    :ivar name: unique on the host and stable across reboots. Files are named
        after it, so it must not contain a slash.
    :ivar dma_bytes_per_s: input rate that its slots share.
    :ivar programming_time_s: approximate time to program a slot.
    :ivar slots: its slots, in the order of their numbers.
    :ivar builtins: accelerators that can be programmed without a file, each
        with the supported values of the parameters for which not all values
        are supported; None: all accelerators of the library.
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
    """Measurements of a board and its chip; None: not measured."""

    power_w: float | None
    temperature_c: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Traffic:
    """The path of a session's data.

    :ivar local: whether the data stays on the board's host.
    :ivar origin_host_uuid: host on which the session's client runs; None
        if it is unknown or not one of the pool's hosts.
    """

    local: bool = True
    origin_host_uuid: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Checksums:
    """Lengths and CRCs of a core's input and output since it was opened.

    The CRC-32 is that of IEEE 802.3, as :func:`zlib.crc32` computes it; it is
    0 for no bytes.
    """

    input_bytes: int = 0
    input_crc32: int = 0
    output_bytes: int = 0
    output_crc32: int = 0


class ChecksummedCore(Core):
    """A core next to a CRC unit on the board.

    A driver whose boards have no CRC units opens a plain :class:`Core`;
    sessions in its slots cannot be checked end to end. The unit must be at the
    core, so that it detects any change to data between the core and the
    client, including changes by the driver. A driver that computes the CRCs
    from its own buffers detects nothing.
    """

    @abc.abstractmethod
    def start_checksums(self) -> None:
        """Start computing checksums, without blocking.

        This is called at most once, before the first call of ``process`` or
        ``finish``, and only for sessions with checksums. Without this call,
        the core should spend no time on checksums.
        """

    @abc.abstractmethod
    def checksums(self) -> Checksums:
        """Return the checksums over all calls of ``process`` and ``finish``.

        This is called after each of these calls, in the same thread, if
        checksums were started. It may block only to read a register, and may
        raise any exception; the session then ends as if ``process`` had
        failed.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class Needs:
    """What a slot's worker may reach outside its process.

    A worker gives up everything else before it serves its first session. All
    paths are absolute; a path that does not exist when the worker starts
    stays out of reach.

    :ivar readable: files and directories to read, and libraries to load, in
        addition to the system's.
    :ivar writable: directories whose files it may create and change. Another
        slot's worker must not trust them.
    :ivar devices: device files to read, write and control, or patterns for
        them such as ``/dev/dri/*``.
    :ivar calls: names of system calls that other workers may not use.
    """

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


class Driver(abc.ABC):
    """The boards of one host.

    :ivar has_helper: whether :meth:`start_helper` starts a helper. If the
        class has it, too, workers fork their helpers beforehand.

    Methods may be called from any thread, but for each slot only one of
    ``program``, ``open`` and ``scrub`` runs at once. Each of these may raise
    :class:`DriverError` with ``NO_SUCH_SLOT`` if the board is missing.

    :param settings: plain values: ``state_dir``, a directory in which the
        driver may keep files; ``host_uuid``, the UUID of this host;
        ``signature_required``, whether files must be signed, and
        ``trusted_keys_dir``, with the keys for that, or None; and the driver's
        options, by name.
    :raises DriverError: ``INVALID_SETTINGS``.
    """

    has_helper: bool = False

    @classmethod
    def options(cls) -> collections.abc.Sequence[typing.Any]:
        """List the driver's options. Called by agents.

        They are read from the configuration section with the driver's name.
        Import oslo.config in this method, because workers must not load it.
        """
        return ()

    @classmethod
    def warm_up(
        cls, settings: collections.abc.Mapping[str, typing.Any]
    ) -> None:
        """Import and read beforehand what the driver's instances share.

        Called in the process from which an agent's workers are forked. It must
        not start threads, and must not open boards or libraries that do: a
        worker would not have them. The same is true of the driver's module.

        :param settings: as for an instance, without ``state_dir``.
        """
        return

    @abc.abstractmethod
    def __init__(
        self, settings: collections.abc.Mapping[str, typing.Any]
    ) -> None:
        pass

    @abc.abstractmethod
    def discover(self) -> tuple[DeviceInfo, ...]:
        """Find the boards. Called by agents when they start.

        It may block for seconds, is idempotent and does not disturb sessions.

        :returns: the boards, including faulty ones, in a stable order.
        :raises DriverError: if the host's boards cannot be listed at all.
        """

    def check(self, device: str) -> Health:
        """Test whether a board can run accelerators.

        Agents call it when they start, after :meth:`discover`. It tests what
        sessions need: compilers, libraries, permissions and a response from
        the board. The agent reports a board that fails as unhealthy until
        :meth:`health` says otherwise, so :meth:`health` must remember the
        result. It must return within :data:`CHECK_TIMEOUT_S`, with the message
        :data:`UNANSWERED` if the test continues in the background. It is
        idempotent and does not disturb sessions.

        :returns: the result; its message names what is missing, in one line.
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
        """Program an accelerator into a slot. Called by workers.

        It may block for as long as programming takes; the caller has a
        timeout. It is idempotent: if the slot already contains a bitstream
        with this name, nothing need be done. Another version of an accelerator
        is a bitstream with another name, so it must be programmed.

        A file comes from a tenant: verify the checksum of its data immediately
        before programming; see :meth:`BitstreamFile.read`.

        :param bitstream: ``builtin:<accelerator>``, or
            ``bitstream:<SHA-256 of the file>``.
        :param file: the bitstream's file; None if it is built in.
        :returns: the profile of the accelerator; with a file, its name is the
            file's ``accelerator``.
        :raises DriverError: ``BITSTREAM_UNKNOWN`` (this driver cannot use it),
            ``BITSTREAM_UNFIT`` (it does not fit this slot) or
            ``BITSTREAM_DAMAGED`` (the file is missing or damaged). These leave
            the slot unchanged and do not count as its failures. Or
            ``PROGRAMMING_FAILED``: the slot may be unusable.
        """

    def needs(self, device: str, slot: int) -> Needs:
        """Return what the worker of a slot may reach.

        Workers call it, and ``device check`` shows it. It must neither block
        nor start threads. By default, these are the host's profiles.
        """
        return Needs(readable=accelerators.profile_directories())

    def start_helper(self, device: str, slot: int) -> None:
        """Prepare for a slot's worker to give up its rights.

        Workers call it once, before they give up their rights and before
        there are threads. What the driver must do with rights from then on
        needs a helper; see :mod:`fpgapool.drivers.helper`. The directories
        that :meth:`needs` lists must exist afterwards. A driver must also work
        without this call, in processes that keep their rights.

        :raises OSError: if the helper cannot be started.
        """
        return

    def expect(self, device: str, slot: int, traffic: Traffic) -> None:
        """Announce the path of the next session's data. Called by workers.

        They call it before each ``open``, in the same thread. It must not
        block and is idempotent. A driver need not override it.
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

        It may block only for milliseconds, because a client is waiting. It is
        not idempotent: a slot has one session until ``scrub`` is called. In a
        group's slot, each task opens the slot again, and the previous core is
        no longer used; see :meth:`clear_task`.

        :param params: the session's parameters, as its client sent them.
        :returns: the core that processes the session's data. It may raise any
            exception when it cannot continue, such as a DriverError with
            ``DEVICE_FAILED``. It is a :class:`ChecksummedCore` if the board
            has CRC units.
        :raises ~fpgapool.accelerators.base.InvalidParams: if the
            accelerator does not accept the parameters.
        :raises DriverError: ``NOT_PROGRAMMED``.
        """

    @abc.abstractmethod
    def scrub(self, device: str, slot: int) -> None:
        """Remove all data of a session from a slot.

        Workers call it after every session. It may block for as long as
        necessary, is idempotent, and is safe for a slot that was never opened
        or programmed.

        :raises DriverError: ``SCRUB_FAILED``: the slot must not be used. Or
            ``PROCESS_SPENT``: the data is removed only when this process ends.
            The worker then ends, and the next worker can use the slot.
        """

    def clear_task(self, device: str, slot: int) -> None:
        """Remove all data of a client's tasks from a group's slot.

        Workers call it between tasks of different clients or projects, so that
        a task cannot find data of earlier tasks. The accelerator stays
        programmed. By default, this calls :meth:`scrub`; override it if the
        driver can do this faster. The errors are the same.
        """
        self.scrub(device, slot)

    @abc.abstractmethod
    def health(self, device: str) -> Health:
        """Return whether a board can be used. Agents call this often.

        It may block for at most a second and is idempotent.
        """

    def power_cap_w(self) -> float | None:
        """Return the operator's power cap for this host.

        Agents call this often. The conductor does not assign a slot if the
        slots in use would then draw more power than this. It may block for at
        most a second and is idempotent.

        :returns: power in W in addition to that of idle boards, at least 0;
            None: no cap.
        """
        return None

    @abc.abstractmethod
    def telemetry(self, device: str) -> Telemetry:
        """Read a board's sensors. Agents call this often.

        It may block for at most a second and is idempotent.

        :raises DriverError: ``NO_SUCH_SLOT`` if there is no such board.
        """
