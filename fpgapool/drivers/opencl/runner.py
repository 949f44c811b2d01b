# SPDX-License-Identifier: Apache-2.0

"""Runs the kernels of one session on one device, as a manifest describes.

Data is transferred directly between the caller's memory and the device's; a
device that computes in host memory uses the caller's buffers themselves.
Python never copies data.
"""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import typing

import numpy
import pyopencl as cl

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers import base
from fpgapool.drivers.opencl import arguments
from fpgapool.drivers.opencl import binding
from fpgapool.drivers.opencl import programs
from fpgapool.drivers.opencl.contents import manifest as manifests
from fpgapool.vocabulary import codes

_REPORT_TYPE = numpy.dtype("<u4")
_BYTE = numpy.dtype("u1")
Events = collections.abc.Sequence[cl.Event]
#: Runners whose commands never ended; kept until the process ends.
_KEPT: list[object] = []
#: Waits until a command has finished.
Wait = collections.abc.Callable[[cl.Event], None]


def _wait(event: cl.Event) -> None:
    event.wait()


@dataclasses.dataclass(slots=True, eq=False)
class Lane:
    """Memory for one piece in flight.

    :ivar report: buffer in which a kernel reports the number of a fault, and
        by how many bytes the output is shorter.
    :ivar is_of_caller: whether input and output are in the caller's memory.
    :ivar input_bytes: length of the piece; 0: the end of the input.
    :ivar output_bytes: length of the output, unless a kernel reports less.
    :ivar pending: objects that its commands use, kept until these have ended.
    """

    input: cl.Buffer
    output: cl.Buffer
    report: cl.Buffer | None
    is_of_caller: bool = False
    input_bytes: int = 0
    output_bytes: int = 0
    pending: list[object] = dataclasses.field(default_factory=list)
    mapped: typing.Any = None


