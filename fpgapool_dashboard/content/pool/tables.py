# SPDX-License-Identifier: Apache-2.0

"""Tables of accelerators, slots, limits and usage."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from django.template import defaultfilters
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy
from horizon import tables

#: The resources that quotas limit.
RESOURCES = {
    "sessions": _("Sessions with a slot"),
    "queued": _("Waiting sessions"),
    "queued_bytes": _("Data that waiting sessions claim"),
    "live_per_user": _("Sessions of one user"),
    "sessions_per_user": _("Sessions of one user with a slot"),
    "user_turns": _("Users take turns (1) or not (0)"),
    "bitstream_bytes": _("Data of bitstreams"),
    "groups": _("Groups"),
    "group_slots": _("Slots to which groups may grow"),
    "group_clients": _("Clients of groups"),
    "max_priority": _("Highest priority of a session"),
    "reservation_slots": _("Slots of reservations"),
    "reservation_times": _("Times of reservations"),
}
_NEVER_IN_USE = (
    *("live_per_user", "sessions_per_user"),
    *("user_turns", "max_priority"),
)
_SOURCES = (
    ("default", pgettext_lazy("Source of a limit", "Default")),
    ("project", pgettext_lazy("Source of a limit", "Project")),
    ("keystone", pgettext_lazy("Source of a limit", "Keystone")),
)


def _about(name: str) -> Callable[[Any], Any]:
    """Return what returns a member of a row's accelerator."""

    def member(row: Any) -> Any:
        return getattr(row.about, name)

    # Horizon names the column like that.
    member.__name__ = name
    return member


def _rate(bytes_per_s: float | None) -> Any:
    if bytes_per_s is None:
        return None
    size = defaultfilters.filesizeformat(bytes_per_s)
    return _("%s/s") % size


def _amount(resource: str, value: int) -> Any:
    if resource.endswith("_bytes"):
        return defaultfilters.filesizeformat(value)
    return value


def _in_use(row: Any) -> Any:
    # Each user has a part of its own; sessions do not use up the others.
    if row.id in _NEVER_IN_USE:
        return None
    return _amount(row.id, row.in_use)


def _limit(row: Any) -> Any:
    if row.limit is None:
        return None
    return _("Unlimited") if row.is_unlimited else _amount(row.id, row.limit)


class _Slots(tables.DataTable):
    free = tables.Column("free", verbose_name=_("Free Slots"))
    in_use = tables.Column("in_use", verbose_name=_("Slots in Use"))
    out_of_service = tables.Column(
        "out_of_service",
        verbose_name=_("Slots out of Service"),
        help_text=_("Slots that are faulty, disabled or on silent hosts."),
    )
    total = tables.Column("total", verbose_name=_("All Slots"))

    def get_object_display(self, row: Any) -> str:
        return str(row.id)


class AcceleratorsTable(_Slots):
    accelerator = tables.Column("id", verbose_name=_("Accelerator"))
    description = tables.Column(
        _about("description"), verbose_name=_("Description")
    )
    peak = tables.Column(
        _about("peak_bytes_per_s"),
        verbose_name=_("Highest Rate"),
        filters=(_rate,),
    )
    stateless = tables.Column(
        _about("is_stateless"),
        verbose_name=_("Stateless"),
        filters=(defaultfilters.yesno, defaultfilters.capfirst),
    )

    class Meta:
        name = "accelerators"
        verbose_name = _("Accelerators")
        columns = (
            *("accelerator", "description", "peak", "stateless"),
            *("free", "in_use", "out_of_service", "total"),
        )


class SlotsTable(_Slots):
    shape = tables.Column("id", verbose_name=_("Shape"))

    class Meta:
        name = "slots"
        verbose_name = _("Slots")
        columns = ("shape", "free", "in_use", "out_of_service", "total")


class LimitsTable(tables.DataTable):
    resource = tables.Column(
        lambda row: RESOURCES.get(row.id, row.id), verbose_name=_("Resource")
    )
    in_use = tables.Column(_in_use, verbose_name=_("In Use"))
    limit = tables.Column(_limit, verbose_name=_("Limit"))
    source = tables.Column(
        "source", verbose_name=_("Set by"), display_choices=_SOURCES
    )

    def get_object_display(self, row: Any) -> str:
        return str(row.id)

    class Meta:
        name = "limits"
        verbose_name = _("Quota")


class UsageTable(tables.DataTable):
    accelerator = tables.Column("accelerator", verbose_name=_("Accelerator"))
    sessions = tables.Column("sessions", verbose_name=_("Sessions"))
    slot_s = tables.Column(
        "slot_s",
        verbose_name=_("Slot Seconds"),
        filters=(functools.partial(defaultfilters.floatformat, arg=0),),
    )
    input_bytes = tables.Column(
        "input_bytes",
        verbose_name=_("Input"),
        filters=(defaultfilters.filesizeformat,),
    )
    output_bytes = tables.Column(
        "output_bytes",
        verbose_name=_("Output"),
        filters=(defaultfilters.filesizeformat,),
    )
    energy_j = tables.Column("energy_j", verbose_name=_("Energy (J)"))

    def get_object_display(self, row: Any) -> str:
        return str(row.accelerator)

    class Meta:
        name = "usage"
        verbose_name = _("Usage")
