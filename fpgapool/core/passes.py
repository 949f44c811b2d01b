# SPDX-License-Identifier: Apache-2.0

"""One pass over the idle slots: who gets them, and in which order."""

import contextlib
from collections import abc

from fpgapool.core import instructions
from fpgapool.core import native
from fpgapool.core import strategy as strategy_api
from fpgapool.core import view as pool_view
from fpgapool.core.queues import sharing
from fpgapool.core.rules import admission
from fpgapool.core.rules import holders
from fpgapool.core.rules import members
from fpgapool.core.rules import preemption
from fpgapool.core.rules import session_sets
from fpgapool.core.rules import turns
from fpgapool.core.topology import slots


@native.mypyc_attr(allow_interpreted_subclasses=True)
class Passes:
    """Gives idle slots to waiting jobs, see :mod:`fpgapool.core.state`."""

    def __init__(
        self,
        strategy: strategy_api.Strategy,
        view: pool_view.PoolView,
        queue: admission.Admission,
        group_members: members.Members,
        sets: session_sets.SessionSets,
        slot_holders: holders.Holders,
        project_turns: turns.Turns,
        preempting: preemption.Preemption,
        outcome: instructions.Outcome,
    ) -> None:
        self._strategy = strategy
        self._view = view
        self._slots = view.slots
        self._returns = queue.returns
        self._jobs = view.jobs
        self._reservations = view.reservations
        self._members = group_members
        self._sets = sets
        # Most pools have no sets; their passes should not do extra work.
        self._in_sets = sets.of_job
        self._leading = sets.leading
        self._holders = slot_holders
        self._turns = project_turns
        self._preemption = preempting
        self._outcome = outcome

    def run(self) -> None:
        """Run a pass."""
        view, jobs = self._view, self._jobs
        if view.power.is_set:
            # A release elsewhere may have freed power for idle slots.
            view.touch_idle()
        if self._reservations.stirred:
            self._serve_reserved()
        if self._preemption.promised:
            while turn := self._program(self._preemption.serve()):
                self._holders.pass_turn(turn)
        if self._in_sets or jobs.count:
            if self._in_sets:
                self._assign_with_sets()
            else:
                self._assign()
            if view.accounts is not None and view.accounts.turns:
                self._assign_last(view.accounts)
            if self._reservations.promises.until_s:
                while turn := self._program(self._reservations.serve_short()):
                    self._holders.pass_turn(turn)
        self._outcome.pass_due = False
        jobs.forget_arrivals()
        view.touched.clear()

    def _serve_reserved(self) -> bool:
        """Give reserved slots to the jobs that they are reserved for.

        :returns: whether a set has become due.
        """
        is_any_due = False
        while turn := self._program(self._reservations.serve()):
            self._holders.pass_turn(turn)
            self._reservations.stir_all()
            is_any_due = True
        return is_any_due

    def _assign_with_sets(self) -> None:
        """Let sessions that lost their slots come first, then due sets, until
        no further set becomes due.
        """
        sets, leaving = self._sets, self._holders.leaving
        while True:
            if sets.turns.waiting:
                self._program(self._returns.serve(leaving))
            self._program(sets.start_due(leaving))
            # Users and projects may be held back no longer.
            if self._reservations.stirred and self._serve_reserved():
                continue
            with sets.turns.withholding():
                turn = self._assign()
            if turn is None:
                break
            self._holders.pass_turn(turn)

    def _assign_last(self, accounts: sharing.Accounts) -> None:
        """Give what is left to the projects whose turn is LAST."""
        if self._turns.may_serve_last() or self._sets.turns.may_serve_last():
            accounts.serve_last(True)
            self._view.touch_idle()
            if self._in_sets:
                self._assign_with_sets()
            else:
                self._assign()
            accounts.serve_last(False)

    def _assign(self) -> slots.Hold | None:
        """Let the strategy assign slots.

        :returns: the slot that it gave to the leader of a set, if any.
        """
        view = self._view
        # Without idle slots, there is nothing to decide, but a pass may end
        # the round of projects that share the pool.
        if not self._jobs.count or not (
            self._slots.idle_total or view.accounts is not None
        ):
            return None
        if not view.power.is_set:
            return self._program(self._strategy.assign(view, view.now))
        with contextlib.closing(view.power.rounds(self._jobs.hosts)) as rounds:
            for _ in rounds:
                turn = self._program(self._strategy.assign(view, view.now))
                if turn is not None:
                    return turn
        return None

    def _program(
        self, choices: abc.Iterable[strategy_api.Choice]
    ) -> slots.Hold | None:
        """Report choices, up to the first for the leader of a set.

        :returns: the slot that the leader got; None: there was no such choice.
        """
        leading = self._leading
        for choice in choices:
            hold = self._slots.assignments[choice.slot_id]
            if leading and choice.job_id in leading:
                return hold
            if hold.group_id is not None:
                self._members.begun(hold, hold.group_id)
            self._outcome.output.append(
                instructions.Program(
                    hold.slot_id, choice.job_id, hold.generation
                )
            )
        return None
