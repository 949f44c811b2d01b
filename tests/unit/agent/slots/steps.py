# SPDX-License-Identifier: Apache-2.0

"""Steps that a table of slots takes."""

from __future__ import annotations

from fpgapool.agent.slots import orders
from fpgapool.agent.slots import table
from tests.unit.agent import factories

KEY = ("board0", 0)
EPOCH = 5


def up(tab: table.SlotTable, key: orders.Key = KEY) -> None:
    tab.worker_connected(key)
    tab.worker_status(key, factories.status(), 0.0)


def to_worker(effects: list[orders.Effect]) -> list[tuple[str, int]]:
    return [
        (effect.operation, effect.generation)
        for effect in effects
        if isinstance(effect, orders.ToWorker)
    ]


def report(tab: table.SlotTable, slot: int = 0):
    return tab.device_reports()[0].slots[slot]


def assigned(generation: int = 7) -> table.SlotTable:
    tab = factories.make_table()
    up(tab)
    tab.assign(EPOCH, factories.assign_request(generation), 0.0)
    status = factories.status(
        "preparing", generation, certificate_sha256="cd" * 32
    )
    tab.worker_status(KEY, status, 0.0)
    return tab


def ready(generation: int = 7) -> table.SlotTable:
    tab = assigned(generation)
    tab.worker_prepared(KEY, generation, "ab" * 32)
    tab.worker_status(KEY, factories.status("ready", generation), 0.0)
    return tab
