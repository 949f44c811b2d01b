# SPDX-License-Identifier: Apache-2.0

"""The interface of a scheduling strategy."""

import abc
import collections.abc

from fpgapool.core import model
from fpgapool.core import preferences
from fpgapool.core import view as pool_view
from fpgapool.core.topology import slots

Choice = preferences.Choice
Contender = preferences.Contender
IdleIndexes = preferences.IdleIndexes


class Strategy(preferences.Preferences):
    """Decides which waiting job gets which idle slot.

    A strategy may keep a random generator, but no state about jobs or slots:
    it reads that from the view. One object serves one pool.
    """

    @abc.abstractmethod
    def assign(
        self, view: pool_view.PoolView, now: float
    ) -> collections.abc.Iterable[Choice]:
        """Assign idle slots in one pass.

        :param view: the pool; every choice is made through its
            :meth:`~fpgapool.core.view.PoolView.take`, so that the next choice
            sees it.
        :returns: choices, each made when the caller requests it. A caller that
            stops iterating ends the pass, and may start another at once.
        """

    def look_again_s(self, view: pool_view.PoolView) -> float | None:
        """Return the time after which to look again without an event.

        The pool asks if a pass leaves both jobs and idle slots. None, the
        default: the strategy's inputs do not depend on time.
        """
        return None

    def challenger(
        self,
        view: pool_view.PoolView,
        hold: slots.Hold,
        spoken_for: collections.abc.Set[model.JobId],
        now: float,
    ) -> model.JobId | None:
        """Return the waiting job that takes a slot from its holder.

        The pool calls this after the pass, if the holder is at a border.

        :returns: the job; None, the default: the holder keeps its slot.
        """
        return None

    @abc.abstractmethod
    def reasons(
        self, view: pool_view.PoolView, job_id: model.JobId
    ) -> tuple[str, ...]:
        """Return why a job still waits although an idle slot fits it."""
