# SPDX-License-Identifier: Apache-2.0

"""The manifest of an OpenCL bitstream: how its kernels are called.

It accompanies a bitstream of kind ``opencl-source``, ``opencl-binary`` or
``xclbin``. A tenant writes it, so nothing in it is trusted. It is plain JSON
with limits on size, depth and numbers. Its expressions compute only integers,
and on the host it can request only the computations in a fixed list.
"""

from __future__ import annotations

import dataclasses
import math
import typing

from fpgapool.drivers.opencl.contents import expressions
from fpgapool.drivers.opencl.contents import params as parameters
from fpgapool.drivers.opencl.contents import preparers
from fpgapool.objects import untrusted
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import shapes

FORMAT_VERSION = 1
MAX_SIZE_BYTES = 64 * 1024
MAX_DEPTH = 12
MAX_VARIANTS = 8
MAX_PARAMS = 32
#: The protocol's limit on the number of an argument.
MAX_ARGUMENT = 255
MAX_BUFFERS = 16
MAX_STEPS = 16
MAX_ARGUMENTS = 32
MAX_LITERAL_BYTES = 4096
MAX_LOCAL_ITEMS = 1024
MAX_BYTES_PER_S = 1e15

#: Names that expressions for a launch can use in addition to parameters: its
#: input bytes; its blocks, including an incomplete last one; its position in
#: the session's input; and 1 at position 0, otherwise 0.
LAUNCH_NAMES = frozenset({"bytes", "blocks", "offset", "first"})
#: Those that expressions for the size of a launch's memory can use.
SIZE_NAMES = frozenset({"bytes", "blocks"})

#: Kinds of arguments that have no value.
INPUT = "input"
OUTPUT = "output"
STATE = "state"
REPORT = "report"
_PLAIN = (INPUT, OUTPUT, STATE, REPORT)
#: Kinds of integer arguments, with the largest value of each.
INTEGERS = {"uint": 2**32 - 1, "ulong": 2**63 - 1}
FLOAT = "float"
BUFFER = "buffer"
LOCAL = "local"
_KINDS = (*INTEGERS, FLOAT, BUFFER, LOCAL)

_NAME = shapes.matching(
    r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}",
    "a name of up to 64 letters, digits and any of _.-",
)
# In XRT, a kernel's name may be followed by its instances.
_KERNEL = shapes.matching(
    r"[A-Za-z_][A-Za-z0-9_]{0,63}(:\{[A-Za-z0-9_,]{1,256}\})?",
    "a kernel name",
)
_LITERAL = shapes.matching(
    rf"([0-9A-Fa-f]{{2}}){{1,{MAX_LITERAL_BYTES}}}",
    f"up to {MAX_LITERAL_BYTES} bytes in hexadecimal",
)
_TEXT = shapes.text(1000, least=1, printable=True)
_DESCRIPTION = shapes.text(1000, printable=True)
_RATE = shapes.number(1, MAX_BYTES_PER_S)
_PREPARER = shapes.one_of(preparers.PREPARERS)
_FAULTS = shapes.mapping_of(
    _TEXT, 16, shapes.matching("[1-9][0-9]{0,2}", "a number from 1 to 999")
)


def _author_name(name: object, where: str) -> str:
    found = shapes.matching(
        r"[a-z][a-z0-9_]{0,31}", "up to 32 lowercase letters, digits and _"
    )(name, where)
    if found in expressions.FUNCTIONS:
        raise shapes.Invalid(where, "must not be the name of a function")
    return found


_PARAMS = shapes.mapping_of(parameters.parse, MAX_PARAMS, _author_name)
_BUFFERS = shapes.mapping_of(shapes.anything, MAX_BUFFERS, _author_name)

_Object: typing.TypeAlias = shapes.Object
_Scope: typing.TypeAlias = frozenset[str]
_T = typing.TypeVar("_T")


class InvalidManifest(exceptions.CodedError, ValueError):
    """A manifest is invalid. The message names the member and the error."""

    def __init__(self, message: str) -> None:
        super().__init__(codes.INVALID_MANIFEST, message)


