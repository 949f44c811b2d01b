# SPDX-License-Identifier: Apache-2.0

"""Connect to a door, for one request or for the lifetime of a session."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.client import cancel as cancelling
from fpgapool.client import checks
from fpgapool.client import discovery
from fpgapool.client import errors
from fpgapool.client.doors import door as doors
from fpgapool.client.doors import frontdoor
from fpgapool.client.doors import poolapi
from fpgapool.common.channels import channel
from fpgapool.protocol import messages

HELLO = {"version": messages.FRONT_DOOR_VERSION}


def enter(
    front_door: str | poolapi.PoolApi,
    cancel: cancelling.CancelToken,
    deadline_s: float | None,
    origin: doors.Origin,
    *,
    require_tls: bool = False,
) -> doors.Door:
    """Connect to a front door, or to the API."""
    if isinstance(front_door, str):
        return frontdoor.FrontDoor(front_door, cancel, deadline_s, origin)
    return front_door.enter(
        cancel, deadline_s, origin, require_tls=require_tls
    )


@contextlib.contextmanager
def entered(
    front_door: str | poolapi.PoolApi,
    cancel: cancelling.CancelToken,
    deadline_s: float | None,
    *,
    require_tls: bool = False,
) -> Iterator[doors.Door]:
    """Connect for a ``with`` block; translate errors of a lost connection."""
    origin = doors.Origin.new()
    with errors.About(origin.request_id):
        door = enter(
            front_door, cancel, deadline_s, origin, require_tls=require_tls
        )
        with contextlib.closing(door):
            try:
                yield door
            except doors.TurnedAway as exc:
                raise exc.error from exc
            except doors.ConnectionLost as exc:
                raise errors.FrontDoorUnavailable(str(exc)) from exc


def pause_until(
    token: cancelling.CancelToken, deadline_s: float | None
) -> doors.Pause:
    """Return a function that pauses between queries for Nova's data."""

    def pause(seconds: float) -> bool:
        left_s = channel.remaining_s(deadline_s)
        if left_s is not None and left_s <= seconds:
            return False
        token.wait(seconds)
        return True

    return pause


def ask(
    requests: Sequence[tuple[str, Mapping[str, object]]],
    *,
    front_door: str | poolapi.PoolApi | None = None,
    timeout_s: float | None = None,
    cancel: threading.Event | cancelling.CancelToken | None = None,
    require_tls: bool | None = None,
) -> list[messages.Message]:
    """Send requests to the front door on a separate connection."""
    deadline_s = checks.deadline(timeout_s)
    insists = checks.require_tls(require_tls)
    token = cancelling.token_of(cancel)
    try:
        token.check()
        with entered(
            front_door or discovery.find(),
            token,
            deadline_s,
            require_tls=insists,
        ) as door:
            return door.request_all([("hello", HELLO), *requests], deadline_s)[
                1:
            ]
    finally:
        cancelling.release(token)
