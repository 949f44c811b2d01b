# SPDX-License-Identifier: Apache-2.0

"""The plugin: a reservation of a lease is one of the pool's reservations."""

from __future__ import annotations

import datetime
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

from blazar import exceptions as blazar_exceptions
from blazar.db import api as db_api
from blazar.manager import exceptions as manager_exceptions
from blazar.plugins import base
from openstack import exceptions
from oslo_log import log as logging

from fpgapool.vocabulary import reservation
from fpgapool_blazar import conf
from fpgapool_blazar import monitor
from fpgapool_blazar import pool
from fpgapool_blazar import wishes

LOG = logging.getLogger(__name__)


class SlotPlugin(base.BasePlugin):
    """Slots of the pool with one accelerator, from a time to another.

    The pool begins and ends its reservations by itself. Blazar's identifier
    of the resource is that of the pool's reservation.
    """

    resource_type = wishes.RESOURCE_TYPE
    title = "Slots of an FPGA pool"
    description = "Reserves slots of fpgapool with one accelerator."

    def __init__(self) -> None:
        self.monitor = monitor.SlotMonitor()

    def get_plugin_opts(self) -> list[Any]:
        """Return the options of the section that the type names."""
        return conf.OPTIONS

    def allocation_candidates(
        self, lease_values: Mapping[str, Any]
    ) -> list[str]:
        """Check what is asked for; the pool chooses the slots by itself."""
        # When a lease changes, Blazar tells only what it has noted itself.
        if "id" not in lease_values:
            _checked(lease_values)
        return []

    def reserve_resource(
        self, reservation_id: str, values: Mapping[str, Any]
    ) -> str:
        """Reserve the slots; return the identifier in the pool."""
        _checked(values)
        lease = db_api.lease_get(values["lease_id"])
        wanted = wishes.new(reservation_id, values, _now())
        try:
            api = pool.for_owner(lease["trust_id"])
            try:
                with pool.answered():
                    return api.create_reservation(**wanted).id
            except pool.UnavailableError:
                # It may have been made all the same.
                with pool.answered():
                    for made in api.reservations(name=wanted["name"]):
                        return made.id
                raise
        except pool.UnavailableError as error:
            raise blazar_exceptions.ServiceClient(str(error)) from error

    def update_reservation(
        self, reservation_id: str, values: Mapping[str, Any]
    ) -> None:
        """Move, extend or cut short the reservation, or change its slots."""
        known = db_api.reservation_get(reservation_id)
        lease = db_api.lease_get(known["lease_id"])
        try:
            api = pool.for_owner(lease["trust_id"])
            with pool.answered():
                present = api.get_reservation(known["resource_id"])
                try:
                    wanted = wishes.changes(
                        values, present, lease["start_date"], _now()
                    )
                except wishes.UnknownMemberError as error:
                    raise _malformed(error) from error
                if wanted:
                    api.update_reservation(present, **wanted)
        except pool.UnavailableError as error:
            # The lease stays as it is, and can be updated again.
            raise manager_exceptions.CantUpdateParameter(str(error)) from error

    def on_start(self, resource_id: str) -> None:
        """Do nothing: the pool begins the reservation by itself."""

    def on_end(self, resource_id: str) -> None:
        """Delete the reservation, unless the pool has ended it by itself."""
        if resource_id is None:
            return
        for known in db_api.reservation_get_all_by_values(
            resource_type=self.resource_type, resource_id=resource_id
        ):
            lease = db_api.lease_get(known["lease_id"])
            try:
                self._end(lease["trust_id"], resource_id)
            except pool.UnavailableError as error:
                if lease["end_date"].replace(tzinfo=datetime.UTC) > _now():
                    raise blazar_exceptions.ServiceClient(
                        str(error)
                    ) from error
                LOG.warning(
                    "The pool cannot be asked at the end of lease %s; it ends"
                    " reservation %s by itself",
                    lease["id"],
                    resource_id,
                )

    def _end(self, trust_id: str, resource_id: str) -> None:
        api = pool.for_owner(trust_id)
        with pool.answered():
            try:
                present = api.get_reservation(resource_id)
            except exceptions.NotFoundException:
                return
            if present.state not in reservation.OVER:
                api.delete_reservation(present)

    def get(self, resource_id: str) -> dict[str, Any]:
        """Return what filters of usage are told of a resource."""
        return {"id": resource_id}

    def list_allocations(
        self, query: Mapping[str, Any] | None, detail: bool = False
    ) -> list[dict[str, Any]]:
        """Return the pool's reservations with the leases that they are for.

        :param query: optionally ``lease_id`` and ``reservation_id``.
        """
        wanted = {
            name: value
            for name, value in (query or {}).items()
            if name in ("lease_id", "reservation_id")
        }
        known = db_api.reservation_get_all_by_values(
            resource_type=self.resource_type
        )
        found = self.query_allocations(
            [one["resource_id"] for one in known if one["resource_id"]],
            **wanted,
        )
        return [
            {"resource_id": resource_id, "reservations": reservations}
            for resource_id, reservations in found.items()
        ]

    def query_allocations(
        self,
        resource_id_list: Collection[str],
        lease_id: str | None = None,
        reservation_id: str | None = None,
    ) -> dict[str, list[dict[str, Any]]]:
        """Return Blazar's reservations by the identifiers in the pool."""
        found: dict[str, list[dict[str, Any]]] = {
            resource_id: [] for resource_id in resource_id_list
        }
        for known in db_api.reservation_get_all_by_values(
            resource_type=self.resource_type
        ):
            if (
                known["resource_id"] in found
                and lease_id in (None, known["lease_id"])
                and reservation_id in (None, known["id"])
            ):
                lease = db_api.lease_get(known["lease_id"])
                found[known["resource_id"]].append(
                    {
                        "id": known["id"],
                        "lease_id": lease["id"],
                        "start_date": lease["start_date"],
                        "end_date": lease["end_date"],
                    }
                )
        return found


def _checked(values: Mapping[str, Any]) -> None:
    try:
        wishes.check(values)
    except wishes.UnknownMemberError as error:
        raise _malformed(error) from error
    except wishes.MissingMemberError as error:
        raise manager_exceptions.MissingParameter(param=str(error)) from error


def _malformed(
    error: wishes.UnknownMemberError,
) -> manager_exceptions.MalformedParameter:
    return manager_exceptions.MalformedParameter(param=str(error))


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
