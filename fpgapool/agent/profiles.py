# SPDX-License-Identifier: Apache-2.0

"""The library's accelerators as the conductor last told them."""

from __future__ import annotations

import typing
from collections.abc import Callable
from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool import objects
from fpgapool.agent import loop as agent_loop
from fpgapool.agent import sender
from fpgapool.vocabulary import names

LOG = logging.getLogger(__name__)

#: A project that has brought a new version of its own may have changed which
#: parameters it takes.
REFRESH_AFTER_S = 10.0

#: Unknown names must not turn into a stream of calls to the conductor, nor
#: must one that does not answer.
MISS_REFRESH_AFTER_S = 1.0

Profiles: typing.TypeAlias = Mapping[str, objects.AcceleratorProfile]
OnDone: typing.TypeAlias = Callable[[Profiles | None], None]


def find(
    known: Profiles, project_id: str, name: str
) -> objects.AcceleratorProfile | None:
    """Return what a project means by a name; None: nothing it may use.

    :param known: all profiles, by key.
    :param project_id: who asks.
    :param name: of an accelerator, or a key.
    """
    key = names.resolve(
        name,
        project_id,
        lambda key: key in known and known[key].is_for(project_id),
    )
    return None if key is None else known[key]


class ProfileCache:
    """Profiles by name, asked for when one is missing or they grow old.

    :param loop: the thread that uses the cache.
    :param caller: makes the calls.
    :param fetch: returns all profiles; may block and raise.
    :param limit_s: how long whoever asks waits. A conductor that has died
        may have been asked: within that time the question is repeated.
    """

    def __init__(
        self,
        loop: agent_loop.Loop,
        caller: sender.Caller,
        fetch: Callable[[], list[objects.AcceleratorProfile]],
        *,
        limit_s: float,
    ) -> None:
        self._loop = loop
        self._caller = caller
        self._fetch = fetch
        self._limit_s = limit_s
        self._profiles: dict[str, objects.AcceleratorProfile] | None = None
        self._fetched_at_s = 0.0
        self._fetching = False
        self._refresh_due = False
        # Who is to be told, by what says that nobody has answered.
        self._waiting: dict[agent_loop.Timer, OnDone] = {}

    def ask(
        self,
        project_id: str,
        name: str | None,
        on_done: OnDone,
    ) -> None:
        """Get the profiles, at once or when the conductor has answered.

        :param project_id: who asks.
        :param name: the one that is needed, None for all of them.
        :param on_done: gets the profiles, which may lack it; None if it is
            not among those that are known and the conductor does not answer.
        """
        age_s = self._loop.now() - self._fetched_at_s
        known = self._profiles
        if known is not None and (
            name is None or find(known, project_id, name) is not None
        ):
            if age_s > REFRESH_AFTER_S:
                self._refresh()
            on_done(known)
            return
        timer = self._loop.call_later(
            self._limit_s, lambda: self._give_up(timer)
        )
        self._waiting[timer] = on_done
        if self._refresh_due:
            return
        if known is None or age_s >= MISS_REFRESH_AFTER_S:
            self._refresh()
        else:
            # It may have been approved just now: nobody is told that there
            # is no such accelerator by what was known before.
            self._refresh_in(MISS_REFRESH_AFTER_S - age_s)

    def _refresh_in(self, delay_s: float) -> None:
        self._refresh_due = True
        self._loop.call_later(delay_s, self._refresh)

    def _refresh(self) -> None:
        self._refresh_due = False
        if self._fetching:
            return
        self._fetching = True
        self._caller.submit(
            self._fetch, self._fetched, self._failed, limit_s=self._limit_s
        )

    def _fetched(self, profiles: list[objects.AcceleratorProfile]) -> None:
        self._profiles = {profile.name: profile for profile in profiles}
        self._fetched_at_s = self._loop.now()
        self._fetching = False
        waiting, self._waiting = self._waiting, {}
        for timer, on_done in waiting.items():
            timer.cancel()
            on_done(self._profiles)

    def _failed(self, error: Exception) -> None:
        LOG.warning("Accelerators could not be asked for: %s", error)
        self._fetching = False
        if self._waiting:
            self._refresh_in(MISS_REFRESH_AFTER_S)

    def _give_up(self, timer: agent_loop.Timer) -> None:
        # What was known before lacks what is wanted; it may be there by now.
        self._waiting.pop(timer)(None)
