# SPDX-License-Identifier: Apache-2.0

"""Opening a session: ask the front door, wait for a slot, connect to it."""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import math
import threading
import time
import typing
import uuid

from fpgapool.client import cancel as cancelling
from fpgapool.client import checks
from fpgapool.client import discovery
from fpgapool.client import errors
from fpgapool.client.doors import apidoor
from fpgapool.client.doors import door as doors
from fpgapool.client.doors import frontdoor
from fpgapool.client.links import connection as connections
from fpgapool.client.links import waiting
from fpgapool.client.sessions import blocks
from fpgapool.client.sessions import flow as flows
from fpgapool.client.sessions import meanwhile as meanwhiles
from fpgapool.client.sessions import session as sessions
from fpgapool.client.sessions import software
from fpgapool.common.channels import channel
from fpgapool.protocol import frames
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import names
from fpgapool.vocabulary import rules

CPU = "cpu"

# How long the pool may take to report the end of the time in the queue.
_QUEUE_MARGIN_S = 2.0
# With a fallback: how long a front door may be away, or hang.
_FALLBACK_PATIENCE_S = 15.0
# How long an accelerator's profile counts as known, as in front doors.
_PROFILE_AGE_S = 10.0
_MAX_PROFILES = 256
#: Smaller inputs gain little by a second connection for the output. With TLS
#: it takes about a millisecond.
RETURN_FROM_BYTES = 32 * 2**20
_HELLO = "hello", {"version": messages.FRONT_DOOR_VERSION, "connections": True}

#: Profiles by path of the front door and name of the accelerator, and when
#: they came.
_profiles: dict[
    tuple[str | None, str],
    tuple[float, collections.abc.Mapping[str, typing.Any]],
] = {}


