# SPDX-License-Identifier: Apache-2.0

"""Client side of the agents' RPC interface."""

import contextlib
from collections.abc import Iterable
from typing import Any

import oslo_messaging as messaging

from fpgapool import objects
from fpgapool.common.messaging import rpc
from fpgapool.common.messaging import signing

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

    :param watch: see :class:`fpgapool.common.messaging.rpc.Client`.
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

    def assign(
        self,
        host_uuid: str,
        leader_epoch: int,
        request: objects.AssignRequest,
    ) -> None:
        """Have a slot prepared for a session."""
        self._cast(
            host_uuid, "assign", leader_epoch, request=request.to_primitive()
        )

    def self_test(
        self,
        host_uuid: str,
        leader_epoch: int,
        request: objects.AssignRequest,
    ) -> None:
        """Test a slot; the agent's reports tell the result."""
        self._cast(
            host_uuid,
            "self_test",
            leader_epoch,
            request=request.to_primitive(),
        )

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
        """Revoke a session's slot."""
        self._cast(
            host_uuid,
            "release",
            leader_epoch,
            device=device,
            slot=slot,
            session_id=session_id,
            generation=generation,
            reason=reason,
        )

    def keep_group(
        self, host_uuid: str, leader_epoch: int, order: objects.GroupOrder
    ) -> None:
        """Say how the desk of a group on the host shall be."""
        self._cast(
            host_uuid, "keep_group", leader_epoch, order=order.to_primitive()
        )

    def reissue_secret(
        self,
        host_uuid: str,
        leader_epoch: int,
        device: str,
        slot: int,
        generation: int,
    ) -> None:
        """Have a fresh secret minted; the agent answers by `prepared`."""
        self._cast(
            host_uuid,
            "reissue_secret",
            leader_epoch,
            device=device,
            slot=slot,
            generation=generation,
        )

    def session_changed(
        self,
        host_uuid: str,
        leader_epoch: int,
        views: Iterable[objects.SessionView],
    ) -> None:
        """Tell the front door of a host about sessions opened there."""
        self._cast(
            host_uuid,
            "session_changed",
            leader_epoch,
            views=[view.to_primitive() for view in views],
        )

    def report_now(self, host_uuid: str, leader_epoch: int) -> None:
        """Ask for a report at once."""
        self._cast(host_uuid, "report_now", leader_epoch)

    def _cast(
        self, host_uuid: str, method: str, leader_epoch: int, **kwargs: Any
    ) -> None:
        self._client.cast(
            method, server=host_uuid, leader_epoch=leader_epoch, **kwargs
        )
