# SPDX-License-Identifier: Apache-2.0

"""Client operations that the conductor answers.

A request is checked on arrival; then another thread calls the conductor, and
the result becomes the reply.
"""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import typing
import uuid
from collections.abc import Callable
from collections.abc import Iterator

import oslo_messaging as messaging
from oslo_log import log as logging

from fpgapool import objects
from fpgapool.agent import loop as agent_loop
from fpgapool.agent import sender
from fpgapool.agent import settings as agent_settings
from fpgapool.agent.door import doorway
from fpgapool.agent.door import profiles
from fpgapool.agent.door import requests
from fpgapool.common import exception
from fpgapool.common.monitoring import ratelimit
from fpgapool.objects import bounds
from fpgapool.rpcapi import conductor as conductor_api
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import names
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)

#: Maximum number of one client's unanswered queries.
MAX_QUESTIONS_PER_CLIENT = 64

Members: typing.TypeAlias = dict[str, object]
#: Calls the conductor and returns the reply; may raise rules.RequestError.
Call: typing.TypeAlias = Callable[[], Members]


class Questions:
    """Queries the conductor on behalf of clients.

    :param known: returns the view of a project's session without querying the
        conductor, or None if the session is unknown here.
    """

    def __init__(
        self,
        settings: agent_settings.AgentSettings,
        loop: agent_loop.Loop,
        conductor: conductor_api.ConductorAPI,
        caller: sender.Caller,
        known: Callable[[str, str], objects.SessionView | None],
    ) -> None:
        self._settings = settings
        self._conductor = conductor
        self._caller = caller
        self._known = known
        #: Limits the rate of log lines that clients cause.
        self._log = ratelimit.RateLimitedLog(__name__)
        self._profiles = profiles.ProfileCache(
            loop,
            caller,
            lambda: profiles.fetched(conductor),
            limit_s=settings.open_timeout_s,
        )

    def operations(
        self,
    ) -> dict[str, Callable[[doorway.Request], None]]:
        """Return the handler of each operation, by name."""
        return {
            "accelerator": self._accelerator,
            "accelerators": self._accelerators,
            "get": self._get,
            "pool": lambda request: self._ask(request, self._pool(request)),
            "dry_run": lambda request: self._ask(
                request, self._dry_run(request)
            ),
            "attach_group": lambda request: self._ask(
                request, self._attach(request)
            ),
            "group": lambda request: self._ask(request, self._group(request)),
            "detach_group": lambda request: self._ask(
                request, self._detach(request)
            ),
        }

    def _ask(self, request: doorway.Request, call: Call) -> None:
        client = request.client

        def refusable() -> Members | rules.RequestError:
            try:
                with request.about():
                    return call()
            except rules.RequestError as error:
                return error

        def answered(result: Members | rules.RequestError) -> None:
            client.questions -= 1
            if isinstance(result, rules.RequestError):
                request.fail(result.code, result.message)
            else:
                request.reply(**result)

        def failed(error: Exception) -> None:
            client.questions -= 1
            if isinstance(error, queue.Full):
                # Clients send queries too fast; warnings would flood the log.
                LOG.debug("Dropped a client's query: the queue is full")
            else:
                with request.about():
                    self._log.warning(
                        "The conductor did not answer: %s", error
                    )
            _fail_unanswered(request)

        _begin_question(client)
        self._caller.submit(
            refusable,
            answered,
            failed,
            limit_s=self._settings.open_timeout_s,
            lane=client.project_id,
        )

    def _pool(self, request: doorway.Request) -> Call:
        is_paged = "after" in request.members
        after = requests.after(request.members)

        def ask() -> Members:
            try:
                page = self._conductor.pool_hosts(after)
                counts = self._conductor.pool_counts()
            except messaging.RPCVersionCapError:
                return {"summary": self._conductor.pool_summary()}
            if "next" in page and not is_paged:
                raise rules.RequestError(
                    codes.FRAME_TOO_LARGE,
                    "the pool has more hosts than one message holds; ask for"
                    ' pages with "after", or use the REST API',
                )
            summary = {
                "strategy": counts["strategy"],
                "waiting": counts["sessions"].get(states.QUEUED, 0),
                "sessions": counts["sessions"],
                "hosts": page.pop("hosts"),
            }
            return {"summary": summary, **page}

        return ask

    # Accelerators.

    def _accelerator(self, request: doorway.Request) -> None:
        name = requests.accelerator_name(request.members)

        def answer(known: profiles.Profiles) -> None:
            profile = profiles.find(known, request.client.project_id, name)
            if profile is None:
                request.fail(
                    codes.UNKNOWN_ACCELERATOR,
                    names.unknown_accelerator(
                        name,
                        [
                            one.name
                            for one in known.values()
                            if one.is_for(request.client.project_id)
                        ],
                    ),
                )
            else:
                request.reply(profile=profiles.public(profile))

        self._ask_profiles(request, name, answer)

    def _accelerators(self, request: doorway.Request) -> None:
        after = requests.after(request.members)
        project_id = request.client.project_id

        def answer(known: profiles.Profiles) -> None:
            own = {
                name: profile
                for name, profile in sorted(known.items())
                if profile.is_for(project_id) and name > after
            }
            self._ask(
                request,
                lambda: profiles.page(own, profiles.slots(self._conductor)),
            )

        self._ask_profiles(request, None, answer)

    def _ask_profiles(
        self,
        request: doorway.Request,
        name: str | None,
        on_known: Callable[[profiles.Profiles], None],
    ) -> None:
        client = request.client

        def answered(known: profiles.Profiles | None) -> None:
            client.questions -= 1
            if known is None:
                _fail_unanswered(request)
            else:
                on_known(known)

        _begin_question(client)
        self._profiles.ask(client.project_id, name, answered)

    # Sessions.

    def _get(self, request: doorway.Request) -> None:
        project_id = request.client.project_id
        session_id = requests.session_id(request.members)
        known = self._known(project_id, session_id)
        if known is not None:
            request.reply(session=view_members(known.public()))
            return

        def ask() -> Members:
            views = self._conductor.get_sessions([session_id])
            own = [one for one in views if one.project_id == project_id]
            if not own:
                raise rules.RequestError(
                    codes.SESSION_NOT_FOUND, "no such session"
                )
            return {"session": view_members(own[0].public())}

        self._ask(request, ask)

    def _dry_run(self, request: doorway.Request) -> Call:
        wanted = requests.open_request(
            {**request.members, "request_id": "dry-run"},
            project_id=request.client.project_id,
            user_id=request.client.user_id,
            host_uuid=self._settings.host_uuid,
        )

        def ask() -> Members:
            with _refusals(exception.DryRunUnsupported, exception.Overloaded):
                return dataclasses.asdict(self._conductor.dry_run(wanted))

        return ask

    # Groups.

    def _attach(self, request: doorway.Request) -> Call:
        client = request.client
        name = requests.group_name(request.members)
        secret_hash = requests.secret_hash(request.members)

        def attach() -> Members:
            group = self._find(client.project_id, name)
            client_id = str(uuid.uuid4())
            wanted = objects.AttachClient(
                client_id=client_id,
                group_id=group.group_id,
                project_id=client.project_id,
                user_id=client.user_id,
                secret_hash=secret_hash,
            )
            with _refusals(exception.GroupRefused):
                self._conductor.attach_client(wanted)
            return {"client_id": client_id, **self._public(group)}

        return attach

    def _group(self, request: doorway.Request) -> Call:
        group_id = requests.group_id(request.members)
        project_id = request.client.project_id
        return lambda: self._public(self._find(project_id, group_id))

    def _detach(self, request: doorway.Request) -> Call:
        group_id = requests.group_id(request.members)
        client_id = requests.client_id(request.members)

        def detach() -> Members:
            with _refusals(exception.GroupRefused):
                self._conductor.detach_client(
                    request.client.project_id,
                    group_id=group_id,
                    client_id=client_id,
                )
            return {}

        return detach

    def _find(self, project_id: str, name: str) -> objects.GroupView:
        mine = self._settings.host_uuid
        try:
            found = self._conductor.usable_groups(
                project_id, name, host_uuid=mine
            )
        except messaging.RPCVersionCapError:
            found = self._conductor.find_groups(project_id, name)
        if not found:
            raise rules.RequestError(
                codes.GROUP_NOT_FOUND, f"no such group: {name!r:.80}"
            )
        if len(found) > 1:
            # Other projects may share groups with the same name.
            raise rules.RequestError(
                codes.INVALID_REQUEST,
                f"several groups are named {name!r:.80}; use the group's ID",
            )
        return found[0]

    def _public(self, group: objects.GroupView) -> Members:
        """Return the public part of a group's view, with as many hosts as fit
        into one message, this host first.
        """
        mine = self._settings.host_uuid
        hosts = [
            one.seen_in(group.group_id)
            for one in objects.hosts_from(group.hosts, mine)
        ]
        return {
            "group_id": group.group_id,
            "accelerator": group.accelerator,
            "hosts": bounds.fitting(map(dataclasses.asdict, hosts)),
            "hosts_revision": group.hosts_revision,
            "hosts_total": group.hosts_total or len(hosts),
        }


def _begin_question(client: doorway.Client) -> None:
    if client.questions >= MAX_QUESTIONS_PER_CLIENT:
        raise rules.RequestError(
            codes.RATE_LIMITED,
            f"{MAX_QUESTIONS_PER_CLIENT} queries from this connection are"
            " unanswered; wait for an answer first",
        )
    client.questions += 1


def _fail_unanswered(request: doorway.Request) -> None:
    request.fail(codes.CONDUCTOR_UNAVAILABLE, "the conductor did not answer")


@contextlib.contextmanager
def _refusals(*errors: type[exception.FpgapoolException]) -> Iterator[None]:
    """Turn the conductor's refusals into request errors."""
    try:
        yield
    except errors as error:
        refusal = typing.cast(typing.Any, error)
        raise rules.RequestError(refusal.code, refusal.message) from error


def view_members(view: objects.SessionView) -> Members:
    # asdict() would copy all nested values.
    endpoints = [dict(vars(one)) for one in view.endpoints]
    return {**vars(view), "endpoints": endpoints}