def acc_open(
    accelerator: str,
    size_bytes: int,
    *,
    params: collections.abc.Mapping[str, typing.Any] | None = None,
    timeout_s: float | None = None,
    front_door: str | apidoor.PoolApi | None = None,
    request_id: str | None = None,
    wait_timeout_s: float | None = None,
    priority: int = 0,
    deadline_s: float | None = None,
    deadline_action: str | None = None,
    application: str | None = None,
    on_state: waiting.StateCallback | None = None,
    cancel: threading.Event | cancelling.CancelToken | None = None,
    verify: bool = True,
    fallback: str | None = None,
    meanwhile: str | None = None,
    checksum: bool = False,
    require_tls: bool | None = None,
    away_timeout_s: float | None = None,
    on_away: waiting.AwayCallback | None = None,
    arguments: collections.abc.Mapping[int, typing.Any] | None = None,
) -> sessions.Session:
    """Get a slot with an accelerator, waiting for it as long as it takes.

    With ``fallback="cpu"`` this process computes itself when the pool does
    not serve the request in time: when ``wait_timeout_s`` passes, or when the
    front door, the conductor or the database is away, the front door hangs,
    it or the queue is full, no slot fits the accelerator, or slot after slot
    could not be prepared with it. The session is
    used like any other; its :attr:`~sessions.Session.fallback_reason` says
    why. It needs an accelerator whose software core is installed here;
    otherwise the error is raised as without a fallback. ``timeout_s`` limits
    the whole call as always, so ``wait_timeout_s`` should be shorter.

    With ``meanwhile="cpu"`` the call returns as soon as the pool has accepted
    the request, and this process computes while the session waits. A slot
    takes over between two pieces of the input, and when a slot is lost, the
    CPU goes on until the next one comes; the output is the same. It needs an
    accelerator that is stateless or has checkpoints, and whose software core
    is installed here. Without a
    fallback the session fails if the pool stops its waiting, for example with
    ``WAIT_TIMEOUT``.

    :param accelerator: its name, for example ``aes``.
    :param size_bytes: size of the input, 1 ... 2**63 - 1; it decides the
        place in the queue.
    :param params: of the accelerator; bytes are sent as hexadecimal digits.
        They go to the worker only, never through the pool's services.
    :param timeout_s: time limit of this call.
    :param front_door: path of the front door's socket, or the pool's API
        for programs that do not run on its hosts; the default is the result
        of :func:`fpgapool.client.discovery.find`: the front door of this
        host, or the API of the environment or, in an instance, of Nova.
    :param request_id: the caller's name of the request: repeating a request
        with the same name never opens a second session. None: a random name.
    :param wait_timeout_s: how long the request may stay in the queue; the
        pool has a limit of its own. It also applies while the pool cannot
        report the request's state, to within 2 seconds.
    :param priority: -1000 ... 1000. In pools that share slots between
        projects or limit them, sessions of a higher priority come before
        others of the same project, and may take their slots if the pool
        allows it.
    :param deadline_s: the time after the request in which the session should
        end. The pool refuses it with the code ``DEADLINE_IMPOSSIBLE`` if no
        slot could be so fast. Otherwise ``openstack fpga session show`` says
        in the end whether it was met.
    :param deadline_action: what happens at the deadline: ``continue``,
        ``kill``, or ``early``, which ends the session as soon as no slot
        could keep the deadline any more, both with the code
        ``DEADLINE_PASSED``. None: as the pool's operator decides.
    :param application: a name that all sessions of an application have in
        common. A pool whose strategy avoids to program boards treats them as
        one: when one of them has got a slot, the others wait anew for boards
        that run their accelerator. None: the session is by itself.
    :param on_state: called with a view of the session whenever its state or
        its place in the queue changes, also when it gets another slot
        later; with a fallback it is called with a view that is READY and
        has a reason.
    :param cancel: setting it ends the request or the session.
    :param verify: check the parameters against the accelerator's schema
        before asking for a slot; the worker checks them in any case.
    :param fallback: ``cpu``, or None to raise the error.
    :param meanwhile: ``cpu``, or None to wait for a slot. ``on_state`` is then
        called by another thread.
    :param checksum: compare CRC-32 of input and output with those of the
        accelerator's board, before a result is returned. Costs time on both
        sides. A slot without this feature is refused with the code
        ``CHECKSUM_UNAVAILABLE``. If the CPU computes, nothing is compared,
        and :attr:`~sessions.Session.checksum` is false.
    :param require_tls: refuse, with the code ``TLS_REQUIRED``, to send data to
        another host without TLS, and to ask an API without it; None means
        the value of ``FPGAPOOL_REQUIRE_TLS``, else no. Data on this host is
        in memory and needs no TLS.
    :param away_timeout_s: how long the pool may be away, which means that
        neither its front door answers nor the worker of the session's slot.
        None: for ever while the request waits; a session with a slot fails
        after about a minute.
    :param on_away: called when the front door, or the slot's worker, goes
        away while the request or session goes on: with what does not answer,
        for people, and with the seconds until the library gives up on it,
        None if it does not.
    :param arguments: data that is the same for all of the input, such as a
        model, by number; the accelerator says which ones it takes. Anything
        with the buffer protocol, or a :class:`fpgapool.client.Block`, at most
        as long as the session's input buffer.
    :returns: the session, connected.
    :raises errors.InvalidRequest: if an argument is wrong, or the API lacks
        a required TLS.
    :raises errors.FrontDoorUnavailable: if there is no front door.
    :raises errors.RequestRejected: if the pool refuses, or its front door has
        no room for this program for a quarter of a minute; also its subclass
        :class:`errors.WaitTimeout`.
    :raises errors.OperationTimeout: if ``timeout_s`` passes.
    :raises errors.Cancelled: if cancelled.
    :raises errors.SessionFailed: if the session ends before it is used.
    """
    members = checks.request(
        accelerator,
        size_bytes,
        wait_timeout_s=wait_timeout_s,
        priority=priority,
        deadline_s=deadline_s,
        deadline_action=deadline_action,
        application=application,
    )
    for name, where in (("fallback", fallback), ("meanwhile", meanwhile)):
        if where not in (None, CPU):
            raise errors.InvalidRequest(
                codes.INVALID_REQUEST, f"{name} must be None or {CPU!r}"
            )
    if not isinstance(checksum, bool):
        raise errors.InvalidRequest(
            codes.INVALID_REQUEST, "checksum must be True or False"
        )
    if checksum and meanwhile:
        raise errors.InvalidRequest(
            codes.INVALID_REQUEST,
            "checksum needs a slot for all of the input, so it cannot be "
            "combined with meanwhile",
        )
    with checks.refusing():
        members["request_id"] = rules.check_request_id(
            str(uuid.uuid4()) if request_id is None else request_id
        )
    values = checks.params(params)
    checks.encoded(values)
    opening = _Opening(
        members,
        values,
        on_state,
        channel.deadline_after(checks.seconds(timeout_s, "timeout_s")),
        cancelling.token_of(cancel),
        frozenset({frames.CHECKSUM_FEATURE} if checksum else ()),
        checks.require_tls(require_tls),
        meanwhile == CPU,
        checks.seconds(away_timeout_s, "away_timeout_s"),
        on_away,
        blocks.checked_arguments(arguments),
    )
    return opening.run(front_door, verify, fallback == CPU)


