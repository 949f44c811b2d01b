# SPDX-License-Identifier: Apache-2.0

"""What the workers of a host would report, without processes and data."""

from __future__ import annotations

import dataclasses
import time
import typing
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from fpgapool import objects
from fpgapool.agent.slots import orders
from fpgapool.agent.slots import slot as slots
from fpgapool.agent.slots import table
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

#: How much a session moves between two reports.
STEP_BYTES = 1 << 20

_CERTIFICATE = "ab" * 32


@dataclasses.dataclass(frozen=True, slots=True)
class Use:
    """A client's use of a slot; times are of the monotonic clock."""

    session_id: str
    generation: int
    slot: str
    began_s: float
    ended_s: float


Places: typing.TypeAlias = "dict[str, tuple[Workers, orders.Key]]"


class Workers:
    """The workers of a host's slots.

    :param port: where clients of other processes find them.
    :param places: where sessions are, by their ids, on all hosts that are
        found at the port.
    :param happened: takes the table's event, with its arguments.
    """

    def __init__(
        self,
        port: int,
        places: Places,
        host_name: str,
        happened: Callable[..., None],
    ) -> None:
        self._places = places
        self._happened = happened
        self._host_name = host_name
        self._statuses: dict[orders.Key, slots.WorkerStatus] = {}
        self._began_s: dict[orders.Key, float] = {}
        self._idle = slots.WorkerStatus(
            state=states.SLOT_IDLE,
            session_id=None,
            generation=None,
            seen_generation=0,
            project_id=None,
            programmed=None,
            input_bytes=0,
            output_bytes=0,
            last_result=None,
            data_port=port,
            certificate_sha256=_CERTIFICATE,
        )
        self.uses: list[Use] = []

    def start(self, key: orders.Key) -> None:
        """Have the worker of a slot connect to its agent."""
        self._statuses[key] = self._idle
        self._happened(key, table.SlotTable.worker_connected)
        self._tell(key)

    def _tell(self, key: orders.Key, **changes: Any) -> None:
        status = dataclasses.replace(self._statuses[key], **changes)
        self._statuses[key] = status
        self._happened(key, table.SlotTable.worker_status, status)

    def take(self, order: orders.ToWorker) -> None:
        """Obey an order of the agent at once."""
        match order.operation:
            case "assign":
                self._assign(order.key, order.members)
            case "release":
                if self._statuses[order.key].generation == order.generation:
                    reason = str(order.members["reason"])
                    self._end(order.key, states.CANCELLED, reason)
            case "reissue_secret":
                self._prepared(order.key, "cd" * 32)

    def _assign(self, key: orders.Key, members: Mapping[str, Any]) -> None:
        session_id = members["session_id"]
        self._places[session_id] = self, key
        self._tell(
            key,
            state=states.SLOT_READY,
            session_id=session_id,
            generation=members["generation"],
            seen_generation=members["generation"],
            project_id=members["project_id"],
            programmed=members["accelerator"],
            input_bytes=0,
            output_bytes=0,
        )
        self._prepared(key, "")

    def _prepared(self, key: orders.Key, secret: str) -> None:
        generation = self._statuses[key].generation
        event = table.SlotTable.worker_prepared
        self._happened(key, event, generation, secret)

    def _place(self, session_id: str, generation: int) -> orders.Key | None:
        """Return the slot of an assignment, if it is on this host."""
        found, key = self._places.get(session_id, (None, None))
        if found is not self or key is None:
            return None
        held = self._statuses[key].generation
        return key if held == generation else None

    def connect(self, session_id: str, generation: int) -> bool:
        """Let a client in; return whether the slot is its own."""
        key = self._place(session_id, generation)
        if key is None:
            return False
        if self._statuses[key].state == states.SLOT_READY:
            self._began_s[key] = time.monotonic()
            self._tell(key, state=states.SLOT_ACTIVE)
        return True

    def close(self, session_id: str, generation: int) -> int | None:
        """End a session for its client.

        :returns: the bytes that it has sent; None if it is not here.
        """
        key = self._place(session_id, generation)
        if key is None:
            return None
        sent_bytes = self._statuses[key].input_bytes
        self._end(key, states.CLOSED, codes.OK)
        return sent_bytes

    def _end(self, key: orders.Key, state: str, code: str) -> None:
        status = self._statuses[key]
        assert status.session_id is not None
        assert status.generation is not None
        now_s = time.monotonic()
        began_s = self._began_s.pop(key, None)
        if began_s is not None:
            name = f"{self._host_name}/{key[0]}.{key[1]}"
            self.uses.append(
                Use(status.session_id, status.generation, name, began_s, now_s)
            )
        # It may have got a slot elsewhere.
        if self._places.get(status.session_id) == (self, key):
            del self._places[status.session_id]
        result = objects.SessionResult(
            session_id=status.session_id,
            generation=status.generation,
            state=state,
            code=code,
            input_bytes=status.input_bytes,
            output_bytes=status.output_bytes,
            finished_at=time.time(),
        )
        self._tell(
            key,
            state=states.SLOT_IDLE,
            session_id=None,
            generation=None,
            project_id=None,
            last_result=result,
        )

    def move(self) -> None:
        """Move the data of all clients that are connected."""
        for key in self._began_s:
            moved_bytes = self._statuses[key].input_bytes + STEP_BYTES
            self._tell(key, input_bytes=moved_bytes, output_bytes=moved_bytes)

    def all_uses(self) -> list[Use]:
        """Return ended uses and those that go on until now."""
        now_s = time.monotonic()
        going = [
            Use(
                str(self._statuses[key].session_id),
                int(self._statuses[key].generation or 0),
                f"{self._host_name}/{key[0]}.{key[1]}",
                began_s,
                now_s,
            )
            for key, began_s in self._began_s.items()
        ]
        return [*self.uses, *going]
