# SPDX-License-Identifier: Apache-2.0

"""The interface of a front door."""

from __future__ import annotations

import socket
import typing
import uuid
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple
from typing import Protocol
from typing import Self
from typing import TypedDict

from fpgapool.client import errors
from fpgapool.protocol import messages
from fpgapool.vocabulary import carriers
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions

#: Waits this many seconds; returns whether there is time for another attempt.
Pause: typing.TypeAlias = Callable[[float], bool]


class ConnectionLost(exceptions.PicklableError):
    """The connection to the front door was lost; a retry may succeed."""


class TurnedAway(ConnectionLost):
    """The front door is full and refused this client."""

    def __init__(self, error: errors.FpgapoolError) -> None:
        super().__init__(str(error))
        self.error = error


def check_accelerator(wanted: str, accelerator: str) -> None:
    """Check that a group has the accelerator that a program requires.

    :raises errors.InvalidRequest: ``WRONG_ACCELERATOR``.
    """
    if wanted != accelerator:
        raise errors.InvalidRequest(
            codes.WRONG_ACCELERATOR,
            f"the group's accelerator is {accelerator}, not {wanted}",
        )


class Closed(TypedDict):
    """A session that its client has closed.

    ``confirmed`` says whether the worker has confirmed the end.
    """

    session_id: str
    generation: int
    input_bytes: int
    output_bytes: int
    confirmed: bool


class Origin(NamedTuple):
    """What goes along with all messages of one request to the pool.

    :ivar request_id: appears in the log lines of all services.
    :ivar traceparent: W3C's trace context; None: nobody traces the request.
    """

    request_id: str
    traceparent: str | None = None

    @classmethod
    def new(cls) -> Self:
        """Return the origin of a request with a new ID, as in OpenStack."""
        return cls(f"req-{uuid.uuid4()}")

    @property
    def members(self) -> dict[str, object]:
        """The members of each message to a front door."""
        carrier = {carriers.TRACEPARENT: self.traceparent}
        return {
            "request_id": self.request_id,
            **({"carrier": carrier} if self.traceparent else {}),
        }

    @property
    def headers(self) -> dict[str, str]:
        """The headers of each request to the API."""
        found = {
            carriers.REQUEST_ID_HEADER: self.request_id,
            carriers.TRACEPARENT: self.traceparent,
        }
        return {name: value for name, value in found.items() if value}


class Door(Protocol):
    """A connection to a front door.

    Operations, arguments and replies are those of a host's front door; see
    :mod:`fpgapool.protocol.messages`.
    """

    connections: int

    def request(
        self,
        operation: str,
        deadline_s: float | None = None,
        /,
        **members: object,
    ) -> messages.Message:
        """Send a request and wait for the reply.

        :raises errors.FpgapoolError: if the front door rejects the request.
        :raises ConnectionLost: if the connection was lost.
        """
        return self.request_all([(operation, members)], deadline_s)[0]

    def request_all(
        self,
        requests: Sequence[tuple[str, Mapping[str, object]]],
        deadline_s: float | None = None,
    ) -> list[messages.Message]:
        """Send several requests at once and wait for all replies.

        :raises: as :meth:`request`, for the first that is rejected.
        """

    def request_connection(
        self, session_id: str, generation: int, deadline_s: float | None
    ) -> socket.socket:
        """Request a connection to a worker of this host."""

    def attach_group(
        self, name: str, accelerator: str | None, deadline_s: float | None
    ) -> messages.Message:
        """Become a client of a group.

        :param accelerator: name of the accelerator that the group must have. A
            door that cannot check this attaches the client anyway, so the
            caller must check.
        :returns: ``group_id``, ``client_id``, ``secret``, ``accelerator``,
            ``hosts`` and ``hosts_revision``.
        """

    def next_event(self, deadline_s: float | None = None) -> messages.Message:
        """Wait for the next notification.

        :returns: the notification; its session may already be a
            :class:`.view.SessionView`.
        :raises ConnectionLost: if the connection was lost.
        """

    def discard_events(self) -> None:
        """Drop the notifications received so far."""

    def reconnect(self, deadline_s: float | None = None) -> None:
        """Connect again after :class:`ConnectionLost`.

        :raises errors.FrontDoorUnavailable: if it is still unavailable.
        """

    def give_up(self, **members: object) -> None:
        """Notify the pool that a request or session is no longer wanted.

        It never raises, has a time limit, and works even if the request was
        cancelled. It may shut down the connection.
        """

    def report_close(self, closed: Closed, deadline_s: float | None) -> None:
        """Notify the pool that the client closed a session; never raises.

        The session then counts as complete, even if its worker can no longer
        report that. If the worker has confirmed the end, this does not wait
        for an unavailable front door.
        """

    def shutdown(self) -> None:
        """Wake any waiting thread; later waits fail at once.

        The woken thread sees a lost connection and does not reconnect.
        """

    def close(self) -> None:
        """End the connection; closing twice does nothing."""
