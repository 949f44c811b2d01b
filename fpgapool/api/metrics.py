# SPDX-License-Identifier: Apache-2.0

"""Metrics of the REST API."""

from __future__ import annotations

import collections
import functools
import threading
import time
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import Protocol

from oslo_config import cfg
from oslo_log import log as logging

from fpgapool.api.backends import waiters
from fpgapool.api.http import middleware
from fpgapool.common import exception
from fpgapool.common.monitoring import metrics
from fpgapool.common.monitoring import tallies

LOG = logging.getLogger(__name__)

_OPTION = "api_port"

# A process that was replaced may still hold its port.
_RETRY_S = 5.0

_OTHER = "other"
_METHODS = frozenset({"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"})

_gauge = functools.partial(metrics.Definition, kind=metrics.GAUGE)
_counter = functools.partial(metrics.Definition, kind=metrics.COUNTER)
_histogram = functools.partial(metrics.Definition, kind=metrics.HISTOGRAM)

REQUESTS = _counter(
    "fpgapool_api_requests_total",
    help="Requests that were answered, by route, method and status; the"
    " route is other if it is unknown or does not exist.",
    labels=("route", "method", "status"),
)
LATENCY = _histogram(
    "fpgapool_api_request_seconds",
    help="Time to answer a request, including the time that it waited for a"
    " session to change.",
    labels=("route", "method"),
)
IN_PROGRESS = _gauge(
    "fpgapool_api_requests_in_progress",
    help="Requests that are being answered.",
)
WAITERS = _gauge(
    "fpgapool_api_waiters",
    help="Requests that wait for a session to change.",
)
RPC = _histogram(
    "fpgapool_api_rpc_seconds",
    help="Time of a call to the conductor, or of sending it a message.",
    labels=("method",),
)
RPC_FAILURES = _counter(
    "fpgapool_api_rpc_failures_total",
    help="Calls that the conductor did not answer in time, and messages that"
    " the broker did not accept.",
    labels=("method",),
)

VENDORDATA = _counter(
    "fpgapool_api_vendordata_total",
    help="Vendordata requests of Nova, by outcome; all but given, remembered"
    " and not_wanted mean that an instance got no data although it perhaps"
    " should.",
    labels=("outcome",),
)

DEFINITIONS = (
    REQUESTS,
    LATENCY,
    IN_PROGRESS,
    WAITERS,
    RPC,
    RPC_FAILURES,
    VENDORDATA,
)


class _Desk(Protocol):
    """Answers Nova."""

    @property
    def outcomes(self) -> Mapping[str, int]:
        """The number of each outcome."""


class Metrics:
    """Counters of one process of the API; thread-safe.

    :ivar rpc: calls of the conductor.
    """

    def __init__(self) -> None:
        self.rpc = tallies.Timings()
        self._lock = threading.Lock()
        self._in_progress = 0
        self._requests = collections.Counter[tuple[str, str, str]]()
        self._taken: dict[tuple[str, str], tallies.Histogram] = {}
        self._waiting: waiters.Waiters | None = None
        self._desk: _Desk | None = None

    def watch(self, waiting: waiters.Waiters) -> None:
        """Also serve the number of waiting requests."""
        self._waiting = waiting

    def watch_vendordata(self, desk: _Desk) -> None:
        """Also serve the outcomes of vendordata."""
        self._desk = desk

    def begin(self) -> None:
        """Count a request that begins."""
        with self._lock:
            self._in_progress += 1

    def end(
        self, route: str, method: str, status: str, taken_s: float
    ) -> None:
        """Count an answered request.

        :param route: its path, with the names of variable parts.
        :param status: a number.
        :param taken_s: its duration.
        """
        method = method if method in _METHODS else _OTHER
        with self._lock:
            self._in_progress -= 1
            self._requests[route, method, status] += 1
            taken = self._taken.get((route, method))
            if taken is None:
                taken = tallies.Histogram(tallies.SHORT_S)
                self._taken[route, method] = taken
            taken.observe(taken_s)

    def fill(self, page: metrics.Page) -> None:
        """Write the metrics."""
        with self._lock:
            requests = dict(self._requests)
            taken = dict(self._taken)
            page.put(IN_PROGRESS.name, self._in_progress)
        for labels, count in requests.items():
            page.put(REQUESTS.name, count, *labels)
        for route, histogram in taken.items():
            page.put_histogram(LATENCY.name, histogram, *route)
        if self._waiting is not None:
            page.put(WAITERS.name, self._waiting.count)
        outcomes = self._desk.outcomes if self._desk is not None else {}
        for outcome, count in outcomes.items():
            page.put(VENDORDATA.name, count, outcome)
        page.put_timings(RPC.name, RPC_FAILURES.name, self.rpc)


class Measured:
    """Counts requests and their duration.

    :param app: the inner application.
    :param counts: the counters.
    """

    def __init__(self, app: middleware.Application, counts: Metrics) -> None:
        self._app = app
        self._counts = counts

    def __call__(
        self,
        environ: middleware.Environ,
        start_response: middleware.StartResponse,
    ) -> Iterable[bytes]:
        """Answer a request."""
        told = "500"

        def start(status: str, *rest: Any) -> Any:
            nonlocal told
            told = status[:3]
            return start_response(status, *rest)

        started_s = time.perf_counter()
        self._counts.begin()
        try:
            return self._app(environ, start)
        finally:
            self._counts.end(
                environ.get(middleware.ROUTE, _OTHER),
                environ["REQUEST_METHOD"],
                told,
                time.perf_counter() - started_s,
            )


def endpoint(
    conf: cfg.ConfigOpts, counts: Metrics, *, number: int = 0
) -> metrics.Endpoint:
    """Return the server of a process's metrics.

    :param conf: the configuration.
    :param counts: the counters.
    :param number: of the process.
    """
    first: int | None = conf.metrics.api_port
    return metrics.Endpoint(
        conf,
        _OPTION,
        DEFINITIONS,
        counts.fill,
        # With port 0 any free port is taken.
        port=first + number if first else None,
    )


class WithEndpoint:
    """Serves the metrics of this process from its first request on.

    Web servers fork after they have loaded the application, and threads do not
    survive that.

    :param app: the inner application.
    :param conf: the configuration.
    :param counts: the counters.
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
        """Answer a request."""
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
            "Metrics are not served: no port is free; the last one: %s",
            failure,
        )
