# SPDX-License-Identifier: Apache-2.0

"""A conductor, as stand-by and as leader."""

from __future__ import annotations

import functools
import threading
import time
import uuid
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from fpgapool.bitstreams import signatures
from fpgapool.clients import keystone
from fpgapool.clients import nova
from fpgapool.clients import placement as placement_client
from fpgapool.common import clock
from fpgapool.common import exception
from fpgapool.common.messaging import rpc
from fpgapool.common.messaging import signing
from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor import rpc as conductor_rpc
from fpgapool.conductor.decisions import engine
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.views import journal
from fpgapool.conductor.decisions.views import questions
from fpgapool.conductor.outside import instance_watch
from fpgapool.conductor.outside import keystone_limits
from fpgapool.conductor.outside import notifications
from fpgapool.conductor.outside import placement_plan
from fpgapool.conductor.outside import placement_sync
from fpgapool.conductor.runtime import election
from fpgapool.conductor.runtime import garbage
from fpgapool.conductor.runtime import persistence
from fpgapool.conductor.runtime import pump
from fpgapool.conductor.runtime import retention
from fpgapool.conductor.runtime import sender
from fpgapool.conductor.runtime import strategy_loading
from fpgapool.conductor.runtime import threads
from fpgapool.conf import quota as quota_conf
from fpgapool.core import health
from fpgapool.core import state as core_state
from fpgapool.core.sizing import groups
from fpgapool.core.topology import power
from fpgapool.db import api as db_api
from fpgapool.db import migration
from fpgapool.rpcapi import agent as agent_rpcapi
from fpgapool.rpcapi import conductor as conductor_rpcapi

LOG = logging.getLogger(__name__)

_RETRY_S = 2.0

_WATCH_PATIENCE_S = 10.0
_PLACING_PATIENCE_S = 10.0


