# SPDX-License-Identifier: Apache-2.0

"""The interface of a front door."""

from __future__ import annotations

import collections.abc
import socket
import typing

from fpgapool.client import errors
from fpgapool.protocol import messages
from fpgapool.vocabulary import exceptions


class ConnectionLost(exceptions.PicklableError):
    """The front door went away; asking it again may help."""


class TurnedAway(ConnectionLost):
    """The front door has no room for this client, and said so.

    :ivar error: its answer.
    """

    def __init__(self, error: errors.FpgapoolError) -> None:
        super().__init__(str(error))
        self.error = error


class Door(typing.Protocol):
    """A connection to a front door.

    Operations, their arguments and replies are those of the front door of a
    host, see :mod:`fpgapool.protocol.messages`.

    :ivar connections: number of connections made.
    """

    connections: int

    def request(
        self,
        operation: str,
        deadline_s: float | None = None,
        /,
        **members: object,
    ) -> messages.Message:
        """Ask and wait for the reply.

        :param operation: name of the operation.
        :param deadline_s: absolute deadline.
        :param members: its arguments.
        :returns: the reply.
        :raises errors.FpgapoolError: if the front door refuses.
        :raises ConnectionLost: if it went away.
        :raises errors.Cancelled: if cancelled.
        :raises errors.OperationTimeout: if the deadline passes.
        """

    def request_all(
        self,
        requests: collections.abc.Sequence[
            tuple[str, collections.abc.Mapping[str, object]]
        ],
        deadline_s: float | None = None,
    ) -> list[messages.Message]:
        """Ask several things in one turn and wait for all replies.

        :param requests: operations and their arguments.
        :param deadline_s: absolute deadline.
        :returns: the replies, in the order of the requests.
        :raises: as :meth:`request`, for the first that is refused.
        """

    def request_connection(
        self, session_id: str, generation: int, deadline_s: float | None
    ) -> socket.socket:
        """Ask for a connection to a worker of this host.

        :param session_id: of the session that the worker serves.
        :param generation: of its assignment.
        :param deadline_s: absolute deadline.
        :returns: a connected Unix stream socket.
        :raises: as :meth:`request`.
        """

    def next_event(self, deadline_s: float | None = None) -> messages.Message:
        """Wait for the next notification.

        :param deadline_s: absolute deadline.
        :returns: the notification; its session may be read into a view.
        :raises ConnectionLost: if the front door went away.
        :raises errors.Cancelled: if cancelled.
        :raises errors.OperationTimeout: if the deadline passes.
        """

    def discard_events(self) -> None:
        """Drop the notifications received so far."""

    def reconnect(self, deadline_s: float | None = None) -> None:
        """Connect again after :class:`ConnectionLost`.

        :param deadline_s: absolute deadline.
        :raises errors.FrontDoorUnavailable: if it is still away.
        :raises errors.Cancelled: if cancelled.
        :raises errors.OperationTimeout: if the deadline passes.
        """

    def give_up(self, **members: object) -> None:
        """Tell the pool that a request or session is no longer wanted.

        It never raises, takes a bounded time, and ignores the request's
        cancellation. It may shut the connection down.

        :param members: ``session_id`` or ``request_id``.
        """

    def report_close(
        self,
        session_id: str,
        generation: int,
        *,
        input_bytes: int,
        output_bytes: int,
        confirmed: bool,
        deadline_s: float | None,
    ) -> None:
        """Tell the pool that the client has closed a session; never raises.

        The session ends as served then, even if no worker can report it any
        more.

        :param session_id: of the session.
        :param generation: of the slot that served it last.
        :param input_bytes: that the slots have computed.
        :param output_bytes: that the client has received.
        :param confirmed: whether the worker has confirmed the end; if so, no
            time is spent on a front door that is away.
        :param deadline_s: absolute deadline.
        """

    def shutdown(self) -> None:
        """Wake a thread that waits here, for good.

        The thread finds the connection lost, and does not connect again.
        """

    def close(self) -> None:
        """End the connection; closing twice does nothing."""
