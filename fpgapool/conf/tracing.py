# SPDX-License-Identifier: Apache-2.0

"""Options of the group [tracing]."""

from oslo_config import cfg

from fpgapool.conf import groups

_group = cfg.OptGroup(
    "tracing",
    title="Tracing",
    help="Traces of sessions for OpenTelemetry. They are sent only if an"
    " endpoint is set, and need fpgapool[tracing].",
)

tracing_opts = [
    cfg.URIOpt(
        "endpoint",
        schemes=["http", "https"],
        help="""
URL to which this service sends its spans, in OpenTelemetry's protocol over
HTTP, for example ``http://127.0.0.1:4318/v1/traces`` of a collector on this
machine. By default, it sends none.

The variables ``OTEL_EXPORTER_OTLP_…`` and ``OTEL_BSP_…`` of OpenTelemetry
apply in addition, for example for headers and certificates.
""",
    ),
    cfg.FloatOpt(
        "sample_ratio",
        default=1.0,
        min=0.0,
        max=1.0,
        help="""
Share of the traces that this service records, from 0 to 1.

The ID of a trace decides, so services with the same ratio record the same
traces. Clients choose these IDs, and whether they want a trace: the ratio
applies to traces that clients begin, too.
""",
    ),
]

OPTIONS = groups.Options(_group, tracing_opts)
