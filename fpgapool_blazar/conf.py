# SPDX-License-Identifier: Apache-2.0

"""Options in blazar.conf: the section [fpga:slot]."""

from __future__ import annotations

from oslo_config import cfg

OPTIONS = [
    cfg.StrOpt(
        "endpoint_type",
        default="public",
        choices=["public", "internal", "admin"],
        help="Which of the pool's endpoints in the catalog is used.",
    ),
    cfg.IntOpt(
        "polling_interval_s",
        default=60,
        min=0,
        max=86400,
        help="""
Every so many seconds the manager compares its leases with the pool's
reservations: it deletes those that no lease needs any more, and marks leases
whose slots fail. With 0, it does not. Blazar's own user needs the role
``admin`` for it.
""",
    ),
    cfg.IntOpt(
        "unfinished_s",
        default=600,
        min=60,
        max=86400,
        help="""
If Blazar has not finished a lease in this time, it was stopped meanwhile, and
what the pool has for the lease is deleted.
""",
    ),
]
