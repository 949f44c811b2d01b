# SPDX-License-Identifier: Apache-2.0

"""The series that the documentation lists."""

from fpgapool.agent import metrics as agent
from fpgapool.api import metrics as api
from fpgapool.common.monitoring import metrics
from fpgapool.conductor import metrics as conductor

SERVICES = {
    "conductor": conductor.DEFINITIONS,
    "agent": agent.DEFINITIONS,
    "api": api.DEFINITIONS,
}
DEFINITIONS = (
    metrics.BUILD,
    *(one for definitions in SERVICES.values() for one in definitions),
)
SUFFIXES = {
    metrics.HISTOGRAM: ("_bucket", "_count", "_sum"),
    metrics.COUNTER: ("",),
    metrics.GAUGE: ("",),
}
#: Series as expressions name them, with the labels that they have.
SERIES = {
    one.name + suffix: {*one.labels, "le"}
    if suffix == "_bucket"
    else set(one.labels)
    for one in DEFINITIONS
    for suffix in SUFFIXES[one.kind]
}
