# SPDX-License-Identifier: Apache-2.0

"""Options of strategies and elasticity policies, by name.

All strategies accept the same set of shared options, and ignore those that
they do not use. A strategy may also have options of its own, which are the
fields of a dataclass. A policy has options of its own only. An option that is
None has its default.
"""

from __future__ import annotations

import dataclasses
import typing
from collections import abc

from fpgapool.strategies.placements import any as any_placement
from fpgapool.strategies.placements import ra as ra_placement

Options: typing.TypeAlias = abc.Mapping[str, object]

#: The parameters of :func:`fpgapool.core.queues.thresholds.hybrid_thresholds`.
HYBRID = ("E_bytes", "q", "k1", "k2", "queues")
SHARED = frozenset(
    (
        "thresholds_bytes",
        *HYBRID,
        *(one.name for one in dataclasses.fields(any_placement.AnyOptions)),
        *(one.name for one in dataclasses.fields(ra_placement.RaOptions)),
    )
)

_Own = typing.TypeVar("_Own")


def check_names(
    options: Options,
    own: abc.Iterable[str] = (),
    shared: abc.Iterable[str] = SHARED,
) -> None:
    """Refuse options that a plug-in does not have.

    :param options: the given options.
    :param own: names of the plug-in's own options.
    :param shared: names of those that plug-ins of its kind share.
    :raises ValueError: for a name that is neither among them nor shared.
    """
    known = {*own, *shared}
    unknown = sorted(set(options) - known)
    if unknown:
        raise ValueError(
            f"unknown options {', '.join(unknown)}; "
            f"known are {', '.join(sorted(known)) or 'none'}"
        )


def own(
    options: Options,
    kind: type[_Own],
    shared: abc.Iterable[str] = SHARED,
) -> _Own:
    """Make a plug-in's own options from the given ones.

    :param options: the given options, shared options too.
    :param kind: a dataclass, whose fields all have defaults; a field whose
        default is a number, a truth value or text takes only such a value.
    :param shared: names of options that plug-ins of its kind share.
    :raises ValueError: for an unknown name or a value of the wrong type, and
        if ``kind`` raises it.
    """
    fields = {one.name: one for one in dataclasses.fields(kind)}  # type: ignore[arg-type]
    check_names(options, fields, shared)
    return kind(
        **{
            name: _like(field.default, name, options[name])
            for name, field in fields.items()
            if options.get(name) is not None
        }
    )


def _like(default: object, name: str, value: object) -> object:
    if isinstance(default, bool):
        return as_flag(name, value)
    if isinstance(default, int):
        return as_whole(name, value)
    if isinstance(default, float):
        return as_number(name, value)
    if isinstance(default, str) and not isinstance(value, str):
        raise ValueError(f"{name} must be text, not {value!r}")
    return value


def as_flag(name: str, value: object) -> bool:
    """Return a truth value.

    :raises ValueError: for a value of another type.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, not {value!r}")
    return value


def as_whole(name: str, value: object) -> int:
    """Return a whole number.

    :raises ValueError: for a value of another type.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be a whole number, not {value!r}")
    return value


def as_number(name: str, value: object) -> float:
    """Return a number.

    :raises ValueError: for a value of another type.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, not {value!r}")
    return float(value)
