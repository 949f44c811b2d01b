# SPDX-License-Identifier: Apache-2.0

"""The library's accelerators, as the conductor last reported them."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from collections.abc import Mapping

import oslo_messaging as messaging
from oslo_log import log as logging

from fpgapool import objects
from fpgapool.agent import loop as agent_loop
from fpgapool.agent import sender
from fpgapool.objects import bounds
from fpgapool.rpcapi import conductor as conductor_api
from fpgapool.vocabulary import capacity
from fpgapool.vocabulary import names

LOG = logging.getLogger(__name__)

#: Age after which profiles are fetched again: a new version of a project's
#: accelerator may have different parameters.
REFRESH_AFTER_S = 10.0

#: Minimum interval between fetches, so that neither unknown names nor an
#: unresponsive conductor cause a flood of calls.
MISS_REFRESH_AFTER_S = 1.0

Profiles: typing.TypeAlias = Mapping[str, objects.AcceleratorProfile]
OnDone: typing.TypeAlias = Callable[[Profiles | None], None]


def find(
    known: Profiles, project_id: str, name: str
) -> objects.AcceleratorProfile | None:
    """Return the profile to which a name refers in a project, or None."""
    key = names.resolve(
        name,
        project_id,
        lambda key: key in known and known[key].is_for(project_id),
    )
    return None if key is None else known[key]


def public(profile: objects.AcceleratorProfile) -> dict[str, object]:
    """Return the public part of an accelerator's profile."""
    members = dict(vars(profile))
    # Clients need not know which other projects may use the accelerator.
    del members["projects"]
    return members


def fetched(
    conductor: conductor_api.ConductorAPI,
) -> list[objects.AcceleratorProfile]:
    """Return all profiles, in several calls if messages are not pinned."""
    found: list[objects.AcceleratorProfile] = []
    try:
        while page := conductor.accelerators_after(
            found[-1].name if found else ""
        ):
            found += page
    except messaging.RPCVersionCapError:
        return conductor.list_accelerators()
    return found


def slots(conductor: conductor_api.ConductorAPI) -> capacity.Slots:
    """Return the numbers of the pool's slots."""
    try:
        found: capacity.Slots = conductor.pool_counts()["slots"]
    except messaging.RPCVersionCapError:
        return capacity.of_hosts(conductor.pool_summary()["hosts"])
    return found


def page(known: Profiles, counts: capacity.Slots) -> dict[str, object]:
    """Return a reply that lists accelerators and their numbers of slots.

    :returns: ``accelerators``, as many as fit into one message; if there are
        more, also ``next``, the name after which the next page starts.
    """
    shown = bounds.fitting(
        {**one, **capacity.of(one, counts)}
        for one in map(public, known.values())
    )
    if len(shown) == len(known):
        return {"accelerators": shown}
    return {"accelerators": shown, "next": list(known)[len(shown) - 1]}


@dataclasses.dataclass(eq=False)
class ProfileCache:
    """Profiles by name, fetched when one is missing or all are too old.

    :param fetch: returns all profiles; may block and raise.
    :param limit_s: maximum time that a caller waits. Failed queries are
        repeated until then, because another conductor may take over.
    """

    loop: agent_loop.Loop
    caller: sender.Caller
    fetch: Callable[[], list[objects.AcceleratorProfile]]
    _: dataclasses.KW_ONLY
    limit_s: float

    def __post_init__(self) -> None:
        self._profiles: dict[str, objects.AcceleratorProfile] | None = None
        self._fetched_at_s = 0.0
        self._fetching = False
        self._refresh_due = False
        # Waiting callbacks, by the timer that ends the wait.
        self._waiting: dict[agent_loop.Timer, OnDone] = {}

    def ask(
        self,
        project_id: str,
        name: str | None,
        on_done: OnDone,
    ) -> None:
        """Get the profiles, immediately or when the conductor has answered.

        :param name: name of the profile that is needed; None for all profiles.
        :param on_done: called with the profiles, which may lack the needed
            one, or with None if the conductor does not answer.
        """
        age_s = self.loop.now() - self._fetched_at_s
        known = self._profiles
        if known is not None and (
            name is None or find(known, project_id, name) is not None
        ):
            if age_s > REFRESH_AFTER_S:
                self._refresh()
            on_done(known)
            return
        timer = self.loop.call_later(
            self.limit_s, lambda: self._give_up(timer)
        )
        self._waiting[timer] = on_done
        if self._refresh_due:
            return
        if known is None or age_s >= MISS_REFRESH_AFTER_S:
            self._refresh()
        else:
            # The accelerator may have been approved since the last fetch.
            self._refresh_in(MISS_REFRESH_AFTER_S - age_s)

    def _refresh_in(self, delay_s: float) -> None:
        self._refresh_due = True
        self.loop.call_later(delay_s, self._refresh)

    def _refresh(self) -> None:
        self._refresh_due = False
        if self._fetching:
            return
        self._fetching = True
        self.caller.submit(
            self.fetch, self._fetched, self._failed, limit_s=self.limit_s
        )

    def _fetched(self, profiles: list[objects.AcceleratorProfile]) -> None:
        self._profiles = {profile.name: profile for profile in profiles}
        self._fetched_at_s = self.loop.now()
        self._fetching = False
        waiting, self._waiting = self._waiting, {}
        for timer, on_done in waiting.items():
            timer.cancel()
            on_done(self._profiles)

    def _failed(self, error: Exception) -> None:
        LOG.warning("Cannot fetch the accelerators: %s", error)
        self._fetching = False
        if self._waiting:
            self._refresh_in(MISS_REFRESH_AFTER_S)

    def _give_up(self, timer: agent_loop.Timer) -> None:
        # Pass None, not the old profiles: the accelerator may exist by now.
        self._waiting.pop(timer)(None)
