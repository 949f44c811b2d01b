# SPDX-License-Identifier: Apache-2.0

"""The manifest of an OpenCL bitstream: how its kernels are called.

It goes with a bitstream of the kind ``opencl-source``, ``opencl-binary`` or
``xclbin``. A tenant writes it, so nothing in it is trusted: it is plain JSON
of bounded size, depth and numbers, its expressions compute whole numbers
only, and what the host computes for a kernel it names from a fixed list.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import re
import typing

from fpgapool.drivers.opencl.contents import expressions
from fpgapool.drivers.opencl.contents import params as parameters
from fpgapool.drivers.opencl.contents import preparers
from fpgapool.objects import untrusted
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions

FORMAT_VERSION = 1
MAX_SIZE_BYTES = 64 * 1024
MAX_DEPTH = 12
MAX_VARIANTS = 8
MAX_PARAMS = 32
#: As the protocol numbers them.
MAX_ARGUMENT = 255
MAX_BUFFERS = 16
MAX_STEPS = 16
MAX_ARGUMENTS = 32
MAX_LITERAL_BYTES = 4096
MAX_LOCAL_ITEMS = 1024
MAX_BYTES_PER_S = 1e15

#: What expressions may name in addition to parameters. In a launch: its bytes
#: of input, its blocks, the last of which may be incomplete, its position in
#: the session's input, and 1 if this is 0.
LAUNCH_NAMES = frozenset({"bytes", "blocks", "offset", "first"})
#: In the size of memory that a launch needs.
SIZE_NAMES = frozenset({"bytes", "blocks"})

#: Arguments that need no more than their name.
INPUT = "input"
OUTPUT = "output"
STATE = "state"
REPORT = "report"
_PLAIN = (INPUT, OUTPUT, STATE, REPORT)
#: Arguments with the largest value of their type.
INTEGERS = {"uint": 2**32 - 1, "ulong": 2**63 - 1}
FLOAT = "float"
BUFFER = "buffer"
LOCAL = "local"
_KINDS = (*INTEGERS, FLOAT, BUFFER, LOCAL)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
# XRT takes the instances of a kernel behind its name.
_KERNEL = re.compile(
    r"[A-Za-z_][A-Za-z0-9_]{0,63}(:\{[A-Za-z0-9_,]{1,256}\})?"
)
_MEMBER = re.compile(r"[a-z][a-z0-9_]{0,31}")
_HEX = re.compile(r"([0-9A-Fa-f]{2})*")
_MAX_TEXT_CHARS = 1000

_Object: typing.TypeAlias = dict[str, typing.Any]
_Scope: typing.TypeAlias = frozenset[str]


class InvalidManifest(exceptions.CodedError, ValueError):
    """A manifest is wrong. The message names the member and the fault."""

    def __init__(self, message: str) -> None:
        super().__init__(codes.INVALID_MANIFEST, message)


@dataclasses.dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a kernel.

    :ivar kind: ``input``, ``output``, ``state``, ``report``, ``uint``,
        ``ulong``, ``float``, ``buffer`` or ``local``.
    :ivar name: of the parameter of a ``float``, or of the buffer.
    :ivar value: of a number, or the bytes of local memory.
    """

    kind: str
    name: str = ""
    value: expressions.Expression | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One launch of one kernel.

    :ivar kernel: its name.
    :ivar global_size: work items in each of 1 to 3 dimensions.
    :ivar local_size: work items of a group; empty if the runtime chooses.
    :ivar arguments: in the order of their positions.
    """

    kernel: str
    global_size: tuple[expressions.Expression, ...]
    local_size: tuple[int, ...]
    arguments: tuple[Argument, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Phase:
    """What runs for a piece of the input, or at its end.

    :ivar output_bytes: bytes that it returns, unless the kernel reports that
        there are fewer.
    :ivar steps: run one after the other.
    """

    output_bytes: expressions.Expression
    steps: tuple[Step, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of the device besides input, output and state.

    Exactly one of the first three is there.

    :ivar literal: its contents.
    :ivar preparer: name of what computes its contents.
    :ivar size_bytes: of memory that a launch needs and nothing initialises, or
        that an argument fills.
    :ivar argument: number of the session's argument that is in it.
    """

    literal: bytes | None = None
    preparer: str | None = None
    size_bytes: expressions.Expression | None = None
    argument: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """Memory that a session's launches hand on.

    :ivar size_bytes: of it.
    :ivar initial: name of a buffer with contents, or of a parameter, that is
        at its front when a session begins; the rest is zeros.
    """

    size_bytes: expressions.Expression
    initial: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Requirement:
    """A limit that several parameters have together.

    :ivar value: of the parameters.
    :ivar maximum: of the value.
    :ivar message: for the tenant whose parameters exceed it.
    """

    value: expressions.Expression
    maximum: int
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class Variant:
    """How kernels are called for certain parameters.

    :ivar when: value of each parameter that chooses this variant.
    :ivar requires: limits of the parameters.
    :ivar block_bytes: every piece of the input but the last is a multiple.
    :ivar whole_blocks: whether the last piece has to be one, too.
    :ivar block: name of a block, for messages.
    :ivar buffers: memory by name.
    :ivar state: what launches hand on; None if nothing.
    :ivar faults: message by the number that a kernel reports.
    :ivar process: for each piece of the input.
    :ivar finish: after the last piece; None if nothing runs.
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
        """Return the steps of both phases."""
        return self.process.steps + (self.finish.steps if self.finish else ())


@dataclasses.dataclass(frozen=True, slots=True)
class Manifest:
    """A checked manifest.

    :ivar name: of the accelerator, without a project.
    :ivar description: one line for people.
    :ivar peak_bytes_per_s: the highest input rate of one slot; None if it
        does not say.
    :ivar params: of sessions, by name.
    :ivar variants: the first one whose ``when`` fits is used.
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
    """Read and check a manifest.

    :param data: JSON, UTF-8, of :data:`MAX_SIZE_BYTES` at most.
    :returns: the manifest.
    :raises InvalidManifest: with the member and the fault.
    """
    try:
        document = untrusted.decode(
            data, "manifest", MAX_SIZE_BYTES, MAX_DEPTH
        )
        return _manifest(document)
    except ValueError as error:
        raise InvalidManifest(str(error)) from None


