# SPDX-License-Identifier: Apache-2.0

"""The conductor service."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from fpgapool.clients import keystone
from fpgapool.clients import keystone_projects
from fpgapool.clients import nova
from fpgapool.clients import placement as placement_client
from fpgapool.common import exception
from fpgapool.common.messaging import rpc
from fpgapool.common.messaging import signing
from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor.calls import base
from fpgapool.conductor.outside import notifications
from fpgapool.conductor.runtime import election
from fpgapool.conductor.runtime import garbage
from fpgapool.conductor.runtime import strategy_loading
from fpgapool.conductor.runtime import term as terms
from fpgapool.conductor.runtime import threads
from fpgapool.conf import conductor as conductor_conf
from fpgapool.conf import quota as quota_conf
from fpgapool.db import api as db_api
from fpgapool.rpcapi import conductor as conductor_rpcapi
from fpgapool.rpcapi import pulse
from fpgapool.vocabulary import inventory

LOG = logging.getLogger(__name__)

_RETRY_S = 2.0


class Conductor:
    """A conductor, on stand-by or as leader.

    :param conf: the global configuration, for which RPC has been set up.
    :param keys: the pool's keys, which verify signatures; None: signatures are
        not verified.
    :raises ConfigurationError: if an option of the strategy or of the
        elasticity policy is invalid, or if RPC has too few threads.
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
        self._term: terms.Term | None = None
        # Invalid options must be reported before the first election.
        strategy_loading.load_strategy(conf)
        strategy_loading.load_groups(conf)
        base.places(rpc.handler_threads(conf))
        if conf.quota.driver == quota_conf.UNIFIED:
            keystone.prepare()
        if conf.conductor.share_tree != conductor_conf.NO_TREE:
            keystone_projects.Projects.from_conf(conf)
        nova.Nova.from_conf(conf)
        placement_client.Placement.from_conf(conf)
        self._election = election.Election(
            database, conf.conductor.name, conf.conductor.lease_s
        )
        self._publisher = notifications.make(conf, self.counts)
        self._pulse: pulse.Pulse | None = None
        self._stopping = threading.Event()
        self._deposed = threading.Event()
        self._leading = threading.Event()
        self._thread = threads.start_later("conductor", self._run, on_failure)

    def start(self) -> None:
        """Start the threads, and take part in the election."""
        if self._publisher is not None:
            self._publisher.start()
        self._pulse = pulse.Pulse(
            conductor_rpcapi.ConductorAPI(
                watch=self.counts.rpc.note, keys=self._keys
            ),
            inventory.CONDUCTOR,
            self._conf.conductor.name,
        )
        self._pulse.start()
        self._thread.start()

    def stop(self) -> None:
        """Process queued work, and release the lease."""
        self._stopping.set()
        self._deposed.set()
        self._thread.join()
        if self._pulse is not None:
            self._pulse.stop()
        if self._publisher is not None:
            self._publisher.stop()

    def wait_until_leading(self, timeout_s: float) -> bool:
        """Wait until this conductor is the leader; return whether it is."""
        return self._leading.wait(timeout_s)

    def figures(self) -> dict[str, Any]:
        """Return the pool in a few numbers, without waiting for anything."""
        term = self._term
        return {
            "name": self._conf.conductor.name,
            "leads": term is not None,
            **(term.figures() if term is not None else {}),
        }

    @property
    def term(self) -> terms.Term | None:
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
                LOG.error("This conductor cannot become the leader: %s", error)
                self._stopping.wait(_RETRY_S)
            finally:
                # On stand-by, the queue's memory is freed.
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
            epoch, self._deposed, term.refresh_library, term.pool_time_s
        ):
            LOG.warning("Another conductor has been elected")
        self._leading.clear()
        self._term = None
        term.stop()
        self._election.resign(epoch, term.pool_time_s())
        LOG.info("Epoch %d has ended", epoch)

    def _enter(self, epoch: int) -> terms.Term:
        """Begin a term; renew the lease meanwhile, as loading takes time."""
        started_s = time.monotonic()
        with self._election.kept(epoch, self._deposed), garbage.filling():
            term = terms.Term(
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
        self._stopping.set()
        self._deposed.set()
        self._on_failure(f"thread {thread_name} failed")
