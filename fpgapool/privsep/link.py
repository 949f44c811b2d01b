# SPDX-License-Identifier: Apache-2.0

"""The functions that run in the privileged process.

They are few, and they check their arguments, because the calling process has
fewer privileges than this one.
"""

from __future__ import annotations

import ipaddress

from oslo_privsep import capabilities
from oslo_privsep import priv_context

from fpgapool import privsep
from fpgapool.privsep import cap
from fpgapool.privsep import classifier
from fpgapool.privsep import tc

#: Configuration group of oslo.privsep's options for this process.
CONFIG_GROUP = "fpgapool_privsep"

#: The kernel normally answers immediately; a longer wait means a failure.
TIMEOUT_S = 60

CONTEXT = priv_context.PrivContext(
    "fpgapool.privsep",
    cfg_section=CONFIG_GROUP,
    pypath=f"{__name__}.CONTEXT",
    capabilities=[capabilities.CAP_NET_ADMIN],
    timeout=TIMEOUT_S,
)


@CONTEXT.entrypoint
def put_cap(
    device: str,
    bytes_per_s: int,
    network: str,
    first_port: int,
    last_port: int,
) -> cap.Outcome:
    """Cap the data plane's share of a network device; see :class:`cap.Cap`."""
    lowest, highest = privsep.MIN_CAP_BYTES_PER_S, privsep.MAX_CAP_BYTES_PER_S
    if not lowest <= bytes_per_s <= highest:
        raise ValueError(f"invalid cap: {bytes_per_s} bytes/s")
    program = classifier.program(
        ipaddress.ip_network(network), first_port, last_port
    )
    with tc.TrafficControl() as control:
        return cap.Cap(control).put(device, bytes_per_s, program)


@CONTEXT.entrypoint
def remove_cap() -> None:
    """Remove any cap; idempotent."""
    with tc.TrafficControl() as control:
        cap.Cap(control).remove()
