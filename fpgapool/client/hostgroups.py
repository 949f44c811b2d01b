# SPDX-License-Identifier: Apache-2.0

"""Groups, through the front door of the client's own host."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import socket
import typing

from fpgapool.client import cancel as cancelling
from fpgapool.client import errors
from fpgapool.client.doors import door as doors
from fpgapool.client.doors import frontdoor
from fpgapool.client.doors import groupdoor
from fpgapool.common.channels import channel
from fpgapool.protocol import groups
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes

_SECRET_BYTES = 32
_MEMBERS_S = 10.0
_DETACH_S = 5.0
_LOCAL_S = 2.0
# An agent hears of a new client a moment after the API has attached it.
_UNKNOWN_S = 1.0
_PAUSE_S = 0.02


class HostGroupDoor:
    """Gives one program access to one group.

    :param path: of the front door's socket.
    :param cancel: cancels every wait.
    :param require_tls: refuse data connections without TLS.
    """

    def __init__(
        self,
        path: str,
        cancel: cancelling.CancelToken,
        *,
        require_tls: bool = False,
    ) -> None:
        self._path = path
        self._cancel = cancel
        self._require_tls = require_tls

    def attach(
        self, name: str, accelerator: str | None, deadline_s: float | None
    ) -> groupdoor.Access:
        """See :meth:`fpgapool.client.doors.groupdoor.GroupDoor.attach`."""
        secret = secrets.token_hex(_SECRET_BYTES)
        door = frontdoor.FrontDoor(self._path, self._cancel, deadline_s)
        with contextlib.closing(door), _translated():
            if accelerator is not None:
                # Before this program is a client.
                profile = self._profile(door, accelerator, deadline_s)
            client = door.request(
                "attach_group",
                deadline_s,
                name=name,
                # The secret itself goes to desks only.
                secret_sha256=hashlib.sha256(secret.encode()).hexdigest(),
            )
            try:
                if accelerator is None:
                    profile = self._shown(door, client, deadline_s)
                else:
                    groupdoor.check_accelerator(profile, client["accelerator"])
                return groupdoor.Access(
                    client["group_id"],
                    client["client_id"],
                    secret,
                    groupdoor.await_members(
                        name,
                        client,
                        lambda: door.request(
                            "group", deadline_s, group_id=client["group_id"]
                        ),
                        self._cancel.wait,
                        deadline_s,
                    ),
                    profile=profile,
                    require_tls=self._require_tls,
                )
            except BaseException:
                self._detach(client["group_id"], client["client_id"])
                raise

    @staticmethod
    def _profile(
        door: frontdoor.FrontDoor, name: str, deadline_s: float | None
    ) -> dict[str, typing.Any]:
        reply = door.request("accelerator", deadline_s, name=name)
        profile: dict[str, typing.Any] = reply["profile"]
        return profile

    def _shown(
        self,
        door: frontdoor.FrontDoor,
        client: messages.Message,
        deadline_s: float | None,
    ) -> dict[str, typing.Any]:
        try:
            return self._profile(door, client["accelerator"], deadline_s)
        except errors.RequestRejected as exc:
            if exc.code != codes.UNKNOWN_ACCELERATOR:
                raise
            # That of another project, which shares the group only.
            return {}

    def members(self, access: groupdoor.Access) -> groups.MemberList:
        """See :meth:`fpgapool.client.doors.groupdoor.GroupDoor.members`."""
        reply = self._ask("group", _MEMBERS_S, group_id=access.group_id)
        return groupdoor.members_of(reply)

    def connect_local(
        self, access: groupdoor.Access, host_id: str
    ) -> socket.socket:
        """See :meth:`fpgapool.client.doors.groupdoor.GroupDoor.connect_local`."""
        return connect_desk(self._path, access, host_id)

    def detach(self, access: groupdoor.Access) -> None:
        """See :meth:`fpgapool.client.doors.groupdoor.GroupDoor.detach`."""
        self._detach(access.group_id, access.client_id)

    def _detach(self, group_id: str, client_id: str) -> None:
        with contextlib.suppress(errors.FpgapoolError, OSError):
            self._ask(
                "detach_group",
                _DETACH_S,
                group_id=group_id,
                client_id=client_id,
            )

    def _ask(
        self, operation: str, limit_s: float, **members: object
    ) -> messages.Message:
        deadline_s = channel.deadline_after(limit_s)
        # The program may cancel, and its tasks end, while this waits.
        token = cancelling.CancelToken()
        door = frontdoor.FrontDoor(self._path, token, deadline_s)
        with contextlib.closing(door), _translated():
            return door.request(operation, deadline_s, **members)


def connect_desk(
    path: str, access: groupdoor.Access, host_id: str
) -> socket.socket:
    """Connect to the desk of this host.

    See :meth:`fpgapool.client.doors.groupdoor.GroupDoor.connect_local`. The front
    door of this host connects, if it has one that this program may use.

    :param path: of the front door's socket.
    """
    deadline_s = channel.deadline_after(_LOCAL_S)
    # The program may cancel, and its tasks end, while this waits.
    token = cancelling.CancelToken()
    try:
        door = frontdoor.FrontDoor(path, token, deadline_s)
        with contextlib.closing(door):
            hello = {"version": messages.FRONT_DOOR_VERSION}
            here = door.request("hello", deadline_s, **hello)
            if here.get("host_uuid") != host_id:
                raise channel.ChannelClosed("the desk is on another host")
            return _request_desk(door, access.group_id, deadline_s, token)
    except (errors.FpgapoolError, doors.ConnectionLost) as exc:
        raise channel.ChannelClosed(str(exc)) from exc


def _request_desk(
    door: frontdoor.FrontDoor,
    group_id: str,
    deadline_s: float | None,
    token: cancelling.CancelToken,
) -> socket.socket:
    """Ask for the desk, again while the agent does not know this client.

    Over another network, which is slower, its tasks would go for as long as
    that connection lasts.
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


@contextlib.contextmanager
def _translated() -> typing.Iterator[None]:
    try:
        yield
    except doors.TurnedAway as exc:
        raise exc.error from exc
    except doors.ConnectionLost as exc:
        raise errors.FrontDoorUnavailable(str(exc)) from exc
