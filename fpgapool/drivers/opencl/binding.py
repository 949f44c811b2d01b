# SPDX-License-Identifier: Apache-2.0

"""A manifest bound to a session's parameters: sizes, contents, launches."""

from __future__ import annotations

import collections.abc
import dataclasses
import math
import typing

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers.opencl.contents import expressions
from fpgapool.drivers.opencl.contents import manifest as manifests
from fpgapool.drivers.opencl.contents import params as parameters
from fpgapool.drivers.opencl.contents import preparers

#: Maximum length of a session's chunks.
MAX_BLOCK_BYTES = 1 << 26
MAX_BUFFER_BYTES = 1 << 32
#: Maximum length of a checkpoint.
MAX_STATE_BYTES = 1 << 20
MAX_LOCAL_BYTES = 1 << 20
MAX_WORK_ITEMS = 1 << 40


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """One launch of one kernel.

    :ivar global_size: number of work items in each dimension.
    :ivar local_size: size of a work group; None: the runtime chooses.
    :ivar arguments: kind and value of each argument: an integer for ``uint``,
        ``ulong`` and ``local``, a float for ``float``, a name for ``buffer``,
        and None for other kinds.
    """

    step: int
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None
    arguments: tuple[tuple[str, typing.Any], ...]


class Binding:
    """How kernels are called for one session.

    Its methods raise InvalidManifest if an expression has an invalid value
    with the session's parameters.

    :raises InvalidParams: if the manifest does not accept the parameters.
    :raises InvalidManifest: if a size is invalid with these parameters.
    :ivar block_bytes: the length of every piece of input but the last is a
        multiple of this.
    :ivar contents: contents of buffers, by name, for those that have any.
    :ivar initial_state: state of a new session; empty if there is no state.
    """

    def __init__(
        self,
        manifest: manifests.Manifest,
        values: collections.abc.Mapping[str, object],
    ) -> None:
        params = manifest.params
        self._values = parameters.read(params, values)
        self._variables = {
            variable: params[name].number(value)
            for name, value in self._values.items()
            if (variable := params[name].variable(name))
        }
        self.variant = self._chosen(manifest)
        for limit in self.variant.requires:
            value = self._value(
                limit.value, self._variables, "a required value"
            )
            if value > limit.maximum:
                raise accelerators.InvalidParams(limit.message)
        self.contents = {
            name: params[name].contents(value)
            for name, value in self._values.items()
            if params[name].is_buffer
        }
        self._prepare()
        self._moves = any("offset" in each.names for each in self._per_piece())
        self._latest: tuple[tuple[int, int], tuple[Launch, ...]] | None = None
        self.block_bytes = self._size(
            self.variant.block_bytes,
            self._variables,
            "block_bytes",
            1,
            MAX_BLOCK_BYTES,
        )
        self.initial_state = self._initial_state()

    def _chosen(self, manifest: manifests.Manifest) -> manifests.Variant:
        for variant in manifest.variants:
            if all(
                self._values[name] == manifest.params[name].read(wanted, name)
                for name, wanted in variant.when.items()
            ):
                return variant
        raise accelerators.InvalidParams(
            "the bitstream has no kernel for this combination of parameters"
        )

    def _prepare(self) -> None:
        for name, buffer in self.variant.buffers.items():
            if buffer.preparer:
                preparer = preparers.PREPARERS[buffer.preparer]
                self.contents[name] = preparer.compute(self._values)
            elif buffer.literal:
                self.contents[name] = buffer.literal
            else:
                continue
            self._variables[f"{name}_bytes"] = len(self.contents[name])

    def _per_piece(self) -> collections.abc.Iterator[expressions.Expression]:
        for step in self.variant.steps():
            yield from step.global_size
            for argument in step.arguments:
                if argument.value is not None:
                    yield argument.value

    def _initial_state(self) -> bytes:
        state = self.variant.state
        if state is None:
            return b""
        size_bytes = self._size(
            state.size_bytes,
            self._variables,
            "state.bytes",
            1,
            MAX_STATE_BYTES,
        )
        front = self.contents[state.initial] if state.initial else b""
        if len(front) > size_bytes:
            raise manifests.InvalidManifest(
                "state.initial: must not be longer than the state"
            )
        return front.ljust(size_bytes, b"\0")

    @property
    def arguments(self) -> dict[int, str]:
        """Names of the buffers that arguments fill, by argument number."""
        return {
            buffer.argument: name
            for name, buffer in self.variant.buffers.items()
            if buffer.argument is not None
        }

    @property
    def reports(self) -> bool:
        """Whether a kernel can report faults or a shorter output."""
        return any(
            argument.kind == manifests.REPORT
            for step in self.variant.steps()
            for argument in step.arguments
        )

    def longest_piece(self, max_bytes: int) -> int:
        """Return the length of the longest piece that fits in this room."""
        if self.variant.whole_blocks:
            return max_bytes - max_bytes % self.block_bytes
        return max_bytes

    def scratch_bytes(self, input_bytes: int) -> dict[str, int]:
        """Return the sizes of buffers without contents, by name."""
        variables = self._launch_variables(input_bytes, 0)
        return {
            name: self._size(
                buffer.size_bytes, variables, f"buffers.{name}", 0
            )
            for name, buffer in self.variant.buffers.items()
            if buffer.size_bytes
        }

    def max_output_bytes(self, input_bytes: int) -> int:
        """Return the room for a piece's output; 0: the end of the input."""
        offsets = (0, self.block_bytes)
        return max(
            self.output_bytes(input_bytes, offset) for offset in offsets
        )

    def output_bytes(self, input_bytes: int, offset_bytes: int) -> int:
        """Return the length of the output of a piece."""
        phase = self._phase(input_bytes)
        if phase is None:
            return 0
        variables = self._launch_variables(input_bytes, offset_bytes)
        return self._size(phase.output_bytes, variables, "output_bytes", 0)

    def launches(
        self, input_bytes: int, offset_bytes: int
    ) -> tuple[Launch, ...]:
        """Return a piece's launches, without those that have no work items."""
        # Pieces of the same length often have the same launches.
        key = (
            input_bytes,
            offset_bytes if self._moves else min(offset_bytes, 1),
        )
        if self._latest is None or self._latest[0] != key:
            made = tuple(self._launches(input_bytes, offset_bytes))
            self._latest = key, made
        return self._latest[1]

    def _launches(
        self, input_bytes: int, offset_bytes: int
    ) -> collections.abc.Iterator[Launch]:
        phase = self._phase(input_bytes)
        variables = self._launch_variables(input_bytes, offset_bytes)
        for number, step in enumerate(phase.steps if phase else ()):
            local = step.local_size or (1,) * len(step.global_size)
            sizes = tuple(
                -(-self._size(size, variables, "global", 0) // unit) * unit
                for size, unit in zip(step.global_size, local, strict=True)
            )
            if math.prod(sizes) > MAX_WORK_ITEMS:
                raise manifests.InvalidManifest(
                    f"global: more than {MAX_WORK_ITEMS} work items"
                )
            arguments = tuple(
                (argument.kind, self._argument(argument, variables))
                for argument in step.arguments
            )
            if math.prod(sizes):
                yield Launch(number, sizes, step.local_size or None, arguments)

    def _argument(
        self,
        argument: manifests.Argument,
        variables: collections.abc.Mapping[str, int],
    ) -> object:
        if argument.value is None:
            if argument.kind == manifests.FLOAT:
                return self._values[argument.name]
            return argument.name or None
        if argument.kind == manifests.LOCAL:
            lowest, highest = 1, MAX_LOCAL_BYTES
        else:
            lowest, highest = 0, manifests.INTEGERS[argument.kind]
        return self._size(
            argument.value, variables, argument.kind, lowest, highest
        )

    def _phase(self, input_bytes: int) -> manifests.Phase | None:
        return self.variant.process if input_bytes else self.variant.finish

    def _launch_variables(
        self, input_bytes: int, offset_bytes: int
    ) -> dict[str, int]:
        return {
            **self._variables,
            "bytes": input_bytes,
            "blocks": -(-input_bytes // self.block_bytes),
            "offset": offset_bytes,
            "first": int(offset_bytes == 0),
        }

    def _size(
        self,
        expression: expressions.Expression,
        variables: collections.abc.Mapping[str, int],
        what: str,
        lowest: int,
        highest: int = MAX_BUFFER_BYTES,
    ) -> int:
        value = self._value(expression, variables, what)
        if not lowest <= value <= highest:
            raise manifests.InvalidManifest(
                f"{what}: is outside the range from {lowest} to {highest} "
                "with these parameters"
            )
        return value

    def _value(
        self,
        expression: expressions.Expression,
        variables: collections.abc.Mapping[str, int],
        what: str,
    ) -> int:
        try:
            return expression.value(variables)
        except ValueError as error:
            raise manifests.InvalidManifest(
                f"{what}: {error} with these parameters"
            ) from None
