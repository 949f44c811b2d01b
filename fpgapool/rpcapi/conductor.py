# SPDX-License-Identifier: Apache-2.0

# The bodies of declared methods are empty.
# mypy: disable-error-code="empty-body"

"""Client side of the conductor's RPC interface."""

import contextlib
import math
import queue
import threading
import time
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import oslo_messaging as messaging

from fpgapool import objects
from fpgapool.common.messaging import rpc
from fpgapool.common.messaging import signing
from fpgapool.objects import bitstream
from fpgapool.objects import finding as findings
from fpgapool.objects import group
from fpgapool.rpcapi import declared

TOPIC = "fpgapool-conductor"

# Increased with every change; the conductor's endpoint has the same version.
VERSION = "1.1"

#: The version that introduced each method, if not the first one.
SINCE = dict.fromkeys(
    (
        *("accelerators_after", "end_sessions", "group_now", "hosts_now"),
        *("note_service", "pool_counts", "pool_hosts", "services_now"),
        *("budgets_after", "get_budget", "get_share", "set_budget"),
        *("set_reservation", "stage_endpoints", "usable_groups"),
    ),
    "1.1",
)

# Leaders' names are reused, so that the broker does not accumulate queues.
_LEADER_NAMES = 16

# How long to keep addressing a leader after its last message. The broker needs
# less time, two heartbeat intervals, to detect a frozen consumer.
LEADER_MEMORY_S = 60.0

#: Minimum timeout: a conductor may need 3 s to report an error.
TRY_S = 3.3

# A leader that sent a message within this time is considered alive, even if it
# has not answered a call.
_JUST_HEARD_S = 1.5


def server_name(leader_epoch: int) -> str:
    """Return the server name of the leader of an epoch.

    Messages to the topic alone may reach a frozen leader that never answers.
    """
    return f"leader-{leader_epoch % _LEADER_NAMES}"


def is_outdated(seen_epoch: int, leader_epoch: int) -> bool:
    """Whether a report was sent to an earlier leader with the same name.

    :param seen_epoch: the highest epoch that its sender knew; 0: none.
    """
    return 0 < seen_epoch <= leader_epoch - _LEADER_NAMES