class Runner:
    """One session's computation. Only one thread may use it at once.

    Pieces pass through *lanes*. For one lane, :meth:`upload`, :meth:`launch`
    and :meth:`download` wait for each other through events; those of different
    lanes overlap. Launches run in the order of the calls, because each passes
    the state on to the next. :meth:`process` calls all three for one piece.

    :param max_input_bytes: length of the longest piece, at least one block.
    :param wait: waits until a command has ended; may raise DriverError if this
        takes too long.
    :raises InvalidParams: if the manifest does not accept the parameters.
    :raises InvalidManifest: if a size is invalid with these parameters.
    :raises DriverError: ``DEVICE_OUT_OF_MEMORY`` or ``DEVICE_FAILED``; all
        methods can raise these.
    :ivar uses_memory_of_caller: whether the device computes in the host's
        memory.
    """

    def __init__(
        self,
        program: programs.Program,
        params: collections.abc.Mapping[str, object],
        max_input_bytes: int,
        wait: Wait = _wait,
    ) -> None:
        self.binding = binding.Binding(program.manifest, params)
        self.max_input_bytes = self.binding.longest_piece(
            max(max_input_bytes, self.binding.block_bytes)
        )
        self._program = program
        self._context = program.context
        self._wait = wait
        self._is_coherent = programs.is_coherent(program.device)
        self.uses_memory_of_caller = programs.is_unified(program.device)
        self._alignment_bytes = program.device.mem_base_addr_align // 8
        self._end_bytes = 0
        self._owned: list[cl.Buffer] = []
        self._owned_bytes = 0
        # Length of the last piece for which the buffers are known to suffice.
        self._fitting_bytes = -1
        # Objects that commands without a lane use.
        self._pending: list[object] = []
        # All lanes, because commands may be using them.
        self._lanes: list[Lane] = []
        self._lane: Lane | None = None
        self._last_lane: Lane | None = None
        variant = self.binding.variant
        # The kernels for the end of the input, and those for pieces.
        self._setters = tuple(
            [
                arguments.Setter(program.kernel(step))
                for step in (phase.steps if phase else ())
            ]
            for phase in (variant.finish, variant.process)
        )
        with programs.translated:
            # Three queues, so that transfers and launches overlap.
            self._uploads = cl.CommandQueue(self._context)
            self._launches = cl.CommandQueue(self._context)
            self._downloads = cl.CommandQueue(self._context)
        try:
            self._allocate()
        except BaseException:
            with contextlib.suppress(base.DriverError):
                self.clear()
            raise

    def _allocate(self) -> None:
        with programs.translated:
            self._buffers = {
                name: self._with_contents(data)
                for name, data in self.binding.contents.items()
            }
            scratch = self.binding.scratch_bytes(self.max_input_bytes)
            for name, size_bytes in scratch.items():
                self._buffers[name] = self._zeros(size_bytes)
            self._state = self._with_contents(self.binding.initial_state)
            self._finish(self._launches)
        self._missing = self.binding.arguments

    def set_argument(self, number: int, data: memoryview) -> None:
        """Set data for all pieces; called before the first.

        :raises InvalidArgument: if the kernels do not accept it.
        """
        name = self.binding.arguments.get(number)
        if name is None:
            raise accelerators.InvalidArgument(
                f"the accelerator has no argument {number}"
            )
        buffer = self._buffers[name]
        if data.nbytes != buffer.size:
            raise accelerators.InvalidArgument(
                f"argument {number}, the {name}, is {data.nbytes} bytes; "
                f"expected {buffer.size} bytes"
            )
        with programs.translated:
            event = cl.enqueue_copy(
                self._launches, buffer, data, is_blocking=False
            )
            self._pending.append(event)
            self._finish(self._launches)
        self._missing.pop(number, None)

    def lane(self, max_input_bytes: int | None = None) -> Lane:
        """Allocate memory for pieces, initially zeros.

        Each piece must be uploaded.

        :param max_input_bytes: length of the lane's longest piece; None: the
            session's longest; 0: the lane is only for the end of the input,
            which needs no upload.
        """
        if max_input_bytes is None:
            max_input_bytes = self.max_input_bytes
        output_bytes = max(
            self.binding.max_output_bytes(size)
            for size in (max_input_bytes, 0)
        )
        # Avoid the queue of launches, where other pieces may take a long time.
        queue = self._uploads
        with programs.translated:
            lane = Lane(
                self._zeros(max_input_bytes, queue),
                self._zeros(output_bytes, queue),
                self._zeros(8, queue) if self.binding.reports else None,
            )
            if not max_input_bytes:
                self._finish(queue)
        self._lanes.append(lane)
        return lane

    def lane_over(
        self,
        report: cl.Buffer | None,
        chunk_in: memoryview,
        chunk_out: memoryview,
    ) -> Lane | None:
        """Make a lane of the caller's memory, which contains a piece.

        :param report: report buffer of such a lane that is no longer in use.
        :returns: None if the memory is not aligned as the device requires.
        :raises InvalidInput: if the piece ends within a block.
        """
        self._check_piece(len(chunk_in))
        if (
            not chunk_out
            or _address(chunk_in) % self._alignment_bytes
            or _address(chunk_out) % self._alignment_bytes
        ):
            return None
        flags = cl.mem_flags
        with programs.translated:
            if report is None and self.binding.reports:
                report = self._zeros(8)
            made = Lane(
                cl.Buffer(
                    self._context,
                    flags.READ_ONLY | flags.USE_HOST_PTR,
                    hostbuf=chunk_in,
                ),
                cl.Buffer(
                    self._context,
                    flags.READ_WRITE | flags.USE_HOST_PTR,
                    hostbuf=chunk_out,
                ),
                report,
                is_of_caller=True,
                input_bytes=len(chunk_in),
            )
        self._lanes.append(made)
        return made

    def upload(self, lane: Lane, chunk_in: memoryview) -> cl.Event:
        """Start copying a piece into a lane.

        :param chunk_in: the piece; must not change before the event.
        :raises InvalidInput: if the piece ends within a block.
        """
        self._check_piece(len(chunk_in))
        lane.input_bytes = len(chunk_in)
        with programs.translated:
            event = cl.enqueue_copy(
                self._uploads, lane.input, chunk_in, is_blocking=False
            )
            lane.pending.append(event)
            self._uploads.flush()
        return event

    def _check_piece(self, length_bytes: int) -> None:
        for number, name in self._missing.items():
            raise accelerators.InvalidArgument(
                f"argument {number}, the {name}, is missing"
            )
        variant = self.binding.variant
        if variant.whole_blocks:
            accelerators.require_whole(
                length_bytes, self.binding.block_bytes, variant.block
            )
        if length_bytes > self.max_input_bytes:
            raise ValueError("the piece is longer than max_input_bytes")

    def launch(
        self, lane: Lane, offset_bytes: int, wait_for: Events = ()
    ) -> cl.Event:
        """Start the kernels for the piece in a lane."""
        bound = self.binding
        input_bytes = lane.input_bytes
        lane.output_bytes = bound.output_bytes(input_bytes, offset_bytes)
        # A tenant's expression may have a larger value for a shorter piece.
        if lane.output_bytes > lane.output.size or not self._has_scratch(
            input_bytes
        ):
            raise manifests.InvalidManifest(
                "a shorter piece must not need more memory than a longer one"
            )
        before = list(wait_for)
        event: cl.Event | None = None
        with programs.translated:
            if lane.report:
                self._fill(lane.report)
            setters = self._setters[input_bytes > 0]
            for launch in bound.launches(input_bytes, offset_bytes):
                setter = setters[launch.step]
                for index, (kind, value) in enumerate(launch.arguments):
                    buffer = self._buffer(lane, kind, value)
                    if buffer is None:
                        setter.set_number(index, kind, value)
                    else:
                        setter.kernel.set_arg(index, buffer)
                event = cl.enqueue_nd_range_kernel(
                    self._launches,
                    setter.kernel,
                    launch.global_size,
                    launch.local_size,
                    wait_for=before,
                )
                # Later launches follow in the queue.
                before = []
            if event is None:
                event = cl.enqueue_marker(self._launches, wait_for=before)
            lane.pending.append(event)
            self._launches.flush()
        self._end_bytes = offset_bytes + input_bytes
        return event

    def _has_scratch(self, input_bytes: int) -> bool:
        if input_bytes != self._fitting_bytes:
            sizes = self.binding.scratch_bytes(input_bytes)
            if any(
                size > self._buffers[name].size for name, size in sizes.items()
            ):
                return False
            self._fitting_bytes = input_bytes
        return True

    def download(
        self, lane: Lane, chunk_out: memoryview, wait_for: Events
    ) -> tuple[cl.Event, int]:
        """Start copying a lane's output.

        If the kernels can report faults, this blocks until they have ended.

        :param chunk_out: room for ``lane.output_bytes`` bytes; for a lane of
            the caller's memory, its output memory.
        :returns: event at the end of the copy, and length of the output.
        :raises InvalidInput: if a kernel reports a fault.
        """
        before = list(wait_for)
        with programs.translated:
            output_bytes = lane.output_bytes - self._lacking(lane, before)
            if output_bytes <= 0:
                event = cl.enqueue_marker(self._downloads, wait_for=before)
            elif lane.is_of_caller and self._is_coherent:
                # The output is complete when the kernels have ended.
                (event,) = before
            elif lane.is_of_caller:
                there: typing.Any
                # Nothing is transferred, so this need not overlap launches.
                there, event = cl.enqueue_map_buffer(
                    self._launches,
                    lane.output,
                    cl.map_flags.READ,
                    0,
                    (output_bytes,),
                    _BYTE,
                    is_blocking=False,
                )
                self._launches.flush()
                lane.mapped = there
            else:
                event = cl.enqueue_copy(
                    self._downloads,
                    chunk_out[:output_bytes],
                    lane.output,
                    is_blocking=False,
                    wait_for=before,
                )
            lane.pending.append(event)
            self._downloads.flush()
        return event, output_bytes

    def collect(self, lane: Lane, downloaded: cl.Event) -> None:
        """Wait until a lane's output is in the caller's memory.

        The lane is then free, and no longer refers to the caller's memory.
        """
        with programs.translated:
            self._await(downloaded)
            if lane.is_of_caller:
                if lane.mapped is not None:
                    lane.mapped.base.release(self._launches)
                lane.input.release()
                lane.output.release()
                self._lanes.remove(lane)
        lane.pending.clear()

    def max_output_bytes(self, input_bytes: int) -> int:
        """Return the room for a piece's output; 0: the end of the input."""
        return self.binding.max_output_bytes(input_bytes)

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        """Process a piece; see :class:`accelerators.Core`."""
        lane = self._lane = self._lane or self.lane()
        uploaded = self.upload(lane, chunk_in)
        return self._run(lane, chunk_out, offset_bytes, [uploaded])

    def finish(self, chunk_out: memoryview) -> int:
        """Write the output after the input; see :class:`accelerators.Core`."""
        if self.binding.variant.finish is None:
            return 0
        lane = self._last_lane = self._last_lane or self.lane(0)
        lane.input_bytes = 0
        return self._run(lane, chunk_out, self._end_bytes, ())

    def _run(
        self,
        lane: Lane,
        chunk_out: memoryview,
        offset_bytes: int,
        wait_for: Events,
    ) -> int:
        launched = self.launch(lane, offset_bytes, wait_for)
        event, output_bytes = self.download(lane, chunk_out, [launched])
        self.collect(lane, event)
        return output_bytes

    def state(self) -> bytes:
        """Wait for all launches, and return the state that they pass on."""
        contents = numpy.empty(len(self.binding.initial_state), numpy.uint8)
        if contents.size:
            with programs.translated:
                self._read(self._launches, contents, self._state, ())
        return contents.tobytes()

    def restore(self, state: bytes, offset_bytes: int) -> None:
        """Continue where another runner stopped, between two pieces.

        :param offset_bytes: position in the session's input.
        :raises ValueError: if it is not a state of these kernels.
        """
        if len(state) != len(self.binding.initial_state):
            raise ValueError("the state has the wrong length")
        with programs.translated:
            if state:
                event = cl.enqueue_copy(
                    self._launches, self._state, state, is_blocking=False
                )
                self._pending.append(event)
            self._finish(self._launches)
        self._end_bytes = offset_bytes

    def clear(self) -> None:
        """Overwrite and release all device memory. Call nothing afterwards."""
        with programs.translated:
            for queue in (self._uploads, self._launches, self._downloads):
                self._finish(queue)
            for buffer in self._owned:
                self._fill(buffer)
            self._finish(self._launches)
            while self._owned:
                self._owned.pop().release()
        self._lanes.clear()
        self._pending.clear()

    def _await(self, event: cl.Event) -> None:
        try:
            self._wait(event)
        except base.DriverError:
            # Keep all objects: the device may still use the memory, and
            # releasing an event that never occurs would block.
            _KEPT.append(self)
            raise

    def _finish(self, queue: cl.CommandQueue) -> None:
        event = cl.enqueue_marker(queue)
        self._pending.append(event)
        queue.flush()
        self._await(event)
        self._pending.clear()

    def _read(
        self,
        queue: cl.CommandQueue,
        into: numpy.typing.NDArray[typing.Any],
        buffer: cl.Buffer,
        wait_for: Events,
    ) -> None:
        event = cl.enqueue_copy(
            queue, into, buffer, is_blocking=False, wait_for=list(wait_for)
        )
        self._pending.append(event)
        queue.flush()
        self._await(event)
        self._pending.remove(event)

    def _buffer(self, lane: Lane, kind: str, name: str) -> cl.Buffer | None:
        match kind:
            case manifests.INPUT:
                return lane.input
            case manifests.OUTPUT:
                return lane.output
            case manifests.REPORT:
                return lane.report
            case manifests.STATE:
                return self._state
            case manifests.BUFFER:
                return self._buffers[name]
        return None

    def _lacking(self, lane: Lane, wait_for: Events) -> int:
        """Return by how many bytes the output is shorter than it could be."""
        if lane.report is None:
            return 0
        report = numpy.empty(2, _REPORT_TYPE)
        self._read(self._downloads, report, lane.report, wait_for)
        fault, lacking_bytes = report.tolist()
        if fault:
            raise accelerators.InvalidInput(
                self.binding.variant.faults.get(
                    fault, f"the kernel reported fault {fault}"
                )
            )
        return min(lacking_bytes, lane.output_bytes)

    def _with_contents(self, data: bytes) -> cl.Buffer:
        buffer = self._zeros(len(data))
        if data:
            self._pending.append(
                cl.enqueue_copy(
                    self._launches, buffer, data, is_blocking=False
                )
            )
        return buffer

    def _zeros(
        self, size_bytes: int, queue: cl.CommandQueue | None = None
    ) -> cl.Buffer:
        device = self._program.device
        if size_bytes > device.max_mem_alloc_size:
            raise base.DriverError(
                codes.DEVICE_OUT_OF_MEMORY,
                f"a buffer is {size_bytes} bytes, larger than the device's "
                f"limit of {device.max_mem_alloc_size}",
            )
        share_bytes = self._program.memory_bytes
        self._owned_bytes += size_bytes
        if share_bytes is not None and self._owned_bytes > share_bytes:
            raise base.DriverError(
                codes.DEVICE_OUT_OF_MEMORY,
                "the session needs more device memory than its slot's share "
                f"of {share_bytes} bytes",
            )
        # Clear the buffer: it may still contain other sessions' data.
        flags = cl.mem_flags.READ_WRITE
        buffer = cl.Buffer(self._context, flags, max(1, size_bytes))
        self._owned.append(buffer)
        self._fill(buffer, queue)
        return buffer

    def _fill(
        self, buffer: cl.Buffer, queue: cl.CommandQueue | None = None
    ) -> None:
        queue = queue or self._launches
        cl.enqueue_fill_buffer(queue, buffer, b"\0", 0, buffer.size)


def _address(chunk: memoryview) -> int:
    there = numpy.frombuffer(chunk, numpy.uint8)
    return int(there.__array_interface__["data"][0])
