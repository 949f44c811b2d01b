# SPDX-License-Identifier: Apache-2.0

"""The base of all payloads of RPC messages."""

import collections.abc
import dataclasses
import functools
import math
import operator
import types
import typing
from typing import Any
from typing import Self

from fpgapool.vocabulary import fields

NAME_KEY = "fpgapool_object"
VERSION_KEY = "version"
DATA_KEY = "data"
_SINCE_KEY = "fpgapool_since_minor"

_MISSING = object()

#: Builds a value from its serialized form.
_Reader = collections.abc.Callable[[Any], Any]


class Payload:
    """A versioned, frozen dataclass with a form that can be written as JSON.

    The form is ``{"fpgapool_object": name, "version": "1.0", "data": {…}}``;
    payloads inside a payload have the same form. Adding a member raises the
    minor version; a change that a reader of the old version would
    misunderstand raises the major one. Unknown members are ignored, so an
    older reader accepts a newer minor version. A newer reader accepts an older
    one if the new members are declared by :func:`added`.

    Subclasses must not use ``__slots__``: :meth:`from_primitive` sets all
    members at once.
    """

    VERSION: typing.ClassVar[str] = "1.0"

    def to_primitive(self) -> dict[str, Any]:
        """Return the form that :meth:`from_primitive` reads."""
        cls = type(self)
        data = dict(vars(self))
        for name, write in _writers(cls):
            if data[name] is not None:
                data[name] = write(data[name])
        return {
            NAME_KEY: cls.__name__,
            VERSION_KEY: self.VERSION,
            DATA_KEY: data,
        }

    @classmethod
    def from_primitive(cls, primitive: object) -> Self:
        """Build a payload from its serialized form.

        :raises: ValueError that names the payload and the member, if a member
            is missing or has the wrong type.
        """
        data, minor = _envelope_data(cls, primitive)
        values: dict[str, Any] = {}
        for name, plain, read in _readers(cls):
            value = data.get(name, _MISSING)
            if type(value) not in plain or (
                type(value) is float and not math.isfinite(value)
            ):
                if value is _MISSING:
                    if minor < _added_members(cls).get(name, 0):
                        values[name] = getattr(cls, name)
                        continue
                    raise ValueError(f"{cls.__name__}: {name} is missing")
                try:
                    value = read(value)
                except ValueError as error:
                    raise ValueError(
                        f"{cls.__name__}.{name}{error}"
                    ) from error
            values[name] = value
        return cls._made(values)

    @classmethod
    def _made(cls, values: dict[str, Any]) -> Self:
        # Skip __init__(): in a frozen dataclass it takes as long as reading
        # all members.
        payload = object.__new__(cls)
        payload.__dict__.update(values)
        return payload


def members(payload: Payload | type[Payload]) -> dict[str, Any]:
    """Return the members of a payload (or of its class) and their types."""
    cls = payload if isinstance(payload, type) else type(payload)
    return _class_members(cls)


@functools.cache
def _class_members(cls: type[Payload]) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    fields: tuple[Any, ...] = dataclasses.fields(cls)  # type: ignore[arg-type]
    return {field.name: hints[field.name] for field in fields}


def added(minor: int, default: Any) -> Any:
    """Declare a member that was added after the first version.

    :param default: the member's value in a payload of an older version.
    """
    return dataclasses.field(default=default, metadata={_SINCE_KEY: minor})


@functools.cache
def _added_members(cls: type[Payload]) -> dict[str, int]:
    fields: tuple[Any, ...] = dataclasses.fields(cls)  # type: ignore[arg-type]
    return {
        field.name: field.metadata[_SINCE_KEY]
        for field in fields
        if _SINCE_KEY in field.metadata
    }


def reader_of(
    union: Any, what: str
) -> collections.abc.Callable[[object], Any]:
    """Return a function that builds any of several payloads from their forms.

    The function raises ValueError if the form belongs to none of them, or has
    an invalid member.
    """
    kinds = {kind.__name__: kind for kind in typing.get_args(union)}

    def read(primitive: object) -> Any:
        name = primitive.get(NAME_KEY) if isinstance(primitive, dict) else ""
        kind = kinds.get(name if isinstance(name, str) else "")
        if kind is None:
            raise ValueError(f"not {what}")
        return kind.from_primitive(primitive)

    return read


def version(minors: collections.abc.Iterable[int | None]) -> str:
    """Return a payload's version from the versions that added its members."""
    return f"1.{max(minor or 0 for minor in minors)}"


def request_members(
    options: collections.abc.Iterable[fields.Option],
) -> list[fields.Member]:
    """Return the members of a request with these options."""
    return [_described(one, one.in_request, one.if_omitted) for one in options]


def view_members(described: fields.Fields) -> list[fields.Member]:
    """Return the members of a view."""
    return [
        _described(one, one.in_view, None if one.nullable else one.default)
        for one in described.in_view
    ]


