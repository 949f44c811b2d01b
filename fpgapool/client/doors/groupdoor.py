# SPDX-License-Identifier: Apache-2.0

"""Attach to a group, and find its desks."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import uuid
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import TypeAlias

from fpgapool.client import cancel as cancelling
from fpgapool.client import errors
from fpgapool.client.doors import asking
from fpgapool.client.doors import door as doors
from fpgapool.client.doors import frontdoor
from fpgapool.client.doors import poolapi
from fpgapool.client.doors import view as views
from fpgapool.common.channels import channel
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.vocabulary import codes

# Endpoint of this host's desk, if the host belongs to the group.
_LOCAL = {"network": views.LOCAL_NETWORK, "address": "", "port": 0}

_MEMBERS_S = 10.0
_DETACH_S = 5.0
_LOCAL_S = 2.0
# Agents are notified of a new client shortly after the API attaches it.
_UNKNOWN_S = 1.0
_PAUSE_S = 0.02
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 1.0

Document: TypeAlias = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Access:
    """What a program needs to use a group.

    :ivar secret: proves this client's identity to each desk.
    :ivar members: the hosts of the group, with the number of members on each.
    :ivar profile: public description of the group's accelerator; empty if the
        program's project has no access to it.
    :ivar application: programs with the same value share blocks; an empty
        string means that no blocks are shared.
    """

    group_id: str
    client_id: str
    secret: str = dataclasses.field(repr=False)
    members: groups.MemberList
    profile: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    require_tls: bool = False
    application: str = ""


class GroupDoor:
    """Gives one program access to one group, through any door.

    Several threads may call its methods; each call has its own connection.

    :param front_door: path of the front door's socket, or the pool's API.
    """

    def __init__(
        self,
        front_door: str | poolapi.PoolApi,
        cancel: cancelling.CancelToken,
        *,
        require_tls: bool = False,
    ) -> None:
        self._front_door = front_door
        self._cancel = cancel
        self._require_tls = require_tls

    def attach(
        self, name: str, accelerator: str | None, deadline_s: float | None
    ) -> Access:
        """Become a client of a group, and wait until it has members.

        :param accelerator: the accelerator it must have; None means any.
        """
        with asking.entered(
            self._front_door,
            self._cancel,
            deadline_s,
            require_tls=self._require_tls,
        ) as door:
            profile, wanted = None, None
            if accelerator is not None:
                # If the accelerator is unknown, fail before becoming a client.
                profile = _profile(door, accelerator, deadline_s)
                wanted = str(profile["name"])
            client = door.attach_group(name, wanted, deadline_s)
            ids = _ids(client["group_id"], client["client_id"])
            try:
                if profile is not None:
                    doors.check_accelerator(
                        profile["name"], client["accelerator"]
                    )
                else:
                    profile = self._shown(door, client, deadline_s)
                return Access(
                    **ids,
                    secret=client["secret"],
                    members=await_members(
                        name,
                        client,
                        lambda: door.request("group", deadline_s, **ids),
                        self._cancel.wait,
                        deadline_s,
                    ),
                    profile=profile,
                    require_tls=self._require_tls,
                )
            except BaseException:
                self._detach(ids)
                raise

    def _shown(
        self, door: doors.Door, client: Document, deadline_s: float | None
    ) -> Document:
        """Return the accelerator's profile; {} if it is another project's.

        A project may share a group without sharing its accelerator.
        """
        try:
            return _profile(door, client["accelerator"], deadline_s)
        except errors.RequestRejected as exc:
            if exc.code != codes.UNKNOWN_ACCELERATOR:
                raise
            return {}

    def members(self, access: Access) -> groups.MemberList:
        """Return the group's current hosts.

        Called when no desk is reachable.

        :raises OSError: if the door does not respond.
        """
        ids = _ids(access.group_id, access.client_id)
        return members_of(self._ask("group", _MEMBERS_S, ids))

    def connect_local(self, access: Access, host_id: str) -> socket.socket:
        """Connect to the desk of this host.

        The host's front door provides it, if this program may use one.

        :raises OSError: if there is no connection.
        """
        deadline_s = channel.deadline_after(_LOCAL_S)
        # Cancelling the program's requests must not cancel this.
        token = cancelling.CancelToken()
        try:
            path = self._front_door
            if not isinstance(path, str):
                path = frontdoor.default_path()
            door = frontdoor.FrontDoor(path, token, deadline_s)
            with contextlib.closing(door):
                here = door.request("hello", deadline_s, **asking.HELLO)
                if host_id not in _names(here, access.group_id):
                    raise channel.ChannelClosed("the desk is on another host")
                return _request_desk(door, access.group_id, deadline_s, token)
        except (errors.FpgapoolError, doors.ConnectionLost) as exc:
            raise channel.ChannelClosed(str(exc)) from exc

    def detach(self, access: Access) -> None:
        """Stop being a client of the group; it never raises."""
        self._detach(_ids(access.group_id, access.client_id))

    def _detach(self, ids: dict[str, str]) -> None:
        with contextlib.suppress(errors.FpgapoolError, OSError):
            self._ask("detach_group", _DETACH_S, ids)

    def _ask(
        self, operation: str, limit_s: float, ids: dict[str, str]
    ) -> Document:
        (reply,) = asking.ask(
            [(operation, ids)],
            front_door=self._front_door,
            timeout_s=limit_s,
            # Without cancel: the program's own cancellation must not end this.
            require_tls=self._require_tls,
        )
        return reply


def _names(here: Document, group_id: str) -> list[str]:
    """Return what a group calls this host.

    Agents of release 1.0.0 call it by its UUID.
    """
    mine = here["host_uuid"]
    return [str(uuid.uuid5(uuid.UUID(mine), group_id)), mine]


def _ids(group_id: str, client_id: str) -> dict[str, str]:
    return {"group_id": group_id, "client_id": client_id}


def _profile(
    door: doors.Door, accelerator: str, deadline_s: float | None
) -> Document:
    reply = door.request("accelerator", deadline_s, name=accelerator)
    profile: Document = reply["profile"]
    return profile


def _request_desk(
    door: frontdoor.FrontDoor,
    group_id: str,
    deadline_s: float | None,
    token: cancelling.CancelToken,
) -> socket.socket:
    """Request the desk; retry while the agent does not know this client.

    Otherwise, tasks would use a slower connection for as long as it lasts.
    """
    patient_until_s = channel.deadline_after(_UNKNOWN_S)
    while True:
        try:
            return door.request_desk(group_id, deadline_s)
        except errors.FpgapoolError as exc:
            if (
                exc.code != codes.GROUP_NOT_FOUND
                or channel.remaining_s(patient_until_s) == 0
            ):
                raise
        token.wait(_PAUSE_S)


def members_of(document: Document) -> groups.MemberList:
    """Return the hosts in the pool's description of a client."""
    try:
        return groups.MemberList.parse(
            {
                "revision": document["hosts_revision"],
                "hosts": [_with_local(host) for host in document["hosts"]],
            }
        )
    except (KeyError, TypeError, frames.ProtocolError) as exc:
        raise errors.RequestRejected(
            codes.PROTOCOL_ERROR, f"the pool's reply is invalid: {exc}"
        ) from exc


def _with_local(host: Document) -> Document:
    """Return a host with its local endpoint, which the API omits."""
    remote = [
        one
        for one in host["endpoints"]
        if one["network"] != views.LOCAL_NETWORK
    ]
    return {
        **host,
        "host_id": host["host_uuid"],
        "endpoints": [_LOCAL, *remote],
    }


def await_members(
    name: str,
    document: Document,
    ask_again: Callable[[], Document],
    pause: Callable[[float], object],
    deadline_s: float | None,
) -> groups.MemberList:
    """Wait until a group has members.

    :raises errors.OperationTimeout: if there are none before the deadline.
    """
    pause_s = _FIRST_PAUSE_S
    while True:
        found = members_of(document)
        if any(
            host.members and len(host.endpoints) > 1 for host in found.hosts
        ):
            return found
        left_s = channel.remaining_s(deadline_s)
        if left_s is not None and left_s <= pause_s:
            raise errors.OperationTimeout(
                f"the group {name} has no members yet"
            )
        pause(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        document = ask_again()
