# SPDX-License-Identifier: Apache-2.0

"""Compares leases with the pool's reservations, again and again."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

from blazar import exceptions as blazar_exceptions
from blazar import status
from blazar.db import api as db_api
from blazar.plugins import base
from oslo_config import cfg
from oslo_log import log as logging

from fpgapool.osc.sdk import proxy as proxies
from fpgapool.osc.sdk import reservation as sdk
from fpgapool_blazar import pool
from fpgapool_blazar import wishes

LOG = logging.getLogger(__name__)

Flags = dict[str, dict[str, bool]]


class SlotMonitor(base.BaseMonitorPlugin):
    """Deletes what is left over in the pool, and marks leases that lack slots.

    Something is left over when Blazar was stopped while it made or deleted a
    lease, and when another reservation of a new lease was refused: Blazar
    then forgets those that it has made, and tells no plugin.
    """

    def is_notification_enabled(self) -> bool:
        """Tell that the pool's notifications are not needed."""
        return False

    def get_notification_event_types(self) -> list[str]:
        return []

    def get_notification_topics(self) -> list[str]:
        return []

    def notification_callback(self, event_type: str, payload: Any) -> Flags:
        return {}

    def is_polling_enabled(self) -> bool:
        """Tell whether to poll at all."""
        return self.get_polling_interval() > 0

    def get_polling_interval(self) -> int:
        """Return the seconds from one poll to the next."""
        interval_s: int = cfg.CONF[wishes.RESOURCE_TYPE].polling_interval_s
        return interval_s

    def get_healing_interval(self) -> int:
        """Return 0: the pool replaces slots that fail by itself."""
        return 0

    def heal(self) -> Flags:
        return {}

    def poll(self) -> Flags:
        """Compare once.

        :returns: reservations of leases by identifier, whose flag
            ``missing_resources`` is to change.
        """
        # Before the pool is asked: what is known by now is to be there.
        known = [
            one
            for one in db_api.reservation_get_all_by_values(
                resource_type=wishes.RESOURCE_TYPE
            )
            if one["resource_id"]
            and one["status"]
            in (status.reservation.PENDING, status.reservation.ACTIVE)
        ]
        try:
            api = pool.for_blazar()
            with pool.answered():
                present = {
                    one.id: one for one in api.reservations(all_projects=True)
                }
            self._clean(api, present.values())
        except pool.UnavailableError:
            # It has been logged; the next time is soon.
            return {}
        flags = {}
        for one in known:
            lacks = wishes.is_lacking(present.get(one["resource_id"]))
            if lacks != one["missing_resources"] and _is_stable(one):
                flags[one["id"]] = {"missing_resources": lacks}
        return flags

    def _clean(
        self, api: proxies.Proxy, present: Iterable[sdk.Reservation]
    ) -> None:
        for one in present:
            if not _is_left_over(one):
                continue
            LOG.warning(
                "No lease needs reservation %s of project %s any more: it is"
                " deleted",
                one.id,
                one.project_id,
            )
            try:
                with pool.answered():
                    api.delete_reservation(one)
            except blazar_exceptions.InvalidInput as error:
                # The others do not wait for it.
                LOG.error(
                    "The pool does not delete reservation %s of project %s,"
                    " which no lease needs, and is asked again later: %s",
                    one.id,
                    one.project_id,
                    error,
                )


def _is_left_over(present: sdk.Reservation) -> bool:
    reservation_id = wishes.reservation_named(present.name)
    if reservation_id is None:
        return False
    known = db_api.reservation_get(reservation_id)
    lease = known and db_api.lease_get(known["lease_id"])
    return wishes.is_left_over(
        present,
        known,
        bool(lease) and lease["status"] != status.lease.CREATING,
        datetime.datetime.now(datetime.UTC),
        cfg.CONF[wishes.RESOURCE_TYPE].unfinished_s,
    )


def _is_stable(known: Any) -> bool:
    """Tell whether nobody changes its lease just now."""
    lease = db_api.lease_get(known["lease_id"])
    return lease is not None and lease["status"] in status.lease.STABLE
