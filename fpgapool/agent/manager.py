# SPDX-License-Identifier: Apache-2.0

"""The RPC interface of an agent; its handlers only pass messages on."""

from __future__ import annotations

import dataclasses
import functools
import re
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping

import oslo_messaging as messaging
from oslo_log import log as logging

from fpgapool import objects
from fpgapool.agent.slots import table
from fpgapool.common.messaging import rpc
from fpgapool.rpcapi import agent as agent_api
from fpgapool.vocabulary import shapes

LOG = logging.getLogger(__name__)

Primitive: typing.TypeAlias = Mapping[str, typing.Any]
#: Takes the command's name for the log, the function that executes it, the
#: epoch of the leader that sent it, and the function's other arguments.
#: Returns immediately.
Command: typing.TypeAlias = Callable[..., None]
# The agent refuses epochs lower than the highest one it has seen, so an
# invalid epoch would lock out all real leaders.
_EPOCH = shapes.integer(1, agent_api.MAX_EPOCH)
_GENERATION = shapes.integer(0)
_GROUP_ID = re.compile("[0-9A-Za-z][0-9A-Za-z-]{0,35}")
Method = typing.TypeVar("Method", bound=Callable[..., None])


def _checked(method: Method) -> Method:
    """Make a handler log and drop messages with invalid payloads.

    All messages are casts, so no caller would receive an exception.
    """

    @functools.wraps(method)
    def wrapper(*args: typing.Any, **kwargs: typing.Any) -> None:
        try:
            method(*args, **kwargs)
        except (TypeError, ValueError, OverflowError) as error:
            LOG.error("Dropped an invalid %s: %s", method.__name__, error)

    return typing.cast(Method, wrapper)


def _check_group_id(group_id: str) -> None:
    """Raise ValueError unless a group's id can name a directory."""
    if not _GROUP_ID.fullmatch(group_id):
        raise ValueError(f"invalid group id {group_id!r:.80}")


class AgentManager(rpc.Endpoint):
    """Endpoint of the topic ``fpgapool-agent``.

    :param news: notifies the front door's clients of changed sessions; called
        in the loop's thread.
    """

    CASTS = frozenset(
        {
            "assign",
            "keep_group",
            "reissue_secret",
            "release",
            "report_now",
            "self_test",
            "session_changed",
        }
    )

    target = messaging.Target(version=agent_api.VERSION)

    def __init__(
        self,
        command: Command,
        news: Callable[[list[objects.SessionView]], None],
    ) -> None:
        self._command = command
        self._news = news

    @_checked
    def assign(
        self, ctxt: object, leader_epoch: int, request: Primitive
    ) -> None:
        self._assign(
            leader_epoch, objects.AssignRequest.from_primitive(request)
        )

    @_checked
    def self_test(
        self, ctxt: object, leader_epoch: int, request: Primitive
    ) -> None:
        """Test a slot with an assignment that has no client."""
        wanted = objects.AssignRequest.from_primitive(request)
        self._assign(leader_epoch, dataclasses.replace(wanted, self_test=True))

    def _assign(
        self, leader_epoch: int, request: objects.AssignRequest
    ) -> None:
        epoch = _EPOCH(leader_epoch, "leader_epoch")
        generation = _GENERATION(request.generation, "generation")
        # With a generation that is too high, a slot would refuse all valid
        # ones.
        if not agent_api.can_be_of(generation, epoch):
            raise ValueError(
                f"no leader can have issued generation {generation} yet"
            )
        if request.group_id:
            _check_group_id(request.group_id)
            if request.session_id != request.group_id:
                raise ValueError("a member's session_id must be its group_id")
        self._command(
            f"assign of {request.device}.{request.slot}, "
            f"generation {generation}",
            table.SlotTable.assign,
            epoch,
            request,
        )

    @_checked
    def release(
        self,
        ctxt: object,
        leader_epoch: int,
        device: str,
        slot: int,
        session_id: str,
        generation: int,
        reason: str,
    ) -> None:
        self._command(
            f"release of {device}.{slot}, generation {generation}",
            table.SlotTable.release,
            _EPOCH(leader_epoch, "leader_epoch"),
            (str(device), int(slot)),
            str(session_id),
            _GENERATION(generation, "generation"),
            str(reason),
        )

    @_checked
    def keep_group(
        self, ctxt: object, leader_epoch: int, order: Primitive
    ) -> None:
        wanted = objects.GroupOrder.from_primitive(order)
        _check_group_id(wanted.group_id)
        self._command(
            f"order {wanted.revision} of group {wanted.group_id}",
            table.SlotTable.keep_group,
            _EPOCH(leader_epoch, "leader_epoch"),
            wanted,
        )

    @_checked
    def reissue_secret(
        self,
        ctxt: object,
        leader_epoch: int,
        device: str,
        slot: int,
        generation: int,
    ) -> None:
        """Create a new secret for a session that is READY."""
        self._command(
            f"new secret for {device}.{slot}, generation {generation}",
            table.SlotTable.reissue_secret,
            _EPOCH(leader_epoch, "leader_epoch"),
            (str(device), int(slot)),
            _GENERATION(generation, "generation"),
        )

    @_checked
    def session_changed(
        self, ctxt: object, leader_epoch: int, views: Iterable[Primitive]
    ) -> None:
        found = [*map(objects.SessionView.from_primitive, views)]

        def change(
            slots: table.SlotTable, epoch: int, _now: float
        ) -> list[typing.Any]:
            if slots.accept_epoch(epoch):
                self._news(found)
            return []

        epoch = _EPOCH(leader_epoch, "leader_epoch")
        self._command("news of sessions", change, epoch)

    @_checked
    def report_now(self, ctxt: object, leader_epoch: int) -> None:
        self._command(
            "request for a report",
            table.SlotTable.report_now,
            _EPOCH(leader_epoch, "leader_epoch"),
        )
