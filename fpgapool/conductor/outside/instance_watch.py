# SPDX-License-Identifier: Apache-2.0

"""The thread that polls Nova for changes to instances and hosts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from collections.abc import Mapping

from oslo_log import log as logging

from fpgapool.clients import nova
from fpgapool.common import exception
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions.requests import instances
from fpgapool.conductor.runtime import threads
from fpgapool.db import api as db_api

LOG = logging.getLogger(__name__)

# Maximum number of instances to query individually per round; later rounds
# query the rest.
_MAX_NEWCOMERS = 100

Known = Mapping[str, db_api.InstanceRecord]
Hosts = Mapping[str, db_api.ComputeState]


class InstanceWatch(threads.Background):
    """Polls Nova, and passes changes to the engine.

    Changes during an outage of Nova are found afterwards.
    """

    def __init__(
        self,
        client: nova.Nova,
        *,
        known: Callable[[], Known],
        hosts: Callable[[], Hosts],
        put: Callable[[inputs.Input], None],
        on_failure: Callable[[str], None],
        poll_interval_s: float,
        compute_interval_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._nova = client
        self._known = known
        self._hosts = hosts
        self._put = put
        self._interval_s = poll_interval_s
        self._compute_interval_s = compute_interval_s
        self._clock = clock
        # Wall-clock time of the last successful query for instances.
        self._polled_at: float | None = None
        self._computes: nova.Computes | None = None
        # No query has succeeded yet.
        self._computes_at = -math.inf
        self._computes_failing = False
        self._failing = False
        super().__init__("instance-watch", on_failure)

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            self.look()

    def look(self) -> None:
        """Poll once."""
        try:
            self._poll()
        except exception.NovaUnavailable as error:
            if not self._failing:
                LOG.warning("Cannot get instances from Nova: %s", error)
            self._failing = True
        except TimeoutError:
            LOG.info("The conductor is busy; instances will be checked later")
        else:
            if self._failing:
                LOG.info("Nova is available again")
            self._failing = False

    def _poll(self) -> None:
        now = self._clock()
        computes = self._current_computes(now)
        known = self._known()
        if known:
            self._query_instances(known, computes, now)
        # Without known instances, no change can be missed.
        self._polled_at = now

    def _current_computes(self, now: float) -> nova.Computes:
        """Return the compute nodes, or the previous ones if the query fails.

        Deleted instances must be found even if this query fails, for example
        because a cell is down.
        """
        try:
            computes = self._query_computes(now)
        except exception.NovaUnavailable as error:
            if self._computes is None:
                raise
            if not self._computes_failing:
                LOG.warning("Cannot get compute nodes from Nova: %s", error)
            self._computes_failing = True
            return self._computes
        if self._computes_failing:
            LOG.info("Compute nodes can be read from Nova again")
        self._computes_failing = False
        return computes

    def _query_computes(self, now: float) -> nova.Computes:
        before = self._computes
        if (
            before is not None
            and 0 <= now - self._computes_at < self._compute_interval_s
        ):
            return before
        computes = self._nova.computes()
        if before is None:
            # Used if one of the queries below fails.
            self._computes = computes
        seen, missing = instances.changed_computes(
            self._hosts(), computes.uuids
        )
        if seen:
            self._pass_on(inputs.ComputesSeen(seen))
        for host_uuid in missing:
            if not self._nova.has_compute(host_uuid):
                self._pass_on(inputs.ComputeDeleted(host_uuid))
        self._computes, self._computes_at = computes, now
        return computes

    def _query_instances(
        self, known: Known, computes: nova.Computes, now: float
    ) -> None:
        since = instances.query_start(self._polled_at, now)
        servers = list(self._nova.servers(since))
        missing = instances.missing(known, servers, since, now)
        if since is not None:
            missing = missing[:_MAX_NEWCOMERS]
        for instance_id in missing:
            server = self._nova.server(instance_id)
            if server is None:
                self._pass_on(inputs.InstanceDeleted(instance_id))
            else:
                servers.append(server)
        for change in instances.changes(known, servers, computes.by_name):
            self._pass_on(change)

    def _pass_on(self, change: inputs.Input) -> None:
        # A former leader must not report changes.
        if not self._stopping.is_set():
            self._put(change)
