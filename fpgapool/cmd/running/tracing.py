# SPDX-License-Identifier: Apache-2.0

"""Traces of ``fpgapool-run``, set up as the variables of OpenTelemetry say."""

from __future__ import annotations

import os

_ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)


def start(program: str) -> None:
    """Send spans until the process ends, if the environment names a collector.

    The variables may be meant for other programs, so missing libraries are no
    error.
    """
    if not any(map(os.environ.get, _ENDPOINTS)):
        return
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http import trace_exporter
        from opentelemetry.sdk import resources
        from opentelemetry.sdk import trace as sdk
        from opentelemetry.sdk.trace import export
    except ImportError:
        return
    name = os.environ.get("OTEL_SERVICE_NAME", program)
    provider = sdk.TracerProvider(
        resource=resources.Resource.create({resources.SERVICE_NAME: name})
    )
    provider.add_span_processor(
        export.BatchSpanProcessor(trace_exporter.OTLPSpanExporter())
    )
    trace.set_tracer_provider(provider)
