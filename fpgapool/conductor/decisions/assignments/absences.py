# SPDX-License-Identifier: Apache-2.0

"""Finds clients of groups whose programs are gone, from reports of desks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from collections.abc import Sequence

from fpgapool import objects
from fpgapool.db import api as db_api


@dataclasses.dataclass(slots=True)
class _Client:
    """What is known of a client.

    :ivar since: since when the reports of existing desks show no connection;
        None: they show one.
    """

    was_connected: bool = False
    since: float | None = None


class Absences:
    """Finds the clients that have been disconnected for too long.

    :param connect_timeout_s: how long a client may take to connect for the
        first time.
    :param resume_grace_s: how long its connection may later be lost.
    """

    def __init__(
        self, connect_timeout_s: float, resume_grace_s: float
    ) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._resume_grace_s = resume_grace_s
        self._clients: dict[str, _Client] = {}

    def find(
        self,
        groups: Iterable[
            tuple[
                Sequence[db_api.GroupClientRecord],
                Sequence[tuple[float, objects.GroupReport]],
            ]
        ],
        now: float,
    ) -> list[db_api.GroupClientRecord]:
        """Return the clients to end.

        :param groups: the clients of each group, and the last reports of its
            desks with their times; empty if it is uncertain which clients are
            connected, or if they cannot connect.
        """
        before, self._clients = self._clients, {}
        found = []
        for clients, reports in groups:
            connected = {
                one.client_id
                for _, report in reports
                for one in report.clients
                if one.connected
            }
            can_connect = any(report.endpoints for _, report in reports)
            heard_at = min((at for at, _ in reports), default=now)
            for client in clients:
                known = before.get(client.client_id) or _Client()
                self._clients[client.client_id] = known
                if client.client_id in connected:
                    known.was_connected, known.since = True, None
                elif not can_connect:
                    known.since = None
                elif known.since is None:
                    known.since = now
                elif heard_at >= known.since + self._limit_s(known):
                    # All desks have reported this after the limit.
                    found.append(client)
        return found

    def _limit_s(self, known: _Client) -> float:
        if known.was_connected:
            return self._resume_grace_s
        return self._connect_timeout_s
