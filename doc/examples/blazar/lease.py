# SPDX-License-Identifier: Apache-2.0

"""Lease slots of the pool: NAME ACCELERATOR AMOUNT START END.

Times are in UTC, such as "2026-12-01 08:00"; START may be "now". Who asks is
said by OS_CLOUD, or by the other variables of the openstack command.
"""

import sys

import openstack
from blazarclient import client

name, accelerator, amount, start, end = sys.argv[1:]
cloud = openstack.connect()
blazar = client.Client(
    session=cloud.session, region_name=cloud.config.get_region_name()
)
lease = blazar.lease.create(
    name=name,
    start=start,
    end=end,
    reservations=[
        {
            "resource_type": "fpga:slot",
            "accelerator": accelerator,
            "amount": int(amount),
        }
    ],
    events=[],
)
print(lease["id"])
