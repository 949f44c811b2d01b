# SPDX-License-Identifier: Apache-2.0

"""The options of a session, shared by all functions that open one.

:class:`Options` is the only list of them. The options that are sent to the
pool come from :class:`fpgapool.vocabulary.session.Options`, as do those of
``fpgapool-run`` and the ``openstack`` command.
"""

import functools
import inspect
import threading
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import TypedDict
from typing import TypeVar
from typing import cast

from fpgapool.client import cancel as cancelling
from fpgapool.client.doors import poolapi
from fpgapool.client.links import waiting
from fpgapool.vocabulary import names
from fpgapool.vocabulary import session as description

_Function = TypeVar("_Function", bound=Callable[..., Any])


class DoorOptions(TypedDict, total=False):
    """How to reach the pool.

    :param front_door: path of the front door's socket, or the pool's API for
        programs that do not run on its hosts. By default,
        :func:`fpgapool.client.discovery.find` chooses: the front door of this
        host, or the API named by the environment or, in an instance, by Nova.
    :param cancel: setting it ends the request or the session.
    :param require_tls: fail with the code ``TLS_REQUIRED`` instead of sending
        data to another host, or requests to an API, without TLS. None means
        the value of ``FPGAPOOL_REQUIRE_TLS``, or False if it is not set. Data
        on this host stays in memory and needs no TLS.
    """

    front_door: str | poolapi.PoolApi | None
    cancel: threading.Event | cancelling.CancelToken | None
    require_tls: bool | None


class DryRunOptions(description.Options, DoorOptions, total=False):
    """Options of a session, and of its dry run."""


class Options(DryRunOptions, total=False):
    """Options of a session.

    :param params: parameters of the accelerator; bytes are sent as hexadecimal
        digits. They go only to the worker, never through the pool's services.
    :param request_id: the caller's name for the request: repeating a request
        never opens a second session. None means a random name.
    :param on_state: called with a view of the session whenever its state or
        its place in the queue changes, even if it later moves to another slot.
        If the CPU computes, the view is READY and has a reason.
    :param verify: check the parameters against the accelerator's schema
        before requesting a slot; the worker always checks them.
    :param fallback: ``cpu`` to compute on this machine if the pool cannot
        serve the request; None to raise the error.
    :param meanwhile: ``cpu`` to compute on this machine until there is a slot,
        with ``on_state`` called in another thread; None to wait.
    :param checksum: compare the CRC-32 checksums of input and output with
        those of the accelerator's board before a result is returned. This
        takes time on both sides. If a slot does not support this, the session
        fails with the code ``CHECKSUM_UNAVAILABLE``. If the CPU computes,
        nothing is compared, and :attr:`Session.checksum` is false.
    :param away_timeout_s: how long the pool may be unreachable, which means
        that neither its front door nor the worker of the session's slot
        responds. None means no limit while the request waits; a session with a
        slot fails after about a minute.
    :param on_away: called when the front door or the slot's worker becomes
        unreachable while the request or session continues. Its arguments are
        the human-readable name of what does not respond, and the seconds until
        the library gives up, or None if it never does.
    :param arguments: data that is the same for all input, such as a model, by
        number; the accelerator's description lists them. Each supports the
        buffer protocol or is a :class:`fpgapool.client.Block`, and is at most
        as long as the session's input buffer.
    """

    params: Mapping[str, Any] | None
    request_id: str | None
    on_state: waiting.StateCallback | None
    verify: bool
    fallback: str | None
    meanwhile: str | None
    checksum: bool
    away_timeout_s: float | None
    on_away: waiting.AwayCallback | None
    arguments: Mapping[int, Any] | None


def of_door(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return only the options that say how to reach the pool."""
    return {
        name: options[name]
        for name in DoorOptions.__annotations__
        if name in options
    }


NAMES = frozenset(Options.__annotations__)
#: The values of omitted options.
DEFAULTS: Options = {
    **dict.fromkeys(NAMES),  # type: ignore[typeddict-item]
    **{
        one.name: one.default
        for one in description.FIELDS.options
        if one.name in NAMES
    },
    "verify": True,
    "checksum": False,
}


def unknown(text: str, name: str, known: Iterable[str]) -> TypeError:
    """Return the error for a name that a function does not take.

    :param text: what comes before the name.
    """
    return TypeError(f"{text} {name!r}{names.hint(name, known)}")


def accepted(function: _Function, options: Any = Options) -> _Function:
    """Reject unknown options of a function, and show the known ones in help.

    The function's ``**options: Unpack[…]`` is for type checkers and editors.

    :returns: the function, which first raises TypeError for unknown names.
    """
    shown(function, options)
    known = frozenset(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        for name in named.keys() - known:
            raise unknown(
                f"{function.__name__}() got an unexpected keyword argument",
                name,
                known,
            )
        return function(*arguments, **named)

    return cast(_Function, checked)


def shown(function: _Function, options: Any = Options) -> _Function:
    """Show a session's options among a function's parameters.

    ``help()``, editors and the reference then show their names, types and
    defaults. The function's last parameter takes the options. If its name is
    ``**options``, it takes nothing else; any other name, such as ``**named``,
    means that it also takes other arguments.
    """
    own = inspect.signature(function)
    *named, rest = own.parameters.values()
    function.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[
            *named,
            *(
                inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=DEFAULTS[name],  # type: ignore[literal-required]
                    annotation=annotation,
                )
                for name, annotation in typing.get_type_hints(options).items()
                if name not in own.parameters
            ),
            *([] if rest.name == "options" else [rest]),
        ]
    )
    return function


def documented(function: _Function) -> _Function:
    """Add the documentation of all options to a function's docstring.

    It replaces the line that begins with ``:param options:``.
    """
    lines = (function.__doc__ or "").splitlines()
    about = [
        f"    {line}".rstrip()
        for options in (description.Options, DoorOptions, Options)
        for line in (inspect.getdoc(options) or "")
        .partition("\n\n")[2]
        .splitlines()
    ]
    function.__doc__ = "\n".join(
        new
        for line in lines
        for new in (about if ":param options:" in line else [line])
    )
    return function
