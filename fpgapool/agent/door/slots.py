# SPDX-License-Identifier: Apache-2.0

"""Connects the front door's clients to workers and desks on this host."""

from __future__ import annotations

import socket
from collections.abc import Iterable

from fpgapool import objects
from fpgapool.agent import settings as agent_settings
from fpgapool.agent.slots import orders
from fpgapool.agent.slots import table
from fpgapool.agent.supervision import children
from fpgapool.agent.supervision import desks
from fpgapool.agent.supervision import workers
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import states

_IN_USE = frozenset({states.SLOT_ACTIVE, states.SLOT_DETACHED})


class HostSlots:
    """Connects clients; used only in the loop's thread."""

    def __init__(
        self,
        settings: agent_settings.AgentSettings,
        slot_table: table.SlotTable,
        group_desks: desks.Desks,
    ) -> None:
        self._settings = settings
        self._table = slot_table
        self.connect_group = group_desks.connect

    def connect(
        self,
        project_id: str,
        session_id: str,
        generation: int,
        view: objects.SessionView | None = None,
    ) -> socket.socket:
        """Return a connection to the data socket of a session's worker.

        :param view: the session's view, if the front door knows it. The
            conductor may have offered the slot to the client before this agent
            receives the order.
        :raises: rules.RequestError if the project has no such session here.
        """
        key = self._offered_key(generation, view) or self._key_in_use(
            project_id, session_id, generation
        )
        path = workers.data_path(self._settings.state_path, key)
        return children.connect_client(path, "the slot's worker")

    def _offered_key(
        self, generation: int, view: objects.SessionView | None
    ) -> orders.Key | None:
        """Return the slot that the conductor has offered on this host, or
        None. The worker authenticates the client once the order has arrived.
        """
        if (
            view is None
            or view.state not in (states.PREPARING, states.READY)
            or not view.endpoints
            or not view.secret_sha256
            or view.generation != generation
            or view.slot_host_uuid != self._settings.host_uuid
        ):
            return None
        return str(view.device), int(view.slot or 0)

    def _key_in_use(
        self, project_id: str, session_id: str, generation: int
    ) -> orders.Key:
        """Return the slot that a session's client may connect to."""
        found = {
            holder.session_id: (key, holder)
            for key, holder in self._table.holders().items()
        }.get(session_id)
        if found is None or found[1].project_id != project_id:
            raise rules.RequestError(
                codes.SESSION_NOT_FOUND,
                "the session has no slot on this host",
            )
        key, holder = found
        if holder.generation != generation:
            raise rules.RequestError(
                codes.STALE_GENERATION,
                f"the request is for generation {generation}, but the session"
                f" has generation {holder.generation} on this host",
            )
        state = self._table.slot(key).state
        if state not in (states.SLOT_READY, *_IN_USE):
            raise rules.RequestError(
                codes.SESSION_NOT_READY, "the slot is not ready yet"
            )
        return key

    def sessions_in_use(self) -> Iterable[str]:
        """Return the ids of the sessions whose clients have connected here."""
        return {
            holder.session_id
            for key, holder in self._table.holders().items()
            if self._table.slot(key).state in _IN_USE
        }
