# SPDX-License-Identifier: Apache-2.0

"""Open a session: request it, wait for a slot, and connect to the slot."""

from __future__ import annotations

import contextlib
import functools
import math
import time
import typing
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import Unpack

from fpgapool.client import cancel as cancelling
from fpgapool.client import checks
from fpgapool.client import discovery
from fpgapool.client import errors
from fpgapool.client import log
from fpgapool.client import options as session_options
from fpgapool.client import tracing
from fpgapool.client.doors import asking
from fpgapool.client.doors import door as doors
from fpgapool.client.links import connection as connections
from fpgapool.client.links import waiting
from fpgapool.client.sessions import blocks
from fpgapool.client.sessions import bridging
from fpgapool.client.sessions import flow as flows
from fpgapool.client.sessions import session as sessions
from fpgapool.client.sessions import software
from fpgapool.common.channels import channel
from fpgapool.protocol import frames
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import names
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import shapes

CPU = "cpu"

# How late the pool may report that ``wait_timeout_s`` was exceeded.
_QUEUE_MARGIN_S = 2.0
# With a fallback: how long a front door may be unreachable or hang.
_FALLBACK_PATIENCE_S = 15.0
# How long an accelerator's profile is cached; front doors do the same.
_PROFILE_AGE_S = 10.0
_MAX_PROFILES = 256
#: Smaller inputs gain little from a second connection for the output, because
#: opening it takes about a millisecond with TLS.
RETURN_FROM_BYTES = 32 * 2**20
_HELLO = "hello", {**asking.HELLO, "connections": True}

#: Profiles by front door path and accelerator name, with their age.
_profiles: dict[
    tuple[str | None, str], tuple[float, Mapping[str, typing.Any]]
] = {}


@session_options.documented
@session_options.accepted
def acc_open(
    accelerator: str,
    size_bytes: int,
    *,
    timeout_s: float | None = None,
    **options: Unpack[session_options.Options],
) -> sessions.Session:
    """Get a slot with an accelerator, waiting for as long as it takes.

    With ``fallback="cpu"``, this process computes on its CPU if the pool does
    not serve the request: if ``wait_timeout_s`` is exceeded; the front door,
    the conductor or the database is unavailable; the front door hangs; the
    front door or the queue is full; no slot fits the accelerator; or several
    slots could not be prepared. The session is used like any other; its
    :attr:`~sessions.Session.fallback_reason` says why. This requires that the
    accelerator's software core is installed here; otherwise, the error is
    raised as without a fallback. ``timeout_s`` still limits the whole call, so
    ``wait_timeout_s`` should be shorter.

    With ``meanwhile="cpu"``, the call returns as soon as the pool has accepted
    the request, and this process computes while the session waits. A slot
    takes over between two pieces of the input. If a slot is lost, the CPU
    continues until the next slot is ready; the output is the same. This
    requires an accelerator that is stateless or has checkpoints, and whose
    software core is installed here. Without a fallback, the session fails if
    the pool ends the wait, for example with ``WAIT_TIMEOUT``.

    :param accelerator: its name, for example ``aes``.
    :param size_bytes: size of the input, 1 to 2**63 - 1; affects queueing.
    :param timeout_s: time limit of this call.
    :param options: see :class:`fpgapool.client.options.Options`.
    :returns: the session, which is connected to its slot.
    :raises errors.InvalidRequest: if an argument is invalid, or the API does
        not use TLS although it is required.
    :raises errors.FrontDoorUnavailable: if there is no front door.
    :raises errors.RequestRejected: if the pool rejects the request, or its
        front door remains full for 15 seconds; :class:`errors.WaitTimeout` if
        ``wait_timeout_s`` is exceeded.
    :raises errors.OperationTimeout: if ``timeout_s`` is exceeded.
    :raises errors.Cancelled: if cancelled.
    :raises errors.SessionFailed: if the session ends before it is used.
    """
    return _Opening(accelerator, size_bytes, timeout_s, options).run()


def open_stage(
    accelerator: str,
    size_bytes: int,
    timeout_s: float | None,
    options: session_options.Options,
    make_flow: Callable[..., flows.Flow],
    *,
    last: bool,
    make_seeker: Callable[..., waiting.SlotSeeker] = waiting.SlotSeeker,
) -> sessions.Session:
    """Get a slot for one stage of a chain; see :func:`acc_open`.

    :param make_flow: makes the flow of the session.
    :param last: whether the output comes to this process.
    :param make_seeker: makes what gets its slots.
    :raises errors.SessionFailed: also with code ``CHAIN_UNAVAILABLE``, if the
        slot's worker does not know chains.
    """
    opening = _Opening(accelerator, size_bytes, timeout_s, options)
    opening.make_stage(make_flow, make_seeker, last)
    return opening.run()


