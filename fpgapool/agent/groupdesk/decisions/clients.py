# SPDX-License-Identifier: Apache-2.0

"""The clients of a group on one host, and their counts."""

from __future__ import annotations

from fpgapool.agent.groupdesk.decisions import heads
from fpgapool.agent.groupdesk.decisions import model


class Clients:
    """The clients that are attached or have locks.

    :param slots: number of this host's slots, and of each client's queues.
    """

    def __init__(self, slots: int, waiting: heads.Heads) -> None:
        self._slots = slots
        self._heads = waiting
        self.all: dict[str, model.Client] = {}
        # Former clients' counts, until the period ends.
        self._gone: dict[str, model.Usage] = {}

    def attach(
        self, client_id: str, owner: str, project_id: str
    ) -> model.Client:
        """Attach a new or reconnecting client, and return it."""
        client = self.all.get(client_id)
        if client is None:
            client = self.all[client_id] = model.Client(
                client_id, owner, self._slots, self._heads.project(project_id)
            )
            counts = self._gone.pop(client_id, None)
            if counts is not None:
                client.counts = counts
        client.owner = owner
        client.attached = True
        client.paused = False
        # The limit of locks may now be lower for the other clients.
        self._heads.retry_blocked()
        return client

    def forget(self, client: model.Client) -> None:
        """Remove a client; its counts stay until the period ends."""
        if self.all.pop(client.client_id, None) is not None:
            self._gone[client.client_id] = client.counts
        self._heads.retry_blocked()

    def counts_of(self, client_id: str) -> model.Usage:
        """Return a client's counts; the client may have left or be new."""
        client = self.all.get(client_id)
        if client is not None:
            return client.counts
        return self._gone.setdefault(client_id, model.Usage())

    def take_counts(self) -> dict[str, model.Usage]:
        """End a period; return the clients' counts in it, by id."""
        taken, self._gone = self._gone, {}
        for client_id, client in self.all.items():
            counts = taken[client_id] = client.counts
            client.counts = model.Usage(
                waiting=counts.waiting, running=counts.running
            )
        return taken
