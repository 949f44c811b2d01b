# SPDX-License-Identifier: Apache-2.0

"""The front door: requests of a host's programs and the answers to them."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import hashlib
import queue
import secrets
import socket
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.agent import loop as agent_loop
from fpgapool.agent import sender
from fpgapool.agent.door import doorway
from fpgapool.agent.door import groupdoor
from fpgapool.agent.door import opens
from fpgapool.agent.door import profiles
from fpgapool.agent.door import requests
from fpgapool.common import exception
from fpgapool.common.monitoring import ratelimit
from fpgapool.protocol import messages
from fpgapool.rpcapi import conductor as conductor_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)

TICK_S = 0.25

MAX_OPENS_PER_CLIENT = 1024

#: Requests in one call.
MAX_TOGETHER = 100

#: Concurrent calls for a project; later requests go together in the next one.
CALLS_PER_PROJECT = 4

#: Of the secret for a client's first connection to a slot.
SECRET_BYTES = 32

#: Questions of one client that the conductor has not answered yet.
MAX_QUESTIONS_PER_CLIENT = 64


class Slots(typing.Protocol):
    """The host's slots as a front door needs them."""

    def connect(
        self,
        project_id: str,
        session_id: str,
        generation: int,
        view: objects.SessionView | None = None,
    ) -> socket.socket:
        """Return a connection to the data socket of a session's worker.

        :param view: of the session, if the front door knows it: its slot may
            have been offered before the order for it comes.
        :raises: rules.RequestError if the project has no such session
            here.
        """

    def connect_group(self, project_id: str, group_id: str) -> socket.socket:
        """Return a connection to the data socket of a group's desk.

        :raises: rules.RequestError if no client of the project may use the
            group, or it has no desk here.
        """

    def sessions_in_use(self) -> Iterable[str]:
        """Return the ids of the sessions whose client has connected."""