@dataclasses.dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a kernel.

    :ivar kind: ``input``, ``output``, ``state``, ``report``, ``uint``,
        ``ulong``, ``float``, ``buffer`` or ``local``.
    :ivar name: name of the ``float`` parameter or of the buffer.
    :ivar value: value of an integer, or number of bytes of local memory.
    """

    kind: str
    name: str = ""
    value: expressions.Expression | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One launch of one kernel.

    :ivar global_size: number of work items in each of 1 to 3 dimensions.
    :ivar local_size: size of a work group; empty: the runtime chooses.
    :ivar arguments: its arguments, in the order of their positions.
    """

    kernel: str
    global_size: tuple[expressions.Expression, ...]
    local_size: tuple[int, ...]
    arguments: tuple[Argument, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Phase:
    """What runs for a piece of the input, or at the end of the input.

    :ivar output_bytes: number of bytes that it returns, unless the kernel
        reports that there are fewer.
    :ivar steps: launches, which run one after the other.
    """

    output_bytes: expressions.Expression
    steps: tuple[Step, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Buffer:
    """Device memory in addition to input, output and state.

    Exactly one of the first three attributes is set.

    :ivar literal: its contents.
    :ivar preparer: name of the preparer that computes its contents.
    :ivar size_bytes: its size, if it is scratch memory for a launch or an
        argument fills it.
    :ivar argument: number of the session's argument that fills it.
    """

    literal: bytes | None = None
    preparer: str | None = None
    size_bytes: expressions.Expression | None = None
    argument: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """Memory that is passed from one launch of a session to the next.

    :ivar initial: name of a buffer with contents, or of a parameter, with
        which the state starts in a new session; the rest is zeros.
    """

    size_bytes: expressions.Expression
    initial: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Requirement:
    """A limit on an expression of parameters."""

    value: expressions.Expression
    maximum: int
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class Variant:
    """How kernels are called for certain parameters.

    :ivar when: parameter values for which this variant is used.
    :ivar block_bytes: the length of every piece of input but the last is a
        multiple of this.
    :ivar whole_blocks: whether this also applies to the last piece.
    :ivar block: name of a block in error messages.
    :ivar state: memory passed between launches; None if there is none.
    :ivar faults: messages, by the number of the fault that a kernel reports.
    :ivar process: what runs for each piece of the input.
    :ivar finish: what runs after the last piece; None: nothing.
    """

    when: dict[str, object]
    requires: tuple[Requirement, ...]
    block_bytes: expressions.Expression
    whole_blocks: bool
    block: str
    buffers: dict[str, Buffer]
    state: State | None
    faults: dict[int, str]
    process: Phase
    finish: Phase | None

    def steps(self) -> tuple[Step, ...]:
        return self.process.steps + (self.finish.steps if self.finish else ())


@dataclasses.dataclass(frozen=True, slots=True)
class Manifest:
    """A checked manifest.

    :ivar peak_bytes_per_s: the highest input rate of one slot; None: unknown.
    :ivar variants: the first variant whose ``when`` matches is used.
    """

    name: str
    description: str
    params: dict[str, parameters.Param]
    variants: tuple[Variant, ...]
    peak_bytes_per_s: float | None = None

    def kernels(self) -> frozenset[str]:
        """Return the names of all kernels, without instances."""
        return frozenset(
            step.kernel.partition(":")[0]
            for variant in self.variants
            for step in variant.steps()
        )


def parse(data: bytes) -> Manifest:
    """Read and check a manifest, or raise InvalidManifest."""
    try:
        document = untrusted.decode(
            data, "manifest", MAX_SIZE_BYTES, MAX_DEPTH
        )
        return _manifest(document)
    except ValueError as error:
        raise InvalidManifest(str(error)) from None


def _manifest(value: object) -> Manifest:
    document = shapes.members(
        value,
        "manifest",
        ("format_version", "name", "variants"),
        ("description", "params", "peak_bytes_per_s"),
    )
    shapes.exactly(FORMAT_VERSION)(
        document["format_version"], "format_version"
    )
    name = _NAME(document["name"], "name")
    description = _DESCRIPTION(document.get("description", ""), "description")
    params = _params(document.get("params", {}))

    def variant(value: object, where: str) -> Variant:
        return _Reader(params, where).variant(value)

    variants = shapes.list_of(variant, 1, MAX_VARIANTS)
    return Manifest(
        name,
        description,
        params,
        tuple(variants(document["variants"], "variants")),
        shapes.nullable(_RATE)(
            document.get("peak_bytes_per_s"), "peak_bytes_per_s"
        ),
    )


def _params(value: object) -> dict[str, parameters.Param]:
    params = _PARAMS(value, "params")
    variables = [
        variable
        for name, param in params.items()
        if (variable := param.variable(name))
    ]
    for variable in variables:
        if variables.count(variable) > 1 or variable in LAUNCH_NAMES:
            raise ValueError(f"params: {variable!r} is ambiguous")
    return params


class _Reader:
    """Reads a variant.

    :param where: path of the variant in the manifest, for messages.
    """

    def __init__(
        self, params: dict[str, parameters.Param], where: str
    ) -> None:
        self._params = params
        self._where = where
        self._names: _Scope = frozenset(
            variable
            for name, param in params.items()
            if (variable := param.variable(name))
        )
        self._buffers: dict[str, Buffer] = {}
        self._has_state = False

    def variant(self, value: object) -> Variant:
        where = self._where
        document = shapes.members(
            value,
            where,
            ("block_bytes", "process"),
            (
                *("when", "requires", "whole_blocks", "block", "buffers"),
                *("state", "faults", "finish"),
            ),
        )

        def read(name: str, shape: shapes.Shape[_T], default: object) -> _T:
            return shape(document.get(name, default), f"{where}.{name}")

        # Read the buffers first, because other members refer to them.
        self._read_buffers(document.get("buffers", {}))
        state = self._state(document.get("state"))
        self._has_state = state is not None
        return Variant(
            when=self._when(document.get("when", {})),
            requires=tuple(
                read("requires", shapes.list_of(self._requirement, 0, 8), [])
            ),
            block_bytes=read("block_bytes", self._expression, None),
            whole_blocks=read("whole_blocks", shapes.flag, True),
            block=read("block", _TEXT, "block"),
            buffers=self._buffers,
            state=state,
            faults={
                int(number): message
                for number, message in read("faults", _FAULTS, {}).items()
            },
            process=read("process", self._phase, None),
            finish=read("finish", shapes.nullable(self._phase), None),
        )

    def _expression(
        self, value: object, where: str, more: _Scope = frozenset()
    ) -> expressions.Expression:
        try:
            expression = expressions.Expression(value)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        known = self._names | more
        for name in sorted(expression.names - known):
            raise ValueError(
                f"{where}: unknown name {name!r}; known names: "
                f"{', '.join(sorted(known)) or 'none'}"
            )
        return expression

    def _when(self, value: object) -> dict[str, object]:
        where = f"{self._where}.when"
        wanted = shapes.members(value, where, (), tuple(self._params))
        for name, choice in wanted.items():
            try:
                self._params[name].read(choice, name)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None
        return wanted

    def _requirement(self, value: object, where: str) -> Requirement:
        document = shapes.members(
            value, where, ("value", "maximum", "message")
        )
        maximum = shapes.integer()(document["maximum"], f"{where}.maximum")
        # Requirements are checked before buffers are prepared.
        expression = self._expression(document["value"], f"{where}.value")
        for name in self._buffers:
            if f"{name}_bytes" in expression.names:
                raise ValueError(f"{where}.value: must not depend on a buffer")
        return Requirement(
            expression, maximum, _TEXT(document["message"], f"{where}.message")
        )

    def _read_buffers(self, value: object) -> None:
        where = f"{self._where}.buffers"
        sized: dict[str, _Object] = {}
        for name, item in _BUFFERS(value, where).items():
            if name in self._params or f"{name}_bytes" in self._names:
                raise ValueError(f"{where}: {name!r} is ambiguous")
            here = f"{where}.{name}"
            document = shapes.members(
                item, here, (), ("hex", "prepare", "bytes", "argument")
            )
            if len(document.keys() - {"argument"}) != 1 or (
                "argument" in document and "bytes" not in document
            ):
                raise ValueError(
                    f"{here}: exactly one of hex, prepare and bytes is "
                    "required; argument is allowed only with bytes"
                )
            if "bytes" in document:
                sized[name] = document
            else:
                self._buffers[name] = self._with_contents(document, here)
        # The lengths of buffers with contents are known before a launch.
        self._names |= {f"{name}_bytes" for name in self._buffers}
        for name, document in sized.items():
            self._buffers[name] = self._sized(document, f"{where}.{name}")

    def _sized(self, document: _Object, where: str) -> Buffer:
        number = document.get("argument")
        if number is None:
            return Buffer(
                size_bytes=self._expression(
                    document["bytes"], f"{where}.bytes", SIZE_NAMES
                )
            )
        shapes.integer(1, MAX_ARGUMENT)(number, f"{where}.argument")
        if any(each.argument == number for each in self._buffers.values()):
            raise ValueError(
                f"{where}.argument: another buffer already has this argument"
            )
        size_bytes = self._expression(document["bytes"], f"{where}.bytes")
        return Buffer(size_bytes=size_bytes, argument=number)

    def _with_contents(self, document: _Object, where: str) -> Buffer:
        if "prepare" in document:
            name = self._preparer(document["prepare"], f"{where}.prepare")
            return Buffer(preparer=name)
        return Buffer(
            literal=bytes.fromhex(_LITERAL(document["hex"], f"{where}.hex"))
        )

    def _preparer(self, value: object, where: str) -> str:
        name = _PREPARER(value, where)
        for param, kind in preparers.PREPARERS[name].params.items():
            found = self._params.get(param)
            if found is None or found.kind != kind:
                raise ValueError(
                    f"{where}: requires parameter {param!r} of type {kind}"
                )
        return name

    def _state(self, value: object) -> State | None:
        if value is None:
            return None
        where = f"{self._where}.state"
        document = shapes.members(value, where, ("bytes",), ("initial",))
        initial = document.get("initial")
        if initial is not None and not self._has_contents(initial):
            raise ValueError(
                f"{where}.initial: must be a buffer with contents or a "
                "parameter of type bytes or uints"
            )
        size = self._expression(document["bytes"], f"{where}.bytes")
        return State(size, initial)

    def _has_contents(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        if name in self._buffers:
            return self._buffers[name].size_bytes is None
        return name in self._params and self._params[name].is_buffer

    def _phase(self, value: object, where: str) -> Phase:
        document = shapes.members(value, where, ("output_bytes", "steps"))
        steps = shapes.list_of(self._step, 1, MAX_STEPS)
        return Phase(
            self._launch(document["output_bytes"], f"{where}.output_bytes"),
            tuple(steps(document["steps"], f"{where}.steps")),
        )

    def _launch(self, value: object, where: str) -> expressions.Expression:
        return self._expression(value, where, LAUNCH_NAMES)

    def _step(self, value: object, where: str) -> Step:
        document = shapes.members(
            value, where, ("kernel", "global", "arguments"), ("local",)
        )
        sizes = shapes.list_of(self._launch, 1, 3)(
            document["global"], f"{where}.global"
        )
        local = shapes.list_of(shapes.integer(1), 0, 3)(
            document.get("local", []), f"{where}.local"
        )
        if local and len(local) != len(sizes):
            raise ValueError(
                f"{where}.local: must have as many dimensions as global"
            )
        if math.prod(local) > MAX_LOCAL_ITEMS:
            raise ValueError(
                f"{where}.local: at most {MAX_LOCAL_ITEMS} work items are "
                "allowed"
            )
        return Step(
            _KERNEL(document["kernel"], f"{where}.kernel"),
            tuple(sizes),
            tuple(local),
            tuple(
                shapes.list_of(self._argument, 1, MAX_ARGUMENTS)(
                    document["arguments"], f"{where}.arguments"
                )
            ),
        )

    def _argument(self, value: object, where: str) -> Argument:
        if isinstance(value, str) and value in _PLAIN:
            if value == STATE and not self._has_state:
                raise ValueError(f"{where}: the variant has no state")
            return Argument(value)
        if not isinstance(value, dict) or len(value) != 1:
            raise ValueError(
                f"{where}: must be one of {', '.join(_PLAIN)}, or an object "
                f"with one of {', '.join(_KINDS)}"
            )
        ((kind, content),) = shapes.members(value, where, (), _KINDS).items()
        where = f"{where}.{kind}"
        if kind == BUFFER:
            if not isinstance(content, str) or not (
                content in self._buffers or self._has_contents(content)
            ):
                raise ValueError(
                    f"{where}: must be a buffer, or a parameter of type bytes "
                    "or uints"
                )
            return Argument(kind, content)
        if kind == FLOAT:
            if (
                not isinstance(content, str)
                or content not in self._params
                or self._params[content].kind != FLOAT
            ):
                raise ValueError(f"{where}: must be a parameter of type float")
            return Argument(kind, content)
        return Argument(kind, value=self._launch(content, where))
