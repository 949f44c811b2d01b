# SPDX-License-Identifier: Apache-2.0

"""The live page of a pool with 2,000 hosts."""

from __future__ import annotations

import dataclasses
import threading
import uuid
from collections.abc import Callable
from collections.abc import Iterator

import pytest
from cheroot import wsgi

from fpgapool.db import api as db_api
from fpgapool.db import inventory
from tests.services import process
from tests.ui import browser
from tests.unit.api import fakes

HOSTS = 2000
SLOTS_OF_HOST = 4
# What one page of hosts and its frame may have.
MOST_NODES = 1500


def _inventory(small: db_api.Inventory) -> db_api.Inventory:
    numbers = range(1, HOSTS + 1)
    return dataclasses.replace(
        small,
        hosts=[
            db_api.HostRecord(
                id=number,
                uuid=str(uuid.UUID(int=number)),
                name=f"compute{number:04}",
                nic_bytes_per_s=1e9,
                up=True,
            )
            for number in numbers
        ],
        devices=[
            db_api.DeviceRecord(
                id=number,
                host_id=number,
                name="board0",
                model="test",
                dma_bytes_per_s=2e9,
            )
            for number in numbers
        ],
        slots=[
            db_api.SlotRecord(
                id=(number - 1) * SLOTS_OF_HOST + slot + 1,
                device_id=number,
                number=slot,
                shape="medium",
                faulty=number == HOSTS and slot == 0,
            )
            for number in numbers
            for slot in range(SLOTS_OF_HOST)
        ],
        holders=[],
        faults=[],
    )


@pytest.fixture
def url() -> Iterator[str]:
    """Give the API of a large pool, with nothing real behind it."""
    world = fakes.Api(inventory_cache_s=1.0)
    large = _inventory(world.database.inventory())
    world.database.inventory = lambda: large  # type: ignore[method-assign]
    counts = (
        world.conductor.pool_counts() | inventory.Inventory(large).counts()
    )
    world.conductor.pool_counts = lambda: counts  # type: ignore[method-assign]
    server = wsgi.Server((process.LOOPBACK, 0), world.app)
    server.prepare()
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield f"http://{process.LOOPBACK}:{server.bind_addr[1]}"
    server.stop()
    thread.join()
    world.close()


def _names(page: browser.Page) -> list[str]:
    found: list[str] = page.run(
        "return [...document.querySelectorAll('.host .name')]"
        ".map((one) => one.textContent)"
    )
    return found


def test_one_page_of_hosts_is_drawn(
    url: str, open_page: Callable[[str], browser.Page]
) -> None:
    page = open_page(url)
    page.sign_in("admin", "operators")
    page.wait(lambda: page.tiles().get("Hosts") == str(HOSTS), "all hosts")
    total = sum(
        int(value)
        for name, value in page.tiles().items()
        if name.startswith("Slots ")
    )
    assert total == HOSTS * SLOTS_OF_HOST
    page.wait(lambda: "compute0001" in _names(page)[:1], "its hosts")
    first = _names(page)
    count = "return document.getElementsByTagName('*').length"
    assert page.run(count) < MOST_NODES
    page.one("[aria-label='Pages of hosts'] button:last-child").click()
    page.wait(lambda: not set(first) & set(_names(page)), "the next page")
    page.one("#host-name").send_keys("compute19")
    page.wait(lambda: "of 100 hosts" in page.text("main"), "those hosts")
    assert _names(page)[0] == "compute1900"
    page.one("#host-name").clear()
    page.one("#slot-state").send_keys("faulty")
    page.wait(lambda: f"compute{HOSTS}" in _names(page), "the faulty slot")
    assert len(_names(page)) <= 2
    page.go("Operations")
    page.wait_rows(
        "Faults",
        lambda rows: any(
            row["Where"].startswith(f"compute{HOSTS}") for row in rows
        ),
    )
    assert page.run(count) < MOST_NODES
