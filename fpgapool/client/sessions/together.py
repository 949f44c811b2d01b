# SPDX-License-Identifier: Apache-2.0

"""Open several sessions whose slots come at the same time."""

from __future__ import annotations

import functools
import types
import typing
import uuid
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Self
from typing import Unpack

from fpgapool.client import cancel as cancelling
from fpgapool.client import checks
from fpgapool.client import errors
from fpgapool.client import options as session_options
from fpgapool.client import shown
from fpgapool.client.sessions import opening
from fpgapool.client.sessions import session as sessions
from fpgapool.common.channels import waits
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules

#: The accelerator of a session and the size of its input; or the arguments of
#: :func:`acc_open` by name, which replace the options of all sessions.
Member: typing.TypeAlias = tuple[str, int] | Mapping[str, Any]

#: Opens a session, unless the token is cancelled.
Opener: typing.TypeAlias = Callable[[cancelling.CancelToken], sessions.Session]

_NEEDED = ("accelerator", "size_bytes")
_Session = typing.TypeVar("_Session")
# Options that differ between the sessions of a set, that must be the same, and
# that follow from its members and placement.
_OF_ONE = ("request_id",)
_OF_ALL = ("cancel",)
_OF_SET = ("set_size", "set_placement")
# The CPU would compute for some sessions of a set while others wait.
_OF_NONE = ("fallback", "meanwhile")
# What the other sessions of a set report once one of them has failed.
_CONSEQUENCES = frozenset({codes.SET_INCOMPLETE, codes.CANCELLED})


class Members(shown.Shown, Sequence[_Session]):
    """The sessions of a set, in the order of the request.

    :ivar set_id: the name of the set.
    """

    def __init__(self, set_id: str, opened: Iterable[_Session]) -> None:
        self.set_id = set_id
        self._sessions = list(opened)

    def _facts(self) -> Mapping[str, object]:
        return {"set_id": self.set_id, "sessions": len(self)}

    def __len__(self) -> int:
        return len(self._sessions)

    def __getitem__(self, number: Any) -> Any:
        return self._sessions[number]


