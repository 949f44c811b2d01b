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

# Grows with every change; the agent's endpoint has the same version.
VERSION = "1.0"

#: Generations of a new leader lie above all those of older leaders, so none
#: has to be stored: the epoch is above these bits.
GENERATION_BITS = 32
#: Generations are stored in 63 bits. With a leader each second this is enough
#: for 68 years.
MAX_EPOCH = 2 ** (63 - GENERATION_BITS) - 1

#: The version that each method came with, if not with the first one.
SINCE: dict[str, str] = {}


def can_be_of(generation: int, leader_epoch: int) -> bool:
    """Whether a leader, or one before it, can have issued a generation."""
    return 0 <= generation >> GENERATION_BITS <= leader_epoch


class AgentAPI:
    """Casts to the agent of one host.

    Every method raises oslo_messaging.MessagingException if the broker
    cannot be reached. A cast that returned may still be lost: an agent's
    report shows what took effect.

    :param keys: of the pool: the host's own key signs messages to it.
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
        """Have a slot prepared for a session."""

    @declared.sent_by("_cast")
    def self_test(
        self,
        host_uuid: str,
        leader_epoch: int,
        request: objects.AssignRequest,
    ) -> None:
        """Test a slot; the agent's reports tell the result."""

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
        """Revoke a session's slot.

        :param reason: a code of :mod:`fpgapool.vocabulary.codes`.
        """

    @declared.sent_by("_cast")
    def keep_group(
        self, host_uuid: str, leader_epoch: int, order: objects.GroupOrder
    ) -> None:
        """Say how the desk of a group on the host shall be."""

    @declared.sent_by("_cast")
    def reissue_secret(
        self,
        host_uuid: str,
        leader_epoch: int,
        device: str,
        slot: int,
        generation: int,
    ) -> None:
        """Have a fresh secret minted; the agent answers by `prepared`."""

    @declared.sent_by("_cast")
    def session_changed(
        self,
        host_uuid: str,
        leader_epoch: int,
        views: Iterable[objects.SessionView],
    ) -> None:
        """Tell the front door of a host about sessions opened there."""

    @declared.sent_by("_cast")
    def report_now(self, host_uuid: str, leader_epoch: int) -> None:
        """Ask for a report at once."""

    def _cast(self, method: str, *, host_uuid: str, **kwargs: Any) -> None:
        self._client.cast(method, server=host_uuid, **kwargs)