class _Opening:
    """One call of :func:`acc_open`."""

    def __init__(
        self,
        members: dict[str, typing.Any],
        params: dict[str, typing.Any],
        on_state: waiting.StateCallback | None,
        deadline_s: float | None,
        token: cancelling.CancelToken,
        features: frozenset[str],
        require_tls: bool,
        computes_meanwhile: bool,
        away_timeout_s: float | None,
        on_away: waiting.AwayCallback | None,
        arguments: dict[int, blocks.Block],
    ) -> None:
        self._sender = blocks.Sender(arguments)
        self._away_timeout_s = away_timeout_s
        self._on_away = on_away
        self._features = features
        self._require_tls = require_tls
        self._computes_meanwhile = computes_meanwhile
        self._members = members
        self._params = params
        self._on_state = on_state
        self._deadline_s = deadline_s
        self._token = token
        self._started_s = time.monotonic()
        # Limits of the front door, and of the queue, count from here on.
        self._asked_s = self._started_s
        self._greeted = False
        self._asked = False
        # The pool's name of the accelerator's software core, if known.
        self._core_name: str | None = None
        # That of the workers of this host, if known.
        self._chunk_bytes: object = None
        # Whether it is a bitstream that belongs to a project.
        self._is_own = False

    def run(
        self,
        front_door: str | apidoor.PoolApi | None,
        verify: bool,
        with_cpu: bool,
    ) -> sessions.Session:
        try:
            self._token.check()
            try:
                return self._open(front_door, verify, with_cpu)
            except errors.FpgapoolError as exc:
                if with_cpu and exc.code in software.FALLBACK_CODES:
                    return self._fall_back(exc)
                raise
        except BaseException as exc:
            errors.release_frames(exc)
            cancelling.release(self._token)
            raise

    def _open(
        self,
        front_door: str | apidoor.PoolApi | None,
        verify: bool,
        with_cpu: bool,
    ) -> sessions.Session:
        door = self._enter(front_door, with_cpu)
        try:
            return self._seek(door, verify, with_cpu)
        except BaseException:
            # First, so that the pool sees a cancellation, and not the end of a
            # connection.
            if self._asked:
                door.give_up(request_id=self._members["request_id"])
            door.close()
            raise

    def _enter(
        self, front_door: str | apidoor.PoolApi | None, with_cpu: bool
    ) -> doors.Door:
        found = front_door or discovery.find(pause=self._pause)
        self._asked_s = time.monotonic()
        if with_cpu:
            return self._enter_soon(found)
        door = self._connect(found, self._deadline_s)
        # Connecting may have taken any time.
        self._asked_s = time.monotonic()
        return door

    def _pause(self, seconds: float) -> bool:
        limit_s = waiting.earliest(self._deadline_s, self._queue_deadline_s())
        left_s = channel.remaining_s(limit_s)
        if left_s is not None and left_s <= seconds:
            return False
        self._token.wait(seconds)
        return True

    def _enter_soon(self, found: str | apidoor.PoolApi) -> doors.Door:
        limit_s = waiting.earliest(
            self._deadline_s,
            self._queue_deadline_s(),
            self._asked_s + _FALLBACK_PATIENCE_S,
        )
        try:
            return self._connect(found, limit_s)
        except errors.OperationTimeout as exc:
            if limit_s == self._deadline_s:
                raise
            raise errors.FrontDoorUnavailable(exc.message) from exc

    def _connect(
        self, found: str | apidoor.PoolApi, limit_s: float | None
    ) -> doors.Door:
        if isinstance(found, apidoor.PoolApi):
            return found.enter(
                self._token,
                limit_s,
                require_tls=self._require_tls,
            )
        return frontdoor.FrontDoor(found, self._token, limit_s)

    def _seek(
        self, door: doors.Door, verify: bool, with_cpu: bool
    ) -> sessions.Session:
        make_seeker: typing.Any = waiting.SlotSeeker
        if self._computes_meanwhile:
            make_seeker = functools.partial(
                meanwhiles.Seeker,
                load=self._load_movable,
                falls_back=with_cpu,
            )
        seeker = make_seeker(
            door,
            self._params,
            self._token,
            self._on_state,
            self._features,
            require_tls=self._require_tls,
            returns=self._members["size_bytes"] >= RETURN_FROM_BYTES,
            away_timeout_s=self._away_timeout_s,
            on_away=self._on_away,
        )

        def ask(limit_s: float | None) -> None:
            if not self._greeted and verify and not self._is_verified(door):
                self._greet(door, limit_s)
            self._asked = True
            if self._greeted:
                door.request("open", limit_s, **self._members)
                return
            welcome, _ = door.request_all(
                [_HELLO, ("open", self._members)], limit_s
            )
            self._note_welcome(welcome)

        try:
            dialer, connection = seeker.open(
                ask,
                self._deadline_s,
                queue_deadline_s=self._queue_deadline_s(),
                patience_s=_FALLBACK_PATIENCE_S if with_cpu else None,
                asked_s=self._asked_s,
            )
        except waiting.Ended as exc:
            raise errors.rejection(*exc.view.ending) from None
        return self._session(dialer, connection, seeker)

    def _queue_deadline_s(self) -> float | None:
        wait_timeout_s = self._members["wait_timeout_s"]
        if wait_timeout_s is None:
            return None
        return self._asked_s + wait_timeout_s + _QUEUE_MARGIN_S

    def _is_verified(self, door: doors.Door) -> bool:
        """Check the parameters by what a former request has learnt.

        :returns: whether they are right; if not, another version of the
            accelerator may take them.
        """
        known_at_s, profile = _profiles.get(self._key(door), (-math.inf, {}))
        if time.monotonic() > known_at_s + _PROFILE_AGE_S:
            return False
        try:
            self._verify(profile)
        except errors.InvalidParams:
            return False
        return True

    def _greet(self, door: doors.Door, limit_s: float | None) -> None:
        """Introduce this program, and check the parameters."""
        question = ("accelerator", {"name": self._members["accelerator"]})
        welcome, reply = door.request_all([_HELLO, question], limit_s)
        self._note_welcome(welcome)
        profile = reply.get("profile") or {}
        key = self._key(door)
        if key[0] is not None:
            if len(_profiles) >= _MAX_PROFILES:
                _profiles.clear()
            _profiles[key] = time.monotonic(), profile
        self._verify(profile)

    def _note_welcome(self, welcome: messages.Message) -> None:
        self._chunk_bytes = welcome.get("chunk_bytes")
        self._greeted = True

    def _key(self, door: doors.Door) -> tuple[str | None, str]:
        # An API has no path. It serves several projects.
        return getattr(door, "path", None), self._members["accelerator"]

    def _verify(
        self, profile: collections.abc.Mapping[str, typing.Any]
    ) -> None:
        self._core_name = profile.get("core")
        self._is_own = names.owner_of(str(profile.get("name"))) is not None
        checks.params_schema(self._params, profile.get("params_schema") or {})

    def _fall_back(self, cause: errors.FpgapoolError) -> sessions.Session:
        dialer = software.Dialer(software.view_of(cause), self._token)
        loaded = self._load(cause)
        connection = loaded.connect(self._token)
        if self._on_state is not None:
            self._on_state(dialer.view)
        alone = software.Alone(loaded, self._token, cause)
        return self._session(dialer, connection, alone)

    def _load(self, cause: errors.FpgapoolError) -> software.Software:
        if self._is_own:
            # Another accelerator of that name, or one without the bitstream's
            # fixed parameters, would compute something else.
            raise errors.InvalidRequest(
                codes.CORE_UNAVAILABLE,
                "the CPU cannot replace the bitstream of a project; "
                f"there is no slot: {cause}",
            ) from cause
        return software.Software(
            self._members["accelerator"],
            self._params,
            self._core_name,
            cause,
            self._chunk_bytes,
        )

    def _load_movable(self, chunk_bytes: int | None) -> software.Software:
        # Front doors say it in their greeting.
        self._chunk_bytes = chunk_bytes or self._chunk_bytes
        name = self._members["accelerator"]
        loaded = self._load(
            errors.InvalidRequest(
                codes.CORE_UNAVAILABLE,
                f"this machine has no software core for {name!r}, so the CPU "
                "cannot compute meanwhile",
            )
        )
        if not loaded.movable:
            raise errors.InvalidRequest(
                codes.INVALID_REQUEST,
                f"meanwhile: {name!r} keeps a state and has no checkpoints, "
                "so a slot cannot go on with the work of the CPU",
            )
        return loaded

    def _session(
        self,
        dialer: connections.Dialer,
        connection: connections.Connection,
        seeker: waiting.SlotSeeker | software.Alone,
    ) -> sessions.Session:
        flow = flows.Flow(dialer, connection, seeker, self._sender)
        try:
            # A flow sends them again after a broken connection.
            with contextlib.suppress(channel.ChannelClosed):
                self._sender.send_arguments(connection, self._deadline_s)
        except (errors.SessionFailed, channel.DeadlineExceeded) as exc:
            flow.stop()
            flow.abandon()
            flow.hang_up()
            if isinstance(exc, errors.SessionFailed):
                raise
            raise errors.OperationTimeout("time limit passed") from exc
        return sessions.Session(
            flow, self._token, time.monotonic() - self._started_s
        )


def acc_run(
    session: sessions.Session,
    n_bytes: int | None = None,
    *,
    timeout_s: float | None = None,
) -> memoryview:
    """Process what is in the session's input buffer.

    :param session: from :func:`acc_open`.
    :param n_bytes: how many bytes of ``session.pin``; None for all.
    :param timeout_s: time limit.
    :returns: the output, valid until the next call.
    :raises: as :meth:`sessions.Session.run`.
    """
    return session.run(n_bytes, timeout_s=timeout_s)


def acc_close(
    session: sessions.Session,
    *,
    timeout_s: float | None = sessions.CLOSE_TIMEOUT_S,
) -> None:
    """Release the slot.

    :param session: from :func:`acc_open`.
    :param timeout_s: how long to wait for the worker.
    :raises errors.SessionClosed: if the session was closed before.
    """
    session.close(timeout_s=timeout_s)
