# SPDX-License-Identifier: Apache-2.0

"""Options of sessions, for functions that open sessions themselves."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import threading
import typing

from fpgapool.client import cancel as cancelling
from fpgapool.client.doors import apidoor
from fpgapool.client.links import waiting
from fpgapool.client.sessions import opening

_Function = typing.TypeVar(
    "_Function", bound=collections.abc.Callable[..., typing.Any]
)


class Options(typing.TypedDict, total=False):
    """What functions pass on to :func:`fpgapool.client.acc_open`."""

    params: collections.abc.Mapping[str, typing.Any] | None
    front_door: str | apidoor.PoolApi | None
    request_id: str | None
    wait_timeout_s: float | None
    application: str | None
    priority: int
    deadline_s: float | None
    deadline_action: str | None
    on_state: waiting.StateCallback | None
    cancel: threading.Event | cancelling.CancelToken | None
    verify: bool
    fallback: str | None
    meanwhile: str | None
    checksum: bool
    require_tls: bool | None
    away_timeout_s: float | None
    on_away: waiting.AwayCallback | None
    arguments: collections.abc.Mapping[int, typing.Any] | None


NAMES = frozenset(Options.__annotations__)


def accepted(function: _Function) -> _Function:
    """Refuse misspelt options of a function, and show the others in help.

    The function ends with ``**options: typing.Unpack[Options]``, which type
    checkers and editors read.

    :returns: the function; it raises TypeError for other names before it does
        anything.
    """
    shown(function)
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*arguments: typing.Any, **named: typing.Any) -> typing.Any:
        for name in named:
            if name not in known:
                raise TypeError(
                    f"{function.__name__}() got an unexpected keyword "
                    f"argument {name!r}"
                )
        return function(*arguments, **named)

    return typing.cast(_Function, checked)


def shown(function: _Function) -> _Function:
    """Show the options of sessions among a function's parameters.

    ``help()``, editors and the reference then have their names, types and
    defaults. The function's last parameter takes the options: ``**options``
    takes nothing else, and any other name, such as ``**named``, does.

    :returns: the function.
    """
    own = inspect.signature(function)
    *named, rest = own.parameters.values()
    session = inspect.signature(opening.acc_open).parameters
    options = [session[name] for name in session if name in NAMES]
    function.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[
            *(each for each in named if each.name not in NAMES),
            *options,
            *([] if rest.name == "options" else [rest]),
        ]
    )
    return function
