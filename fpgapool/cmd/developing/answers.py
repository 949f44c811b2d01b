# SPDX-License-Identifier: Apache-2.0

"""What an accelerator must compute, as files beside its source say.

``NAME.vectors.json`` lists inputs with their outputs. The module ``NAME.py``
beside a kernel computes what the kernel must::

    def reference(data: bytes, params: dict) -> bytes: ...

It may also have ``make_input(size_bytes)``, which returns input that the
kernel accepts, and ``rounding``, as a core has
(:class:`fpgapool.accelerators.base.Core`).
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import pathlib
from collections.abc import Callable
from collections.abc import Mapping

from fpgapool.accelerators import base as accelerators
from fpgapool.common import exception
from fpgapool.vocabulary import shapes

#: Replaces the ending of the source's name.
VECTORS_SUFFIX = ".vectors.json"
MAX_VECTORS = 1000

_HEX = shapes.matching(r"([0-9A-Fa-f]{2})*", "bytes in hexadecimal")
_INPUT = shapes.matching(
    r"([0-9A-Fa-f]{2})+", "at least one byte in hexadecimal"
)
_VECTORS = shapes.list_of(
    shapes.Members(
        {"input": _INPUT, "output": _HEX},
        {
            "params": shapes.mapping_of(shapes.anything),
            "arguments": shapes.list_of(_HEX, most=255),
        },
    ),
    most=MAX_VECTORS,
)


def read_vectors(path: pathlib.Path) -> list[accelerators.KnownAnswer]:
    """Read a file of vectors; none, if there is no such file.

    :raises ConfigurationError: naming the member, if it is not one.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(path, str(error)) from error
    try:
        found = _VECTORS(json.loads(text), "")
    except (ValueError, RecursionError) as error:
        raise _unusable(path, str(error)) from error
    return [
        accelerators.KnownAnswer(
            params=vector.get("params", {}),
            data=bytes.fromhex(vector["input"]),
            output=bytes.fromhex(vector["output"]),
            arguments=tuple(
                bytes.fromhex(one) for one in vector.get("arguments", ())
            ),
        )
        for vector in found
    ]


#: Computes the output from the input, the parameters and the arguments.
Compute = Callable[[bytes, Mapping[str, object], tuple[bytes, ...]], bytes]


@dataclasses.dataclass(frozen=True)
class Reference:
    """What computes the right output on this machine.

    :ivar source: what it is, for people.
    :ivar make_input: makes that many bytes of input, about; None: random
        bytes, or the first vector's input, are input.
    :ivar rounding: as that of a core.
    """

    source: str
    compute: Compute
    make_input: Callable[[int], bytes] | None = None
    rounding: tuple[str, float] | None = None


def read_reference(path: pathlib.Path) -> Reference | None:
    """Import the module with the reference; None, if there is no such file.

    :raises ConfigurationError: if it cannot be imported or has no function
        ``reference``.
    """
    if not path.exists():
        return None
    spec = importlib.util.spec_from_file_location(
        f"fpgapool_reference_{path.stem}", path
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        # A developer's module may raise anything.
        raise _unusable(path, f"{type(error).__name__}: {error}") from error
    function = getattr(module, "reference", None)
    if not callable(function):
        raise _unusable(path, "it has no function reference(data, params)")

    def compute(
        data: bytes,
        params: Mapping[str, object],
        arguments: tuple[bytes, ...],
    ) -> bytes:
        more = (arguments,) if arguments else ()
        return bytes(function(data, dict(params), *more))

    return Reference(
        f"reference() of {path.name}",
        compute,
        getattr(module, "make_input", None),
        getattr(module, "rounding", None),
    )


def of_core(core: type[accelerators.Core]) -> Reference:
    """Return the core itself, which gets the whole input in one piece."""

    def compute(
        data: bytes,
        params: Mapping[str, object],
        arguments: tuple[bytes, ...],
    ) -> bytes:
        made = core(params)
        accelerators.set_arguments(made, arguments)
        room = memoryview(bytearray(made.max_output_bytes(len(data))))
        count = made.process(memoryview(bytearray(data)), room, 0)
        end = memoryview(bytearray(made.max_output_bytes(0)))
        return bytes(room[:count]) + bytes(end[: made.finish(end)])

    return Reference(
        "the core in one piece, outside the pool", compute, None, core.rounding
    )


def _unusable(path: pathlib.Path, reason: str) -> exception.ConfigurationError:
    return exception.ConfigurationError(reason=f"{path}: {reason}")
