# SPDX-License-Identifier: Apache-2.0

"""Groups whose first slots come all at once: what their rows do not say.

Each such group has a row in the table of desks, as if of a host that does not
exist. Earlier releases keep that row as long as the group and do nothing with
it, so the tables stay as they are, and services can go back to an earlier
release, which takes these groups for ordinary ones.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from fpgapool.conductor.decisions.assignments import desk_accounts
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.vocabulary import states

_KEY = "first_slots"


@dataclasses.dataclass(frozen=True, slots=True)
class FirstSlots:
    """What a group's first slots must be like.

    :ivar placement: where they must be; None: anywhere.
    :ivar wait_timeout_s: how long the group waits for them; None: for ever.
    :ivar since: since when it waits.
    :ivar reason: the code why it does not get them; empty: it may.
    """

    group_id: str
    placement: str | None
    wait_timeout_s: float | None
    since: float
    reason: str = ""


class FirstSlotsBook:
    """The first slots of all groups that get them at once."""

    def __init__(self, accounts: desk_accounts.DeskAccounts) -> None:
        self._accounts = accounts

    def of(self, group_id: str) -> FirstSlots | None:
        """Return a group's first slots; None: they come one by one."""
        record = self._accounts.noted(group_id)
        found = record.counts.get(_KEY) if record else None
        if record is None or found is None:
            return None
        return FirstSlots(
            group_id=group_id,
            placement=found["placement"],
            wait_timeout_s=found["wait_timeout_s"],
            since=record.charged_at,
            reason=found["reason"],
        )

    def put(self, first: FirstSlots) -> None:
        """Store what is known of a group's first slots."""
        about = {
            "placement": first.placement,
            "wait_timeout_s": first.wait_timeout_s,
            "reason": first.reason,
        }
        self._accounts.note(first.group_id, {_KEY: about}, first.since)

    def shown(self, group_id: str) -> dict[str, Any]:
        """Return what the view of a group says of its first slots."""
        first = self.of(group_id)
        if first is None:
            return {"all_or_none": False}
        return {
            "all_or_none": True,
            "placement": first.placement,
            "wait_timeout_s": first.wait_timeout_s,
            "reason": first.reason or None,
        }


def as_wanted(
    group: db_api.GroupRecord, first: FirstSlots | None
) -> model.Group:
    """Return a group as the core knows it."""
    return model.Group(
        id=group.id,
        accelerator=group.accelerator,
        size=group.size,
        min_size=group.min_size,
        max_size=group.max_size,
        project=group.project_id,
        elastic=group.elastic,
        all_or_none=first is not None,
        placement=first.placement if first else None,
        wait_timeout_s=first.wait_timeout_s if first else None,
    )


def waits(
    group: db_api.GroupRecord,
    first: FirstSlots | None,
    rows: list[db_api.AssignmentRecord],
) -> bool:
    """Return whether a group waited for its first slots under a former leader.

    :param rows: its slots. If one serves it, a conductor of an earlier
        release has given it slots one by one, and it goes on like that.
    """
    return (
        first is not None
        and group.state == states.GROUP_CREATING
        and all(row.phase == states.PREPARING for row in rows)
    )
