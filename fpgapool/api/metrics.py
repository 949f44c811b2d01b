# SPDX-License-Identifier: Apache-2.0

"""Metrics of the REST API."""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from fpgapool.api.backends import vendordata
from fpgapool.api.backends import waiters
from fpgapool.api.http import middleware
from fpgapool.common import exception
from fpgapool.common.monitoring import metrics
from fpgapool.common.monitoring import tallies

LOG = logging.getLogger(__name__)

_OPTION = "api_port"

# Time until the next attempt if all ports are in use: a process that was
# replaced may still hold one.
_RETRY_S = 5.0

_OTHER = "other"
_METHODS = frozenset({"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"})

DEFINITIONS = metrics.table(
    """
counter fpgapool_api_requests_total{route,method,status} = requests
    Answered requests, by route, method and status. The route is other if the
    path has none, or if the request failed before its route was known.
histogram fpgapool_api_request_seconds{route,method} = taken
    Time to answer a request, including the wait for a session to change.
gauge fpgapool_api_requests_in_progress = in_progress
    Requests that are being answered.
gauge fpgapool_api_waiters = waiting
    Requests that wait for a session to change.
histogram fpgapool_api_rpc_seconds{method} = rpc.durations
    Time to call the conductor or to send it a message.
counter fpgapool_api_rpc_failures_total{method} = rpc.failures
    Calls that the conductor did not answer in time, and messages that the
    broker did not accept.
counter fpgapool_api_vendordata_total{outcome} = outcomes
    Vendordata requests from Nova, by outcome. Outcomes other than given,
    remembered and not_wanted mean that an instance may lack its data.
"""
)


class Metrics:
    """Counters of one process of the API; thread-safe.

    :ivar waiters: the waiting requests; None: unknown.
    :ivar desk: the part that answers Nova; None: there is none.
    """

    def __init__(self) -> None:
        self.rpc = tallies.Timings()
        self._lock = threading.Lock()
        self.in_progress = 0
        self._requests = collections.Counter[tuple[str, str, str]]()
        self._taken: dict[tuple[str, str], tallies.Histogram] = {}
        self.waiters: waiters.Waiters | None = None
        self.desk: vendordata.Vendordata | None = None

    def begin(self) -> None:
        """Count a request that begins."""
        with self._lock:
            self.in_progress += 1

    def end(
        self, route: str, method: str, status: str, taken_s: float
    ) -> None:
        """Count an answered request.

        :param route: the route's path, with the names of variable parts.
        """
        method = method if method in _METHODS else _OTHER
        with self._lock:
            self.in_progress -= 1
            self._requests[route, method, status] += 1
            taken = self._taken.get((route, method))
            if taken is None:
                taken = tallies.Histogram(tallies.SHORT_S)
                self._taken[route, method] = taken
            taken.observe(taken_s)

    @property
    def requests(self) -> dict[tuple[str, str, str], int]:
        """The answered requests, by route, method and status."""
        with self._lock:
            return dict(self._requests)

    @property
    def taken(self) -> dict[tuple[str, str], tallies.Histogram]:
        """The durations of requests, by route and method."""
        with self._lock:
            return dict(self._taken)

    @property
    def waiting(self) -> Mapping[tuple[()], int] | int:
        """The number of waiting requests; an empty mapping if unknown."""
        return {} if self.waiters is None else self.waiters.count

    @property
    def outcomes(self) -> Mapping[str, int]:
        return {} if self.desk is None else self.desk.outcomes

    def fill(self, page: metrics.Page) -> None:
        page.fill(DEFINITIONS, self)


class Measured:
    """Counts requests and their duration."""

    def __init__(self, app: middleware.Application, counts: Metrics) -> None:
        self._app = app
        self._counts = counts

    def __call__(
        self,
        environ: middleware.Environ,
        start_response: middleware.StartResponse,
    ) -> Iterable[bytes]:
        code = "500"

        def start(status: str, *rest: Any) -> Any:
            nonlocal code
            code = status[:3]
            return start_response(status, *rest)

        started_s = time.perf_counter()
        self._counts.begin()
        try:
            return self._app(environ, start)
        finally:
            self._counts.end(
                environ.get(middleware.ROUTE, _OTHER),
                environ["REQUEST_METHOD"],
                code,
                time.perf_counter() - started_s,
            )


def endpoint(
    conf: cfg.ConfigOpts, counts: Metrics, *, number: int = 0
) -> metrics.Endpoint:
    """Return the server of a process's metrics."""
    first: int | None = conf.metrics.api_port
    return metrics.Endpoint(
        conf,
        _OPTION,
        DEFINITIONS,
        counts.fill,
        # Port 0 means any free port.
        port=first + number if first else None,
    )


class WithEndpoint:
    """Serves the metrics of this process from its first request on.

    It does not start earlier, because web servers fork after they have loaded
    the application, and threads do not survive that.
    """

    def __init__(
        self,
        app: middleware.Application,
        conf: cfg.ConfigOpts,
        counts: Metrics,
    ) -> None:
        self._app = app
        self._conf = conf
        self._counts = counts
        self._lock = threading.Lock()
        self._done = conf.metrics.api_port is None
        self._next_try_s = 0.0

    def __call__(
        self,
        environ: middleware.Environ,
        start_response: middleware.StartResponse,
    ) -> Iterable[bytes]:
        if not self._done and self._lock.acquire(blocking=False):
            try:
                self._try()
            finally:
                self._lock.release()
        return self._app(environ, start_response)

    def _try(self) -> None:
        now_s = time.monotonic()
        if self._done or now_s < self._next_try_s:
            return
        self._next_try_s = now_s + _RETRY_S
        for number in range(self._conf.metrics.api_processes):
            try:
                endpoint(self._conf, self._counts, number=number).start()
            except exception.ConfigurationError as error:
                failure = error
            else:
                self._done = True
                return
        LOG.error(
            "No port is free to serve metrics; last error: %s",
            failure,
        )