class SessionSet(Members[sessions.Session]):
    """The sessions of a set, in the order of the request.

    From the start on, each is a session like any other. It is a context
    manager, which closes all.

    :ivar set_id: the name of the set.
    """

    def __init__(
        self,
        set_id: str,
        opened: Iterable[sessions.Session],
        token: cancelling.LinkedToken,
        callers: cancelling.CancelToken,
    ) -> None:
        super().__init__(set_id, opened)
        self._token = token
        self._callers = callers

    def close(
        self, *, timeout_s: float | None = sessions.CLOSE_TIMEOUT_S
    ) -> None:
        """Release all slots; closing twice does nothing.

        :param timeout_s: how long to wait for each worker.
        :raises: the error of the first session that could not be closed, after
            all others are closed; its ``index`` is the session's number.
        """
        self._release()
        failed: Exception | None = None
        for number, session in enumerate(self._sessions):
            try:
                session.close(timeout_s=timeout_s)
            except errors.FpgapoolError as exc:
                failed = failed or _numbered(exc, number)
        if failed is not None:
            raise failed

    def abort(self) -> None:
        """Release all slots at once, whatever their state; never raises."""
        self._release()
        for session in self._sessions:
            session.abort()

    def _release(self) -> None:
        self._callers.detach(self._token)
        cancelling.release(self._callers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        if kind is not None:
            self.abort()
        else:
            self.close()


@session_options.accepted
def acc_open_set(
    members: Iterable[Member],
    *,
    placement: str | None = None,
    timeout_s: float | None = None,
    **options: Unpack[session_options.Options],
) -> SessionSet:
    """Get several slots at the same time, or none.

    It waits until the pool has slots for all sessions. Until then, the set
    holds none, so that two sets never wait for each other.

    :param members: the sessions, 2 to 64: for each, the accelerator and the
        size of its input in bytes, or the arguments of :func:`acc_open` by
        name.
    :param placement: where the slots must be: ``same_board``, ``same_host``,
        or ``spread``, which means each on another board; None: anywhere.
    :param timeout_s: time limit of this call.
    :param options: those of :func:`acc_open`, for all sessions; ``fallback``,
        ``meanwhile`` and ``request_id`` are not accepted. ``set_id`` is the
        caller's name for the set: repeating a request with the same name never
        opens other sessions. None means a random name.
    :returns: the sessions, each connected to its slot.
    :raises errors.InvalidRequest: if an argument is invalid, for example with
        code ``INVALID_SET``; nothing was sent.
    :raises errors.RequestRejected: with code ``SET_IMPOSSIBLE`` if the pool or
        the project's quota can never hold the set.
    :raises: otherwise, as :func:`acc_open`. The error's ``index`` is the
        number of the session that failed; no session is left.
    """
    plan = Plan(members, placement, options)
    checks.seconds(timeout_s, "timeout_s")
    token = cancelling.LinkedToken()
    callers = cancelling.token_of(plan.calls[0].get("cancel"))
    callers.attach(token)
    try:
        opened = open_all(
            [_opener(call, timeout_s) for call in plan.calls], token
        )
    except BaseException as exc:
        callers.detach(token)
        cancelling.release(callers)
        if isinstance(exc, Failed):
            raise first_cause(exc.failed) from None
        raise
    return SessionSet(plan.set_id, opened, token, callers)


def _opener(call: Mapping[str, Any], timeout_s: float | None) -> Opener:
    def open_one(token: cancelling.CancelToken) -> sessions.Session:
        return opening.acc_open(
            **{**call, "cancel": token}, timeout_s=timeout_s
        )

    return open_one


class Plan:
    """The checked arguments of the sessions of a set.

    :ivar calls: the arguments of :func:`acc_open` for each, by name.
    :raises errors.InvalidRequest: if an argument is invalid.
    """

    def __init__(
        self,
        members: Iterable[Member],
        placement: str | None,
        options: session_options.Options,
    ) -> None:
        _check_names(options, {*_OF_ONE, *_OF_SET})
        found = list(map(_arguments, members))
        with checks.refusing():
            rules.check_set_size(len(found))
            rules.check_set_placement(placement)
            given = rules.check_set_id(options.get("set_id"))
        self.set_id = given or uuid.uuid4().hex
        common = {
            **options,
            "set_id": self.set_id,
            "set_size": len(found),
            "set_placement": placement,
        }
        self.calls = []
        for number, one in enumerate(found):
            _check_names(one, {*_OF_ALL, "set_id", *_OF_SET})
            name = {"request_id": request_id(self.set_id, number)}
            call = {**name, **common, **one}
            checks.request(**call)
            self.calls.append(call)
        names = {call["request_id"] for call in self.calls}
        if len(names) < len(found):
            raise errors.InvalidRequest(
                codes.INVALID_SET,
                "two sessions of the set have the same request_id",
            )


def request_id(set_id: str, number: int) -> str:
    """Return the request id of a session, the same for each repetition."""
    name = f"{set_id}.{number}"
    if len(name) <= 64:
        return name
    return uuid.uuid5(uuid.NAMESPACE_OID, name).hex


def _arguments(member: Member) -> dict[str, Any]:
    if isinstance(member, Mapping):
        found = dict(member)
    elif isinstance(member, Sequence) and len(member) == 2:
        found = dict(zip(_NEEDED, member, strict=True))
    else:
        found = {}
    for name in _NEEDED:
        if name not in found:
            raise errors.InvalidRequest(
                codes.INVALID_SET,
                "a session of a set is an accelerator and a size in bytes, or"
                f" the arguments of acc_open() by name, not {member!r:.80}",
            )
    return found


def _check_names(given: Mapping[str, Any], others: Collection[str]) -> None:
    """Check the names of arguments for all sessions, or for one.

    :param others: the options that cannot be given there.
    :raises TypeError: if there is no such option.
    """
    known = session_options.NAMES | set(_NEEDED)
    for name, value in given.items():
        if name not in known:
            raise session_options.unknown(
                "acc_open_set() got an unexpected argument", name, known
            )
        if value is not None and name in _OF_NONE:
            raise errors.invalid(
                f"sessions of a set do not accept {name}: the CPU would"
                " compute for one while the others wait"
            )
        if value is not None and name in others:
            raise errors.InvalidRequest(
                codes.INVALID_SET,
                f"acc_open_set() does not accept {name}{_elsewhere(name)}",
            )


def _elsewhere(name: str) -> str:
    """Say where an argument of sessions goes instead."""
    if name == "set_placement":
        return "; name it placement"
    if name == "set_size":
        return "; it is the number of sessions"
    if name in _OF_ONE:
        return " for the whole set; give it to single sessions"
    return " for a single session; give it to the whole set"


def open_all(
    openers: Sequence[Opener], token: cancelling.LinkedToken
) -> list[sessions.Session]:
    """Open sessions at the same time, all or none.

    :param openers: open one session each, unless the token is cancelled.
    :raises Failed: if one of them could not be opened; no session is left.
    """
    begun = Opening(openers, token)
    try:
        begun.start()
        return begun.wait()
    except BaseException:
        begun.abandon()
        raise


class Opening:
    """Sessions that are being opened at the same time; see :func:`open_all`.

    :param token: cancelled if one of them cannot be opened.

    :ivar failed: the errors by the numbers of the sessions, the first error
        first; it has one before the token is cancelled.
    """

    def __init__(
        self, openers: Sequence[Opener], token: cancelling.LinkedToken
    ) -> None:
        self.failed: dict[int, BaseException] = {}
        self._openers, self._token = openers, token
        self._opened: dict[int, sessions.Session] = {}
        self._running: list[waits.Running] = []

    def start(self) -> None:
        for number, opener in enumerate(self._openers):
            work = functools.partial(self._open, number, opener)
            self._running.append(waits.spawn(work, f"fpgapool-set-{number}"))

    def _open(self, number: int, opener: Opener) -> None:
        try:
            self._opened[number] = opener(self._token)
        except BaseException as exc:
            errors.release_frames(exc)
            self.failed[number] = exc
            # Without this session, the set cannot start.
            self._token.cancel()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until each is open or has failed.

        :param timeout_s: for one of them; None: no limit.
        """
        for one in self._running:
            one.join(timeout_s)

    def wait(self) -> list[sessions.Session]:
        """Return the sessions once all are open.

        :raises Failed: if one of them could not be opened.
        """
        self.join()
        if self.failed:
            raise Failed(self.failed)
        return [self._opened[number] for number in sorted(self._opened)]

    def abandon(self, timeout_s: float | None = None) -> None:
        """Leave no session open.

        :param timeout_s: see :meth:`join`.
        """
        self._token.cancel()
        self.join(timeout_s)
        for session in list(self._opened.values()):
            session.abort()


class Failed(Exception):
    """A set could not be opened.

    :ivar failed: the errors by the numbers of the sessions, the first error
        first.
    """

    def __init__(self, failed: Mapping[int, BaseException]) -> None:
        super().__init__(failed)
        self.failed = failed


def first_cause(failed: Mapping[int, BaseException]) -> BaseException:
    """Return the error because of which a set could not be opened, with the
    number of its session.

    :param failed: the errors by the numbers of the sessions, in their order.
    """
    number = first_failed(failed)
    return _numbered(failed[number], number)


def first_failed(failed: Mapping[int, BaseException]) -> int:
    """Return the number of the session because of which the others failed."""
    for number, exc in failed.items():
        if getattr(exc, "code", "") not in _CONSEQUENCES:
            return number
    return next(iter(failed))


_Error = typing.TypeVar("_Error", bound=BaseException)


def _numbered(exc: _Error, number: int) -> _Error:
    exc.add_note(f"session {number} of the set")
    if isinstance(exc, errors.FpgapoolError):
        exc.index = number
    return exc
