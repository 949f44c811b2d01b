# SPDX-License-Identifier: Apache-2.0

"""Spans for OpenTelemetry, if the operator wants them.

The libraries are imported only then. Otherwise a span costs a function call,
and a client's trace context is passed on unchanged. Times are by the wall
clock, in seconds.
"""

from __future__ import annotations

import threading
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from fpgapool.common import exception
from fpgapool.vocabulary import carriers

LOG = logging.getLogger(__name__)

#: Worker processes can reach no collector; their agents send their spans.
WORKER = "fpgapool-worker"

# How long the end of a process waits for spans that are not sent yet.
_FLUSH_S = 2.0
_NS = 1_000_000_000


class Span:
    """A span that is not recorded.

    :ivar traceparent: context for the spans that it causes; None: no trace.
    """

    __slots__ = ("traceparent",)

    def __init__(self, traceparent: str | None) -> None:
        self.traceparent = traceparent

    def end(
        self, at: float | None = None, *, error: str = "", **more: Any
    ) -> None:
        """End the span; later calls do nothing.

        :param error: code of the error; empty if there was none.
        :param more: attributes, whose names get the prefix ``fpgapool.``.
        """


class _Recorded(Span):
    """A span that OpenTelemetry knows."""

    __slots__ = ("_span",)

    def __init__(self, span: Any) -> None:
        found = span.get_span_context()
        super().__init__(
            f"00-{found.trace_id:032x}-{found.span_id:016x}"
            f"-{found.trace_flags:02x}"
        )
        self._span = span

    def end(
        self, at: float | None = None, *, error: str = "", **more: Any
    ) -> None:
        from opentelemetry import trace

        if error:
            self._span.set_status(trace.StatusCode.ERROR, error)
        self._span.set_attributes(_attributes(more))
        self._span.end(None if at is None else int(at * _NS))


def _attributes(values: dict[str, Any]) -> dict[str, Any]:
    return {
        f"fpgapool.{name}": value
        for name, value in values.items()
        if value is not None
    }


class _Exporter:
    """Makes the spans of a process, and sends them in a thread."""

    def __init__(self, conf: cfg.ConfigOpts, service: str) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http import trace_exporter
            from opentelemetry.sdk.trace import export
        except ImportError as error:
            raise exception.ConfigurationError(
                reason="[tracing] endpoint requires fpgapool[tracing]:"
                f" {error}"
            ) from error
        self._ratio = conf.tracing.sample_ratio
        # Its queue is bounded; spans beyond that are dropped.
        self._processor = export.BatchSpanProcessor(
            trace_exporter.OTLPSpanExporter(endpoint=conf.tracing.endpoint)
        )
        self._tracers = {one: self._tracer(one) for one in (service, WORKER)}
        self._service = service

    def _tracer(self, service: str) -> Any:
        from opentelemetry.sdk import resources
        from opentelemetry.sdk import trace
        from opentelemetry.sdk.trace import sampling

        by_id = sampling.TraceIdRatioBased(self._ratio)
        provider = trace.TracerProvider(
            sampler=sampling.ParentBased(by_id, remote_parent_sampled=by_id),
            resource=resources.Resource.create(
                {resources.SERVICE_NAME: service}
            ),
            shutdown_on_exit=False,
        )
        provider.add_span_processor(self._processor)
        return provider.get_tracer("fpgapool")

    def begin(
        self,
        name: str,
        parent: str | None,
        at: float | None,
        service: str | None,
        more: dict[str, Any],
    ) -> Span:
        span = self._tracers[service or self._service].start_span(
            name,
            context=_context(parent),
            attributes=_attributes(more),
            start_time=None if at is None else int(at * _NS),
        )
        return _Recorded(span)

    def stop(self) -> None:
        # Without a collector, a flush would take much longer than its limit.
        thread = threading.Thread(
            target=self._processor.force_flush, name="traces", daemon=True
        )
        thread.start()
        thread.join(_FLUSH_S)


def _context(parent: str | None) -> Any:
    from opentelemetry import context
    from opentelemetry import trace

    # Not the thread's own context: threads serve many requests.
    empty = context.Context()
    if not parent:
        return empty
    _version, trace_id, span_id, flags = parent.split("-")
    remote = trace.SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(int(flags, 16)),
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(remote), empty)


_exporter: _Exporter | None = None


def start(conf: cfg.ConfigOpts, service: str) -> None:
    """Send spans from now on, if the configuration has an endpoint.

    :param service: name of this service in traces.
    :raises ConfigurationError: if the libraries are not installed.
    """
    global _exporter
    wanted = "tracing" in conf and conf.tracing.endpoint
    if wanted and _exporter is None:
        _exporter = _Exporter(conf, service)
        LOG.info("Sending traces to %s", conf.tracing.endpoint)


def stop() -> None:
    """Send what is left, for a limited time."""
    global _exporter
    if _exporter is not None:
        _exporter.stop()
        _exporter = None


def begin(
    name: str,
    parent: str | None,
    at: float | None = None,
    *,
    service: str | None = None,
    **more: Any,
) -> Span:
    """Begin a span.

    :param parent: valid traceparent of the span that caused it; None: it
        begins a trace.
    :param at: when it began; None: now.
    :param service: :data:`WORKER`, for spans of a worker.
    """
    if _exporter is None:
        return Span(parent)
    return _exporter.begin(name, parent, at, service, more)


def within(given: carriers.Carrier, span: Span) -> carriers.Carrier:
    """Return a carrier for what a span causes."""
    if span.traceparent is None:
        return given
    return {**given, carriers.TRACEPARENT: span.traceparent}