def notification_members(described: fields.Fields) -> list[fields.Member]:
    """Return the members of a notification, with times as strings."""
    return [
        _described(
            dataclasses.replace(
                one, kind=fields.TEXT if one.kind is fields.TIME else one.kind
            ),
            one.in_notification,
            one.default,
        )
        for one in described.in_notification
    ]


def _described(
    field: fields.Field, minor: int | None, default: Any
) -> fields.Member:
    name, type_, _ = dataclasses.replace(field, default=default).member
    return name, type_, added(minor, default) if minor else default


def _envelope_data(
    cls: type[Payload], primitive: object
) -> tuple[collections.abc.Mapping[str, Any], float]:
    """Return the members and their minor version."""
    if not isinstance(primitive, dict):
        raise ValueError(
            f"{cls.__name__}: expected an object, got {_kind(primitive)}"
        )
    name = primitive.get(NAME_KEY)
    if name != cls.__name__:
        raise ValueError(f"{cls.__name__}: got object {name!r:.100} instead")
    version = primitive.get(VERSION_KEY)
    major = cls.VERSION.partition(".")[0]
    if not isinstance(version, str) or version.partition(".")[0] != major:
        raise ValueError(
            f"{cls.__name__}: version {version!r:.100} is not compatible "
            f"with {cls.VERSION}"
        )
    data = primitive.get(DATA_KEY)
    if not isinstance(data, dict):
        raise ValueError(f"{cls.__name__}: {DATA_KEY} is not an object")
    minor = version.partition(".")[2]
    # A payload whose version is not a number must have all members.
    return data, int(minor) if minor.isdecimal() else math.inf


_to_primitive = operator.methodcaller("to_primitive")


def _to_primitives(payloads: tuple[Payload, ...]) -> list[dict[str, Any]]:
    return [payload.to_primitive() for payload in payloads]


@functools.cache
def _writers(
    cls: type[Payload],
) -> tuple[tuple[str, collections.abc.Callable[[Any], Any]], ...]:
    """Return the members that must be converted, and their converters."""
    found: list[tuple[str, collections.abc.Callable[[Any], Any]]] = []
    for name, type_ in members(cls).items():
        kind = _without_none(type_)
        if typing.get_origin(kind) is tuple:
            item = typing.get_args(kind)[0]
            found.append((name, _to_primitives if _is_payload(item) else list))
        elif _is_payload(kind):
            found.append((name, _to_primitive))
    return tuple(found)


def _is_payload(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, Payload)


def _without_none(type_: Any) -> Any:
    """Return the type of a member that is not None."""
    if typing.get_origin(type_) in (types.UnionType, typing.Union):
        (type_,) = (
            one for one in typing.get_args(type_) if one is not types.NoneType
        )
    return type_


@functools.cache
def _readers(
    cls: type[Payload],
) -> tuple[tuple[str, frozenset[type], _Reader], ...]:
    """Return the readers of a payload's members.

    :returns: for each member, its name, the types whose values need no
        conversion, and a reader for all others.
    """
    return tuple(
        (name, _plain(type_), _reader(type_))
        for name, type_ in members(cls).items()
    )


def _plain(type_: Any) -> frozenset[type]:
    """Return the types whose values need no reader, if they are finite."""
    is_union = typing.get_origin(type_) in (types.UnionType, typing.Union)
    kinds = typing.get_args(type_) if is_union else (type_,)
    return frozenset(
        kind
        for kind in kinds
        if kind in (str, int, bool, float, types.NoneType)
    )


def _reader(type_: Any) -> _Reader:
    """Return a function that reads a value of a type from its form.

    Error messages name the location and the problem.
    """
    type_ = _without_none(type_)
    origin = typing.get_origin(type_)
    if origin is tuple:
        return functools.partial(_tuple, _reader(typing.get_args(type_)[0]))
    if origin is dict:
        return functools.partial(_checked, dict)
    if issubclass(type_, Payload):
        return functools.partial(_payload, type_)
    if type_ is float:
        return _float
    return functools.partial(_checked, type_)


def _payload(type_: type[Payload], value: Any) -> Payload:
    if type(value) is type_:
        # It has already been read.
        return value
    try:
        return type_.from_primitive(value)
    except ValueError as error:
        raise ValueError(f": {error}") from error


def _tuple(read: _Reader, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f": expected a list, got {_kind(value)}")
    items: list[Any] = []
    try:
        for item in value:
            items.append(read(item))
    except ValueError as error:
        raise ValueError(f"[{len(items)}]{error}") from error
    return tuple(items)


def _float(value: Any) -> float:
    # Some JSON encoders write 1.0 as 1, so integers are accepted, too. NaN
    # would slip through every comparison that guards the pool's arithmetic.
    if type(value) not in (int, float):
        raise ValueError(f": expected a number, got {_kind(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(": expected a finite number")
    return number


def _checked(type_: type, value: Any) -> Any:
    # An isinstance() check would accept true as an integer.
    if type(value) is not type_:
        raise ValueError(f": expected {type_.__name__}, got {_kind(value)}")
    return value


def _kind(value: Any) -> str:
    # The value itself may be a secret or a megabyte; its type is enough.
    return type(value).__name__
