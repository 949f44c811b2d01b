# SPDX-License-Identifier: Apache-2.0

"""The front door: requests from a host's programs, and their answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.agent import loop as agent_loop
from fpgapool.agent import sender
from fpgapool.agent import settings as agent_settings
from fpgapool.agent.door import doorway
from fpgapool.agent.door import questions
from fpgapool.agent.door import requests
from fpgapool.agent.door import sessions
from fpgapool.agent.door import slots as host_slots
from fpgapool.common.messaging import context
from fpgapool.common.monitoring import ratelimit
from fpgapool.protocol import messages
from fpgapool.rpcapi import conductor as conductor_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)


class FrontDoor:
    """The front door of one host.

    Everything except the constructor runs in the loop's thread.
    """

    def __init__(
        self,
        settings: agent_settings.AgentSettings,
        loop: agent_loop.Loop,
        conductor: conductor_api.ConductorAPI,
        casts: sender.Sender,
        caller: sender.Caller,
        opener: sender.Caller,
        slots: host_slots.HostSlots,
    ) -> None:
        self._settings = settings
        self._slots = slots
        #: Limits the rate of log lines that clients cause.
        self._log = ratelimit.RateLimitedLog(__name__)
        self._doorway = doorway.Doorway(
            settings, loop, self._dispatch, self._gone
        )
        self._sessions = sessions.Sessions(
            settings,
            loop,
            conductor,
            casts,
            caller,
            opener,
            self._push,
            lambda: self._doorway.is_open,
        )
        self.session_changed = self._sessions.changed
        self.to_report = self._sessions.to_report
        self._operations: dict[str, Callable[[doorway.Request], None]] = {
            "hello": self._hello,
            "connect": self._connect,
            "connect_group": self._connect_group,
            **self._sessions.operations(),
            **questions.Questions(
                settings, loop, conductor, caller, self._sessions.view
            ).operations(),
        }

    @property
    def client_count(self) -> int:
        """The number of connected programs."""
        return self._doorway.client_count

    def start(self) -> None:
        self._doorway.start()

    def stop(self) -> None:
        """Close everything, but cancel no sessions: clients will reconnect."""
        self._doorway.stop()

    def _gone(self, client: doorway.Client) -> None:
        self._sessions.client_gone(
            client.number, self._slots.sessions_in_use()
        )

    def _dispatch(
        self, client: doorway.Client, message: messages.Message
    ) -> None:
        request = doorway.Request(
            self._doorway, client, requests.repeatable_id(message), message
        )
        operation = message.get("op")
        handler = (
            self._operations.get(operation)
            if isinstance(operation, str)
            else None
        )
        if handler is None:
            request.fail(
                codes.UNKNOWN_OPERATION,
                "unknown operation",
            )
            return
        try:
            handler(request)
        except rules.RequestError as error:
            request.fail(error.code, error.message)
        except Exception:
            with request.about():
                self._log.exception(
                    "Front door: operation %s failed", operation
                )
            request.fail(
                codes.INTERNAL_ERROR, "internal error; see the agent's log"
            )

    def _hello(self, request: doorway.Request) -> None:
        version = messages.FRONT_DOOR_VERSION
        if request.members.get("version", version) != version:
            raise rules.RequestError(
                codes.INVALID_REQUEST,
                f"this front door supports only version {version}",
            )
        request.client.takes_connections = (
            request.members.get("connections") is True
        )
        request.reply(
            host_uuid=self._settings.host_uuid,
            host_name=self._settings.host_name,
            version=version,
            chunk_bytes=self._settings.chunk_bytes,
            sets=True,
        )

    # Connections to workers and desks, which authenticate the client.

    def _connect(self, request: doorway.Request) -> None:
        session_id = requests.session_id(request.members)
        generation = requests.generation(request.members)
        offered = self._sessions.view(request.client.project_id, session_id)
        fd = self._connection(request.client, session_id, generation, offered)
        self._doorway.send(
            request.client, messages.reply(request.number), [fd]
        )

    def _connection(
        self,
        client: doorway.Client,
        session_id: str,
        generation: int,
        view: objects.SessionView | None,
    ) -> int:
        """Return the descriptor of a connection to a session's worker."""
        self._doorway.check_descriptors(client)
        return self._slots.connect(
            client.project_id, session_id, generation, view
        ).detach()

    def _connect_group(self, request: doorway.Request) -> None:
        client = request.client
        group_id = requests.group_id(request.members)
        self._doorway.check_descriptors(client)
        sock = self._slots.connect_group(client.project_id, group_id)
        self._doorway.send(
            client, messages.reply(request.number), [sock.detach()]
        )

    def _push(self, number: int, view: objects.SessionView) -> None:
        client = self._doorway.client(number)
        if client is None:
            return
        if (
            view.state in states.TERMINAL
            and view.reason not in codes.AS_WANTED
            and self._doorway.may_log(view.project_id)
        ):
            with context.serving(view.request_id):
                LOG.info(
                    "Front door: session %s of project %s is %s: %s",
                    view.session_id or "(none)",
                    view.project_id,
                    view.state,
                    view.reason,
                )
        news = messages.notification(
            "session", session=questions.view_members(view)
        )
        fds = []
        if client.takes_connections and view.state == states.READY:
            # If this fails, the client requests a connection itself and then
            # receives the reason as an error.
            ids = view.session_id, view.generation
            with contextlib.suppress(rules.RequestError):
                fds.append(self._connection(client, *ids, view))
                news["connection"] = True
        self._doorway.send(client, news, fds)
