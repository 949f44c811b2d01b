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

from fpgapool.client import cancel as cancelling
from fpgapool.client import errors
from fpgapool.client import hostgroups
from fpgapool.client.doors import apirequests
from fpgapool.client.doors import door as doors
from fpgapool.client.doors import frontdoor
from fpgapool.client.doors import groupdoor
from fpgapool.common.channels import channel
from fpgapool.protocol import groups
from fpgapool.vocabulary import codes

_MEMBERS_S = 10.0
_DETACH_S = 5.0


class ApiGroupDoor:
    """Gives one program access to one group.

    :param adapter: see :class:`fpgapool.client.doors.apidoor.PoolApi`.
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
        )
        try:
            self._requests.connect(deadline_s)
        except BaseException:
            self._requests.close()
            raise

    def attach(
        self, name: str, accelerator: str | None, deadline_s: float | None
    ) -> groupdoor.Access:
        """See :meth:`fpgapool.client.doors.groupdoor.GroupDoor.attach`."""
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
                groupdoor.await_members(
                    name,
                    client,
                    lambda: self._ask("GET", path, deadline_s)["client"],
                    self._cancel.wait,
                    deadline_s,
                ),
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
        groupdoor.check_accelerator(profile, group["accelerator"])
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

    def members(self, access: groupdoor.Access) -> groups.MemberList:
        """See :meth:`fpgapool.client.doors.groupdoor.GroupDoor.members`."""
        deadline_s = channel.deadline_after(_MEMBERS_S)
        found = self._ask("GET", _path(access), deadline_s)
        return groupdoor.members_of(found["client"])

    def connect_local(
        self, access: groupdoor.Access, host_id: str
    ) -> socket.socket:
        """See :meth:`fpgapool.client.doors.groupdoor.GroupDoor.connect_local`."""
        try:
            path = frontdoor.default_path()
        except errors.FrontDoorUnavailable as exc:
            raise channel.ChannelClosed(str(exc)) from exc
        return hostgroups.connect_desk(path, access, host_id)

    def detach(self, access: groupdoor.Access) -> None:
        """See :meth:`fpgapool.client.doors.groupdoor.GroupDoor.detach`."""
        self._revoke(_path(access))
        self._requests.close()

    def _revoke(self, path: str) -> None:
        deadline_s = channel.deadline_after(_DETACH_S)
        with contextlib.suppress(errors.FpgapoolError, doors.ConnectionLost):
            # Its own program ends the client: it was not revoked.
            self._requests.http("DELETE", f"{path}?ended=true", deadline_s)

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
