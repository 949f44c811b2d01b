# SPDX-License-Identifier: Apache-2.0

"""Client side of the agents' RPC interface."""

import contextlib
from collections.abc import Iterable
from typing import Any

import oslo_messaging as messaging

from fpgapool import objects
from fpgapool.common.messaging import rpc
from fpgapool.common.messaging import signing
from fpgapool.rpcapi import declared

TOPIC = "fpgapool-agent"

# Increased with every change; the agent's endpoint has the same version.
VERSION = "1.1"

#: Number of bits below the epoch in a generation. So all generations of a new
#: leader are higher than earlier ones, without being stored.
GENERATION_BITS = 32
#: Generations are stored in 63 bits, enough for 68 years with a new leader
#: every second.
MAX_EPOCH = 2 ** (63 - GENERATION_BITS) - 1

#: The version that introduced each method, if not the first one.
SINCE: dict[str, str] = {}


def can_be_of(generation: int, leader_epoch: int) -> bool:
    """Whether this leader or an earlier one can have issued a generation."""
    return 0 <= generation >> GENERATION_BITS <= leader_epoch


class AgentAPI:
    """Sends casts to hosts' agents.

    Every method raises oslo_messaging.MessagingException if the broker is
    unreachable. A cast may be lost even if the method returns; the agent's
    reports show whether it was carried out.

    :param keys: the pool's keys; each message is signed with its host's key.
    """

    def __init__(
        self,
        watch: rpc.Watch | None = None,
        keys: signing.Keys | None = None,
    ) -> None:
        self._client = rpc.Client(
            messaging.Target(topic=TOPIC, version=VERSION),
            since=SINCE,
            watch=watch,
            keys=keys,
            by_server=True,
        )

    def together(self) -> contextlib.AbstractContextManager[None]:
        return self._client.together()

    @declared.sent_by("_cast")
    def assign(
        self,
        host_uuid: str,
        leader_epoch: int,
        request: objects.AssignRequest,
    ) -> None:
        """Order the preparation of a slot for a session or group."""

    @declared.sent_by("_cast")
    def self_test(
        self,
        host_uuid: str,
        leader_epoch: int,
        request: objects.AssignRequest,
    ) -> None:
        """Order a test of a slot; the agent's reports contain the result."""

    @declared.sent_by("_cast")
    def release(
        self,
        host_uuid: str,
        leader_epoch: int,
        device: str,
        slot: int,
        session_id: str,
        generation: int,
        reason: str,
    ) -> None:
        """Revoke the slot of a session or group.

        :param reason: a code of :mod:`fpgapool.vocabulary.codes`.
        """

    @declared.sent_by("_cast")
    def keep_group(
        self, host_uuid: str, leader_epoch: int, order: objects.GroupOrder
    ) -> None:
        """Set the desired state of a group's desk on the host."""

    @declared.sent_by("_cast")
    def reissue_secret(
        self,
        host_uuid: str,
        leader_epoch: int,
        device: str,
        slot: int,
        generation: int,
    ) -> None:
        """Request a new secret; the agent answers with `prepared`."""

    @declared.sent_by("_cast")
    def session_changed(
        self,
        host_uuid: str,
        leader_epoch: int,
        views: Iterable[objects.SessionView],
    ) -> None:
        """Notify a host's front door of changes to its sessions."""

    @declared.sent_by("_cast")
    def report_now(self, host_uuid: str, leader_epoch: int) -> None:
        """Request an immediate report."""

    def _cast(self, method: str, *, host_uuid: str, **kwargs: Any) -> None:
        self._client.cast(method, server=host_uuid, **kwargs)
