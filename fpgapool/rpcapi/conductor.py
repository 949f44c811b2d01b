# SPDX-License-Identifier: Apache-2.0

# The bodies of declared methods are empty.
# mypy: disable-error-code="empty-body"

"""Client side of the conductor's RPC interface."""

import contextlib
import math
import threading
import time
from collections.abc import Iterable
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

# Raised with every change; the conductor's endpoint has the same version.
VERSION = "1.0"

#: The version that introduced each method, if it was not the first one.
SINCE: dict[str, str] = {}

# The names of leaders are reused, so that the broker does not keep a queue for
# every past leader.
_LEADER_NAMES = 16

# How long a leader is addressed after its last message. Longer than the broker
# takes to detect a frozen consumer, which is twice the heartbeat.
LEADER_MEMORY_S = 60.0

#: A conductor takes up to 3 s to report why it cannot answer.
TRY_S = 3.3

# A leader heard within this time is considered alive, even if it has not
# answered a message.
_JUST_HEARD_S = 1.5


def server_name(leader_epoch: int) -> str:
    """Return the server name of the leader of an epoch.

    A message to the topic alone reaches any process that listens to it,
    possibly a frozen former leader, which never answers.
    """
    return f"leader-{leader_epoch % _LEADER_NAMES}"


def is_outdated(seen_epoch: int, leader_epoch: int) -> bool:
    """Whether a report was meant for an earlier leader of the same name.

    :param seen_epoch: the highest epoch that its sender had seen; 0 if none.
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
    ) -> None:
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
        """Address messages to the leader that has just been heard.

        :param leader_epoch: its epoch; ignored if lower than an earlier one.
        """
        with self._lock:
            if leader_epoch >= self._leader_epoch:
                self._leader_epoch = leader_epoch
                self._leader_heard_s = time.monotonic()

    def _forget_leader(self, silent: str | None) -> None:
        """Address messages to any conductor until a leader is heard again.

        The known leader is kept if it was heard very recently, or if it became
        known during the call.

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
        """Send a call, repeating it if there is no answer; only for calls that
        may be repeated without further effect.
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
        try:
            return self._client.call(
                method, server=server, timeout_s=timeout_s, **kwargs
            )
        except messaging.MessagingTimeout:
            self._forget_leader(server)
            raise


class ConductorAPI(_Leader):
    """Casts and calls to the leading conductor.

    They go to the leader that was heard last. If it is unknown or does not
    answer, they go to any conductor that listens to the topic.

    Every method raises oslo_messaging.MessagingException if the broker cannot
    be reached. A call raises MessagingTimeout if there is no answer in time. A
    cast may be lost even if the method returned.

    :param tries: how often a repeatable call is sent within that time, because
        the conductor that received it may have died.
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
        """Ask for another slot for a session that lost its slot (call).

        Repeating the call has no further effect.

        :param generation: generation of the lost assignment; a session that
            already has a later one keeps it.
        :returns: the recorded state of the session; None if the caller may
            not see it.
        """

    def cancel_session(
        self,
        project_id: str,
        *,
        session_id: str | None = None,
        request_id: str | None = None,
        reason: str,
    ) -> None:
        """Cancel a session, given its own id or its request's (cast).

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

        :param input_bytes: number of input bytes that the session's slots have
            processed, according to the client; likewise for the output.
        """

    @declared.sent_by("_cast")
    def report_progress(
        self, project_id: str, session_id: str, input_bytes: int
    ) -> None:
        """Report how much a waiting session's client has processed itself
        (cast).
        """

    @declared.sent_by("_cast")
    def renew_secret(self, session_id: str) -> None:
        """Request a new secret for a READY session (cast)."""

    def get_sessions(
        self, session_ids: Iterable[str]
    ) -> list[objects.SessionView]:
        """Return the existing sessions, in any order (call).

        The sessions come without their secrets.
        """
        views, _unknown = self.changed_sessions(dict.fromkeys(session_ids, -1))
        return views

    @declared.sent_by("_ask")
    def session_now(
        self, session_id: str, project_id: str = ""
    ) -> objects.SessionView | None:
        """Return a session's state, including what only the leader knows
        (call).

        :param project_id: project of the client that may connect. If the
            session belongs to that project and is READY, its secret is
            included once the leader has it. A front door gets the secret with
            the changes of the sessions that were opened there.
        :returns: None if the leader does not know the session: if it exists,
            it has ended.
        """

    def changed_sessions(
        self, revisions: Mapping[str, int], *, host_uuid: str = ""
    ) -> tuple[list[objects.SessionView], list[str]]:
        """Return the sessions that have changed since they were read (call).

        A caller may ask for very many waiting sessions at once, because only a
        few of them have changed.

        :param revisions: the known revision of each, by its id.
        :param host_uuid: UUID of the calling front door's host; sessions that
            were opened there come with their secrets.
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
        """Request sessions and return the results (call).

        Repeating the call has no further effect.

        :returns: for each request, the recorded session, or a REJECTED session
            without an id that has the reason.
        """

    @declared.sent_by("_ask")
    def dry_run(self, request: objects.OpenRequest) -> objects.DryRun:
        """Return what would happen to a request if it were made now (call).

        It changes nothing.

        :raises Overloaded: if there were too many dry runs; try again later.
        :raises DryRunUnsupported: if the pool is too large for one, or its
            strategy cannot be copied.
        """

    @declared.sent_by("_ask")
    def list_accelerators(self) -> list[objects.AcceleratorProfile]:
        """Return the library's accelerators (call)."""

    @declared.sent_by("_ask")
    def get_quota(
        self, project_id: str | None = None
    ) -> dict[str, dict[str, Any]]:
        """Return a project's effective limits (call).

        :param project_id: None: return the limits of projects without limits
            of their own.
        """

    @declared.sent_by("_call")
    def set_quota(
        self, project_id: str, limits: Mapping[str, int | None]
    ) -> None:
        """Set a project's limits (call); returns once they are durable.

        :param limits: new limits by resource; other resources keep theirs, and
            None restores the default.
        """

    @declared.sent_by("_call")
    def change_bitstream(self, change: bitstream.BitstreamChange) -> None:
        """Change the library (call); returns once that is durable.

        Repeating a :class:`~fpgapool.objects.CreateBitstream` has no further
        effect.
        """

    @declared.sent_by("_call")
    def change_group(self, change: group.GroupChange) -> None:
        """Change a group or its clients (call); returns once that is durable.

        Repeating a :class:`~fpgapool.objects.CreateGroup` has no further
        effect.
        """

    @declared.sent_by("_ask")
    def get_groups(self, group_ids: Iterable[str]) -> list[objects.GroupView]:
        """Return the groups that exist (call)."""

    @declared.sent_by("_ask")
    def find_groups(
        self, project_id: str, name: str
    ) -> list[objects.GroupView]:
        """Return the groups with this name that a project may use (call)."""

    @declared.sent_by("_call")
    def attach_client(self, client: group.AttachClient) -> None:
        """Attach a client to a group for a front door (call); durable on
        return.
        """

    @declared.sent_by("_call")
    def detach_client(
        self, project_id: str, *, group_id: str, client_id: str
    ) -> None:
        """End a project's client for a front door (call).

        Returns once that is durable.

        :raises GroupRefused: if the project has no such client there.
        """

    @declared.sent_by("_call")
    def admit_instance(
        self, entry: objects.InstanceEntry, *, lost_hash: str = ""
    ) -> objects.InstanceEntry:
        """Admit an instance, so that it can have a token (call).

        Repeating the call changes only its name and limit.

        :param lost_hash: hash of its current token, if that token must be
            replaced because it can no longer be derived.
        :returns: its durable entry; the token's nonce and hash may be older
            than those given.
        """

    @declared.sent_by("_call")
    def revoke_instance_token(self, instance_id: str) -> None:
        """Revoke an instance's token permanently (call); durable on return."""

    @declared.sent_by("_ask")
    def pool_summary(self) -> dict[str, Any]:
        """Return figures about the pool, and its hardware (call).

        For callers that cannot read the database.
        """

    @declared.sent_by("_ask")
    def pool_now(self) -> dict[str, Any]:
        """Return the figures about the pool that are not in the database
        (call).

        :returns: the name of the ``strategy``; the number of ``sessions`` by
            state, including recently ended ones, and of ``queued`` ones by
            accelerator; ``unusable_slots``, the ids of their rows; and
            ``hosts``, by UUID, with ``nic_load``, ``queued``,
            ``last_report_at`` and ``link_message``.
        """

    @declared.sent_by("_call")
    def audit(self) -> list[findings.Finding]:
        """Return the current inconsistencies of the pool (call).

        Some are changes in progress; only those that a second audit also finds
        are real.
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

        Returns when the change is durable. It replaces any earlier setting.

        :param device: its name; None: the whole host.
        :param drain_within_s: for draining: how long current sessions may
            stay; None: without limit.
        """

    @declared.sent_by("_call")
    def set_reservable_slots(
        self, host_uuid: str, device: str, slots: int
    ) -> None:
        """Set how many slots of a device instances can reserve (call).

        Returns when the change is durable.

        :raises FewerThanReserved: if more slots are already reserved.
        :raises InvalidRequest: if the device has fewer slots.
        """

    @declared.sent_by("_call")
    def test_slot(
        self, host_uuid: str, device: str, slot: int, accelerator: str = ""
    ) -> None:
        """Test a slot now, whether it is in service or out of service (call).

        The test is refused if a session holds the slot. Returns once the test
        has been ordered; if the test fails, the state of the slot changes.

        :param accelerator: the accelerator to test with; empty: any.
        :raises SlotNotTested: if it cannot be tested now; the code gives the
            reason.
        """
