# SPDX-License-Identifier: Apache-2.0

"""Metrics pages for Prometheus.

A page is made anew for each scrape, from all services of the process. A
service has tables of metrics, one for each object from which it reads values.
To add a metric, add a row to a table.
"""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

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
    """One metric; :func:`table` makes it from a row.

    :ivar read: path of the value in the source of :meth:`Page.fill`: names of
        attributes, methods or keys, separated by dots. The value is a number,
        a histogram, or a mapping from label values to these.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    read: str = ""

    def __post_init__(self) -> None:
        if self.kind not in _FAMILIES:
            raise ValueError(f"{self.name}: unknown kind {self.kind!r}")
        if (self.kind == COUNTER) != self.name.endswith("_total"):
            raise ValueError(
                f"{self.name}: counters, and only these, must end in _total"
            )


_ROW = re.compile(
    r"(?P<kind>\w+) (?P<name>\w+)(\{(?P<labels>[\w,]+)\})?"
    r" = (?P<read>[\w.]+)\n"
    r"(?P<help>(    \S.*\n)+)"
)


def table(text: str) -> tuple[Definition, ...]:
    """Return the metrics in a table.

    :param text: rows such as ``gauge NAME{LABEL,LABEL} = PATH``, each followed
        by its help text in indented lines; see :class:`Definition`.
    """
    rows = list(_ROW.finditer(text))
    if "".join(row[0] for row in rows) != text.lstrip("\n"):
        raise ValueError(f"not a table of metrics: {text}")
    return tuple(
        Definition(
            row["name"],
            row["kind"],
            " ".join(row["help"].split()),
            tuple(row["labels"].split(",")) if row["labels"] else (),
            row["read"],
        )
        for row in rows
    )


#: The first metric of every page.
BUILD = Definition(
    "fpgapool_build_info",
    GAUGE,
    "Always 1; the version of fpgapool.",
    ("version",),
)


class Page:
    """The metrics of one scrape.

    :param definitions: all metrics of the service; those without a value
        appear, too.
    """

    def __init__(self, definitions: Sequence[Definition]) -> None:
        self._families = {
            one.name: _FAMILIES[one.kind](
                one.name, one.help, labels=one.labels
            )
            for one in definitions
        }

    def fill(
        self,
        rows: Iterable[Definition],
        source: object,
        *labels: str,
        **more: object,
    ) -> None:
        """Add the values of all rows of a table.

        :param labels: values of the first labels of each row.
        :param more: values for rows that the source does not have.
        """
        for row in rows:
            self.put(row, _read(row.read, source, more), *labels)

    def put(self, row: Definition, value: Any, *labels: str) -> None:
        """Add the value of a row; see :class:`Definition`."""
        if not isinstance(value, Mapping):
            value = {(): value}
        # Copied because another thread may change it.
        for key, one in list(value.items()):
            self._add(row.name, one, (*labels, *_tuple(key)))

    def _add(self, name: str, value: Any, labels: tuple[str, ...]) -> None:
        values: tuple[Any, ...] = (value,)
        if isinstance(value, tallies.Histogram):
            values = value.read()
        self._families[name].add_metric(labels, *values)  # type: ignore[attr-defined]

    def families(self) -> list[metrics_core.Metric]:
        return list(self._families.values())


def _read(path: str, source: Any, more: Mapping[str, object]) -> Any:
    first, *rest = path.split(".")
    found = more[first] if first in more else getattr(source, first)
    for name in rest:
        is_mapping = isinstance(found, Mapping)
        found = found[name] if is_mapping else getattr(found, name)
    return found() if callable(found) else found


def _tuple(key: str | tuple[str, ...]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else key


Fill = Callable[[Page], None]


class Collector(registry.Collector):
    """Makes pages for the Prometheus client library.

    :param fills: functions that fill a page, one for each service with these
        metrics; called in any thread.
    """

    def __init__(
        self, definitions: Sequence[Definition], fills: Sequence[Fill]
    ) -> None:
        self._definitions = (BUILD, *definitions)
        self._fills = fills

    def collect(self) -> Iterator[metrics_core.Metric]:
        page = Page(self._definitions)
        page.put(BUILD, 1, version.version_string())
        for fill in self._fills:
            try:
                fill(page)
            except Exception:
                # The values of other services are still useful.
                LOG.exception("Cannot read some of the metrics")
        yield from page.families()

    def describe(self) -> list[metrics_core.Metric]:
        return Page(self._definitions).families()


class Endpoint:
    """Serves pages over HTTP or HTTPS; one of the process's services.

    Without a port, it does nothing. For each connection, it checks whether the
    certificate files have changed.

    :param option: name of the option in [metrics] that sets the port.
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
        # Adds the process's CPU time, memory and descriptors.
        prometheus_client.ProcessCollector(registry=self._registry)
        self._conf = conf.metrics
        self._server: scraping.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int | None:
        """The port on which it listens; None if it does not listen."""
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
                reason=f"[metrics] {self._option}: cannot listen on"
                f" {self._address} port {self._port}: {error.strerror}"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )
        self._thread.start()
        LOG.info("Serving metrics on %s port %d", self._address, self.port)

    def _certificate(self) -> tls.ServerContext | None:
        options = self._conf
        files = (options.cert_file, options.key_file)
        if not any((*files, options.client_ca_file)):
            return None
        if not all(files):
            raise exception.ConfigurationError(
                reason="[metrics] cert_file and key_file must be set together,"
                " and client_ca_file requires both"
            )
        try:
            return tls.ServerContext(*files, options.client_ca_file)
        except OSError as error:
            raise exception.ConfigurationError(
                reason=f"[metrics] cert_file, key_file, client_ca_file:"
                f" {error}"
            ) from error

    def stop(self) -> None:
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._server = None
