# SPDX-License-Identifier: Apache-2.0

"""Properties of a session's slot."""

from __future__ import annotations

from fpgapool.client import shown
from fpgapool.client.doors import view as views
from fpgapool.client.sessions import flow as flows


class Described(shown.Shown):
    """Describes the slot of a session and its history."""

    flow: flows.Flow

    @property
    def view(self) -> views.SessionView:
        """The front door's view when the current slot became ready."""
        return self.flow.view

    @property
    def session_id(self) -> str:
        """The pool's ID of the session; empty if the CPU computes."""
        return self.view.session_id

    @property
    def host_name(self) -> str | None:
        return self.view.host_name

    @property
    def device(self) -> str | None:
        """Name of the slot's board."""
        return self.view.device

    @property
    def slot(self) -> int | None:
        """Number of the slot on its board."""
        return self.view.slot

    @property
    def local(self) -> bool:
        """Whether the slot is on the host of this process."""
        return bool(self.view.local)

    @property
    def transport(self) -> str:
        """``shm``, ``stream``, or ``cpu`` if the CPU computes."""
        return self.flow.transport

    @property
    def fallback_reason(self) -> str | None:
        """Code of the pool's error due to which this machine's CPU computes.

        None if a slot computes or still may.
        """
        return self.flow.seeker.fallback_reason

    @property
    def stateless(self) -> bool:
        """Whether the session can continue in another slot."""
        return self.flow.stateless

    @property
    def cpu_energy_j(self) -> float | None:
        """Estimated energy in joules that this machine's CPU used.

        For information only: the pool charges only for slots. None if only a
        slot computes, or if the accelerator's profile declares no power for
        the platform ``cpu``.
        """
        return self.flow.seeker.cpu_energy_j

    @property
    def checksum(self) -> bool:
        """Whether the data is checked end to end."""
        return self.flow.checksum

    @property
    def queued_at(self) -> float | None:
        """Wall clock time at which the pool recorded the request."""
        return self.view.queued_at

    @property
    def ready_at(self) -> float | None:
        """Wall clock time at which the slot became ready."""
        return self.view.ready_at

    @property
    def reconnects(self) -> int:
        """How often a broken connection was replaced."""
        return self.flow.reconnects

    @property
    def reopens(self) -> int:
        """How often a lost slot was replaced."""
        return self.flow.reopens
