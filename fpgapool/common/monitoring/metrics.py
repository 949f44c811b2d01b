# SPDX-License-Identifier: Apache-2.0

"""Metrics pages for Prometheus.

Each service makes a page of its own at each scrape; several services may run
in one process. A service has tables of metrics, one for each object that it
reads; a new metric is one more row.
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
    """One metric; :func:`table` makes it of a row.

    :ivar read: where its value is in what :meth:`Page.fill` gets: names of
        attributes, methods or keys, with dots. The value is a number, a
        histogram, or a mapping of these by the values of the labels.
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
            raise ValueError(f"{self.name}: counters end in _total")


_ROW = re.compile(
    r"(?P<kind>\w+) (?P<name>\w+)(\{(?P<labels>[\w,]+)\})?"
    r" = (?P<read>[\w.]+)\n"
    r"(?P<help>(    \S.*\n)+)"
)


def table(text: str) -> tuple[Definition, ...]:
    """Return the metrics of a table.

    :param text: rows such as ``gauge NAME{LABEL,LABEL} = PATH`` with a help
        text in indented lines below; see :class:`Definition`.
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

    def fill(
        self,
        rows: Iterable[Definition],
        source: object,
        *labels: str,
        **more: object,
    ) -> None:
        """Add the values of all rows of a table.

        :param labels: the values of the first labels of all rows.
        :param more: what they read although the source does not have it.
        """
        for row in rows:
            self.put(row, _read(row.read, source, more), *labels)

    def put(self, row: Definition, value: Any, *labels: str) -> None:
        """Add the value of a row; see :class:`Definition`."""
        if not isinstance(value, Mapping):
            value = {(): value}
        # Another thread may change it.
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
    """Makes pages for Prometheus's library.

    :param fills: called with each page, by any thread; one for each service
        that has these metrics.
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
                # The other services' values are still useful.
                LOG.exception("Metrics are incomplete")
        yield from page.families()

    def describe(self) -> list[metrics_core.Metric]:
        return Page(self._definitions).families()


class Endpoint:
    """Serves pages by HTTP or HTTPS; a service of the process.

    Without a port it does nothing. It checks for each connection whether the
    certificate's files changed.

    :param option: the option of that group that has the port.
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
