# SPDX-License-Identifier: Apache-2.0

"""Methods of an RPC interface, declared by their signatures.

The arguments form the message, with payloads serialized, and the return type
determines how to parse the answer. Only methods whose message differs from
their arguments have bodies.
"""

import collections.abc
import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable
from typing import Any

from fpgapool.objects import base

_Converter = Callable[[Any], Any]
_Method = typing.TypeVar("_Method", bound=Callable[..., Any])

_to_primitive = operator.methodcaller("to_primitive")


class Sender:
    """Sends the messages of declared methods: without an answer, or with one.

    A message that asks may be sent again if there is no answer.
    """

    def _cast(self, method: str, **kwargs: Any) -> None:
        raise NotImplementedError

    def _call(self, method: str, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _ask(self, method: str, **kwargs: Any) -> Any:
        raise NotImplementedError


def sent_by(sender: str) -> Callable[[_Method], _Method]:
    """Return a decorator for methods that only send their arguments.

    :param sender: name of the method that sends the message and returns the
        answer; it is called with the decorated method's name and arguments.
    """

    def decorate(method: _Method) -> _Method:
        name, bind = method.__name__, inspect.signature(method).bind
        hints = typing.get_type_hints(method)
        read = _reader(hints.pop("return"))
        writers = {
            argument: writer
            for argument, type_ in hints.items()
            if (writer := _writer(type_)) is not None
        }

        @functools.wraps(method)
        def send(*args: Any, **kwargs: Any) -> Any:
            given = bind(*args, **kwargs)
            given.apply_defaults()
            values = given.arguments
            for argument, write in writers.items():
                values[argument] = write(values[argument])
            answer = getattr(values.pop("self"), sender)(name, **values)
            return answer if read is None else read(answer)

        return typing.cast(_Method, send)

    return decorate


def _is_payload(*kinds: Any) -> bool:
    return all(
        isinstance(one, type) and issubclass(one, base.Payload)
        for one in kinds
    )


def _writer(type_: Any) -> _Converter | None:
    """Return a function that converts an argument to JSON, if needed."""
    origin = typing.get_origin(type_)
    is_payload = _is_payload(*(typing.get_args(type_) or (type_,)))
    if origin is collections.abc.Mapping:
        return dict
    if origin is collections.abc.Iterable:
        if is_payload:
            return lambda payloads: list(map(_to_primitive, payloads))
        return list
    return _to_primitive if is_payload else None


def _reader(type_: Any) -> _Converter | None:
    """Return a function that parses an answer, if needed."""
    if type_ is types.NoneType:
        return lambda _answer: None
    kind = (typing.get_args(type_) or (type_,))[0]
    if typing.get_origin(type_) is list:
        read = _reader(kind)
        return read and (lambda answer: list(map(read, answer)))
    if not _is_payload(kind):
        return None
    return lambda answer: answer and kind.from_primitive(answer)
