# SPDX-License-Identifier: Apache-2.0

"""The objects that exist only while a conductor is the leader."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from fpgapool.bitstreams import signatures
from fpgapool.clients import keystone
from fpgapool.clients import keystone_projects
from fpgapool.clients import nova
from fpgapool.clients import placement as placement_client
from fpgapool.common import clock
from fpgapool.common import exception
from fpgapool.common.messaging import rpc
from fpgapool.common.messaging import signing
from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor import rpc as conductor_rpc
from fpgapool.conductor.calls import base
from fpgapool.conductor.decisions import engine
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.views import journal
from fpgapool.conductor.outside import instance_watch
from fpgapool.conductor.outside import keystone_limits
from fpgapool.conductor.outside import keystone_tree
from fpgapool.conductor.outside import notifications
from fpgapool.conductor.outside import placement_plan
from fpgapool.conductor.outside import placement_sync
from fpgapool.conductor.runtime import election
from fpgapool.conductor.runtime import past_usage
from fpgapool.conductor.runtime import persistence
from fpgapool.conductor.runtime import pump
from fpgapool.conductor.runtime import retention
from fpgapool.conductor.runtime import sender
from fpgapool.conductor.runtime import settings
from fpgapool.conductor.runtime import strategy_loading
from fpgapool.conductor.runtime import threads
from fpgapool.conf import conductor as conductor_conf
from fpgapool.conf import quota as quota_conf
from fpgapool.core import state as core_state
from fpgapool.core.sizing import groups
from fpgapool.db import api as db_api
from fpgapool.db import migration
from fpgapool.rpcapi import agent as agent_rpcapi
from fpgapool.rpcapi import api as api_rpcapi
from fpgapool.rpcapi import conductor as conductor_rpcapi

LOG = logging.getLogger(__name__)

# Maximum time for which the threads for Nova and Placement wait for answers.
_PATIENCE_S = 10.0


class Term:
    """The objects of one term of a leader."""

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
        self._conf = conf
        self._database = database
        self._on_failure = on_failure
        self._counts = counts
        snapshot = database.load()
        # New requests must not appear older than stored ones.
        self._clock = clock.WallClock(
            not_before=snapshot.latest_at, wall=elected.now
        )
        self._ahead_s = _ahead_s(elected, snapshot, self._clock.now())
        snapshot = snapshot.moved(
            database.begin_term(epoch, self.pool_time_s(), self._ahead_s)
        )
        self._library = snapshot.accelerators
        self.inherited_count = len(snapshot.live_sessions)
        agents = agent_rpcapi.AgentAPI(watch=counts.rpc.note, keys=keys)
        apis = api_rpcapi.ApiAPI(watch=counts.rpc.note, keys=keys)
        # Orders to agents must not wait until session views have been sent.
        make_sender = functools.partial(
            sender.Sender, agents, apis, epoch, on_failure=on_failure
        )
        self._orders, self._news = (
            make_sender(name=name, counts=counts)
            for name in ("orders", "news")
        )
        self.committer = persistence.GroupCommitter(
            database,
            epoch,
            deliver=self._news.deliver,
            on_unrecorded=lambda item: self.pump.put(item),
            on_deposed=deposed.set,
            on_failure=on_failure,
            notify=_notify(publisher, snapshot),
            counts=counts,
        )
        limits = settings.limits(conf)
        self.pump = pump.Pump(
            self._engine(limits, snapshot),
            self._clock,
            committer=self.committer,
            outbox=self._orders,
            on_failure=on_failure,
            counts=counts,
            max_inputs=conf.conductor.max_waiting_inputs,
        )
        self._placing = _placing(conf, self.pump, on_failure, counts)
        self._retention = self._new_retention()
        self._others = self._new_others(limits)
        self._server = rpc.get_server(
            conductor_rpcapi.TOPIC,
            conductor_rpcapi.server_name(epoch),
            [self._endpoint()],
            keys=keys,
            accept_unsigned=conf.messages.accept_unsigned,
        )

    def _engine(
        self, limits: admission.PoolLimits, snapshot: db_api.Snapshot
    ) -> engine.Engine:
        conf = self._conf
        strategy = strategy_loading.load_strategy(conf)
        if conf.conductor.fair_share:
            settings.check_default_quota(
                limits.default_quota, len(snapshot.slots)
            )
        return engine.Engine(
            core_state.PoolState(
                strategy,
                first_generation=self.epoch << agent_rpcapi.GENERATION_BITS,
                groups=_groups(conf, snapshot.slots),
            ),
            limits,
            snapshot,
            conf.conductor.strategy,
            (
                admission.Quotas(limits.default_quota)
                if self._reads_keystone
                else None
            ),
            thresholds_bytes=strategy_loading.thresholds_bytes(strategy),
            counts=self._counts,
            ahead_s=self._ahead_s,
            pasts=past_usage.at_start(
                self._database, snapshot, limits.default_budget
            ),
        )

    def _new_others(
        self, limits: admission.PoolLimits
    ) -> list[threads.Background]:
        others = (
            _watch(self._conf, self.pump, self._on_failure),
            self._placing,
            self._new_limits(limits),
            self._new_tree(),
            self._retention,
        )
        return [one for one in others if one is not None]

    def _endpoint(self) -> conductor_rpc.ConductorManager:
        options = self._conf.bitstreams
        trusted = signatures.TrustedKeys(options.trusted_keys_dir)
        return conductor_rpc.ConductorManager(
            self.pump,
            self._database,
            self.epoch,
            base.places(rpc.handler_threads(self._conf)),
            signer=functools.partial(
                trusted.signer, required=options.signature_required
            ),
        )

    @property
    def _reads_keystone(self) -> bool:
        return bool(self._conf.quota.driver == quota_conf.UNIFIED)

    def _new_limits(
        self, limits: admission.PoolLimits
    ) -> keystone_limits.LimitsFollower | None:
        if not self._reads_keystone:
            return None
        return keystone_limits.LimitsFollower(
            keystone.LimitsReader(),
            limits.default_quota,
            lambda quotas: self.pump.put(inputs.NewQuotas(quotas)),
            self._conf.quota.refresh_interval_s,
            self._on_failure,
        )

    def _new_tree(self) -> keystone_tree.TreeFollower | None:
        if self._conf.conductor.share_tree == conductor_conf.NO_TREE:
            return None
        return keystone_tree.TreeFollower(
            keystone_projects.Projects.from_conf(self._conf),
            lambda places: self.pump.put(inputs.NewTree(places)),
            self._conf.keystone.refresh_interval_s,
            self._on_failure,
        )

    def _new_retention(self) -> retention.Retention | None:
        days = self._conf.database.retention_days
        if not days:
            return None
        return retention.Retention(
            self._database,
            self.epoch,
            days,
            now=self._clock.now,
            counts=self._counts,
            on_failure=self._on_failure,
        )

    def start(self) -> None:
        """Start the threads, and listen."""
        self.committer.start()
        self.pump.start()
        # Listen before messages are sent: agents answer immediately, and each
        # request is sent only once.
        self._server.start()
        self._orders.start()
        self._news.start()
        if self._placing is None:
            # Without Placement, there are no reservations.
            self.pump.put(inputs.Reservations({}))
        for one in self._others:
            one.start()

    def stop(self) -> None:
        """Process queued work, and end the threads."""
        for one in self._others:
            one.stop()
        self._server.stop()
        self._server.wait()
        self.pump.stop()
        self.committer.stop()
        self._orders.stop()
        self._news.stop()

    def figures(self) -> dict[str, Any]:
        """Return the pool in a few numbers, without waiting for anything."""
        return {
            "epoch": self.epoch,
            "database_failing": self.committer.failing,
            **self.pump.figures(),
        }

    def pool_time_s(self) -> float:
        """Return the pool time, which the next leader continues."""
        return self._clock.now() - self._ahead_s

    def refresh_library(self) -> None:
        """Load changed accelerators from the database."""
        library = self._database.accelerators()
        if library != self._library:
            LOG.info("The accelerator library has changed")
            self._library = library
            self.pump.put(inputs.Library(tuple(library)))


def _ahead_s(
    elected: election.Election, snapshot: db_api.Snapshot, now: float
) -> float:
    """Return how far the leader's clock is ahead of pool time.

    Pool time began as the wall-clock time of the very first leader.
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
    """Return the thread for Nova; None if it is not configured."""
    client = nova.Nova.from_conf(conf)
    if client is None:
        return None

    def known() -> instance_watch.Known:
        return pumping.ask(
            lambda asked: dict(asked.pool.instances.live),
            _PATIENCE_S,
            durable=False,
        )

    def hosts() -> instance_watch.Hosts:
        return pumping.ask(
            lambda asked: asked.pool.registry.computes,
            _PATIENCE_S,
            durable=False,
        )

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
        return pumping.ask(
            lambda asked: placement_plan.wanted(
                asked.pool.registry,
                asked.pool.catalogue.profiles,
                asked.reservable_slots,
                is_early=is_early,
                faulty_accelerators=asked.pool.probation.faulty_accelerators,
            ),
            _PATIENCE_S,
            durable=False,
        )

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
    programming_time_s = max(
        (slot.programming_time_s for slot in slots), default=0.0
    )
    try:
        made = strategy_loading.load_groups(conf, programming_time_s)
    except exception.ConfigurationError as error:
        # A new board that is slow to program must not stop the leader.
        LOG.error(
            "Elastic groups may spend most of their time changing slots: %s",
            error,
        )
        return strategy_loading.load_groups(conf)
    if made.warning is not None:
        LOG.warning("[scheduler] elasticity: %s", made.warning)
    return made