class _Leader:
    """Sends messages to the leading conductor; see ConductorAPI."""

    def __init__(
        self,
        *,
        call_timeout_s: float = rpc.CALL_TIMEOUT_S,
        tries: int = 3,
        watch: rpc.Watch | None = None,
        keys: signing.Keys | None = None,
        max_calls: int | None = None,
    ) -> None:
        self._turns: queue.SimpleQueue[None] | None = None
        if max_calls is not None:
            self._turns = queue.SimpleQueue()
            for _ in range(max_calls):
                self._turns.put(None)
        self._client = rpc.Client(
            messaging.Target(topic=TOPIC, version=VERSION),
            since=SINCE,
            timeout_s=call_timeout_s,
            watch=watch,
            keys=keys,
        )
        self._call_timeout_s = call_timeout_s
        self._tries = max(1, min(tries, int(call_timeout_s // TRY_S)))
        self._lock = threading.Lock()
        self._leader_epoch = 0
        self._leader_heard_s = -math.inf

    def address_leader(self, leader_epoch: int) -> None:
        """Address messages to the leader that has just sent a message.

        :param leader_epoch: its epoch; a lower one than before is ignored.
        """
        with self._lock:
            if leader_epoch >= self._leader_epoch:
                self._leader_epoch = leader_epoch
                self._leader_heard_s = time.monotonic()

    def _forget_leader(self, silent: str | None) -> None:
        """Address messages to any conductor until a leader sends one again.

        The known leader is kept if it sent a message very recently, or is
        newer than the silent one.

        :param silent: the name of the leader that did not answer; None if the
            message was addressed to any conductor.
        """
        with self._lock:
            if silent != server_name(self._leader_epoch):
                return
            if time.monotonic() - self._leader_heard_s > _JUST_HEARD_S:
                self._leader_heard_s = -math.inf

    def _leader(self) -> str | None:
        with self._lock:
            silent_s = time.monotonic() - self._leader_heard_s
            if silent_s < LEADER_MEMORY_S:
                return server_name(self._leader_epoch)
        return None

    def together(self) -> contextlib.AbstractContextManager[None]:
        return self._client.together()

    def _cast(self, method: str, **kwargs: Any) -> None:
        self._client.cast(method, server=self._leader(), **kwargs)

    def _call(self, method: str, **kwargs: Any) -> Any:
        return self._try(method, self._call_timeout_s, kwargs)

    def _ask(self, method: str, **kwargs: Any) -> Any:
        """Send a call, and repeat it if there is no answer; repeating it must
        have no further effect.
        """
        for _ in range(1, self._tries):
            with contextlib.suppress(messaging.MessagingTimeout):
                return self._try(
                    method, self._call_timeout_s / self._tries, kwargs
                )
        return self._try(method, self._call_timeout_s / self._tries, kwargs)

    def _try(
        self, method: str, timeout_s: float, kwargs: Mapping[str, Any]
    ) -> Any:
        server = self._leader()
        with self._turn(timeout_s):
            try:
                return self._client.call(
                    method, server=server, timeout_s=timeout_s, **kwargs
                )
            except messaging.MessagingTimeout:
                self._forget_leader(server)
                raise

    @contextlib.contextmanager
    def _turn(self, timeout_s: float) -> Iterator[None]:
        """Call within this context, so that not too many calls are under way.

        :raises MessagingTimeout: if the others do not end in time.
        """
        if self._turns is None:
            yield
            return
        try:
            self._turns.get(timeout=timeout_s)
        except queue.Empty:
            raise messaging.MessagingTimeout(
                "earlier calls to the conductor have no answer"
            ) from None
        try:
            yield
        finally:
            self._turns.put(None)


class _PoolQuestions(_Leader):
    """About the whole pool, and its services; see :class:`ConductorAPI`."""

    @declared.sent_by("_ask")
    def pool_summary(self) -> dict[str, Any]:
        """Return a summary of the pool and all its hardware (call).

        For conductors of release 1.0.0: the answer grows with the pool.
        """

    @declared.sent_by("_ask")
    def pool_counts(self) -> dict[str, Any]:
        """Return the pool in numbers (call).

        :returns: the name of the ``strategy``; the number of ``sessions`` by
            state, including recently ended ones, and of ``queued`` ones by
            accelerator, of those with the most; ``builtins``, the
            accelerators that slots run without a file, by shape; ``hosts``,
            ``hosts_up``, ``devices`` and ``devices_healthy``; ``slots``, by
            shape and in it by state; and ``generation``, which grows when
            one of the last five changes. Of all sessions since the leader's
            start: ``moved_bytes`` of input and output, ``waits``, the number
            of those that have waited for a slot, and ``waited_s``, the sum of
            these waits.
        """

    @declared.sent_by("_ask")
    def hosts_now(self, host_uuids: Iterable[str]) -> dict[str, Any]:
        """Return what is not in the database about hosts (call).

        :param host_uuids: at most
            :data:`fpgapool.objects.bounds.MAX_HOSTS`.
        :returns: by UUID, ``nic_load``, ``queued``, ``last_report_at``,
            ``link_message``, ``isolation_message``, ``agent_version`` and
            ``unusable_slots``, the ids of their rows.
        """

    @declared.sent_by("_cast")
    def note_service(
        self, binary: str, name: str, *, host: str, version: str, lives: bool
    ) -> None:
        """Tell that a process lives, or that it stops (cast)."""

    @declared.sent_by("_ask")
    def services_now(self) -> dict[str, Any]:
        """Return the processes that have told this leader that they live.

        :returns: ``services``, whose members are the arguments of
            :meth:`note_service`, and ``last_report_at`` and ``up`` by the
            leader's clock; and the leader's own ``version``.
        """

    @declared.sent_by("_ask")
    def pool_hosts(self, after: str) -> dict[str, Any]:
        """Return a page of the hosts, with devices and slots (call).

        Intended for callers that cannot read the database.

        :param after: the UUID after which the page starts.
        :returns: ``hosts`` and, if there may be more, ``next``, the ``after``
            of the next page.
        """

    @declared.sent_by("_ask")
    def pool_now(self) -> dict[str, Any]:
        """Return the part of the summary that is not in the database (call).

        For conductors of release 1.0.0: the answer grows with the pool.

        :returns: the name of the ``strategy``; the number of ``sessions`` by
            state, including recently ended ones, and of ``queued`` ones by
            accelerator; ``unusable_slots``, the ids of their rows; and
            ``hosts``, by UUID, with ``nic_load``, ``queued``,
            ``last_report_at`` and ``link_message``.
        """


class ConductorAPI(_PoolQuestions):
    """Sends casts and calls to the leader.

    They are addressed to the leader that sent a message last; if it is unknown
    or does not answer, to any conductor that listens to the topic.

    Every method raises oslo_messaging.MessagingException if the broker is
    unreachable. A call raises MessagingTimeout if there is no answer in time.
    A cast may be lost even if the method returns.

    :param tries: how often to send a repeatable call within that time, because
        the conductor that received it may have died.
    :param max_calls: how many calls may be under way at the same time; None:
        any number. The conductor refuses calls while too many wait there.
    """

    @declared.sent_by("_cast")
    def report(self, report: objects.AgentReport) -> None:
        """Report the complete state of a host (cast)."""

    @declared.sent_by("_cast")
    def prepared(self, prepared: objects.Prepared) -> None:
        """Report that a slot is ready for its session's client (cast)."""

    @declared.sent_by("_ask")
    def reopen_session(
        self,
        project_id: str,
        *,
        session_id: str,
        generation: int,
        host_uuid: str = "",
    ) -> objects.SessionView | None:
        """Request another slot for a session that lost its own (call).

        Repeating the call has no further effect.

        :param generation: generation of the lost assignment; later ones stay.
        :returns: the session's state; None if the caller may not see it.
        """

    def cancel_session(
        self,
        project_id: str,
        *,
        session_id: str | None = None,
        request_id: str | None = None,
        reason: str,
    ) -> None:
        """Cancel a session, given its id or its request's (cast).

        :param reason: a code of :mod:`fpgapool.vocabulary.codes`.
        """
        if session_id is None and request_id is None:
            raise ValueError("session_id or request_id is required")
        self._cast(
            "cancel_session",
            project_id=project_id,
            session_id=session_id,
            request_id=request_id,
            reason=reason,
        )

    @declared.sent_by("_cast")
    def close_session(
        self,
        project_id: str,
        session_id: str,
        *,
        generation: int,
        input_bytes: int,
        output_bytes: int,
        confirmed: bool,
    ) -> None:
        """Report that a client has closed its session (cast).

        :param input_bytes: input bytes that the session's slots have
            processed, according to the client.
        """

    @declared.sent_by("_ask")
    def end_sessions(
        self, ends: Iterable[objects.SessionEnd]
    ) -> list[objects.SessionView | None]:
        """Cancel or close sessions (call); durable on return.

        Repeating the call has no further effect.

        :returns: each session afterwards; None if it is not in memory, or
            belongs to another project.
        """

    @declared.sent_by("_cast")
    def report_progress(
        self, project_id: str, session_id: str, input_bytes: int
    ) -> None:
        """Report how much input a waiting client processed itself (cast)."""

    @declared.sent_by("_cast")
    def renew_secret(self, session_id: str) -> None:
        """Request a new secret for a READY session (cast)."""

    def get_sessions(
        self, session_ids: Iterable[str]
    ) -> list[objects.SessionView]:
        """Return existing sessions, in any order, without secrets (call)."""
        views, _unknown = self.changed_sessions(dict.fromkeys(session_ids, -1))
        return views

    @declared.sent_by("_ask")
    def session_now(
        self, session_id: str, project_id: str = ""
    ) -> objects.SessionView | None:
        """Return a session's state from the leader's memory (call).

        :param project_id: if the session belongs to this project and its
            client may connect, its secret is included once the leader has it.
            Front doors get secrets from :meth:`changed_sessions` instead.
        :returns: None if it is not in memory: it ended or never existed.
        """

    @declared.sent_by("_ask")
    def stage_endpoints(
        self,
        host_uuid: str,
        project_id: str,
        session_id: str,
        generation: int,
    ) -> list[dict[str, Any]]:
        """Return where the worker of a chain's next stage listens (call).

        :param host_uuid: host of the calling agent, which has a session of
            the same project.
        :returns: ``address`` and ``port`` of each network; none if the project
            has no session in a slot there, or none with this generation.
        """

    def changed_sessions(
        self, revisions: Mapping[str, int], *, host_uuid: str = ""
    ) -> tuple[list[objects.SessionView], list[str]]:
        """Return the changed sessions, and the ids of unknown ones (call).

        A call may cover very many waiting sessions, as few of them change.

        :param revisions: the revisions that the caller knows, by session id.
        :param host_uuid: UUID of the calling front door's host; the sessions
            that were opened there include their secrets.
        """
        door = {"host_uuid": host_uuid} if host_uuid else {}
        answer = self._ask(
            "changed_sessions", revisions=dict(revisions), **door
        )
        views = map(objects.SessionView.from_primitive, answer["changed"])
        return list(views), answer["unknown"]

    @declared.sent_by("_ask")
    def submit_sessions(
        self, requests: Iterable[objects.OpenRequest]
    ) -> list[objects.SessionView]:
        """Request sessions (call).

        Repeating the call has no further effect.

        :returns: for each request, the recorded session, or a REJECTED one
            without an id, which contains the reason. If its client may
            connect, the session's secret is included.
        """

    @declared.sent_by("_ask")
    def dry_run(self, request: objects.OpenRequest) -> objects.DryRun:
        """Return what would happen to a request if it were made now (call).

        It changes nothing.

        :raises Overloaded: if there were too many dry runs recently.
        :raises DryRunUnsupported: if the pool is too large, or its strategy
            cannot be copied.
        """

    @declared.sent_by("_ask")
    def list_accelerators(self) -> list[objects.AcceleratorProfile]:
        """Return the library's accelerators in one message (call).

        For conductors of release 1.0.0: the answer grows with the library.
        """

    @declared.sent_by("_ask")
    def accelerators_after(
        self, name: str
    ) -> list[objects.AcceleratorProfile]:
        """Return the accelerators that follow a name, a page of them (call).

        :returns: in order of their names; empty if there are no more.
        """

    @declared.sent_by("_ask")
    def get_quota(
        self, project_id: str | None = None
    ) -> dict[str, dict[str, Any]]:
        """Return a project's effective limits (call).

        :param project_id: None: return the default limits.
        """

    @declared.sent_by("_ask")
    def get_share(
        self, project_id: str, *, session_id: str = ""
    ) -> dict[str, Any]:
        """Return a project's share (call).

        :param session_id: the session of the project of which to say what is
            before it; empty: none.
        :returns: the members of
            :data:`fpgapool.vocabulary.accounting.SHARE` that do not begin with
            ``used``.
        """

    @declared.sent_by("_call")
    def set_quota(
        self, project_id: str, limits: Mapping[str, int | None]
    ) -> None:
        """Set a project's limits (call); returns once they are durable.

        :param limits: new limits by resource; None restores the default.
        """

    @declared.sent_by("_ask")
    def get_budget(self, project_id: str) -> dict[str, Any] | None:
        """Return a project's budget and what is left of it (call).

        :returns: the members of
            :data:`fpgapool.vocabulary.budget.FIELDS`; None: it has none.
        """

    @declared.sent_by("_ask")
    def budgets_after(self, project_id: str) -> list[dict[str, Any]]:
        """Return the budgets that follow a project's, a page of them (call).

        :returns: in order of the projects; empty if there are no more.
        """

    @declared.sent_by("_call")
    def set_budget(
        self, project_id: str, budget: Mapping[str, Any] | None
    ) -> None:
        """Set a project's budget (call); durable on return.

        :param budget: see :func:`fpgapool.vocabulary.budget.checked`; None:
            the default applies.
        """

    @declared.sent_by("_call")
    def set_reservation(
        self,
        reservation_id: str,
        wanted: Mapping[str, Any] | None,
        *,
        project_id: str = "",
        user_id: str = "",
        exempt: bool = False,
    ) -> None:
        """Create, change or delete a reservation (call); durable on return.

        :param wanted: members of
            :data:`fpgapool.vocabulary.reservation.MEMBERS`; of a change only
            what changes. None: delete it.
        :param project_id: the owner of a new reservation; empty: it must
            exist.
        :param exempt: whether the project's quota does not limit it.
        """

    @declared.sent_by("_call")
    def change_bitstream(self, change: bitstream.BitstreamChange) -> None:
        """Change the library (call); durable on return.

        A :class:`~fpgapool.objects.CreateBitstream` can be repeated.
        """

    @declared.sent_by("_call")
    def change_group(self, change: group.GroupChange) -> None:
        """Change a group or its clients (call); durable on return.

        A :class:`~fpgapool.objects.CreateGroup` can be repeated.
        """

    @declared.sent_by("_ask")
    def get_groups(self, group_ids: Iterable[str]) -> list[objects.GroupView]:
        """Return the groups that exist (call).

        For conductors of release 1.0.0: the answer grows with their slots.
        """

    @declared.sent_by("_ask")
    def group_now(self, group_id: str) -> objects.GroupView | None:
        """Return a group, with as many members and hosts as fit (call)."""

    @declared.sent_by("_ask")
    def find_groups(
        self, project_id: str, name: str
    ) -> list[objects.GroupView]:
        """Return the groups with this name that a project may use (call).

        For conductors of release 1.0.0: the answer grows with their slots.
        """

    @declared.sent_by("_ask")
    def usable_groups(
        self, project_id: str, name: str, *, host_uuid: str
    ) -> list[objects.GroupView]:
        """Return groups with this name that a project may use (call).

        :param host_uuid: the host that comes first among a group's hosts.
        :returns: at most two, without members, and with as many hosts as fit.
        """

    @declared.sent_by("_call")
    def attach_client(self, client: group.AttachClient) -> None:
        """Attach a host's client to a group (call); durable on return."""

    @declared.sent_by("_call")
    def detach_client(
        self, project_id: str, *, group_id: str, client_id: str
    ) -> None:
        """End a project's client for a front door (call); durable on return.

        :raises GroupRefused: if the project has no such client in the group.
        """

    @declared.sent_by("_call")
    def admit_instance(
        self, entry: objects.InstanceEntry, *, lost_hash: str = ""
    ) -> objects.InstanceEntry:
        """Admit an instance, so that it can have a token (call).

        Repeating the call updates only the name and the limit.

        :param lost_hash: hash of its current token, if that must be replaced
            because its secret is lost.
        :returns: its durable entry, which may have an older token.
        """

    @declared.sent_by("_call")
    def revoke_instance_token(self, instance_id: str) -> None:
        """Revoke an instance's token permanently (call); durable on return."""

    @declared.sent_by("_call")
    def audit(self) -> list[findings.Finding]:
        """Return the current inconsistencies of the pool (call).

        Those that a second audit also finds are real, not just changes in
        progress.
        """

    @declared.sent_by("_call")
    def repair(self, finding: findings.Finding) -> bool:
        """Repair an inconsistency that an audit has found (call)."""

    @declared.sent_by("_call")
    def administer(
        self,
        host_uuid: str,
        device: str | None,
        state: str,
        *,
        reason: str = "",
        drain_within_s: float | None = None,
    ) -> None:
        """Enable, drain or disable a device or host (call).

        Durable on return; replaces the previous state.

        :param device: its name; None: the whole host.
        :param reason: empty: hardware that stays out of use, or stays enabled,
            keeps its reason.
        :param drain_within_s: how long current sessions may keep draining
            slots; None: no limit.
        """

    @declared.sent_by("_call")
    def set_reservable_slots(
        self, host_uuid: str, device: str, slots: int
    ) -> None:
        """Set how many slots instances can reserve (call); durable on return.

        :raises FewerThanReserved: if more slots are already reserved.
        :raises InvalidRequest: if the device has fewer slots.
        """

    @declared.sent_by("_call")
    def test_slot(
        self, host_uuid: str, device: str, slot: int, accelerator: str = ""
    ) -> None:
        """Order a test of a slot, whether it is in service or not (call).

        If the test fails, the slot is taken out of service.

        :param accelerator: the accelerator to use; empty: any.
        :raises SlotNotTested: if it cannot be tested now; the code says why.
        """
