# SPDX-License-Identifier: Apache-2.0

"""The members of a desk: their connections, and which of them are in use.

The agent connects a slot's worker, and its first message says which slot that
is: what members say about themselves decides nothing. The slot joins once it
has sent READY and the agent wants it with that generation, and leaves when the
agent no longer wants it: the queues let its task end, STOP makes the worker
clear the slot, and LEFT confirms that. A slot whose connection ends is
considered dead.
"""

from __future__ import annotations

import logging
import time
import typing
from collections.abc import Callable
from collections.abc import Iterable

from fpgapool.agent.child import port as data_ports
from fpgapool.agent.groupdesk import loop as loops
from fpgapool.agent.groupdesk import ports
from fpgapool.agent.groupdesk.decisions import queues
from fpgapool.common.channels import channel as channels
from fpgapool.common.channels import rings
from fpgapool.protocol import frames
from fpgapool.protocol import messages
from fpgapool.protocol import records
from fpgapool.vocabulary import codes

LOG = logging.getLogger(__name__)

Place: typing.TypeAlias = tuple[str, int]


class MemberPorts:
    """The connections of slots; used only in the loop's thread.

    :param slots: device and number of each slot of this host.
    :param ended: called when a task has ended; see :class:`ports.MemberPort`.
    """

    def __init__(
        self,
        path: str,
        slots: Iterable[Place],
        loop: loops.RingLoop,
        desk_queues: queues.Queues,
        ended: Callable[[int, int, int, int, ports.Payload, float], None],
        notify: Callable[[dict[str, object]], None],
        decide: Callable[[float], None],
    ) -> None:
        self._path = path
        self._numbers = {place: number for number, place in enumerate(slots)}
        self._loop = loop
        self._queues = desk_queues
        self._ended = ended
        self._notify = notify
        self._decide = decide
        # Ports of all connected slots, and of joined ones by number;
        # generations of wanted slots, and of those that have left.
        self._connected: set[ports.MemberPort] = set()
        self._joined: dict[int, ports.MemberPort] = {}
        self._wanted: dict[Place, int] = {}
        self._left: dict[Place, int] = {}
        self._listener = data_ports.listen_unix(path)
        self.get = self._joined.get

    def serve(self) -> None:
        self._listener.setblocking(False)
        self._loop.watch(self._listener.fileno(), self._accept)

    def close(self) -> None:
        data_ports.close_unix(self._listener, self._path)
        for port in self._connected:
            port.close()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError as exc:
            LOG.warning("accepting a member failed: %s", exc)
            return
        connection = channels.PlainChannel(sock)
        self._loop.watch(sock.fileno(), lambda: self._introduced(connection))

    def _introduced(self, connection: channels.PlainChannel) -> None:
        """Connect the slot that the agent names."""
        self._loop.unwatch(connection.fileno())
        try:
            place = self._introduction(connection)
            channel = rings.Channel.create(records.RING_BYTES)
            connection.send_with_fds(b"\0", channel.fds)
        except (OSError, frames.ProtocolError) as exc:
            LOG.warning("connecting a member failed: %s", exc)
            connection.close()
            return
        channel.forget_fds()
        for other in [*self._connected]:
            if other.place[:2] == place[:2]:
                self.forget(other)
        port = ports.MemberPort(
            place,
            connection,
            channel,
            self._ready,
            self._ended,
            self._has_left,
        )
        self._connected.add(port)
        self._loop.add(port, first=True)
        self._loop.watch(connection.fileno(), lambda: self._hung_up(port))

    def _hung_up(self, port: ports.MemberPort) -> None:
        """Handle the end of a member's connection, after its last records."""
        if port not in self._connected:
            return
        while port.work(time.monotonic()):
            pass
        if port in self._connected:
            self.forget(port)
            self._decide(time.monotonic())

    def _introduction(
        self, connection: channels.PlainChannel
    ) -> tuple[str, int, int]:
        # The agent has sent it as a whole before the worker could add to it.
        data = memoryview(bytearray(messages.MAX_MESSAGE_BYTES))
        count = connection.recv_some_into(data)
        (document,) = messages.MessageDecoder().feed(data[:count], 1) or ({},)
        place = _place(document)
        if place[:2] not in self._numbers:
            raise frames.ProtocolError(
                codes.SLOT_NOT_FOUND, "this host has no such slot"
            )
        return place

    def _ready(
        self, port: ports.MemberPort, document: dict[str, typing.Any]
    ) -> None:
        if port.is_ready or _place(document) != port.place:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR,
                "READY comes twice, or names another slot than the agent",
            )
        port.is_ready = True
        self._join_wanted()

    def want(self, wanted: dict[Place, int], surplus: int = 0) -> None:
        """Set which slots become members once ready; the others leave.

        :param surplus: number of wanted slots that must leave, idle ones
            first.
        """
        unknown = wanted.keys() - self._numbers.keys()
        if unknown:
            raise frames.ProtocolError(
                codes.SLOT_NOT_FOUND, f"this host has no slot {min(unknown)}"
            )
        self._wanted = wanted
        for place in [*self._left]:
            if place not in wanted or wanted[place] != self._left[place]:
                del self._left[place]
        members = self._queues.members
        for number, port in self._joined.items():
            if wanted.get(port.place[:2]) != port.place[2]:
                members.leave(number)
        self._join_wanted()
        members.expected = len(wanted) - len(self._left)
        members.shrink(surplus)

    def _join_wanted(self) -> None:
        for port in self._connected:
            if not port.is_ready or port.number is not None:
                continue
            place, generation = port.place[:2], port.place[2]
            if (
                self._wanted.get(place) == generation
                and self._left.get(place) != generation
            ):
                port.number = self._numbers[place]
                self._joined[port.number] = port
                self._queues.members.join(port.number)
                self._report(port, "joined")

    def stop(self, number: int) -> None:
        """Stop a member that the queues have released."""
        port = self._joined.pop(number, None)
        if port is not None:
            port.number = None
            port.stop()

    def _has_left(self, port: ports.MemberPort) -> None:
        """Handle a slot that has left, whether or not it was stopped."""
        if port.number is None and port.is_ready:
            self._left[port.place[:2]] = port.place[2]
            self._report(port, "left")
        self.forget(port)

    def forget(self, port: ports.MemberPort) -> None:
        """Drop a slot's connection; its task runs again on another member."""
        if port not in self._connected:
            return
        self._connected.discard(port)
        self._loop.remove(port)
        self._loop.unwatch(port.sock.fileno())
        if port.number is not None:
            self._joined.pop(port.number, None)
            self._queues.lost(port.number, time.monotonic())
            self._report(port, "lost")
        port.close()

    def drop_forgetful(self) -> None:
        """Drop members that released their task without a result."""
        now = time.monotonic()
        for port in [*self._joined.values()]:
            if port.has_forgotten(now):
                LOG.error(
                    "member dropped: it released its task without a result"
                )
                self.forget(port)

    def _report(self, port: ports.MemberPort, what: str) -> None:
        LOG.info(
            "member %s: slot %d of %s", what, port.place[1], port.place[0]
        )
        self._notify(_member(*port.place, what))

    def status(self) -> list[dict[str, object]]:
        """Describe all connected slots, and those that have left."""
        known = self._queues.members.all
        found = []
        for port in self._connected:
            if not port.is_ready:
                continue
            state = "waiting"
            if port.number is not None:
                leaving = known[port.number].leaving
                state = "leaving" if leaving else "joined"
            found.append(_member(*port.place, state))
        return found + [
            _member(*place, generation, "left")
            for place, generation in self._left.items()
        ]


def _place(document: dict[str, typing.Any]) -> tuple[str, int, int]:
    return (
        frames.require(document, "device", str),
        frames.require(document, "slot", int),
        frames.require(document, "generation", int),
    )


def _member(
    device: str, slot: int, generation: int, state: str
) -> dict[str, object]:
    return {
        "device": device,
        "slot": slot,
        "generation": generation,
        "state": state,
    }