class Conductor:
    """The service of a conductor.

    :ivar counts: for metrics.
    :param conf: the global configuration; RPC must have been set up.
    :param database: its database, with the current schema.
    :param on_failure: called with a reason if it cannot go on.
    :param keys: of the pool, to check signatures; None: signatures are not
        checked.
    :raises ConfigurationError: if options of the strategy or of the
        elasticity policy are wrong, or RPC has too few threads.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: db_api.Database,
        on_failure: Callable[[str], None],
        keys: signing.Keys | None = None,
    ) -> None:
        self.counts = conductor_counts.Counts()
        self._conf = conf
        self._database = database
        self._on_failure = on_failure
        self._keys = keys
        self._term: _Term | None = None
        # Report wrong options before the first election.
        strategy_loading.load_strategy(conf)
        strategy_loading.load_groups(conf)
        conductor_rpc.places(rpc.handler_threads(conf))
        if conf.quota.driver == quota_conf.UNIFIED:
            keystone.prepare()
        nova.Nova.from_conf(conf)
        placement_client.Placement.from_conf(conf)
        self._election = election.Election(
            database, conf.conductor.name, conf.conductor.lease_s
        )
        self._publisher = notifications.make(conf, self.counts)
        self._stopping = threading.Event()
        self._deposed = threading.Event()
        self._leading = threading.Event()
        self._thread = threads.start_later("conductor", self._run, on_failure)

    def start(self) -> None:
        """Start the threads; the conductor takes part in the election."""
        if self._publisher is not None:
            self._publisher.start()
        self._thread.start()

    def stop(self) -> None:
        """Finish queued work and give the lease back."""
        self._stopping.set()
        self._deposed.set()
        self._thread.join()
        if self._publisher is not None:
            self._publisher.stop()

    def wait_until_leading(self, timeout_s: float) -> bool:
        """:returns: whether this conductor leads within ``timeout_s``."""
        return self._leading.wait(timeout_s)

    @property
    def term(self) -> _Term | None:
        """The objects of the current term; None while it stands by."""
        return self._term

    def _run(self) -> None:
        while not self._stopping.is_set():
            epoch = self._election.win(self._stopping)
            if epoch is None:
                return
            try:
                self._lead(epoch)
            except exception.DatabaseError as error:
                LOG.error("This conductor cannot begin to lead: %s", error)
                self._stopping.wait(_RETRY_S)
            finally:
                # A stand-by frees the memory of the queue.
                garbage.spill(collect=not self._stopping.is_set())

    def _lead(self, epoch: int) -> None:
        LOG.info(
            "Conductor %s leads, epoch %d", self._conf.conductor.name, epoch
        )
        self._deposed.clear()
        if self._stopping.is_set():
            self._deposed.set()
        term = self._enter(epoch)
        self._term = term
        self._leading.set()
        if not self._election.hold(
            epoch, self._deposed, term.look_around, term.pool_time_s
        ):
            LOG.warning("Another conductor has been elected")
        self._leading.clear()
        self._term = None
        term.stop()
        self._election.resign(epoch, term.pool_time_s())
        LOG.info("Epoch %d is over", epoch)

    def _enter(self, epoch: int) -> _Term:
        """Begin a term, renewing the lease meanwhile: a queue may be long."""
        started_s = time.monotonic()
        with self._election.kept(epoch, self._deposed), garbage.filling():
            term = _Term(
                self._conf,
                self._database,
                self._election,
                epoch,
                self._deposed,
                self._fail,
                self.counts,
                self._publisher,
                self._keys,
            )
            term.start()
        LOG.info(
            "Epoch %d: %d sessions taken over in %.1f s",
            epoch,
            term.inherited_count,
            time.monotonic() - started_s,
        )
        return term

    def _fail(self, thread_name: str) -> None:
        """End this conductor after a failure of one of its threads."""
        self._stopping.set()
        self._deposed.set()
        self._on_failure(f"the thread {thread_name} has failed")


class _Term:
    """The objects that exist only while a conductor leads.

    :ivar epoch: its epoch.
    :ivar inherited_count: the number of sessions taken over.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: db_api.Database,
        elected: election.Election,
        epoch: int,
        deposed: threading.Event,
        on_failure: Callable[[str], None],
        counts: conductor_counts.Counts,
        publisher: notifications.Publisher | None,
        keys: signing.Keys | None = None,
    ) -> None:
        migration.require_newest(database.engine)
        self.epoch = epoch
        snapshot = database.load()
        # New requests must not look older than stored ones.
        self._clock = clock.WallClock(
            not_before=snapshot.latest_at, wall=elected.now
        )
        self._ahead_s = _ahead_s(elected, snapshot, self._clock.now())
        snapshot = snapshot.moved(
            database.begin_term(epoch, self.pool_time_s(), self._ahead_s)
        )
        agents = agent_rpcapi.AgentAPI(watch=counts.rpc.note, keys=keys)
        # Orders to agents must not wait behind states for front doors.
        self._orders, self._news = (
            sender.Sender(
                agents, epoch, name=name, on_failure=on_failure, counts=counts
            )
            for name in ("orders", "news")
        )
        self._committer = persistence.GroupCommitter(
            database,
            epoch,
            deliver=self._news.deliver,
            on_unrecorded=self._take_back,
            on_deposed=deposed.set,
            on_failure=on_failure,
            notify=_notify(publisher, snapshot),
            counts=counts,
        )
        strategy = strategy_loading.load_strategy(conf)
        settings = _settings(conf)
        if conf.conductor.fair_share:
            _check_default_quota(settings.default_quota, len(snapshot.slots))
        is_unified = conf.quota.driver == quota_conf.UNIFIED
        engine_ = engine.Engine(
            core_state.PoolState(
                strategy,
                first_generation=epoch << agent_rpcapi.GENERATION_BITS,
                groups=_groups(conf, snapshot.slots),
            ),
            settings,
            snapshot,
            conf.conductor.strategy,
            admission.Quotas(settings.default_quota) if is_unified else None,
            thresholds_bytes=strategy_loading.thresholds_bytes(strategy),
            counts=counts,
            ahead_s=self._ahead_s,
        )
        self._database = database
        self._library = snapshot.accelerators
        self.inherited_count = len(snapshot.live_sessions)
        self._pump = pump.Pump(
            engine_,
            self._clock,
            committer=self._committer,
            outbox=self._orders,
            on_failure=on_failure,
            counts=counts,
            max_inputs=conf.conductor.max_waiting_inputs,
        )
        self._limits = (
            keystone_limits.Follower(
                keystone.LimitsReader(),
                settings.default_quota,
                lambda quotas: self._pump.put(inputs.NewQuotas(quotas)),
                conf.quota.refresh_interval_s,
                on_failure,
            )
            if is_unified
            else None
        )
        endpoint = conductor_rpc.ConductorManager(
            self._pump,
            database,
            epoch,
            conductor_rpc.places(rpc.handler_threads(conf)),
            signer=functools.partial(
                signatures.TrustedKeys(
                    conf.bitstreams.trusted_keys_dir
                ).signer,
                required=conf.bitstreams.signature_required,
            ),
        )
        self._watch = _watch(conf, self._pump, on_failure)
        self._placing = _placing(conf, self._pump, on_failure, counts)
        days = conf.database.retention_days
        self._retention = (
            retention.Retention(
                database,
                epoch,
                days,
                now=self._clock.now,
                counts=counts,
                on_failure=on_failure,
            )
            if days
            else None
        )
        self._server = rpc.get_server(
            conductor_rpcapi.TOPIC,
            conductor_rpcapi.server_name(epoch),
            [endpoint],
            keys=keys,
            accept_unsigned=conf.messages.accept_unsigned,
        )

    def start(self) -> None:
        self._committer.start()
        self._pump.start()
        # Before messages are sent: agents answer at once, and are not asked
        # again.
        self._server.start()
        self._orders.start()
        self._news.start()
        if self._watch is not None:
            self._watch.start()
        if self._placing is not None:
            self._placing.start()
        else:
            # Without Placement, end the reservations in the database.
            self._pump.put(inputs.Reservations({}))
        if self._limits is not None:
            self._limits.start()
        if self._retention is not None:
            self._retention.start()

    def _take_back(self, unrecorded: inputs.Unrecorded) -> None:
        self._pump.put(unrecorded)

    def pool_time_s(self) -> float:
        """Return the pool time, which the next leader continues."""
        return self._clock.now() - self._ahead_s

    @property
    def inputs_backlog(self) -> int:
        """The number of waiting inputs."""
        return self._pump.backlog

    @property
    def commits_backlog(self) -> int:
        """The number of batches that wait for their commit."""
        return self._committer.backlog

    @property
    def database_failing(self) -> bool:
        """Whether the database is away or does not answer."""
        return self._committer.failing

    def look(
        self, question: Callable[[questions.Questions], Any], timeout_s: float
    ) -> Any:
        """Query the engine, without waiting until the answer is durable.

        :raises TimeoutError: if the answer does not come in time.
        """
        return self._pump.ask(question, timeout_s, durable=False)

    def look_around(self) -> None:
        """Take over changes of the accelerators in the database.

        :raises DatabaseError: if it cannot be read.
        """
        library = self._database.accelerators()
        if library != self._library:
            LOG.info("The library of accelerators has changed")
            self._library = library
            self._pump.put(inputs.Library(tuple(library)))

    def stop(self) -> None:
        if self._retention is not None:
            self._retention.stop()
        if self._placing is not None:
            self._placing.stop()
        if self._watch is not None:
            self._watch.stop()
        if self._limits is not None:
            self._limits.stop()
        self._server.stop()
        self._server.wait()
        self._pump.stop()
        self._committer.stop()
        self._orders.stop()
        self._news.stop()