def _manifest(value: object) -> Manifest:
    document = _object(
        value,
        "manifest",
        ("format_version", "name", "variants"),
        ("description", "params", "peak_bytes_per_s"),
    )
    version = document["format_version"]
    if not untrusted.is_integer(version) or version != FORMAT_VERSION:
        raise ValueError(f"format_version: must be {FORMAT_VERSION}")
    name = document["name"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            "name: must be a name of up to 64 letters, digits and any of _.-"
        )
    description = document.get("description", "")
    if description != "":
        _text(description, "description")
    params = _params(document.get("params", {}))
    variants = _list(document["variants"], "variants", 1, MAX_VARIANTS)
    return Manifest(
        name,
        description,
        params,
        tuple(
            _Reader(params, f"variants[{number}]").variant(variant)
            for number, variant in enumerate(variants)
        ),
        _rate(document.get("peak_bytes_per_s")),
    )


def _rate(value: object) -> float | None:
    if value is None:
        return None
    if not (untrusted.is_integer(value) or isinstance(value, float)) or not (
        1 <= value <= MAX_BYTES_PER_S
    ):
        raise ValueError(
            f"peak_bytes_per_s: must be a number from 1 to {MAX_BYTES_PER_S:g}"
        )
    return float(value)


def _params(value: object) -> dict[str, parameters.Param]:
    params = {
        name: parameters.parse(param, f"params.{name}")
        for name, param in _named(value, "params", MAX_PARAMS)
    }
    variables = [
        variable
        for name, param in params.items()
        if (variable := param.variable(name))
    ]
    for variable in variables:
        if variables.count(variable) > 1 or variable in LAUNCH_NAMES:
            raise ValueError(f"params: {variable!r} has two meanings")
    return params