class FrontDoor:
    """The front door of one host.

    Everything but the constructor runs in the loop's thread.

    :param settings: sockets and limits.
    :param loop: serves the connections.
    :param conductor: the conductor's RPC interface.
    :param casts: sends casts.
    :param caller: makes the calls that ask questions.
    :param opener: makes calls that open sessions.
    :param slots: the slots of this host.
    """

    def __init__(
        self,
        settings: doorway.FrontDoorSettings,
        loop: agent_loop.Loop,
        conductor: conductor_api.ConductorAPI,
        casts: sender.Sender,
        caller: sender.Caller,
        opener: sender.Caller,
        slots: Slots,
    ) -> None:
        self._settings = settings
        self._loop = loop
        self._conductor = conductor
        self._casts = casts
        self._caller = caller
        self._opener = opener
        self._slots = slots
        #: For log lines that clients cause.
        self._log = ratelimit.RateLimitedLog(__name__)
        self._profiles = profiles.ProfileCache(
            loop,
            caller,
            conductor.list_accelerators,
            limit_s=settings.open_timeout_s,
        )
        self._opens = opens.Opens(
            open_timeout_s=settings.open_timeout_s,
            poll_interval_s=settings.session_poll_interval_s,
        )
        # By project: requests not sent yet, and calls under way.
        self._unsent: dict[str, collections.deque[opens.Submit]] = (
            collections.defaultdict(collections.deque)
        )
        self._calls: collections.Counter[str] = collections.Counter()
        self._doorway = doorway.Doorway(
            settings, loop, self._dispatch, self._gone
        )
        self._ticking = False
        self._polling = False
        self._polls_again_s = 0.0
        self._operations: dict[
            str, Callable[[doorway.Client, object, requests.Members], None]
        ] = {
            "hello": self._hello,
            "accelerator": self._accelerator,
            "accelerators": self._accelerators,
            "open": self._open,
            "reopen": self._reopen,
            "get": self._get,
            "progress": self._progress,
            "cancel": self._cancel,
            "close": self._close,
            "connect": self._connect,
            "connect_group": self._connect_group,
            "pool": self._pool,
        }
        groups = groupdoor.Groups(conductor, settings.host_uuid)
        for name, calling in (
            ("attach_group", groups.attaching),
            ("group", groups.showing),
            ("detach_group", groups.detaching),
            ("dry_run", self._dry_running),
        ):
            self._operations[name] = functools.partial(
                self._ask_conductor, calling
            )

    def start(self) -> None:
        """Make the sockets and serve them.

        :raises: doorway.FrontDoorError.
        """
        self._doorway.start()

    def stop(self) -> None:
        """Close everything; clients find the next agent and go on there.

        No session is cancelled: the agent leaves, not its clients.
        """
        self._doorway.stop()

    def _gone(self, client: doorway.Client) -> None:
        self._apply(
            self._opens.client_gone(
                client.number,
                self._loop.now(),
                self._slots.sessions_in_use(),
            )
        )

    def _dispatch(
        self, client: doorway.Client, message: messages.Message
    ) -> None:
        number = requests.repeatable_id(message)
        operation = message.get("op")
        handler = (
            self._operations.get(operation)
            if isinstance(operation, str)
            else None
        )
        if handler is None:
            self._doorway.fail(
                client,
                number,
                codes.UNKNOWN_OPERATION,
                "the front door has no such operation",
            )
            return
        try:
            handler(client, number, message)
        except rules.RequestError as error:
            self._doorway.fail(client, number, error.code, error.message)
        except Exception:
            self._log.exception("Front door: operation %s failed", operation)
            self._doorway.fail(
                client, number, codes.INTERNAL_ERROR, "see the agent's log"
            )

    def _unavailable(self, client: doorway.Client, number: object) -> None:
        self._doorway.fail(
            client,
            number,
            codes.CONDUCTOR_UNAVAILABLE,
            "the conductor does not answer",
        )

    # Operations.

    def _hello(
        self, client: doorway.Client, number: object, members: requests.Members
    ) -> None:
        version = members.get("version", messages.FRONT_DOOR_VERSION)
        if version != messages.FRONT_DOOR_VERSION:
            raise rules.RequestError(
                codes.INVALID_REQUEST,
                f"this front door speaks version "
                f"{messages.FRONT_DOOR_VERSION} only",
            )
        client.takes_connections = members.get("connections") is True
        self._doorway.reply(
            client,
            number,
            host_uuid=self._settings.host_uuid,
            host_name=self._settings.host_name,
            version=messages.FRONT_DOOR_VERSION,
            chunk_bytes=self._settings.chunk_bytes,
        )

    def _accelerator(
        self, client: doorway.Client, number: object, members: requests.Members
    ) -> None:
        name = requests.accelerator(members, "name")

        def answer(known: profiles.Profiles) -> None:
            profile = profiles.find(known, client.project_id, name)
            if profile is None:
                self._doorway.fail(
                    client,
                    number,
                    codes.UNKNOWN_ACCELERATOR,
                    f"there is no accelerator {name}",
                )
            else:
                self._doorway.reply(
                    client, number, profile=profiles.public(profile)
                )

        self._ask_profiles(client, number, name, answer)

    def _accelerators(
        self, client: doorway.Client, number: object, members: requests.Members
    ) -> None:
        after = requests.after(members)

        def answer(known: profiles.Profiles) -> None:
            own = {
                name: profile
                for name, profile in sorted(known.items())
                if profile.is_for(client.project_id) and name > after
            }
            self._call(
                client,
                number,
                self._conductor.pool_summary,
                lambda summary: self._doorway.reply(
                    client, number, **profiles.page(own, summary["hosts"])
                ),
            )

        self._ask_profiles(client, number, None, answer)

    def _ask_profiles(
        self,
        client: doorway.Client,
        number: object,
        name: str | None,
        on_known: Callable[[profiles.Profiles], None],
    ) -> None:
        def answered(known: profiles.Profiles | None) -> None:
            client.questions -= 1
            if known is None:
                self._unavailable(client, number)
            else:
                on_known(known)

        self._begin_question(client)
        self._profiles.ask(client.project_id, name, answered)

    def _open(
        self, client: doorway.Client, number: object, members: requests.Members
    ) -> None:
        request = requests.open_request(
            members,
            project_id=client.project_id,
            user_id=client.user_id,
            host_uuid=self._settings.host_uuid,
        )
        secret = secrets.token_hex(SECRET_BYTES)
        request = dataclasses.replace(
            request, secret_sha256=hashlib.sha256(secret.encode()).hexdigest()
        )
        self._check_quota(client, request_id=request.request_id)
        # The answer goes first, so that events follow it.
        self._doorway.reply(client, number, session_id=None)
        if not client.closed:
            self._apply(
                self._opens.open(
                    client.number, request, self._loop.now(), secret
                )
            )

    def _reopen(
        self, client: doorway.Client, number: object, members: requests.Members
    ) -> None:
        lost = opens.Reopen(
            self._settings.host_uuid,
            client.project_id,
            requests.session_id(members),
            requests.generation(members),
        )
        self._check_quota(client, session_id=lost.session_id)
        # As for open: events follow the answer.
        self._doorway.reply(client, number)
        if not client.closed:
            self._apply(
                self._opens.reopen(client.number, lost, self._loop.now())
            )

    def _progress(
        self, client: doorway.Client, number: object, members: requests.Members
    ) -> None:
        project_id = client.project_id
        session_id = requests.session_id(members)
        input_bytes = requests.size_bytes(members, "input_bytes")
        if self._opens.may_report(
            client.number, project_id, session_id, self._loop.now()
        ):
            self._casts.put(
                ("progress", project_id, session_id),
                lambda: self._conductor.report_progress(
                    project_id, session_id, input_bytes
                ),
                lane=project_id,
            )
        self._doorway.reply(client, number)

    def _check_quota(self, client: doorway.Client, **ids: str) -> None:
        """Check that a client may have one more session.

        :param ids: of the session or of its request.
        :raises rules.RequestError: if it may not.
        """
        if self._opens.count(client.number) >= MAX_OPENS_PER_CLIENT:
            raise rules.RequestError(
                codes.QUOTA_EXCEEDED,
                f"one connection may open {MAX_OPENS_PER_CLIENT} sessions",
            )
        if self._opens.is_counted(client.project_id, **ids):
            # The client has come back for a session.
            return
        most = self._settings.max_project_sessions
        if self._opens.count_of_project(client.project_id) >= most:
            raise rules.RequestError(
                codes.QUOTA_EXCEEDED,
                f"programs of a project on one host may have {most} sessions"
                " under way",
            )

    @staticmethod
    def _begin_question(client: doorway.Client) -> None:
        if client.questions >= MAX_QUESTIONS_PER_CLIENT:
            raise rules.RequestError(
                codes.RATE_LIMITED,
                f"{MAX_QUESTIONS_PER_CLIENT} questions of this connection are"
                " not answered yet",
            )
        client.questions += 1

    def _get(
        self, client: doorway.Client, number: object, members: requests.Members
    ) -> None:
        session_id = requests.session_id(members)
        known = self._opens.view(client.project_id, session_id)
        if known is not None:
            self._doorway.reply(
                client, number, session=_view_members(known.public())
            )
            return

        def answer(views: list[objects.SessionView]) -> None:
            own = [one for one in views if one.project_id == client.project_id]
            if own:
                session = _view_members(own[0].public())
                self._doorway.reply(client, number, session=session)
            else:
                self._doorway.fail(
                    client,
                    number,
                    codes.SESSION_NOT_FOUND,
                    "there is no such session",
                )

        self._call(
            client,
            number,
            lambda: self._conductor.get_sessions([session_id]),
            answer,
        )

    def _cancel(
        self, client: doorway.Client, number: object, members: requests.Members
    ) -> None:
        session_id, request_id = requests.cancel_target(members)
        self._apply(
            self._opens.cancel(
                client.project_id,
                session_id,
                request_id,
                codes.CANCELLED_BY_CLIENT,
                self._loop.now(),
            )
        )
        self._doorway.reply(client, number)

    def _close(
        self, client: doorway.Client, number: object, members: requests.Members
    ) -> None:
        close = opens.Close(
            client.project_id,
            requests.session_id(members),
            requests.generation(members),
            requests.size_bytes(members, "input_bytes"),
            requests.size_bytes(members, "output_bytes"),
            confirmed=members.get("confirmed") is True,
        )
        self._apply(self._opens.close(close, self._loop.now()))
        self._doorway.reply(client, number)

    def _connect(
        self, client: doorway.Client, number: object, members: requests.Members
    ) -> None:
        session_id = requests.session_id(members)
        generation = requests.generation(members)
        offered = self._opens.view(client.project_id, session_id)
        fd = self._connection(client, session_id, generation, offered)
        self._doorway.send(client, messages.reply(number), [fd])

    def _connection(
        self,
        client: doorway.Client,
        session_id: str,
        generation: int,
        view: objects.SessionView | None,
    ) -> int:
        """Return the descriptor of a connection to a session's worker.

        :raises rules.RequestError: if there is none.
        """
        self._doorway.check_descriptors(client)
        return self._slots.connect(
            client.project_id, session_id, generation, view
        ).detach()

    def _connect_group(
        self, client: doorway.Client, number: object, members: requests.Members
    ) -> None:
        group_id = requests.group_id(members)
        self._doorway.check_descriptors(client)
        # The desk asks its client for the secret.
        sock = self._slots.connect_group(client.project_id, group_id)
        self._doorway.send(client, messages.reply(number), [sock.detach()])

    def _dry_running(
        self, client: doorway.Client, members: requests.Members
    ) -> Callable[[], groupdoor.Members]:
        """Return what asks what would become of a session."""
        request = requests.open_request(
            {**members, "request_id": "dry-run"},
            project_id=client.project_id,
            user_id=client.user_id,
            host_uuid=self._settings.host_uuid,
        )

        def ask() -> groupdoor.Members:
            try:
                return dataclasses.asdict(self._conductor.dry_run(request))
            except (
                exception.DryRunUnsupported,
                exception.Overloaded,
            ) as error:
                raise rules.RequestError(error.code, error.message) from error

        return ask

    def _ask_conductor(
        self,
        calling: groupdoor.Calling,
        client: doorway.Client,
        number: object,
        members: requests.Members,
    ) -> None:
        call = calling(client, members)

        def refusable() -> groupdoor.Members | rules.RequestError:
            try:
                return call()
            except rules.RequestError as error:
                return error

        def answer(result: groupdoor.Members | rules.RequestError) -> None:
            if isinstance(result, rules.RequestError):
                self._doorway.fail(client, number, result.code, result.message)
            else:
                self._doorway.reply(client, number, **result)

        self._call(client, number, refusable, answer)

    def _pool(
        self, client: doorway.Client, number: object, members: requests.Members
    ) -> None:
        self._call(
            client,
            number,
            self._conductor.pool_summary,
            lambda summary: self._doorway.reply(
                client, number, summary=summary
            ),
        )

    def _call(
        self,
        client: doorway.Client,
        number: object,
        call: Callable[[], typing.Any],
        on_result: Callable[[typing.Any], None],
    ) -> None:
        def answered(result: typing.Any) -> None:
            client.questions -= 1
            on_result(result)

        def failed(error: Exception) -> None:
            client.questions -= 1
            if isinstance(error, queue.Full):
                # A client asks too much; a line for each would flood the log.
                LOG.debug("A question was dropped")
            else:
                self._log.warning("The conductor did not answer: %s", error)
            self._unavailable(client, number)

        self._begin_question(client)
        self._caller.submit(
            call,
            answered,
            failed,
            limit_s=self._settings.open_timeout_s,
            lane=client.project_id,
        )

    # Sessions.

    def session_changed(self, views: Iterable[objects.SessionView]) -> None:
        """Take news of sessions from the conductor.

        :param views: the sessions.
        """
        now = self._loop.now()
        for view in views:
            self._apply(self._opens.heard(view, now))

    def _apply(self, effects: Iterable[opens.Effect]) -> None:
        for effect in effects:
            self._execute(effect)
        if len(self._opens) and not self._ticking:
            self._ticking = True
            self._loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._ticking = False
        if self._doorway.is_open:
            self._apply(self._opens.tick(self._loop.now()))

    def _execute(self, effect: opens.Effect) -> None:
        match effect:
            case opens.Push(number, view):
                self._push(number, view)
            case opens.Submit(request):
                self._unsent[request.project_id].append(effect)
                self._submit(request.project_id)
            case opens.Reopen(host_uuid, project_id, lost_id, generation):
                self._call_for(
                    project_id,
                    [effect],
                    lambda: [
                        self._conductor.reopen_session(
                            project_id,
                            session_id=lost_id,
                            generation=generation,
                            host_uuid=host_uuid,
                        )
                    ],
                )
            case opens.Cancel(project_id, session_id, request_id, reason):
                self._casts.put(
                    ("cancel", project_id, request_id or session_id),
                    lambda: self._conductor.cancel_session(
                        project_id,
                        session_id=session_id,
                        request_id=request_id,
                        reason=reason,
                    ),
                    lane=project_id,
                )
            case opens.Close():
                self._casts.put(
                    ("cancel", effect.project_id, effect.session_id),
                    lambda: self._conductor.close_session(
                        **dataclasses.asdict(effect)
                    ),
                    lane=effect.project_id,
                )
            case opens.Poll():
                self._poll(effect)

    def _submit(self, project_id: str) -> None:
        """Submit waiting requests, unless enough calls are under way."""
        unsent = self._unsent[project_id]
        if not unsent or self._calls[project_id] >= CALLS_PER_PROJECT:
            return
        count = min(len(unsent), MAX_TOGETHER)
        wishes = [unsent.popleft() for _ in range(count)]
        self._call_for(
            project_id,
            wishes,
            lambda: self._conductor.submit_sessions(
                [wish.request for wish in wishes]
            ),
        )

    def _call_for(
        self,
        project_id: str,
        wishes: Sequence[opens.Wish],
        call: Callable[[], Sequence[objects.SessionView | None]],
    ) -> None:
        def answered(views: Sequence[objects.SessionView | None]) -> None:
            self._calls[project_id] -= 1
            self.session_changed(view for view in views if view)
            for wish in wishes:
                self._opens.call_ended(wish, self._loop.now())
            self._submit(project_id)

        def failed(error: Exception) -> None:
            self._log.warning("The conductor did not answer: %s", error)
            answered(())

        self._calls[project_id] += 1
        self._opener.submit(
            call,
            answered,
            failed,
            limit_s=self._settings.open_timeout_s,
            lane=project_id,
        )

    def _push(self, number: int, view: objects.SessionView) -> None:
        client = self._doorway.client(number)
        if client is None:
            return
        news = messages.notification("session", session=_view_members(view))
        fds = []
        if client.takes_connections and view.state == states.READY:
            # Without a connection, the client asks for it and learns why.
            ids = view.session_id, view.generation
            with contextlib.suppress(rules.RequestError):
                fds.append(self._connection(client, *ids, view))
                news["connection"] = True
        self._doorway.send(client, news, fds)

    def _poll(self, poll: opens.Poll) -> None:
        if self._polling or self._loop.now() < self._polls_again_s:
            return
        self._polling = True

        def answered(
            answer: tuple[list[objects.SessionView], list[str]],
        ) -> None:
            self._polling = False
            now = self._loop.now()
            self._apply(self._opens.polled(poll, *answer, now))

        def failed(error: Exception) -> None:
            self._polling = False
            # A refusal comes at once, and every agent polls.
            self._polls_again_s = (
                self._loop.now() + self._settings.session_poll_interval_s
            )
            LOG.warning("Cannot poll sessions: %s", error)

        self._caller.submit(
            lambda: self._conductor.changed_sessions(
                {name: revision for _, name, revision in poll.sessions},
                host_uuid=self._settings.host_uuid,
            ),
            answered,
            failed,
        )


def _view_members(view: objects.SessionView) -> dict[str, object]:
    # asdict() would copy everything in it.
    endpoints = [dict(vars(one)) for one in view.endpoints]
    return {**vars(view), "endpoints": endpoints}