def _ahead_s(
    elected: election.Election, snapshot: db_api.Snapshot, now: float
) -> float:
    """Return by how much a leader's clock is ahead of pool time.

    Pool time begins with the clock of the very first leader.
    """
    pool_time_s = elected.pool_time_s()
    if pool_time_s is None:
        return 0.0
    return now - max(pool_time_s, snapshot.latest_arrival_s)


def _watch(
    conf: cfg.ConfigOpts,
    pumping: pump.Pump,
    on_failure: Callable[[str], None],
) -> instance_watch.InstanceWatch | None:
    """Return the watch of instances; None if Nova is not configured."""
    client = nova.Nova.from_conf(conf)
    if client is None:
        return None

    def known() -> instance_watch.Known:
        found: instance_watch.Known = pumping.ask(
            lambda asked: dict(asked.pool.instances.live),
            _WATCH_PATIENCE_S,
            durable=False,
        )
        return found

    def hosts() -> instance_watch.Hosts:
        found: instance_watch.Hosts = pumping.ask(
            lambda asked: asked.pool.registry.computes,
            _WATCH_PATIENCE_S,
            durable=False,
        )
        return found

    return instance_watch.InstanceWatch(
        client,
        known=known,
        hosts=hosts,
        put=pumping.put,
        on_failure=on_failure,
        poll_interval_s=conf.nova.poll_interval_s,
        compute_interval_s=conf.nova.compute_interval_s,
    )