class _Reader:
    """Reads a variant.

    :param params: of the manifest.
    :param where: the place of the variant, for messages.
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
        document = _object(
            value,
            self._where,
            ("block_bytes", "process"),
            *(
                ("when", "requires", "whole_blocks", "block", "buffers"),
                ("state", "faults", "finish"),
            ),
        )
        block = document.get("block", "block")
        whole_blocks = document.get("whole_blocks", True)
        if not isinstance(whole_blocks, bool):
            raise ValueError(
                f"{self._where}.whole_blocks: must be true or false"
            )
        requires = _list(
            document.get("requires", []), f"{self._where}.requires", 0, 8
        )
        self._read_buffers(document.get("buffers", {}))
        state = self._state(document.get("state"))
        self._has_state = state is not None
        finish = document.get("finish")
        return Variant(
            when=self._when(document.get("when", {})),
            requires=tuple(
                self._requirement(item, f"{self._where}.requires[{number}]")
                for number, item in enumerate(requires)
            ),
            block_bytes=self._expression(
                document["block_bytes"], f"{self._where}.block_bytes"
            ),
            whole_blocks=whole_blocks,
            block=_text(block, f"{self._where}.block"),
            buffers=self._buffers,
            state=state,
            faults=self._faults(document.get("faults", {})),
            process=self._phase(document["process"], f"{self._where}.process"),
            finish=None
            if finish is None
            else self._phase(finish, f"{self._where}.finish"),
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
                f"{where}: unknown name {name!r}; there are: "
                f"{', '.join(sorted(known)) or 'none'}"
            )
        return expression

    def _when(self, value: object) -> dict[str, object]:
        where = f"{self._where}.when"
        wanted = _object(value, where, (), tuple(self._params))
        for name, choice in wanted.items():
            try:
                self._params[name].read(choice, name)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None
        return wanted

    def _requirement(self, value: object, where: str) -> Requirement:
        document = _object(value, where, ("value", "maximum", "message"))
        maximum = document["maximum"]
        if not untrusted.is_integer(maximum):
            raise ValueError(f"{where}.maximum: must be a whole number")
        # Checked before anything is prepared.
        expression = self._expression(document["value"], f"{where}.value")
        for name in self._buffers:
            if f"{name}_bytes" in expression.names:
                raise ValueError(f"{where}.value: cannot depend on a buffer")
        return Requirement(
            expression, maximum, _text(document["message"], f"{where}.message")
        )

    def _read_buffers(self, value: object) -> None:
        where = f"{self._where}.buffers"
        sized: dict[str, _Object] = {}
        for name, item in _named(value, where, MAX_BUFFERS):
            if name in self._params or f"{name}_bytes" in self._names:
                raise ValueError(f"{where}: {name!r} has two meanings")
            here = f"{where}.{name}"
            document = _object(
                item, here, (), ("hex", "prepare", "bytes", "argument")
            )
            if len(document.keys() - {"argument"}) != 1 or (
                "argument" in document and "bytes" not in document
            ):
                raise ValueError(
                    f"{here}: must have one of hex, prepare, bytes; argument "
                    "only with bytes"
                )
            if "bytes" in document:
                sized[name] = document
            else:
                self._buffers[name] = self._with_contents(document, here)
        # Of these the length is known before a launch.
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
        if (
            isinstance(number, bool)
            or not isinstance(number, int)
            or not 1 <= number <= MAX_ARGUMENT
        ):
            raise ValueError(
                f"{where}.argument: must be from 1 to {MAX_ARGUMENT}"
            )
        if any(each.argument == number for each in self._buffers.values()):
            raise ValueError(f"{where}.argument: is in another buffer")
        size_bytes = self._expression(document["bytes"], f"{where}.bytes")
        return Buffer(size_bytes=size_bytes, argument=number)

    def _with_contents(self, document: _Object, where: str) -> Buffer:
        if "prepare" in document:
            name = self._preparer(document["prepare"], f"{where}.prepare")
            return Buffer(preparer=name)
        content = document["hex"]
        if (
            not isinstance(content, str)
            or not 0 < len(content) <= 2 * MAX_LITERAL_BYTES
            or not _HEX.fullmatch(content)
        ):
            raise ValueError(
                f"{where}.hex: must be up to {MAX_LITERAL_BYTES} bytes in "
                "hexadecimal"
            )
        return Buffer(literal=bytes.fromhex(content))

    def _preparer(self, name: object, where: str) -> str:
        if not isinstance(name, str) or name not in preparers.PREPARERS:
            raise ValueError(
                f"{where}: must be one of: {', '.join(preparers.PREPARERS)}"
            )
        for param, kind in preparers.PREPARERS[name].params.items():
            found = self._params.get(param)
            if found is None or found.kind != kind:
                raise ValueError(
                    f"{where}: needs the parameter {param!r} of type {kind}"
                )
        return name

    def _state(self, value: object) -> State | None:
        if value is None:
            return None
        where = f"{self._where}.state"
        document = _object(value, where, ("bytes",), ("initial",))
        initial = document.get("initial")
        if initial is not None and not self._has_contents(initial):
            raise ValueError(
                f"{where}.initial: must be a buffer with contents, or a "
                "parameter of bytes"
            )
        size = self._expression(document["bytes"], f"{where}.bytes")
        return State(size, initial)

    def _has_contents(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        if name in self._buffers:
            return self._buffers[name].size_bytes is None
        return name in self._params and self._params[name].is_buffer

    def _faults(self, value: object) -> dict[int, str]:
        where = f"{self._where}.faults"
        if not isinstance(value, dict) or len(value) > 16:
            raise ValueError(f"{where}: must be an object of up to 16 members")
        for number in value:
            if not re.fullmatch("[1-9][0-9]{0,2}", number):
                raise ValueError(f"{where}: must have numbers from 1 to 999")
        return {
            int(number): _text(message, f"{where}.{number}")
            for number, message in value.items()
        }

    def _phase(self, value: object, where: str) -> Phase:
        document = _object(value, where, ("output_bytes", "steps"))
        steps = _list(document["steps"], f"{where}.steps", 1, MAX_STEPS)
        return Phase(
            self._expression(
                document["output_bytes"], f"{where}.output_bytes", LAUNCH_NAMES
            ),
            tuple(
                self._step(step, f"{where}.steps[{number}]")
                for number, step in enumerate(steps)
            ),
        )

    def _step(self, value: object, where: str) -> Step:
        document = _object(
            value, where, ("kernel", "global", "arguments"), ("local",)
        )
        kernel = document["kernel"]
        if not isinstance(kernel, str) or not _KERNEL.fullmatch(kernel):
            raise ValueError(f"{where}.kernel: must be the name of a kernel")
        sizes = _list(document["global"], f"{where}.global", 1, 3)
        local = _list(document.get("local", []), f"{where}.local", 0, 3)
        if local and len(local) != len(sizes):
            raise ValueError(
                f"{where}.local: must have as many dimensions as global"
            )
        items = 1
        for size in local:
            if not untrusted.is_integer(size) or not size >= 1:
                raise ValueError(f"{where}.local: must be whole numbers")
            items *= size
        if items > MAX_LOCAL_ITEMS:
            raise ValueError(
                f"{where}.local: has more than {MAX_LOCAL_ITEMS} work items"
            )
        arguments = _list(
            document["arguments"], f"{where}.arguments", 1, MAX_ARGUMENTS
        )
        return Step(
            kernel,
            tuple(
                self._expression(
                    size, f"{where}.global[{number}]", LAUNCH_NAMES
                )
                for number, size in enumerate(sizes)
            ),
            tuple(local),
            tuple(
                self._argument(argument, f"{where}.arguments[{number}]")
                for number, argument in enumerate(arguments)
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
        ((kind, content),) = _object(value, where, (), _KINDS).items()
        where = f"{where}.{kind}"
        if kind == BUFFER:
            if not isinstance(content, str) or not (
                content in self._buffers or self._has_contents(content)
            ):
                raise ValueError(
                    f"{where}: must be a buffer, or a parameter of bytes or "
                    "uints"
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
        return Argument(
            kind, value=self._expression(content, where, LAUNCH_NAMES)
        )


def _object(
    value: object,
    where: str,
    required: collections.abc.Collection[str],
    *optional: collections.abc.Collection[str],
) -> _Object:
    """Check the names of an object's members."""
    if not isinstance(value, dict):
        raise ValueError(f"{where}: must be an object")
    known = [*required, *(name for names in optional for name in names)]
    for member in value:
        if member not in known:
            raise ValueError(
                f"{where}: unknown member {member!r:.80}; "
                f"there are: {', '.join(known) or 'none'}"
            )
    for member in required:
        if member not in value:
            raise ValueError(f"{where}: {member} is missing")
    return value


def _named(
    value: object, where: str, most: int
) -> collections.abc.ItemsView[str, typing.Any]:
    """Check an object whose members have names of the author's choice."""
    if not isinstance(value, dict) or len(value) > most:
        raise ValueError(f"{where}: must be an object of up to {most} members")
    for name in value:
        if not _MEMBER.fullmatch(name) or name in expressions.FUNCTIONS:
            raise ValueError(
                f"{where}: {name!r:.80} is no name of up to 32 small letters, "
                "digits and _"
            )
    return value.items()


def _list(
    value: object, where: str, least: int, most: int
) -> list[typing.Any]:
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise ValueError(
            f"{where}: must be a list of {least} to {most} values"
        )
    return value


def _text(value: object, where: str) -> str:
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= _MAX_TEXT_CHARS
        or not value.isprintable()
    ):
        raise ValueError(
            f"{where}: must be one printable line of up to "
            f"{_MAX_TEXT_CHARS} characters"
        )
    return value
