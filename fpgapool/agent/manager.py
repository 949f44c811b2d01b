# SPDX-License-Identifier: Apache-2.0

"""RPC interface of an agent: every handler only passes the message on."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping

import oslo_messaging as messaging
from oslo_log import log as logging

from fpgapool import objects
from fpgapool.common import rpc
from fpgapool.rpcapi import agent as agent_api

LOG = logging.getLogger(__name__)

Primitive = Mapping[str, typing.Any]
Method = typing.TypeVar("Method", bound=Callable[..., None])


class Commands(typing.Protocol):
    """Who carries the messages out; returns at once."""

    def assign(
        self, leader_epoch: int, request: objects.AssignRequest
    ) -> None:
        """Give a slot to a session."""

    def release(
        self,
        leader_epoch: int,
        device: str,
        slot: int,
        session_id: str,
        generation: int,
        reason: str,
    ) -> None:
        """Take a slot from a session."""

    def reissue_secret(
        self,
        leader_epoch: int,
        device: str,
        slot: int,
        session_id: str,
        generation: int,
    ) -> None:
        """Have a new secret minted."""

    def session_changed(
        self, leader_epoch: int, views: list[objects.SessionView]
    ) -> None:
        """Tell clients of the front door what became of their sessions."""

    def report_now(self, leader_epoch: int) -> None:
        """Report at once."""


def _checked(method: Method) -> Method:
    """Log and drop a message whose payload makes no sense.

    It is a cast: nobody waits for an exception.
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

    The highest one is remembered, and whoever has a lower one is refused from
    then on: nonsense here would keep all real leaders out.

    :raises ValueError: if no leader can have it.
    """
    if type(told) is not int or not 0 < told <= agent_api.MAX_EPOCH:
        raise ValueError("no leader has such an epoch")
    return told


def _generation(told: object) -> int:
    """Check the generation of an assignment that may be there.

    :raises ValueError: if it is none.
    """
    if type(told) is not int or told < 0:
        raise ValueError("that is no generation")
    return told


def _check_new_generation(told: object, leader_epoch: int) -> None:
    """Check an assignment's generation, which keeps out all that are lower.

    :param leader_epoch: of the leader that names it.
    :raises ValueError: if neither it nor one before can have given it out.
    """
    if not agent_api.can_be_of(_generation(told), leader_epoch):
        raise ValueError("no leader has given out such a generation")


class AgentManager(rpc.Endpoint):
    """Endpoint of the topic ``fpgapool-agent``.

    :param commands: carries the messages out.
    """

    CASTS = frozenset(
        {
            "assign",
            "reissue_secret",
            "release",
            "report_now",
            "self_test",
            "session_changed",
        }
    )

    target = messaging.Target(version=agent_api.VERSION)

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

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
        """Have a slot show that it works: an assignment to nobody."""
        wanted = objects.AssignRequest.from_primitive(request)
        self._assign(
            _epoch(leader_epoch), dataclasses.replace(wanted, self_test=True)
        )

    def _assign(
        self, leader_epoch: int, request: objects.AssignRequest
    ) -> None:
        _check_new_generation(request.generation, leader_epoch)
        self._commands.assign(leader_epoch, request)

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
        self._commands.release(
            _epoch(leader_epoch),
            str(device),
            int(slot),
            str(session_id),
            _generation(generation),
            str(reason),
        )

    @_checked
    def reissue_secret(
        self,
        ctxt: object,
        leader_epoch: int,
        device: str,
        slot: int,
        session_id: str,
        generation: int,
    ) -> None:
        """Mint a new secret for a session that is READY."""
        self._commands.reissue_secret(
            _epoch(leader_epoch),
            str(device),
            int(slot),
            str(session_id),
            _generation(generation),
        )

    @_checked
    def session_changed(
        self, ctxt: object, leader_epoch: int, views: Iterable[Primitive]
    ) -> None:
        """Pass news of sessions on to the front door."""
        self._commands.session_changed(
            _epoch(leader_epoch),
            [objects.SessionView.from_primitive(view) for view in views],
        )

    @_checked
    def report_now(self, ctxt: object, leader_epoch: int) -> None:
        """Report at once."""
        self._commands.report_now(_epoch(leader_epoch))