class _Opening:
    def __init__(
        self,
        accelerator: str,
        size_bytes: int,
        timeout_s: float | None,
        options: session_options.Options,
    ) -> None:
        given: dict[str, Any] = {**session_options.DEFAULTS, **options}
        self._options = given
        self._members = checks.request(accelerator, size_bytes, **options)
        for name in ("fallback", "meanwhile"):
            if given[name] not in (None, CPU):
                raise errors.invalid(f"{name} must be None or {CPU!r}")
        checks.argument(shapes.flag, given["checksum"], "checksum")
        if given["checksum"] and given["meanwhile"]:
            raise errors.invalid(
                "checksum requires that a slot processes the whole input, so"
                " it cannot be combined with meanwhile"
            )
        self._origin = doors.Origin.new()
        if given["request_id"] is not None:
            with checks.refusing():
                checked = rules.check_request_id(given["request_id"])
            self._origin = doors.Origin(checked)
        self._members["request_id"] = self._origin.request_id
        self._params = checks.params(given["params"])
        checks.encoded(self._params)
        self._deadline_s = checks.deadline(timeout_s)
        self._token = cancelling.token_of(given["cancel"])
        self._features = frozenset(
            {frames.CHECKSUM_FEATURE} if given["checksum"] else ()
        )
        self._require_tls = checks.require_tls(given["require_tls"])
        self._away_timeout_s = checks.seconds(
            given["away_timeout_s"], "away_timeout_s"
        )
        self._sender = blocks.BlockSender(
            blocks.checked_arguments(given["arguments"])
        )
        self._with_cpu = given["fallback"] == CPU
        self._computes_meanwhile = given["meanwhile"] == CPU
        self._started_s = time.monotonic()
        # Start of the time limits for the front door and for the queue.
        self._asked_s = self._started_s
        self._greeted = False
        self._asked = False
        # The pool's name for the accelerator's software core, if known.
        self._core_name: str | None = None
        # Maximum piece length of this host's workers, if known.
        self._chunk_bytes: object = None
        # Whether the accelerator is a bitstream that belongs to a project.
        self._is_own = False
        self._make_flow: Callable[..., flows.Flow] = flows.Flow
        self._make_seeker: typing.Any = waiting.SlotSeeker
        self._returns = self._members["size_bytes"] >= RETURN_FROM_BYTES
        self._shares = True

    def make_stage(
        self,
        make_flow: Callable[..., flows.Flow],
        make_seeker: Callable[..., waiting.SlotSeeker],
        last: bool,
    ) -> None:
        """Open the session of a stage of a chain."""
        self._make_flow = make_flow
        self._make_seeker = make_seeker
        # Output that goes elsewhere is kept for long: it needs bytes, and not
        # whole buffers.
        self._shares = last
        self._features |= {frames.LINK_FEATURE}
        # At most one direction has data on its connection.
        self._returns = False

    def run(self) -> sessions.Session:
        with errors.About(self._origin.request_id):
            span = tracing.Span("acc_open")
            self._origin = self._origin._replace(traceparent=span.traceparent)
            with span:
                return self._run()

    def _run(self) -> sessions.Session:
        try:
            self._token.check()
            try:
                return self._open()
            except errors.FpgapoolError as exc:
                if self._with_cpu and exc.code in software.FALLBACK_CODES:
                    return self._fall_back(exc)
                raise
        except BaseException as exc:
            if isinstance(exc, errors.Cancelled | KeyboardInterrupt):
                log.info(
                    "Request %s of %s cancelled before it had a slot",
                    self._origin.request_id,
                    self._members["accelerator"],
                )
            errors.release_frames(exc)
            cancelling.release(self._token)
            raise

    def _open(self) -> sessions.Session:
        door = self._enter()
        try:
            return self._seek(door)
        except BaseException:
            # Give up first: the pool must not see this as a lost connection.
            if self._asked:
                door.give_up(request_id=self._members["request_id"])
            door.close()
            raise

    def _enter(self) -> doors.Door:
        limit_s = waiting.earliest(self._deadline_s, self._queue_deadline_s())
        found = self._options["front_door"] or discovery.find(
            pause=asking.pause_until(self._token, limit_s)
        )
        self._asked_s = time.monotonic()
        limit_s = self._deadline_s
        if self._with_cpu:
            limit_s = waiting.earliest(
                self._deadline_s,
                self._queue_deadline_s(),
                self._asked_s + _FALLBACK_PATIENCE_S,
            )
        try:
            door = asking.enter(
                found,
                self._token,
                limit_s,
                self._origin,
                require_tls=self._require_tls,
            )
        except errors.OperationTimeout as exc:
            if limit_s == self._deadline_s:
                raise
            raise errors.FrontDoorUnavailable(exc.message) from exc
        if not self._with_cpu:
            # Count from now: connecting may have taken a long time.
            self._asked_s = time.monotonic()
        return door

    def _seek(self, door: doors.Door) -> sessions.Session:
        make_seeker = self._make_seeker
        if self._computes_meanwhile:
            make_seeker = functools.partial(
                bridging.BridgingSeeker,
                load=self._load_movable,
                falls_back=self._with_cpu,
            )
        seeker = make_seeker(
            door,
            self._params,
            self._token,
            self._options["on_state"],
            self._features,
            require_tls=self._require_tls,
            returns=self._returns,
            shares=self._shares,
            away_timeout_s=self._away_timeout_s,
            on_away=self._options["on_away"],
        )

        def ask(limit_s: float | None) -> None:
            if not (
                self._greeted
                or not self._options["verify"]
                or self._is_verified(door)
            ):
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
                patience_s=_FALLBACK_PATIENCE_S if self._with_cpu else None,
                asked_s=self._asked_s,
            )
        except waiting.Ended as exc:
            raise errors.rejection(*exc.view.ending) from None
        return self._session(dialer, connection, seeker)

    def _queue_deadline_s(self) -> float | None:
        wait_timeout_s = self._members.get("wait_timeout_s")
        if wait_timeout_s is None:
            return None
        return self._asked_s + wait_timeout_s + _QUEUE_MARGIN_S

    def _is_verified(self, door: doors.Door) -> bool:
        """Check the parameters against a cached profile.

        :returns: whether they are valid; if not, another version of the
            accelerator may accept them.
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
        if self._members.get("set_id") and welcome.get("sets") is not True:
            # It would open a single session.
            raise errors.RequestRejected(
                codes.UNKNOWN_OPERATION,
                "the agent of this host does not know sets of sessions, as it"
                " is of an earlier release; upgrade it, or open the sessions"
                " one by one",
            )
        self._chunk_bytes = welcome.get("chunk_bytes")
        self._greeted = True

    def _key(self, door: doors.Door) -> tuple[str | None, str]:
        # Do not cache profiles from an API, because it serves many projects.
        return getattr(door, "path", None), self._members["accelerator"]

    def _verify(self, profile: Mapping[str, typing.Any]) -> None:
        self._core_name = profile.get("core")
        self._is_own = names.owner_of(str(profile.get("name"))) is not None
        checks.params_schema(self._params, profile.get("params_schema") or {})

    def _fall_back(self, cause: errors.FpgapoolError) -> sessions.Session:
        log.info(
            "Request %s: this machine's CPU computes: %s",
            self._origin.request_id,
            cause.code,
        )
        dialer = software.CpuDialer(software.view_of(cause), self._token)
        loaded = self._load(cause)
        connection = loaded.connect(self._token)
        if self._options["on_state"] is not None:
            self._options["on_state"](dialer.view)
        alone = software.CpuOnly(loaded, self._token, cause)
        return self._session(dialer, connection, alone)

    def _load(self, cause: errors.FpgapoolError) -> software.Software:
        return software.load(
            self._members["accelerator"],
            self._params,
            self._core_name,
            cause,
            self._chunk_bytes,
            is_own=self._is_own,
        )

    def _load_movable(self, chunk_bytes: int | None) -> software.Software:
        # A front door also sends this length in its reply to hello.
        self._chunk_bytes = chunk_bytes or self._chunk_bytes
        return software.movable(
            self._members["accelerator"],
            self._params,
            self._core_name,
            self._chunk_bytes,
            is_own=self._is_own,
        )

    def _session(
        self,
        dialer: connections.Dialer,
        connection: connections.Connection,
        seeker: waiting.SlotSeeker | software.CpuOnly,
    ) -> sessions.Session:
        flow = self._make_flow(dialer, connection, seeker, self._sender)
        try:
            # If the connection breaks, the flow sends the arguments again.
            with contextlib.suppress(channel.ChannelClosed):
                self._sender.send_arguments(connection, self._deadline_s)
        except (errors.SessionFailed, channel.DeadlineExceeded) as exc:
            flow.stop()
            flow.abandon()
            flow.hang_up()
            if isinstance(exc, errors.SessionFailed):
                raise
            raise errors.OperationTimeout(
                "the time limit was exceeded"
            ) from exc
        session = sessions.Session(
            flow,
            self._token,
            time.monotonic() - self._started_s,
            self._origin.request_id,
        )
        log.info(
            "Session %s of %s opened after %.3f s: slot %s of %s on host %s, "
            "transport %s",
            session.session_id or self._origin.request_id,
            self._members["accelerator"],
            session.waited_s,
            session.slot,
            session.device,
            session.host_name,
            session.transport,
        )
        return session


def acc_run(
    session: sessions.Session,
    n_bytes: int | blocks.Buffer | blocks.Block | None = None,
    *,
    timeout_s: float | None = None,
) -> memoryview:
    """Process the contents of the session's input buffer, or other data.

    :param n_bytes: as for :meth:`sessions.Session.run`.
    :returns: the output, valid until the next call.
    :raises: as :meth:`sessions.Session.run`.
    """
    return session.run(n_bytes, timeout_s=timeout_s)


def acc_close(
    session: sessions.Session,
    *,
    timeout_s: float | None = sessions.CLOSE_TIMEOUT_S,
) -> None:
    """Release the slot; closing twice does nothing.

    :param timeout_s: how long to wait for the worker.
    """
    session.close(timeout_s=timeout_s)
