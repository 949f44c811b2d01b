# SPDX-License-Identifier: Apache-2.0

"""Commands for the pool as a whole."""

from __future__ import annotations

import argparse
import collections
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import columns
from fpgapool.vocabulary import capacity

_NUMBERS = ("hosts", "hosts_up", "devices", "devices_healthy")


class ShowPool(base.ShowCommand):
    """Show a summary of the pool."""

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        pool = self.client.get_pool()
        counts = pool.counts or _counted(pool.hosts)
        states = collections.Counter[str]()
        for by_state in counts["slots"].values():
            states.update(by_state)
        found = {
            "strategy": pool.strategy,
            **{name: counts[name] for name in _NUMBERS},
            "slots": states.total(),
            "slots_by_state": columns.Counts(dict(states)),
            "sessions_waiting": pool.waiting,
            "sessions_by_state": columns.Counts(pool.sessions),
        }
        return tuple(found), tuple(found.values())


def _counted(hosts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the numbers that services of release 1.0.0 lack."""
    devices = [one for host in hosts for one in host["devices"]]
    return {
        "hosts": len(hosts),
        "hosts_up": sum(host["up"] for host in hosts),
        "devices": len(devices),
        "devices_healthy": sum(one["healthy"] for one in devices),
        "slots": capacity.by_shape(
            (slot["shape"], slot["state"])
            for device in devices
            for slot in device["slots"]
        ),
    }
