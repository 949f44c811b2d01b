# SPDX-License-Identifier: Apache-2.0

"""Methods of an RPC interface, each declared by its signature alone.

The arguments are the message, with payloads in their forms. The return type
says how to read the answer. Only methods whose message differs from their
arguments have bodies.
"""

import collections.abc
import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable
from typing import Any
from typing import ParamSpec
from typing import TypeVar

from fpgapool.objects import base

_P = ParamSpec("_P")
_R = TypeVar("_R")

_Converter = Callable[[Any], Any]

_to_primitive = operator.methodcaller("to_primitive")


def sent_by(sender: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Return a decorator of methods that only send their arguments.

    :param sender: name of the method that sends: it takes the decorated
        method's name and arguments, and returns the answer.
    """

    def decorate(method: Callable[_P, _R]) -> Callable[_P, _R]:
        name = method.__name__
        hints = typing.get_type_hints(method)
        read = _reader(hints.pop("return"))
        names = tuple(hints)
        writers = [
            (n, w) for n, type_ in hints.items() if (w := _writer(type_))
        ]
        defaults = {
            one.name: one.default
            for one in inspect.signature(method).parameters.values()
            if one.default is not one.empty
        }

        @functools.wraps(method)
        def send(self: Any, *args: Any, **kwargs: Any) -> Any:
            # It does nothing, but Python checks the arguments.
            method(self, *args, **kwargs)  # type: ignore[call-arg, arg-type]
            # The keyword-only arguments come last.
            values = {
                **defaults,
                **dict(zip(names, args, strict=False)),
                **kwargs,
            }
            for name_, write in writers:
                values[name_] = write(values[name_])
            answer = getattr(self, sender)(name, **values)
            return read(answer) if read else answer

        return typing.cast(Callable[_P, _R], send)

    return decorate


def _payload(type_: Any) -> bool:
    return all(
        isinstance(one, type) and issubclass(one, base.Payload)
        for one in typing.get_args(type_) or (type_,)
    )


def _writer(type_: Any) -> _Converter | None:
    """Return what makes a message's value of an argument; None: it is one."""
    if _payload(type_) and not _is_iterable(type_):
        return _to_primitive
    origin = typing.get_origin(type_)
    if origin is collections.abc.Mapping:
        return dict
    if not _is_iterable(type_):
        return None
    if _payload(type_):
        return lambda items: [item.to_primitive() for item in items]
    return list


def _is_iterable(type_: Any) -> bool:
    return typing.get_origin(type_) is collections.abc.Iterable


def _reader(type_: Any) -> _Converter | None:
    """Return what reads an answer; None: it needs no reader."""
    if type_ is types.NoneType:
        return lambda answer: None
    if typing.get_origin(type_) is list:
        (item,) = typing.get_args(type_)
        if _payload(item):
            return lambda found: [item.from_primitive(one) for one in found]
        return None
    kinds = [
        one
        for one in typing.get_args(type_) or (type_,)
        if one is not types.NoneType
    ]
    if not _payload(kinds[0]) or len(kinds) > 1:
        return None
    read = kinds[0].from_primitive
    return lambda answer: answer and read(answer)
