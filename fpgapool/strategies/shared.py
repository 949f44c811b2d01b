#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Fair shares, limits and urgency, over any other strategy.

The other strategy does not know of them: it is shown those jobs only that may
have the next slot, and asked for one choice after the other.
"""

import typing
from collections import abc

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.core import sharing
from fpgapool.core import strategy
from fpgapool.core import view as pool_view
from fpgapool.core import waiting


class SharedStrategy(strategy.Strategy):
    """Projects share what another strategy gives out.

    The jobs that have waited for ``max_wait_s`` are shown first, of all
    projects together. Then each project's jobs are shown in its turn, until
    its bytes for the round are used up or the other strategy finds nothing
    more for it. Jobs of a project that has as many slots as it may are never
    shown.

    :param inner: the other strategy.
    :param options: how they share.
    :param max_wait_s: None: no job goes first for having waited.
    :raises ValueError: if ``max_wait_s`` is not positive.
    """

    def __init__(
        self,
        inner: strategy.Strategy,
        options: sharing.Options,
        max_wait_s: float | None = None,
    ) -> None:
        if max_wait_s is not None and not max_wait_s > 0:
            raise ValueError(f"max_wait_s must be positive, not {max_wait_s}")
        self.inner = inner
        self.shares = options
        self._fair = options.fair
        self.max_wait_s = max_wait_s
        self.idle_indexes = inner.idle_indexes
        self.wants_hosts = inner.wants_hosts
        self.wants_rates = inner.wants_rates
        self.look_again_s = inner.look_again_s
        self.skip_limit = inner.skip_limit

    def key(self, job: model.Job) -> ordered.Key:
        return self.inner.key(job)

    def patience_s(self, job: model.Job) -> float | None:
        return self.inner.patience_s(job)

    def weight(self, job: model.Job) -> float:
        return self.inner.weight(job)

    def remote_limit(self, slot_count: int) -> int | None:
        return self.inner.remote_limit(slot_count)

    def reasons(
        self, view: pool_view.PoolView, job_id: model.JobId
    ) -> tuple[str, ...]:
        return self.inner.reasons(view, job_id)

    def assign(
        self, view: pool_view.PoolView, now: float
    ) -> abc.Iterable[strategy.Choice]:
        if view.jobs.is_plain:
            return self.inner.assign(view, now)
        return self._assign_apart(view, now)

    def _assign_apart(
        self, view: pool_view.PoolView, now: float
    ) -> abc.Iterator[strategy.Choice]:
        try:
            yield from self._serve_together(view, now, view.jobs.urgent)
            if self._fair:
                yield from _Turns(self.inner, view, now).take()
            else:
                yield from self._serve_together(view, now, view.jobs.lanes)
        finally:
            view.jobs.show_common()

    def _serve_together(
        self,
        view: pool_view.PoolView,
        now: float,
        lanes: abc.Mapping[str | None, waiting.Lane],
    ) -> abc.Iterator[strategy.Choice]:
        """Let the jobs of all projects that may have more slots compete."""
        while view.slots.idle_total:
            allowed = [
                lane
                for lane in lanes.values()
                if lane.size and not view.is_held(lane.project)
            ]
            if not allowed:
                return
            view.jobs.show(*allowed)
            for choice in self.inner.assign(view, now):
                yield choice
                if view.is_held(view.record(choice.job_id).job.project):
                    break
            else:
                return


class _Turns:
    """The turns of one pass.

    A project for which the other strategy finds nothing more has no further
    turn: during a pass slots are only taken.
    """

    def __init__(
        self, inner: strategy.Strategy, view: pool_view.PoolView, now: float
    ) -> None:
        self._inner = inner
        self._view = view
        self._now = now
        self._accounts = typing.cast(sharing.Accounts, view.accounts)
        self._done: set[str] = set()

    def take(self) -> abc.Iterator[strategy.Choice]:
        """Let one project after the other have its turn."""
        cursor: ordered.Key = ()
        while self._view.slots.idle_total:
            account = self._accounts.next_turn(cursor)
            if account is None:
                return
            project = account.project
            if project in self._done or not self._may_gain(project):
                # Just beyond its place.
                cursor = (*account.key, 0)
                continue
            yield from self._take_turn(account)

    def _may_gain(self, project: str) -> bool:
        view = self._view
        return not view.is_held(project) and any(
            group.count and view.has_idle(group)
            for group in self._lane(project).groups()
        )

    def _take_turn(
        self, account: sharing.Account
    ) -> abc.Iterator[strategy.Choice]:
        view, accounts, project = self._view, self._accounts, account.project
        view.jobs.show(self._lane(project))
        accounts.turn = account
        for choice in self._inner.assign(view, self._now):
            yield choice
            if accounts.turn is None or view.is_held(project):
                break
        else:
            self._done.add(project)
        accounts.turn = None

    def _lane(self, project: str) -> waiting.Lane:
        return self._view.jobs.lanes[project]
