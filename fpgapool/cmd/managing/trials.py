# SPDX-License-Identifier: Apache-2.0

"""Test and measure the boards of this host through their driver.

The driver runs in a separate process, because the driver or the vendor's
runtime may hang or crash.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import math
import multiprocessing
import multiprocessing.connection
import operator
import signal
import statistics
import threading
import time
import typing
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers import base
from fpgapool.drivers import loader
from fpgapool.drivers import selftest
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import names

PASSED = "passed"
FAILED = "failed"
#: The board or its driver does not support the step.
ABSENT = "absent"

#: Error codes of a driver that does not provide an accelerator.
_NOT_THERE = (
    codes.BITSTREAM_UNKNOWN,
    codes.BITSTREAM_UNFIT,
    codes.CORE_UNAVAILABLE,
    codes.UNKNOWN_ACCELERATOR,
)
_TRANSFER = "copy"
_TRANSFER_BYTES = (64 * 1024, 1024 * 1024, 8 * 1024 * 1024)
_MAX_PATTERN_BYTES = 16 * 1024 * 1024
_SENSOR_INTERVAL_S = 0.1
_UNKNOWN = accelerators.KnownAnswer({}, b"\0", b"")


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """Describes what to test or measure.

    :ivar path: class of the driver, ``module:Class``.
    :ivar accelerators: names, in the order of the tests.
    :ivar files: bitstreams by accelerator; others come from the driver.
    :ivar chunk_bytes: approximate length of a piece of input.
    :ivar measured_s: duration of each measurement; None means a check instead.
    """

    path: str
    settings: Mapping[str, object]
    accelerators: tuple[str, ...]
    files: Mapping[str, base.BitstreamFile]
    chunk_bytes: int
    size_bytes: int
    measured_s: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One step of a trial.

    :ivar accelerator: name; empty if the step is about the whole device.
    :ivar values: measured values, by names that include the unit.
    """

    accelerator: str
    name: str
    outcome: str
    detail: str = ""
    values: Mapping[str, float] = dataclasses.field(default_factory=dict)


class _Timer:
    def __init__(self) -> None:
        self._begun_s = time.perf_counter()

    def step(self, accelerator: str, name: str) -> Step:
        """Return a step that has passed, with the time that it took."""
        time_s = time.perf_counter() - self._begun_s
        return Step(accelerator, name, PASSED, values={"time_s": time_s})


class ProcessEnded(Exception):
    """The driver's process hangs or has crashed."""


def devices(request: Request, timeout_s: float) -> list[base.DeviceInfo]:
    """Find the boards of this host.

    :raises ProcessEnded: if the driver hangs or crashes.
    :raises base.DriverError: if the driver cannot list the boards.
    """
    (found,) = _elsewhere(_discover, (request,), timeout_s)
    if isinstance(found, base.DriverError):
        raise found
    return found


def steps(
    request: Request, device: base.DeviceInfo, timeout_s: float
) -> Iterator[Step]:
    """Test a device.

    :returns: the steps as they end. If the process hangs or crashes, the last
        step fails.
    """
    doing = ("", "driver")
    try:
        for item in _elsewhere(_try, (request, device), timeout_s):
            if isinstance(item, Step):
                yield item
            else:
                doing = item
    except ProcessEnded as error:
        yield Step(*doing, FAILED, str(error))


