# SPDX-License-Identifier: Apache-2.0

"""The conductor's decisions: inputs and time in, effects out.

The engine's rooms keep the sessions, pass events of agents and clients to
:class:`fpgapool.core.state.PoolState`, and turn its instructions into rows and
messages. They do no I/O and have no threads: the pump calls the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence

from oslo_log import log as logging

from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import pool as pools
from fpgapool.conductor.decisions import restoring
from fpgapool.conductor.decisions.assignments import desks
from fpgapool.conductor.decisions.assignments import members
from fpgapool.conductor.decisions.assignments import reports
from fpgapool.conductor.decisions.assignments import serving
from fpgapool.conductor.decisions.hardware import accelerators
from fpgapool.conductor.decisions.hardware import administration
from fpgapool.conductor.decisions.hardware import hosts
from fpgapool.conductor.decisions.hardware import operators
from fpgapool.conductor.decisions.hardware import reservations
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import groups
from fpgapool.conductor.decisions.requests import opening
from fpgapool.conductor.decisions.views import questions
from fpgapool.core import instructions
from fpgapool.core import state as core_state
from fpgapool.db import api as db_api

LOG = logging.getLogger(__name__)


class Engine:
    """The state behind the pump; see the module's docstring.

    :ivar pool: the leader's knowledge.
    :ivar questions: answers queries about it.
    :ivar handled: the handler of each class of inputs.

    :param core: the scheduling core, empty.
    :param settings: limits.
    :param snapshot: the rows of the database.
    :param strategy_name: of the core's strategy.
    :param quotas: projects' limits until others come from Keystone; None: the
        database keeps them, with defaults in the settings.
    :param thresholds_bytes: between priority queues, if there are any.
    :param counts: for metrics.
    :param ahead_s: by how much the engine's clock is ahead of pool time.
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
        self._members = members.Members(self.pool, self._serving)
        self._desks = desks.Desks(self.pool)
        self._accelerators = accelerators.Accelerators(self.pool)
        self._reports = reports.Reports(
            self.pool,
            self._serving,
            self._hosts,
            self._members,
            self._desks,
            self._accelerators,
        )
        self._opening = opening.Opening(self.pool, self._serving)
        self._operators = operators.Operators(self.pool)
        self._groups = groups.Groups(self.pool, self._members)
        self.questions = questions.Questions(
            self.pool,
            self._opening,
            self._serving,
            self._desks,
            strategy_name,
        )
        self.handled = {
            **self._opening.handled,
            **self._reports.handled,
            **self._accelerators.handled,
            **self._operators.handled,
            **self._hosts.handled,
            **self._groups.handled,
        }
        self.pool.instructed.update(
            {
                **_by_holder(
                    self._serving.instructed, self._members.instructed
                ),
                **self._groups.instructed,
                **self._operators.instructed,
                instructions.Test: self.pool.probation.carry_out,
                instructions.WakeAt: self._wake_at,
            }
        )

    @property
    def wake_at(self) -> float | None:
        """When the pump has to call the engine at the latest."""
        return self.pool.wake_at

    def _wake_at(self, order: instructions.WakeAt) -> None:
        self.pool.wake_at = order.time_s

    def set_database_state(self, recorded_id: int, *, failing: bool) -> None:
        """Set the state of the database, before the next batch.

        :param recorded_id: the row id of the last new session in the database.
        :param failing: whether the database is away or does not answer.
        """
        self._opening.recorded_id = recorded_id
        self.pool.database_failing = failing

    def start(self, now: float) -> effects.Effects:
        """Take over the rows of the database.

        Every host counts as down until its agent reports, so that no slot is
        assigned that may no longer exist.
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
        pool.tell(*administration.core_events(pool.registry.devices.values()))
        reservations.restore(pool.registry, snapshot.reservations)
        pool.tell(*reservations.core_events(pool.registry))
        pool.probation.start(now)
        restoring.restore_sessions(pool, self._serving, snapshot)
        self._groups.restore(snapshot.assignments)
        pool.decide()
        self._desks.tell_changes()
        pool.outbox.send(*map(effects.AskReport, pool.registry.hosts))
        return pool.take_effects()

    def process(
        self, batch: Sequence[inputs.Input], now: float
    ) -> effects.Effects:
        """Handle a batch of inputs.

        :param batch: inputs in the order of their arrival; may be empty.
        :param now: wall clock in seconds, never less than before.
        """
        pool = self.pool
        pool.now = now
        self._opening.settle_unrecorded()
        queries = []
        for item in batch:
            if isinstance(item, inputs.Query):
                queries.append(item)
            else:
                pool.attempt(self.handled, item)
        pool.decide()
        self._groups.record_progress()
        self._desks.tell_changes()
        for query in queries:
            pool.outbox.send(self._answer(query))
        return pool.take_effects()

    def _answer(
        self, query: inputs.Query
    ) -> effects.Answer | effects.EarlyAnswer:
        """Answer a query; a failing query must not end the leader."""
        kind = effects.Answer if query.durable else effects.EarlyAnswer
        try:
            return kind(query.future, query.ask(self.questions))
        except Exception as error:
            LOG.exception("A question to the engine has failed")
            return kind(query.future, error, failed=True)

    def tick(self, now: float) -> effects.Effects:
        """Handle timeouts, such as silent hosts and stuck preparations."""
        pool = self.pool
        pool.now = now
        self._hosts.tick()
        self._members.tick()
        self._desks.tick()
        self._groups.end_clients(self._desks.absent_clients())
        pool.probation.end_overdue(now)
        pool.decide()
        # After decide(): tests take only slots that no session waits for.
        pool.probation.begin_due(now)
        self._operators.finish_drains()
        self._desks.tell_changes()
        return pool.take_effects()


def _by_holder(
    of_sessions: Mapping[type, pools.Handler],
    of_members: Mapping[type, pools.Handler],
) -> dict[type, pools.Handler]:
    """Return the handlers of instructions about jobs."""

    def chosen(kind: type) -> pools.Handler:
        session, member = of_sessions[kind], of_members[kind]
        # Only the jobs of members have negative ids.
        return lambda order: (member if order.job_id < 0 else session)(order)

    return {**of_sessions, **{kind: chosen(kind) for kind in of_members}}
