# SPDX-License-Identifier: Apache-2.0

"""Options of strategies and elasticity policies, by name.

All strategies accept the options of
:class:`~fpgapool.vocabulary.scheduling.SharedOptions`. A strategy may also
have options of its own, which are the fields of a dataclass. A policy has only
options of its own. An option that is None takes its default.
"""

import dataclasses
import math
import typing
from collections import abc

from fpgapool.vocabulary import scheduling

Options: typing.TypeAlias = abc.Mapping[str, object]

_Own = typing.TypeVar("_Own")


class Numbers:
    """Base of a plug-in's own options: no number may be negative or infinite.

    :cvar PARTS: names of the fields that must be above 0 and at most 1.
    """

    __slots__ = ()

    PARTS: typing.ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for field in dataclasses.fields(typing.cast(typing.Any, self)):
            name, value = field.name, getattr(self, field.name)
            if name in self.PARTS and not 0 < value <= 1:
                raise ValueError(
                    f"{name} must be above 0 and at most 1, not {value}"
                )
            if isinstance(value, int | float) and not 0 <= value < math.inf:
                raise ValueError(
                    f"{name} must be finite and not negative, not {value}"
                )


def check_names(
    options: Options,
    own: abc.Iterable[str] = (),
    shared: abc.Iterable[str] = scheduling.FIELDS,
) -> None:
    """Reject options that a plug-in does not have.

    :raises ValueError: for a name that is neither in ``own`` nor in
        ``shared``.
    """
    known = {*own, *shared}
    unknown = sorted(set(options) - known)
    if unknown:
        raise ValueError(
            f"unknown options {', '.join(unknown)}; "
            f"known options: {', '.join(sorted(known)) or 'none'}"
        )


def shared(options: Options) -> scheduling.SharedOptions:
    """Return the shared options among the given ones.

    :raises ValueError: for a value of the wrong type or out of its range.
    """
    found: dict[str, typing.Any] = {}
    for name in scheduling.FIELDS:
        value, kind = options.get(name), scheduling.kind(name)
        if value is not None and kind is tuple:
            found[name] = _as_numbers(name, value)
        elif value is not None:
            found[name] = _checked(kind, name, value)
    return scheduling.SharedOptions(**found)


def _as_numbers(name: str, value: object) -> tuple[float, ...]:
    if isinstance(value, str) or not isinstance(value, abc.Iterable):
        raise ValueError(f"{name} must be a list, not {value!r}")
    return tuple(_checked(float, name, each) for each in value)


def own(
    options: Options,
    kind: type[_Own],
    shared: abc.Iterable[str] = scheduling.FIELDS,
) -> _Own:
    """Make a plug-in's own options from the given ones.

    :param kind: a dataclass whose fields all have defaults; a field whose
        default is a number, a Boolean or text accepts only such values.
    :raises ValueError: for an unknown name, a value of the wrong type, or a
        value that ``kind`` rejects.
    """
    fields = {one.name: one for one in dataclasses.fields(kind)}  # type: ignore[arg-type]
    check_names(options, fields, shared)
    return kind(
        **{
            name: _checked(type(field.default), name, options[name])
            for name, field in fields.items()
            if options.get(name) is not None
        }
    )


# For each type: its name in error messages, and the types it accepts.
_KINDS: dict[type, tuple[str, tuple[type, ...]]] = {
    bool: ("true or false", (bool,)),
    int: ("a whole number", (int,)),
    float: ("a number", (int, float)),
    str: ("text", (str,)),
}


def _checked(kind: type, name: str, value: object) -> typing.Any:
    if kind not in _KINDS:
        return value
    words, types = _KINDS[kind]
    if isinstance(value, bool) != (kind is bool) or not isinstance(
        value, types
    ):
        raise ValueError(f"{name} must be {words}, not {value!r}")
    return float(value) if kind is float else value  # type: ignore[arg-type]
