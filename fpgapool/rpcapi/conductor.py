# SPDX-License-Identifier: Apache-2.0

# The bodies of declared methods are empty.
# mypy: disable-error-code="empty-body"

"""Client side of the conductor's RPC interface."""

import contextlib
import math
import queue
import threading
import time
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import oslo_messaging as messaging

from fpgapool import objects
from fpgapool.common.messaging import rpc
from fpgapool.common.messaging import signing
from fpgapool.rpcapi import declared
from fpgapool.rpcapi.calls import groups
from fpgapool.rpcapi.calls import operators
from fpgapool.rpcapi.calls import pool
from fpgapool.rpcapi.calls import projects
from fpgapool.rpcapi.calls import sessions

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


class ConductorAPI(
    sessions.SessionCalls,
    groups.GroupCalls,
    projects.ProjectCalls,
    pool.PoolCalls,
    operators.OperatorCalls,
):
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

    @declared.sent_by("_cast")
    def report(self, report: objects.AgentReport) -> None:
        """Report the complete state of a host (cast)."""

    @declared.sent_by("_cast")
    def prepared(self, prepared: objects.Prepared) -> None:
        """Report that a slot is ready for its session's client (cast)."""
