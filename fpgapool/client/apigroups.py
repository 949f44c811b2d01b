# SPDX-License-Identifier: Apache-2.0

"""Groups, through the pool's REST API."""

from __future__ import annotations

import collections.abc
import concurrent.futures
import contextlib
import functools
import socket
import typing
import urllib.parse

from fpgapool.client import apirequests
from fpgapool.client import cancel as cancelling
from fpgapool.client import door as doors
from fpgapool.client import errors
from fpgapool.client import frontdoor
from fpgapool.client import groupdoor
from fpgapool.client import view as views
from fpgapool.common import channel
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes

#: The first version of the API that has groups.
MICROVERSION = "1.1"

# The desk of this host, if it is one of the group's.
_LOCAL = ((views.LOCAL_NETWORK, "", 0),)

_LONGEST_PAUSE_S = 1.0
_MEMBERS_S = 10.0
_DETACH_S = 5.0
_LOCAL_S = 2.0


class ApiGroupDoor:
    """Gives one program access to one group.

    :param adapter: see :class:`fpgapool.client.apidoor.PoolApi`.
    :param cancel: cancels every wait.
    :param deadline_s: absolute deadline of connecting.
    :param require_tls: refuse an API without TLS, and data connections
        without it.
    :raises errors.FrontDoorUnavailable: if the API is not reached.
    :raises errors.RequestRejected: if it does not accept the credentials.
    :raises errors.InvalidRequest: code ``TLS_REQUIRED``; nothing was sent.
    :raises errors.Cancelled: if cancelled.
    :raises errors.OperationTimeout: if the deadline passes.
    """

    def __init__(
        self,
        adapter: typing.Any,
        cancel: cancelling.CancelToken,
        deadline_s: float | None = None,
        *,
        require_tls: bool = False,
    ) -> None:
        self._cancel = cancel
        self._require_tls = require_tls
        self._requests = apirequests.Requests(
            adapter,
            cancel,
            require_tls=require_tls,
            microversion=MICROVERSION,
        )
        try:
            self._requests.connect(deadline_s)
        except BaseException:
            self._requests.close()
            raise

    def attach(
        self, name: str, accelerator: str | None, deadline_s: float | None
    ) -> groupdoor.Access:
        """See :meth:`fpgapool.client.groupdoor.GroupDoor.attach`."""
        try:
            return self._attach(name, accelerator, deadline_s)
        except BaseException:
            self._requests.close()
            raise

    def _attach(
        self, name: str, accelerator: str | None, deadline_s: float | None
    ) -> groupdoor.Access:
        group = self._find(name, deadline_s)
        profile = self._profile(group, accelerator, deadline_s)
        path = f"/groups/{group['id']}/clients"
        client = self._post(path, deadline_s)["client"]
        path += f"/{client['id']}"
        try:
            return groupdoor.Access(
                group["id"],
                client["id"],
                client["secret"],
                self._await_members(name, path, client, deadline_s),
                profile=profile,
                require_tls=self._require_tls,
            )
        except BaseException:
            self._revoke(path)
            raise

    def _find(
        self, name: str, deadline_s: float | None
    ) -> apirequests.Document:
        quoted = urllib.parse.quote(name, safe="")
        found = self._ask("GET", f"/groups?name={quoted}", deadline_s)
        named = found["groups"]
        if not named:
            # By its ID, or not at all.
            group: apirequests.Document = self._ask(
                "GET", f"/groups/{quoted}", deadline_s
            )["group"]
            return group
        if len(named) > 1:
            # Other projects share theirs.
            raise errors.InvalidRequest(
                codes.INVALID_REQUEST,
                f"{len(named)} groups have the name {name}; give the ID",
            )
        (group,) = named
        return group

    def _profile(
        self,
        group: apirequests.Document,
        accelerator: str | None,
        deadline_s: float | None,
    ) -> apirequests.Document:
        wanted = accelerator or group["accelerator"]
        path = f"/accelerators/{urllib.parse.quote(wanted, safe='')}"
        try:
            profile: apirequests.Document = self._ask("GET", path, deadline_s)[
                "accelerator"
            ]
        except errors.RequestRejected as exc:
            if exc.code != codes.ACCELERATOR_NOT_FOUND:
                raise
            if accelerator is not None:
                raise errors.RequestRejected(
                    codes.UNKNOWN_ACCELERATOR, exc.message
                ) from None
            # That of another project, which shares the group only.
            return {}
        if profile["name"] != group["accelerator"]:
            raise errors.InvalidRequest(
                codes.WRONG_ACCELERATOR,
                f"the group has the accelerator {group['accelerator']}, not"
                f" {profile['name']}",
            )
        return profile

    def _post(
        self, path: str, deadline_s: float | None
    ) -> apirequests.Document:
        """Become a client; without an answer in time, undo it later."""
        posting = self._requests.begin(
            lambda: self._requests.http(
                "POST", path, deadline_s, pause=self._cancel.wait
            )
        )
        try:
            with _translated():
                return self._requests.wait_for(posting, deadline_s)
        except BaseException:
            posting.add_done_callback(
                functools.partial(self._revoke_unwanted, path)
            )
            raise

    def _revoke_unwanted(
        self,
        path: str,
        posting: concurrent.futures.Future[apirequests.Document],
    ) -> None:
        if posting.exception() is None:
            self._revoke(f"{path}/{posting.result()['client']['id']}")

    def _await_members(
        self,
        name: str,
        path: str,
        client: apirequests.Document,
        deadline_s: float | None,
    ) -> groups.MemberList:
        pause_s = apirequests.LEAST_PAUSE_S
        while True:
            found = _members(client)
            if any(
                host.members and host.endpoints != _LOCAL
                for host in found.hosts
            ):
                return found
            left_s = channel.remaining_s(deadline_s)
            if left_s is not None and left_s <= pause_s:
                raise errors.OperationTimeout(
                    f"the group {name} has no members yet"
                )
            self._cancel.wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            client = self._ask("GET", path, deadline_s)["client"]

    def members(self, access: groupdoor.Access) -> groups.MemberList:
        """See :meth:`fpgapool.client.groupdoor.GroupDoor.members`."""
        deadline_s = channel.deadline_after(_MEMBERS_S)
        found = self._ask("GET", _path(access), deadline_s)
        return _members(found["client"])

    def connect_local(
        self, access: groupdoor.Access, host_id: str
    ) -> socket.socket:
        """See :meth:`fpgapool.client.groupdoor.GroupDoor.connect_local`.

        The front door of this host connects, if it has one that this program
        may use.
        """
        deadline_s = channel.deadline_after(_LOCAL_S)
        # The program may cancel, and its tasks end, while this waits.
        token = cancelling.CancelToken()
        try:
            path = frontdoor.default_path()
            door = frontdoor.FrontDoor(path, token, deadline_s)
            with contextlib.closing(door):
                hello = {"version": messages.FRONT_DOOR_VERSION}
                here = door.request("hello", deadline_s, **hello)
                if here.get("host_uuid") != host_id:
                    raise channel.ChannelClosed("the desk is on another host")
                return door.request_desk(access.group_id, deadline_s)
        except (errors.FpgapoolError, doors.ConnectionLost) as exc:
            raise channel.ChannelClosed(str(exc)) from exc

    def detach(self, access: groupdoor.Access) -> None:
        """See :meth:`fpgapool.client.groupdoor.GroupDoor.detach`."""
        self._revoke(_path(access))
        self._requests.close()

    def _revoke(self, path: str) -> None:
        deadline_s = channel.deadline_after(_DETACH_S)
        with contextlib.suppress(errors.FpgapoolError, doors.ConnectionLost):
            self._requests.http("DELETE", path, deadline_s)

    def _ask(
        self, method: str, path: str, deadline_s: float | None
    ) -> apirequests.Document:
        with _translated():
            return self._requests.ask(method, path, deadline_s)


@contextlib.contextmanager
def _translated() -> collections.abc.Iterator[None]:
    try:
        yield
    except doors.ConnectionLost as exc:
        raise errors.FrontDoorUnavailable(str(exc)) from exc


def _path(access: groupdoor.Access) -> str:
    return f"/groups/{access.group_id}/clients/{access.client_id}"


def _members(client: apirequests.Document) -> groups.MemberList:
    """Return the hosts that the description of a client has.

    :raises errors.RequestRejected: if it is not one.
    """
    try:
        found = groups.MemberList.parse(
            {
                "revision": client["hosts_revision"],
                "hosts": [
                    {**host, "host_id": host["host_uuid"]}
                    for host in client["hosts"]
                ],
            }
        )
        # The API shows no local endpoints.
        return groups.MemberList(
            found.revision,
            tuple(
                host._replace(endpoints=_LOCAL + host.endpoints)
                for host in found.hosts
            ),
        )
    except (KeyError, TypeError, frames.ProtocolError) as exc:
        raise errors.RequestRejected(
            codes.PROTOCOL_ERROR, f"the pool's API sent a bad client: {exc}"
        ) from exc
