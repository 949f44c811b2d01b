# SPDX-License-Identifier: Apache-2.0

"""Common parts of the handlers of hosts, devices and slots."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from fpgapool.api import call as calls
from fpgapool.api.answers import paging
from fpgapool.api.http import errors
from fpgapool.db import inventory
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import states

Document = dict[str, Any]

_ADMINISTRATION = (
    *("admin_state", "admin_reason", "drain_deadline_at"),
    "reservable_slots",
)


@dataclasses.dataclass(frozen=True)
class Hardware:
    """Hosts, devices or slots.

    :ivar singular: name of one resource; with an s, the name of the list.
    :ivar rows: returns all of them.
    :ivar value: returns a member of one, by its name, as far as a list can be
        ordered or filtered by it; the flag says whether the caller may see
        data of other projects.
    :ivar document: returns the document of one.
    :ivar missing: error code if the resource in the path does not exist.
    :ivar see_all: the right to see data of other projects; None if all
        callers may.
    :ivar key: the member that identifies a resource in paths and markers.
    """

    singular: str
    listed: fields.Fields
    rows: Callable[[inventory.Inventory], Sequence[Any]]
    value: Callable[[calls.Call, bool, str, Any], Any]
    document: Callable[[calls.Call, inventory.Inventory, Any, bool], Document]
    missing: str
    see_all: str | None = None
    key: str = "id"

    def index(self, call: calls.Call) -> calls.Answer:
        """List the resources that match the query."""
        name = f"{self.singular}s"
        sees_all = self._sees_all(call)
        return call.from_inventory(
            name,
            sees_all,
            lambda pool: paging.document(
                call,
                name,
                [
                    self.document(call, pool, one, sees_all)
                    for one in self._chosen(call, pool, sees_all)
                ],
                key=self.key,
            ),
        )

    def _chosen(
        self, call: calls.Call, pool: inventory.Inventory, sees_all: bool
    ) -> list[Any]:
        return paging.chosen(
            call,
            self.listed,
            self.rows(pool),
            lambda member: functools.partial(
                self.value, call, sees_all, member
            ),
            key=self.key,
        )

    def show(self, call: calls.Call) -> calls.Answer:
        """Show the resource that the path identifies.

        :raises ApiError: if it does not exist.
        """
        pool = call.backends.inventory.get()
        return self._shown(call, call.places.inventory(pool))

    def _shown(
        self, call: calls.Call, pool: inventory.Inventory, status: int = 200
    ) -> calls.Answer:
        document = {self.singular: self._found(call, pool)}
        return calls.Answer(document=document, status=status)

    def change(
        self,
        call: calls.Call,
        change: Callable[[Document], None],
        *,
        status: int = 200,
    ) -> calls.Answer:
        """Change the resource that the path identifies, and show it.

        Whoever may change hardware sees its host.

        :param change: requests the change from the conductor, given the
            previous document.
        """
        known = call.backends.inventory
        # The resource may be newer than the cache.
        known.forget()
        found = self._found(call, known.get())
        try:
            change(found)
        finally:
            known.forget()
        return self._shown(call, known.get(), status)

    def _sees_all(self, call: calls.Call) -> bool:
        return self.see_all is None or call.may(self.see_all)

    def _found(self, call: calls.Call, pool: inventory.Inventory) -> Document:
        name = call.path[f"{self.singular}_{self.key}"]
        sees_all = self._sees_all(call)
        value = functools.partial(self.value, call, sees_all, self.key)
        for one in self.rows(pool):
            if value(one) == name.lower():
                return self.document(call, pool, one, sees_all)
        raise errors.missing(self.missing, self.singular, name)


def administer(
    call: calls.Call,
    before: Document,
    host_uuid: str,
    device_name: str | None = None,
) -> None:
    """Request the change in a request's body from the conductor.

    :param device_name: the device; None: the whole host.
    :raises ApiError: if the body contradicts itself.
    """
    call.audit.before = {
        name: before[name] for name in _ADMINISTRATION if name in before
    }
    change = call.body
    conductor = call.backends.conductor
    if device_name is not None and "reservable_slots" in change:
        conductor.set_reservable_slots(
            host_uuid, device_name, change["reservable_slots"]
        )
    if "state" not in change:
        return
    deadline_s = change.get("drain_deadline_s")
    if deadline_s is not None and change["state"] != states.DRAINING:
        raise errors.ApiError(
            codes.INVALID_REQUEST,
            "body.drain_deadline_s: only allowed with the state 'draining'",
        )
    conductor.administer(
        host_uuid,
        device_name,
        change["state"],
        reason=change.get("reason", ""),
        drain_within_s=deadline_s,
    )
