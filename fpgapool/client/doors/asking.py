# SPDX-License-Identifier: Apache-2.0

"""Questions to the pool that open nothing."""

from __future__ import annotations

import collections.abc
import threading

from fpgapool.client import cancel as cancelling
from fpgapool.client import checks
from fpgapool.client import discovery
from fpgapool.client import errors
from fpgapool.client.doors import apidoor
from fpgapool.client.doors import door as doors
from fpgapool.client.doors import frontdoor
from fpgapool.common.channels import channel
from fpgapool.protocol import messages


def ask(
    requests: collections.abc.Sequence[
        tuple[str, collections.abc.Mapping[str, object]]
    ],
    *,
    front_door: str | apidoor.PoolApi | None,
    timeout_s: float | None,
    cancel: threading.Event | cancelling.CancelToken | None,
    require_tls: bool | None,
) -> list[messages.Message]:
    """Ask the front door, by a connection of its own.

    :param requests: operations and their arguments.
    :param front_door: see :func:`fpgapool.client.acc_open`, like the others.
    :returns: the replies.
    :raises: as :func:`fpgapool.client.acc_open`.
    """
    deadline_s = channel.deadline_after(checks.seconds(timeout_s, "timeout_s"))
    insists = checks.require_tls(require_tls)
    token = cancelling.token_of(cancel)
    try:
        token.check()
        found = front_door or discovery.find()
        if isinstance(found, apidoor.PoolApi):
            door: doors.Door = found.enter(
                token, deadline_s, require_tls=insists
            )
        else:
            door = frontdoor.FrontDoor(found, token, deadline_s)
        try:
            hello = {"version": messages.FRONT_DOOR_VERSION}
            replies = door.request_all(
                [("hello", hello), *requests], deadline_s
            )
            return replies[1:]
        except doors.ConnectionLost as exc:
            raise errors.FrontDoorUnavailable(str(exc)) from exc
        finally:
            door.close()
    finally:
        cancelling.release(token)
