# SPDX-License-Identifier: Apache-2.0

"""Metrics pages for Prometheus.

Each service makes a page of its own at each scrape; several services may run
in one process.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence

import prometheus_client
from oslo_config import cfg
from oslo_log import log as logging
from prometheus_client import metrics_core
from prometheus_client import registry

from fpgapool import version
from fpgapool.common import exception
from fpgapool.common import tls
from fpgapool.common.monitoring import scraping
from fpgapool.common.monitoring import tallies

LOG = logging.getLogger(__name__)

COUNTER = "counter"
GAUGE = "gauge"
HISTOGRAM = "histogram"

_FAMILIES: dict[str, Callable[..., metrics_core.Metric]] = {
    COUNTER: metrics_core.CounterMetricFamily,
    GAUGE: metrics_core.GaugeMetricFamily,
    HISTOGRAM: metrics_core.HistogramMetricFamily,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Definition:
    """One metric.

    :ivar kind: COUNTER, GAUGE or HISTOGRAM.
    :ivar help: a sentence.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in _FAMILIES:
            raise ValueError(f"{self.name}: unknown kind {self.kind!r}")
        if (self.kind == COUNTER) != self.name.endswith("_total"):
            raise ValueError(f"{self.name}: counters end in _total")


#: The first metric of every page.
BUILD = Definition(
    "fpgapool_build_info",
    GAUGE,
    "Always 1; the version of fpgapool.",
    ("version",),
)


class Page:
    """The metrics of one scrape.

    :param definitions: all metrics of the service; also those without a value
        appear.
    """

    def __init__(self, definitions: Sequence[Definition]) -> None:
        self._families = {
            one.name: _FAMILIES[one.kind](
                one.name, one.help, labels=one.labels
            )
            for one in definitions
        }

    def put(self, name: str, value: float, *labels: str) -> None:
        """Add a value.

        :param name: of a counter or gauge.
        :param value: its value.
        :param labels: the values of its labels.
        """
        self._families[name].add_metric(labels, value)  # type: ignore[attr-defined]

    def put_histogram(
        self, name: str, histogram: tallies.Histogram, *labels: str
    ) -> None:
        """Add a histogram; see :meth:`put`."""
        buckets, total = histogram.read()
        self._families[name].add_metric(labels, buckets, total)  # type: ignore[attr-defined]

    def put_timings(
        self,
        name: str,
        failures_name: str,
        timings: tallies.Timings,
        *labels: str,
    ) -> None:
        """Add durations and failures, with their kind as the last label.

        :param name: of the histogram.
        :param failures_name: of the counter.
        :param labels: the values of the other labels.
        """
        for kind, taken, failures in timings.read():
            self.put_histogram(name, taken, *labels, kind)
            self.put(failures_name, failures, *labels, kind)

    def families(self) -> list[metrics_core.Metric]:
        """Return all metrics."""
        return list(self._families.values())


Fill = Callable[[Page], None]


class Collector(registry.Collector):
    """Makes pages for Prometheus's library.

    :param definitions: the metrics of a page.
    :param fills: called with each page, by any thread; one for each service
        that has these metrics.
    """

    def __init__(
        self, definitions: Sequence[Definition], fills: Sequence[Fill]
    ) -> None:
        self._definitions = (BUILD, *definitions)
        self._fills = fills

    def collect(self) -> Iterator[metrics_core.Metric]:
        """Yield a page."""
        page = Page(self._definitions)
        page.put(BUILD.name, 1, version.version_string())
        for fill in self._fills:
            try:
                fill(page)
            except Exception:
                # The other services' values are still useful.
                LOG.exception("Metrics are incomplete")
        yield from page.families()

    def describe(self) -> list[metrics_core.Metric]:
        """Return the metrics without values."""
        return Page(self._definitions).families()


class Endpoint:
    """Serves pages by HTTP or HTTPS; a service of the process.

    Without a port it does nothing. It checks for each connection whether the
    certificate's files changed.

    :param conf: with the group ``metrics``.
    :param option: the option of that group that has the port.
    :param definitions: the metrics of a page.
    :param fills: see :class:`Collector`.
    :param port: replaces the option's port.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        option: str,
        definitions: Sequence[Definition],
        *fills: Fill,
        port: int | None = None,
    ) -> None:
        self._option = option
        self._address: str = conf.metrics.listen_address
        self._port: int | None = conf.metrics[option] if port is None else port
        self._registry = registry.CollectorRegistry()
        self._registry.register(Collector(definitions, fills))
        # The process's CPU time, memory and descriptors.
        prometheus_client.ProcessCollector(registry=self._registry)
        self._conf = conf.metrics
        self._server: scraping.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int | None:
        """The port on which it listens; None while it does not."""
        return self._server.server_port if self._server else None

    def start(self) -> None:
        """Listen, if a port is set.

        :raises ConfigurationError: if the port is in use, or the certificate
            is unusable.
        """
        if self._port is None:
            return
        certificate = self._certificate()
        try:
            self._server = scraping.Server(
                (self._address, self._port),
                prometheus_client.make_wsgi_app(self._registry),
                certificate,
            )
        except OSError as error:
            raise exception.ConfigurationError(
                reason=f"[metrics] {self._option}: {self._address} port"
                f" {self._port}: {error.strerror}"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )
        self._thread.start()
        LOG.info("Metrics at %s port %d", self._address, self.port)

    def _certificate(self) -> tls.ServerContext | None:
        options = self._conf
        files = (options.cert_file, options.key_file)
        if not any((*files, options.client_ca_file)):
            return None
        if not all(files):
            raise exception.ConfigurationError(
                reason="[metrics] cert_file and key_file need each other, and"
                " client_ca_file needs both"
            )
        try:
            return tls.ServerContext(*files, options.client_ca_file)
        except OSError as error:
            raise exception.ConfigurationError(
                reason=f"[metrics] cert_file, key_file, client_ca_file:"
                f" {error}"
            ) from error

    def stop(self) -> None:
        """Stop listening."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._server = None