def _elsewhere(
    task: Callable[..., None], arguments: tuple[object, ...], timeout_s: float
) -> Iterator[typing.Any]:
    """Run a task in another process, and yield what it sends."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=task, args=(theirs, *arguments))
    process.start()
    theirs.close()
    try:
        while True:
            if not ours.poll(timeout_s):
                raise ProcessEnded(f"did not finish within {timeout_s:g} s")
            try:
                yield ours.recv()
            except EOFError:
                break
        process.join()
        if process.exitcode:
            raise ProcessEnded(_ending(process.exitcode))
    finally:
        process.kill()
        process.join()
        ours.close()


def _ending(exit_code: int) -> str:
    if exit_code > 0:
        return f"the process ended with status {exit_code}"
    return f"the process ended with {signal.Signals(-exit_code).name}"


Pipe: typing.TypeAlias = multiprocessing.connection.Connection


def _discover(pipe: Pipe, request: Request) -> None:
    try:
        driver = loader.load_driver_path(request.path, request.settings)
        pipe.send(list(driver.discover()))
    except base.DriverError as error:
        pipe.send(error)


def _try(pipe: Pipe, request: Request, device: base.DeviceInfo) -> None:
    try:
        driver = loader.load_driver_path(request.path, request.settings)
    except base.DriverError as error:
        pipe.send(Step("", "driver", FAILED, str(error)))
        return
    trial = _Trial(driver, device, request, pipe.send)
    for step in trial.run():
        pipe.send(step)


def reach(needs: base.Needs, has_helper: bool) -> Iterator[str]:
    """Say in words what of this host a worker can reach.

    What does not exist is left out.
    """
    rights = {
        "reads": needs.readable,
        "writes": needs.writable,
        "uses devices": needs.devices,
    }
    for verb, patterns in rights.items():
        found = [path for each in patterns for path in sorted(glob.glob(each))]
        yield f"{verb} {', '.join(found) or 'nothing'}"
    if needs.calls:
        yield f"makes the system calls {', '.join(needs.calls)}"
    yield "a helper does the rest" if has_helper else "has no helper"


@dataclasses.dataclass
class _Trial:
    """Tests one device.

    :param tell: called with the accelerator and name of a step that begins.
    """

    driver: base.Driver
    device: base.DeviceInfo
    request: Request
    tell: Callable[[tuple[str, str]], None]
    doing: tuple[str, str] = ("", "")

    def run(self) -> Iterator[Step]:
        yield self._found()
        if self.request.measured_s is None:
            self._begin("", "reach")
            yield from self._guarded(self._reach())
        for name, task in (
            ("health", self._health),
            ("sensors", self._sensors),
        ):
            self._begin("", name)
            yield from self._guarded(task())
        for name in self.request.accelerators:
            yield from self._guarded(self._accelerator(name))

    def _begin(self, accelerator: str, name: str) -> None:
        self.doing = (accelerator, name)
        self.tell(self.doing)

    def _guarded(self, found: Iterator[Step]) -> Iterator[Step]:
        """Yield steps; on an error, yield the current step as failed."""
        try:
            yield from found
        except Exception as error:
            # A driver may raise any exception.
            code = getattr(error, "code", type(error).__name__)
            message = getattr(error, "message", str(error))
            yield Step(*self.doing, FAILED, f"{code}: {message}")

    def _found(self) -> Step:
        shapes = sorted({slot.shape for slot in self.device.slots})
        return Step(
            "",
            "found",
            PASSED,
            f"{self.device.model}, shape {', '.join(shapes)}",
            {
                "slots": len(self.device.slots),
                "dma_bytes_per_s": self.device.dma_bytes_per_s,
            },
        )

    def _reach(self) -> Iterator[Step]:
        for slot in self.device.slots:
            needs = self.driver.needs(self.device.name, slot.number)
            words = reach(needs, self.driver.has_helper)
            yield Step(
                "", "reach", PASSED, f"slot {slot.number}: {'; '.join(words)}"
            )

    def _health(self) -> Iterator[Step]:
        health = self.driver.check(self.device.name)
        outcome = PASSED if health.healthy else FAILED
        yield Step("", "health", outcome, health.message)

    def _sensors(self) -> Iterator[Step]:
        found = self.driver.telemetry(self.device.name)
        values = {
            name: value
            for name in ("power_w", "temperature_c")
            if (value := getattr(found, name)) is not None
        }
        outcome = PASSED if values else ABSENT
        yield Step("", "sensors", outcome, values=values)

    def _accelerator(self, name: str) -> Iterator[Step]:
        device = self.device.name
        self._begin(name, "program")
        slot = self._fitting_slot(name)
        if slot is None:
            yield Step(name, "program", ABSENT, "fits no slot")
            return
        file = self.request.files.get(name)
        bitstream = (
            f"{names.BUILTIN_PREFIX}{name}"
            if file is None
            else f"{names.FILE_PREFIX}{file.checksum_sha256}"
        )
        taken = _Timer()
        try:
            profile = self.driver.program(device, slot, bitstream, file)
        except base.DriverError as error:
            if file is not None or error.code not in _NOT_THERE:
                raise
            yield Step(name, "program", ABSENT, error.message)
            return
        yield taken.step(name, "program")
        if not profile.core:
            # A file does not name its software core; the profile does.
            profile = dataclasses.replace(
                profile, core=accelerators.load_profile(name).core
            )
        session = _Session(self.driver, device, slot, profile)
        yield from self._guarded(self._use(session, name))
        self._begin(name, "scrub")
        taken = _Timer()
        self.driver.scrub(device, slot)
        yield taken.step(name, "scrub")

    def _fitting_slot(self, name: str) -> int | None:
        try:
            shapes = accelerators.load_profile(name).shapes
        except accelerators.AcceleratorError:
            # The driver may still provide the accelerator.
            shapes = ()
        for slot in self.device.slots:
            if not shapes or slot.shape in shapes:
                return slot.number
        return None

    def _use(self, session: _Session, name: str) -> Iterator[Step]:
        self._begin(name, "open")
        taken = _Timer()
        if not session.prepare(self.request.chunk_bytes):
            yield Step(name, "open", ABSENT, "no usable parameters are known")
            return
        yield taken.step(name, "open")
        if self.request.measured_s is None:
            yield from self._checked(session, name)
        else:
            self._begin(name, "rate")
            values = self._measured(session, self.request.measured_s)
            yield Step(name, "rate", PASSED, values=values)

    def _checked(self, session: _Session, name: str) -> Iterator[Step]:
        self._begin(name, "self-test")
        selftest.run(
            self.driver, self.device.name, session.slot, session.profile
        )
        yield Step(name, "self-test", PASSED)
        self._begin(name, "result")
        expected, _ = session.expected(self.request.size_bytes)
        output, rate = session.computed(self.request.size_bytes)
        wrong = difference(output, expected, session.software.rounding)
        yield Step(
            name,
            "result",
            FAILED if wrong else PASSED,
            wrong or "matches the software core",
            {"bytes_per_s": rate, "output_bytes": len(output)},
        )
        if name == _TRANSFER:
            self._begin("", "transfer")
            yield Step("", "transfer", PASSED, values=session.transfers())

    def _measured(
        self, session: _Session, measured_s: float
    ) -> dict[str, float]:
        idle_w = self._power_w()
        values = {} if idle_w is None else {"idle_w": idle_w}
        powers_w: list[float] = []
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(_SENSOR_INTERVAL_S):
                power_w = self._power_w()
                if power_w is not None:
                    powers_w.append(power_w)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            rate, ratio = session.rate(measured_s)
        finally:
            ended.set()
            watcher.join()
        values |= {"bytes_per_s": rate, "return_ratio": ratio}
        if powers_w:
            values["active_w"] = statistics.fmean(powers_w)
        return values

    def _power_w(self) -> float | None:
        with contextlib.suppress(base.DriverError):
            return self.driver.telemetry(self.device.name).power_w
        return None


@dataclasses.dataclass
class _Session:
    """Sessions with an accelerator in a slot, and with its software core."""

    driver: base.Driver
    device: str
    slot: int
    profile: base.Profile
    params: Mapping[str, object] = dataclasses.field(default_factory=dict)
    arguments: tuple[bytes, ...] = ()
    piece: bytes = b""

    def __post_init__(self) -> None:
        self.software = accelerators.load_core(self.profile.core)

    def prepare(self, chunk_bytes: int) -> bool:
        """Choose parameters and a piece of input."""
        answers = self.software.known_answers
        usual = self.software.usual_params
        tried = list(answers)
        if usual is not None:
            first = answers[0] if answers else _UNKNOWN
            tried.insert(0, first._replace(params=usual))
        for params, data, _, arguments in tried:
            self.arguments = arguments
            try:
                core = self._open(params)
            except accelerators.InvalidParams:
                # The bitstream fixes other values for the parameters.
                continue
            multiple = (
                core.chunk_multiple_bytes or self.profile.chunk_multiple_bytes
            )
            core.cancel()
            self.params = params
            self.piece = repeated(data, multiple, chunk_bytes)
            return True
        return False

    def expected(self, size_bytes: int) -> tuple[bytes, float]:
        """Return the output of the software core; see :meth:`computed`."""
        core = self.software(self.params)
        accelerators.set_arguments(core, self.arguments)
        return _run(core, self.piece, self._count(size_bytes))

    def computed(self, size_bytes: int) -> tuple[bytes, float]:
        """Return the output of the slot.

        :returns: the output, and the rate of the input in bytes per second.
        """
        with self._opened() as core:
            return _run(core, self.piece, self._count(size_bytes))

    def _count(self, size_bytes: int) -> int:
        # The rate excludes the first piece, which allocates memory.
        return max(2, size_bytes // len(self.piece))

    def transfers(self) -> dict[str, float]:
        """Return the rates for several lengths of pieces."""
        found = {}
        for size_bytes in _TRANSFER_BYTES:
            with self._opened() as core:
                count = max(4, 2 * _TRANSFER_BYTES[-1] // size_bytes)
                _, rate = _run(core, bytes(size_bytes), count)
            found[f"bytes_per_s_{size_bytes}"] = rate
        return found

    def rate(self, measured_s: float) -> tuple[float, float]:
        """Measure the rate for a given time.

        :returns: bytes of input per second, and output per byte of input.
        """
        with self._opened() as core:
            view = memoryview(self.piece)
            room = memoryview(bytearray(core.max_output_bytes(len(view))))
            core.process(view, room, 0)
            input_bytes, output_bytes = len(view), 0
            begun = time.perf_counter()
            while (elapsed_s := time.perf_counter() - begun) < measured_s:
                output_bytes += core.process(view, room, input_bytes)
                input_bytes += len(view)
            input_bytes -= len(view)
        return input_bytes / elapsed_s, output_bytes / max(1, input_bytes)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[base.Core]:
        core = self._open(self.params)
        try:
            yield core
        finally:
            core.cancel()

    def _open(self, params: Mapping[str, object]) -> base.Core:
        self.driver.expect(self.device, self.slot, base.Traffic())
        core = self.driver.open(self.device, self.slot, params)
        accelerators.set_arguments(core, self.arguments)
        return core


def difference(
    output: bytes, expected: bytes, rounding: tuple[str, float] | None
) -> str:
    """Describe what is wrong with an output; empty if it is right.

    :param rounding: as that of a core.
    """
    if output == expected:
        return ""
    if len(output) != len(expected):
        return f"{len(output)} bytes of output instead of {len(expected)}"
    if rounding is not None:
        import numpy

        kind, tolerance = rounding
        right = numpy.frombuffer(expected, kind)
        error = numpy.abs(numpy.frombuffer(output, kind) - right).max()
        largest = numpy.abs(right).max()
        if error <= tolerance * largest:
            return ""
        return f"numeric error {error:g} for values up to {largest:g}"
    differs = map(operator.ne, output, expected)
    position = next(number for number, one in enumerate(differs) if one)
    return f"the output is wrong, starting at byte {position}"


def repeated(data: bytes, multiple: int, chunk_bytes: int) -> bytes:
    """Return a piece of whole blocks that repeats the data."""
    unit = math.lcm(multiple, len(data) or 1)
    if unit > _MAX_PATTERN_BYTES:
        unit = multiple
    size_bytes = max(1, chunk_bytes // unit) * unit
    return (data * (size_bytes // len(data) + 1))[:size_bytes]


def _run(core: base.Core, piece: bytes, count: int) -> tuple[bytes, float]:
    """Process a piece several times.

    :returns: the output, and the rate of the input after the first piece.
    """
    view = memoryview(piece)
    room = memoryview(bytearray(core.max_output_bytes(len(piece))))
    output = bytearray()
    times_s = []
    for number in range(count):
        begun = time.perf_counter()
        size_bytes = core.process(view, room, number * len(piece))
        times_s.append(time.perf_counter() - begun)
        output += room[:size_bytes]
    end = memoryview(bytearray(core.max_output_bytes(0)))
    output += end[: core.finish(end)]
    counted_s = times_s[1:] or times_s
    return bytes(output), len(piece) * len(counted_s) / sum(counted_s)
