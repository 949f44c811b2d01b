# SPDX-License-Identifier: Apache-2.0

"""A program as the client of a group, in the pool's REST API."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import urllib.parse

from fpgapool.client import cancel as cancelling
from fpgapool.client import errors
from fpgapool.client.doors import apirequests
from fpgapool.client.doors import door as doors
from fpgapool.common.channels import channel
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes

_DETACH_S = 5.0

_Document = apirequests.Document


class Groups:
    """Makes and ends clients of groups.

    :param cancel: no request is repeated when it is cancelled.
    """

    def __init__(
        self,
        requests: apirequests.Requests,
        cancel: cancelling.CancelToken,
    ) -> None:
        self._requests = requests
        self._cancel = cancel

    def attach(
        self, name: str, accelerator: str | None, deadline_s: float | None
    ) -> messages.Message:
        group = self._find(name, deadline_s)
        if accelerator is not None:
            doors.check_accelerator(accelerator, group["accelerator"])
        path = f"/groups/{group['id']}/clients"
        client = self._post(path, deadline_s)["client"]
        return {
            **client,
            "client_id": client["id"],
            "group_id": group["id"],
            "accelerator": group["accelerator"],
        }

    def show(
        self, deadline_s: float | None, members: _Document
    ) -> messages.Message:
        """Describe a client, with the hosts of its group."""
        found = self._requests.ask("GET", _path_of(members), deadline_s)
        client: messages.Message = found["client"]
        return client

    def detach(
        self, deadline_s: float | None, members: _Document
    ) -> messages.Message:
        self._end(_path_of(members), deadline_s)
        return {}

    def _find(self, name: str, deadline_s: float | None) -> _Document:
        quoted = urllib.parse.quote(name, safe="")
        found = self._requests.ask("GET", f"/groups?name={quoted}", deadline_s)
        named: list[_Document] = found["groups"]
        if not named:
            # The name may be an ID.
            found = self._requests.ask("GET", f"/groups/{quoted}", deadline_s)
            named = [found["group"]]
        if len(named) > 1:
            # Shared groups of other projects may have the same name.
            raise errors.InvalidRequest(
                codes.INVALID_REQUEST,
                f"{len(named)} groups are named {name}; give the ID",
            )
        return named[0]

    def _post(self, path: str, deadline_s: float | None) -> _Document:
        """Become a client; if no answer arrives in time, undo it later."""
        posting = self._requests.begin(
            lambda: self._requests.http(
                "POST", path, deadline_s, pause=self._cancel.wait
            )
        )
        try:
            return self._requests.wait_for(posting, deadline_s)
        except BaseException:
            posting.add_done_callback(
                functools.partial(self._end_unwanted, path)
            )
            raise

    def _end_unwanted(
        self, path: str, posting: concurrent.futures.Future[_Document]
    ) -> None:
        if posting.exception() is None:
            client_id = posting.result()["client"]["id"]
            deadline_s = channel.deadline_after(_DETACH_S)
            with contextlib.suppress(
                errors.FpgapoolError, doors.ConnectionLost
            ):
                self._end(f"{path}/{client_id}", deadline_s)

    def _end(self, path: str, deadline_s: float | None) -> None:
        # ended=true: the program itself leaves; nobody revoked it.
        self._requests.http("DELETE", f"{path}?ended=true", deadline_s)


def _path_of(members: _Document) -> str:
    return f"/groups/{members['group_id']}/clients/{members['client_id']}"
