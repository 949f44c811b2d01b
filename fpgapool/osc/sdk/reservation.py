# SPDX-License-Identifier: Apache-2.0

"""Reservations by calendar, and the API's methods for them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from fpgapool.osc.sdk import base
from fpgapool.vocabulary import reservation as description


@base.described(description.FIELDS)
class Reservation(base.Resource):
    """Slots that a project has from a time to another."""

    resource_key = "reservation"
    resources_key = "reservations"
    base_path = "/reservations"
    allow_create = True
    allow_fetch = True
    allow_commit = True
    allow_delete = True
    allow_list = True
    commit_method = "PATCH"

    _query_mapping = base.query(
        "name", "accelerator", "state", "all_projects", "project_id"
    )


class ReservationProxy(base.Proxy):
    """The part of the pool's API for reservations."""

    def reservations(self, **query: Any) -> Generator[Reservation, None, None]:
        """Return the reservations of your own project.

        :param query: ``name``, ``accelerator``, ``state``, ``all_projects``,
            ``project_id``.
        """
        return self._list(Reservation, **query)

    def get_reservation(self, reservation_id: str) -> Reservation:
        return self._get(Reservation, reservation_id)

    def create_reservation(self, **attributes: Any) -> Reservation:
        """Reserve slots.

        If they do not fit, the message of ``ConflictException`` has the next
        time that fits.

        :param attributes: ``accelerator``, ``slots``, ``start_at`` and
            ``end_at`` (ISO 8601), and optionally ``name``, ``repeat``,
            ``times``, ``host_uuids``, ``device_id``, ``grace_s`` and
            ``project_id``.
        """
        return self._create(Reservation, **attributes)

    def update_reservation(
        self, reservation: str | Reservation, **attributes: Any
    ) -> Reservation:
        """Move, extend or cut short a reservation, or change its slots."""
        return self._update(Reservation, reservation, **attributes)

    def delete_reservation(
        self, reservation: str | Reservation, ignore_missing: bool = True
    ) -> None:
        """Delete a reservation; its slots are free for all."""
        self._delete(Reservation, reservation, ignore_missing=ignore_missing)
