# SPDX-License-Identifier: Apache-2.0

"""The conductor's decisions: inputs and time in, effects out.

The engine's rooms keep the sessions, tell what agents and clients say to
:class:`fpgapool.core.state.PoolState`, and turn its instructions into rows
and messages.  They do no I/O and have no thread: the pump calls the engine.
"""

from __future__ import annotations

from collections.abc import Sequence

from oslo_log import log as logging

from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor.decisions import accelerators
from fpgapool.conductor.decisions import administration
from fpgapool.conductor.decisions import admission
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import hosts
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import opening
from fpgapool.conductor.decisions import operators
from fpgapool.conductor.decisions import pool as pools
from fpgapool.conductor.decisions import questions
from fpgapool.conductor.decisions import reports
from fpgapool.conductor.decisions import reservations
from fpgapool.conductor.decisions import restoring
from fpgapool.conductor.decisions import serving
from fpgapool.core import instructions
from fpgapool.core import state as core_state
from fpgapool.db import api as db_api

LOG = logging.getLogger(__name__)


class Engine:
    """The state behind the pump; see the module's docstring.

    :ivar pool: what the leader knows.
    :ivar questions: what can be asked about it.
    :ivar handled: the room that handles each kind of input.

    :param core: the scheduling core, empty.
    :param settings: limits.
    :param snapshot: what the database holds.
    :param strategy_name: what the core decides by.
    :param quotas: what projects may use, until others come; None: they are
        kept here, over those that the settings say.
    :param thresholds_bytes: between priority queues, if there are any.
    :param counts: to count what happens in.
    :param ahead_s: by how much the times that it is given are ahead of pool
        time.
    """

    def __init__(
        self,
        core: core_state.PoolState,
        settings: admission.Limits,
        snapshot: db_api.Snapshot,
        strategy_name: str,
        quotas: admission.Quotas | None = None,
        *,
        thresholds_bytes: Sequence[float] = (),
        counts: conductor_counts.Counts | None = None,
        ahead_s: float = 0.0,
    ) -> None:
        self.pool = pools.Pool(
            core,
            settings,
            snapshot,
            own_quotas=quotas,
            thresholds_bytes=thresholds_bytes,
            counts=counts or conductor_counts.Counts(),
            ahead_s=ahead_s,
        )
        self._snapshot: db_api.Snapshot | None = snapshot
        self._serving = serving.Serving(self.pool)
        self._hosts = hosts.Hosts(self.pool, self._serving)
        self._reports = reports.Reports(self.pool, self._serving, self._hosts)
        self._opening = opening.Opening(self.pool, self._serving)
        self._accelerators = accelerators.Accelerators(self.pool)
        self._operators = operators.Operators(self.pool)
        self.questions = questions.Questions(
            self.pool, self._serving, strategy_name
        )
        self.handled = {
            **self._opening.handled,
            **self._reports.handled,
            **self._accelerators.handled,
            **self._operators.handled,
            **self._hosts.handled,
        }
        self.pool.instructed.update(
            {
                **self._serving.instructed,
                **self._operators.instructed,
                instructions.WakeAt: self._wake_at,
            }
        )

    @property
    def wake_at(self) -> float | None:
        """When the engine wants to be called, if nothing comes before."""
        return self.pool.wake_at

    def _wake_at(self, order: instructions.WakeAt) -> None:
        self.pool.wake_at = order.time_s

    def note_database(self, recorded_id: int, *, failing: bool) -> None:
        """Hear what has become of the rows; counts from the next batch on.

        :param recorded_id: the last new session that the database holds.
        :param failing: whether the database is away or does not answer.
        """
        self._opening.recorded_id = recorded_id
        self.pool.database_failing = failing

    def start(self, now: float) -> effects.Effects:
        """Take over what the database holds.

        Every host counts as down until its agent reports, so nothing is
        scheduled on what may no longer be there.
        """
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is None:
            raise RuntimeError("the engine has been started already")
        pool = self.pool
        pool.now = now
        self._accelerators.load(snapshot.accelerators)
        pool.tell(pool.quotas.session_limits())
        pool.registry.restore(
            snapshot.hosts,
            snapshot.devices,
            snapshot.slots,
            now,
            (one.host_id or 0 for one in snapshot.live_sessions),
        )
        pool.tell(*administration.reminders(pool.registry.devices.values()))
        reservations.restore(pool.registry, snapshot.reservations)
        pool.tell(*reservations.reminders(pool.registry))
        pool.probation.start(now)
        pool.tell_health()
        restoring.restore_sessions(pool, self._serving, snapshot)
        pool.decide()
        pool.outbox.send(*map(effects.AskReport, pool.registry.hosts))
        return pool.take_effects()

    def process(
        self, batch: Sequence[inputs.Input], now: float
    ) -> effects.Effects:
        """Handle what has come in since the last call.

        :param batch: inputs in the order of their arrival; may be empty.
        :param now: wall clock in seconds, never less than before.
        """
        pool = self.pool
        pool.now = now
        self._opening.note_recorded()
        queries = []
        for item in batch:
            if isinstance(item, inputs.Query):
                queries.append(item)
            else:
                pool.attempt(self.handled, item)
        pool.decide()
        for query in queries:
            pool.outbox.send(self._answer(query))
        return pool.take_effects()

    def _answer(
        self, query: inputs.Query
    ) -> effects.Answer | effects.EarlyAnswer:
        """Answer a question; one that fails must not cost the leader."""
        kind = effects.Answer if query.durable else effects.EarlyAnswer
        try:
            return kind(query.future, query.ask(self.questions))
        except Exception as error:
            LOG.exception("A question to the engine has failed")
            return kind(query.future, error, failed=True)

    def tick(self, now: float) -> effects.Effects:
        """Look for what did not happen: silent hosts, stuck preparations."""
        pool = self.pool
        pool.now = now
        self._hosts.tick()
        pool.probation.end_overdue(now)
        pool.tell_health()
        pool.decide()
        # In slots that no session waits for.
        pool.probation.begin_due(now)
        pool.tell_health()
        self._operators.finish_drains()
        return pool.take_effects()