def _placing(
    conf: cfg.ConfigOpts,
    pumping: pump.Pump,
    on_failure: Callable[[str], None],
    counts: conductor_counts.Counts,
) -> placement_sync.Placing | None:
    """Return the thread for Placement; None if it is not configured."""
    client = placement_client.Placement.from_conf(conf)
    if client is None:
        return None

    def wanted(is_early: bool) -> placement_plan.Wanted:
        found: placement_plan.Wanted = pumping.ask(
            lambda asked: placement_plan.wanted(
                asked.pool.registry,
                asked.pool.profiles,
                asked.reservable_slots,
                is_early=is_early,
                off_hosts=asked.pool.probation.off_hosts,
            ),
            _PLACING_PATIENCE_S,
            durable=False,
        )
        return found

    return placement_sync.Placing(
        client,
        nova.Nova.from_conf(conf),
        pool_name=conf.placement.pool_name,
        wanted=wanted,
        put=pumping.put,
        on_failure=on_failure,
        sync_interval_s=conf.placement.sync_interval_s,
        allocation_interval_s=conf.placement.allocation_interval_s,
        hearing_s=conf.conductor.report_timeout_s,
        counts=counts,
    )


def _notify(
    publisher: notifications.Publisher | None, snapshot: db_api.Snapshot
) -> persistence.Notify | None:
    if publisher is None:
        return None
    return functools.partial(publisher.note, journal.Journal(snapshot))


def _groups(
    conf: cfg.ConfigOpts, slots: Sequence[db_api.SlotRecord]
) -> groups.Groups:
    """Return the sizes of groups for a pool with these slots."""
    programming_time_s = max(
        (slot.programming_time_s for slot in slots), default=0.0
    )
    try:
        made = strategy_loading.load_groups(conf, programming_time_s)
    except exception.ConfigurationError as error:
        # A new board must not end the service of all others.
        LOG.error("Elastic groups may do little but change slots: %s", error)
        return strategy_loading.load_groups(conf)
    if made.warning is not None:
        LOG.warning("[scheduler] elasticity: %s", made.warning)
    return made


def _settings(conf: cfg.ConfigOpts) -> admission.Limits:
    options = conf.conductor
    max_bitstreams = conf.bitstreams.max_per_project
    return admission.Limits(
        report_timeout_s=options.report_timeout_s,
        lost_session_timeout_s=options.lost_session_timeout_s,
        wait_timeout_s=options.wait_timeout_s,
        connect_timeout_s=options.connect_timeout_s,
        resume_grace_s=options.resume_grace_s,
        prepare_timeout_s=options.prepare_timeout_s,
        resend_interval_s=options.resend_interval_s,
        max_claimed_bytes=options.max_claimed_bytes,
        max_queued_sessions=options.max_queued_sessions,
        default_quota=_default_quota(conf),
        claim_slack=options.claim_slack,
        idle_timeout_s=options.idle_timeout_s,
        max_hold_s=options.max_hold_s,
        min_progress_bytes_per_s=options.min_progress_bytes_per_s,
        max_bitstreams_per_project=(
            None if max_bitstreams < 0 else max_bitstreams
        ),
        deadline_action=options.deadline_action,
        quantum_bytes=(
            0
            if conf.scheduler.preempt == "none"
            else conf.scheduler.preempt_quantum_bytes
        ),
        power_cap_w=options.power_cap_w,
        host_power_caps_w=_host_power_caps_w(options.host_power_caps_w),
        instances_are_local=conf.nova.instances_are_local,
        health=health.Options(
            accelerator_limit=options.accelerator_fault_limit,
            slot_limit=options.slot_fault_limit,
            device_limit=options.device_fault_limit,
            first_s=options.self_test_after_s,
            max_s=max(options.self_test_after_s, options.self_test_max_s),
        ),
    )


def _host_power_caps_w(option: Mapping[str, str]) -> dict[str, float]:
    """Return the caps of hosts, by UUID.

    :raises ConfigurationError: if one is wrong.
    """
    caps_w = {}
    for name, text in option.items():
        try:
            cap_w = float(text)
            caps_w[str(uuid.UUID(name))] = cap_w
            power.Caps(pool_w=cap_w)
        except ValueError:
            raise exception.ConfigurationError(
                reason=f"[conductor] host_power_caps_w: {name}:{text} is not"
                " the UUID of a host and a number of watts"
            ) from None
    return caps_w


def _check_default_quota(
    quota: admission.ProjectQuota, slot_count: int
) -> None:
    """Warn if one project may take all slots of a shared pool."""
    if slot_count and (quota.sessions is None or quota.sessions >= slot_count):
        LOG.warning(
            "The pool has %d slots, and each project may have %s of them at a"
            " time: one project can keep all others waiting until it gives"
            " slots back. Set [quota] sessions below the number of slots",
            slot_count,
            "all" if quota.sessions is None else quota.sessions,
        )


def _default_quota(conf: cfg.ConfigOpts) -> admission.ProjectQuota:
    limits = {name: conf.quota[name] for name in admission.RESOURCES}
    return admission.ProjectQuota().replaced(limits, admission.FROM_DEFAULT)
