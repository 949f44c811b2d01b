# SPDX-License-Identifier: Apache-2.0

"""The engine turns inputs and time into effects.

Its rooms keep the state of sessions, pass events from agents and clients to
:class:`fpgapool.core.state.PoolState`, and turn its instructions into rows and
messages. They do no I/O, and run in the pump's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

from oslo_log import log as logging

from fpgapool.common import exception
from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions import pool as pools
from fpgapool.conductor.decisions import restoring
from fpgapool.conductor.decisions.assignments import charging
from fpgapool.conductor.decisions.assignments import desks
from fpgapool.conductor.decisions.assignments import reports
from fpgapool.conductor.decisions.assignments import serving
from fpgapool.conductor.decisions.assignments import succession
from fpgapool.conductor.decisions.budgets import book as budget_book
from fpgapool.conductor.decisions.budgets import keeping
from fpgapool.conductor.decisions.calendar import keeping as calendar_keeping
from fpgapool.conductor.decisions.hardware import accelerators
from fpgapool.conductor.decisions.hardware import administration
from fpgapool.conductor.decisions.hardware import hosts
from fpgapool.conductor.decisions.hardware import operators
from fpgapool.conductor.decisions.hardware import reservations
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import groups
from fpgapool.conductor.decisions.requests import opening
from fpgapool.conductor.decisions.views import questions
from fpgapool.core import events
from fpgapool.core import instructions
from fpgapool.core import state as core_state
from fpgapool.db import api as db_api

LOG = logging.getLogger(__name__)


class Engine:
    """The state that the pump's thread owns.

    :param quotas: projects' limits until they have been read from Keystone;
        None: the limits are in the database, and the defaults in the settings.
    :param pasts: what projects with budgets used before the newest day.
    """

    def __init__(
        self,
        core: core_state.PoolState,
        settings: admission.PoolLimits,
        snapshot: db_api.Snapshot,
        strategy_name: str,
        quotas: admission.Quotas | None = None,
        *,
        thresholds_bytes: Callable[[], Sequence[float]] = tuple,
        counts: conductor_counts.Counts | None = None,
        ahead_s: float = 0.0,
        pasts: Mapping[str, budget_book.Past] | None = None,
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
        self._pasts = pasts or {}
        room = self.pool.room
        self._charging = room(charging.Charging)
        self._serving = room(serving.Serving, _charging=self._charging)
        self._keeping = room(keeping.Keeping, _charging=self._charging)
        self._calendar = room(calendar_keeping.CalendarKeeping)
        self._succession = room(succession.Succession)
        self._hosts = room(hosts.Hosts, _serving=self._serving)
        self._desks = room(desks.Desks)
        self._accelerators = room(accelerators.Accelerators)
        self._reports = room(
            reports.Reports,
            _charging=self._charging,
            _serving=self._serving,
            _hosts=self._hosts,
            _desks=self._desks,
            _library=self._accelerators,
        )
        self._opening = room(
            opening.Opening,
            _serving=self._serving,
            _charging=self._charging,
            _keeping=self._keeping,
        )
        self._operators = room(operators.Operators)
        self._groups = room(
            groups.Groups, _serving=self._serving, _keeping=self._keeping
        )
        self._restoring = room(restoring.Restoring, _serving=self._serving)
        self.questions = questions.Questions(
            self.pool,
            self._opening,
            self._serving,
            self._restoring,
            self._desks,
            self._keeping,
            self._calendar,
            strategy_name,
        )
        #: Each room handles some of the inputs and instructions.
        self.rooms: tuple[parts.Room, ...] = (
            self._serving,
            self._hosts,
            self._accelerators,
            self._reports,
            self._opening,
            self._operators,
            self._groups,
            self._keeping,
            self._calendar,
            self.pool.probation,
        )
        for one in self.rooms:
            self.pool.link.handlers |= one.handlers
        self.pool.link.handlers[instructions.WakeAt] = self._wake_at

    def _wake_at(self, order: instructions.WakeAt) -> None:
        self.pool.link.wake_at = order.time_s

    def set_database_state(self, recorded_id: int, *, failing: bool) -> None:
        """Set the state of the database for the next batch.

        :param recorded_id: the row id of the newest session in the database.
        """
        self._opening.recorded_id = recorded_id
        self.pool.outages.database_failing = failing

    def start(self, now: float) -> effects.Effects:
        """Load the rows from the database.

        Hosts are considered down until they report: their slots may be gone.
        """
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is None:
            raise RuntimeError("the engine has already been started")
        pool = self.pool
        pool.clock.now = now
        self._accelerators.load(snapshot.accelerators)
        pool.link.tell(pool.quotas.session_limits())
        pool.registry.restore(
            snapshot.hosts,
            snapshot.devices,
            snapshot.slots,
            now,
            (one.host_id or 0 for one in snapshot.live_sessions),
        )
        pool.link.tell(
            *administration.core_events(pool.registry.devices.values())
        )
        reservations.restore(pool.registry, snapshot.reservations)
        pool.link.tell(*reservations.core_events(pool.registry))
        pool.probation.start()
        pool.link.tell(
            events.ClaimsRestored(
                tuple(snapshot.recent_claims),
                snapshot.max_ids[db_api.SessionRecord],
            )
        )
        self._restoring.restore_sessions(snapshot)
        self._groups.restore(snapshot.assignments)
        self._keeping.restore(self._pasts)
        self._calendar.restore()
        pool.decide()
        self._desks.send_changes()
        pool.outbox.send(*map(effects.AskReport, pool.registry.hosts))
        return pool.take_effects()

    def process(
        self, batch: Sequence[inputs.Input], now: float
    ) -> effects.Effects:
        """Handle a batch of inputs.

        :param now: wall-clock time in seconds, which never decreases.
        """
        pool = self.pool
        pool.clock.now = now
        self._opening.settle_unrecorded()
        queries = []
        for item in batch:
            if isinstance(item, inputs.Query):
                queries.append(item)
            else:
                pool.link.handle(item)
        self._keeping.look()
        pool.decide()
        if self._succession.choose():
            pool.decide()
            # Jobs that cannot follow these holders wait again.
            pool.decide()
        self._groups.record_progress()
        self._desks.send_changes()
        for query in queries:
            pool.outbox.send(self._answer(query))
        return pool.take_effects()

    def _answer(self, query: inputs.Query) -> effects.Reply:
        """Answer a query; an error must not stop the leader."""
        kind = effects.Reply if query.durable else effects.EarlyReply
        try:
            return kind(query.future, query.ask(self.questions))
        except exception.FpgapoolException as error:
            return kind(query.future, error, failed=True)
        except Exception as error:
            LOG.exception("A query to the engine failed")
            return kind(query.future, error, failed=True)

    def tick(self, now: float) -> effects.Effects:
        """Handle timeouts, such as those of silent hosts and preparations."""
        pool = self.pool
        pool.clock.now = now
        self._hosts.tick()
        self._serving.tick()
        self._desks.tick()
        self._groups.end_clients(self._desks.absent_clients())
        pool.probation.end_overdue()
        self._keeping.look_at_all()
        self._calendar.look()
        pool.decide()
        # Must follow decide(): tests use only slots that no session needs.
        pool.probation.begin_due()
        self._operators.finish_drains()
        self._desks.send_changes()
        return pool.take_effects()
