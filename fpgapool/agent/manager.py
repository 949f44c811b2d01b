# SPDX-License-Identifier: Apache-2.0

"""RPC interface of an agent: every handler only passes the message on."""

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

LOG = logging.getLogger(__name__)

Primitive = Mapping[str, typing.Any]
#: Takes the command's name for the log, the epoch of the asking leader, and
#: the change that executes it. Returns at once.
Command = Callable[[str, int, table.Change], None]
_GROUP_ID = re.compile("[0-9A-Za-z][0-9A-Za-z-]{0,35}")
Method = typing.TypeVar("Method", bound=Callable[..., None])


def _checked(method: Method) -> Method:
    """Log and drop a message with an invalid payload.

    It is a cast: no caller waits for an exception.
    """

    @functools.wraps(method)
    def wrapper(*args: typing.Any, **kwargs: typing.Any) -> None:
        try:
            method(*args, **kwargs)
        except (TypeError, ValueError, OverflowError) as error:
            LOG.error("Message %s dropped: %s", method.__name__, error)

    return typing.cast(Method, wrapper)


def _epoch(told: object) -> int:
    """Check a leader's epoch.

    The agent remembers the highest epoch and from then on refuses lower ones.
    An invalid one would keep all real leaders out.

    :raises ValueError: if no leader can have it.
    """
    if type(told) is not int or not 0 < told <= agent_api.MAX_EPOCH:
        raise ValueError("no leader has such an epoch")
    return told


def _generation(told: object) -> int:
    """Check the generation of an assignment that may exist.

    :raises ValueError: if it is not a generation.
    """
    if type(told) is not int or told < 0:
        raise ValueError("that is no generation")
    return told


def _check_new_generation(told: object, leader_epoch: int) -> None:
    """Check an assignment's generation, which keeps out all that are lower.

    :param leader_epoch: of the leader that sent it.
    :raises ValueError: if neither that leader nor an earlier one can have
        issued it.
    """
    if not agent_api.can_be_of(_generation(told), leader_epoch):
        raise ValueError("no leader has given out such a generation")


def _check_group_id(told: str) -> None:
    """Check a group's id, which names a directory.

    :raises ValueError: if it cannot.
    """
    if not _GROUP_ID.fullmatch(told):
        raise ValueError("that is no group's id")


class AgentManager(rpc.Endpoint):
    """Endpoint of the topic ``fpgapool-agent``.

    :param command: makes a change to the slot table.
    :param news: gives the front door's clients the news of their sessions;
        called where the table is changed.
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
        """Prepare a slot for a session."""
        self._assign(
            _epoch(leader_epoch), objects.AssignRequest.from_primitive(request)
        )

    @_checked
    def self_test(
        self, ctxt: object, leader_epoch: int, request: Primitive
    ) -> None:
        """Have a slot prove that it works: an assignment without a client."""
        wanted = objects.AssignRequest.from_primitive(request)
        self._assign(
            _epoch(leader_epoch), dataclasses.replace(wanted, self_test=True)
        )

    def _assign(
        self, leader_epoch: int, request: objects.AssignRequest
    ) -> None:
        _check_new_generation(request.generation, leader_epoch)
        if request.group_id:
            _check_group_id(request.group_id)
            if request.session_id != request.group_id:
                raise ValueError("a member's session_id is its group's id")
        self._command(
            f"assign of {request.device}.{request.slot}, "
            f"generation {request.generation}",
            leader_epoch,
            lambda slots, now: slots.assign(leader_epoch, request, now),
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
        """Take a slot back."""
        key = str(device), int(slot)
        taken = str(session_id), _generation(generation), str(reason)
        self._command(
            f"release of {device}.{slot}, generation {generation}",
            _epoch(leader_epoch),
            lambda slots, now: slots.release(leader_epoch, key, *taken, now),
        )

    @_checked
    def keep_group(
        self, ctxt: object, leader_epoch: int, order: Primitive
    ) -> None:
        """Have a group's desk follow an order."""
        wanted = objects.GroupOrder.from_primitive(order)
        _check_group_id(wanted.group_id)
        self._command(
            f"order {wanted.revision} of group {wanted.group_id}",
            _epoch(leader_epoch),
            lambda slots, _now: slots.keep_group(leader_epoch, wanted),
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
        """Mint a new secret for a session that is READY."""
        asked = leader_epoch, (str(device), int(slot)), _generation(generation)
        self._command(
            f"new secret of {device}.{slot}, generation {generation}",
            _epoch(leader_epoch),
            lambda slots, _now: slots.reissue_secret(*asked),
        )

    @_checked
    def session_changed(
        self, ctxt: object, leader_epoch: int, views: Iterable[Primitive]
    ) -> None:
        """Pass news of sessions to the front door."""
        epoch = _epoch(leader_epoch)
        told = [objects.SessionView.from_primitive(view) for view in views]

        def change(slots: table.SlotTable, _now: float) -> list[typing.Any]:
            if slots.accept_epoch(epoch):
                self._news(told)
            return []

        self._command("news of sessions", epoch, change)

    @_checked
    def report_now(self, ctxt: object, leader_epoch: int) -> None:
        """Report at once."""
        self._command(
            "request for a report",
            _epoch(leader_epoch),
            lambda slots, _now: slots.report_now(leader_epoch),
        )
