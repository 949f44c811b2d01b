# SPDX-License-Identifier: Apache-2.0

"""Commands for the pool as a whole."""

from __future__ import annotations

import argparse
import collections

from osc_lib.cli import format_columns

from fpgapool.osc.v1 import base


class ShowPool(base.ShowCommand):
    """Show a summary of the pool."""

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        pool = self.client.get_pool()
        devices = [one for host in pool.hosts for one in host["devices"]]
        slots = [slot for device in devices for slot in device["slots"]]
        states = collections.Counter(slot["state"] for slot in slots)
        found = {
            "strategy": pool.strategy,
            "hosts": len(pool.hosts),
            "hosts_up": sum(host["up"] for host in pool.hosts),
            "devices": len(devices),
            "devices_healthy": sum(one["healthy"] for one in devices),
            "slots": len(slots),
            "slots_by_state": format_columns.DictColumn(dict(states)),
            "sessions_waiting": pool.waiting,
            "sessions_by_state": format_columns.DictColumn(pool.sessions),
        }
        return tuple(found), tuple(found.values())
