# SPDX-License-Identifier: Apache-2.0

"""Commands that show one thing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openstack.test import fakes as sdk_fakes

from fpgapool.api.schemas import groups as group_schemas
from fpgapool.api.schemas import inventory as inventory_schemas
from fpgapool.api.schemas import library as library_schemas
from fpgapool.osc.sdk import group as group_sdk
from fpgapool.osc.sdk import inventory
from fpgapool.osc.sdk import library
from fpgapool.osc.v1 import accelerator
from fpgapool.osc.v1 import bitstream
from fpgapool.osc.v1 import device
from fpgapool.osc.v1 import group
from fpgapool.osc.v1 import host
from fpgapool.osc.v1 import pool
from fpgapool.osc.v1 import session
from fpgapool.osc.v1 import slot
from tests.unit.osc import fakes


@pytest.mark.parametrize(
    ("class_", "resource", "schema"),
    [
        (
            accelerator.ShowAccelerator,
            library.Accelerator,
            library_schemas.ACCELERATOR,
        ),
        (
            bitstream.ShowBitstream,
            library.Bitstream,
            library_schemas.BITSTREAM,
        ),
        (device.ShowDevice, inventory.Device, inventory_schemas.DEVICE),
        (group.ShowGroup, group_sdk.Group, group_schemas.GROUP),
        (host.ShowHost, inventory.Host, inventory_schemas.HOST),
        (slot.ShowSlot, inventory.Slot, inventory_schemas.SLOT),
    ],
)
def test_everything_is_shown(class_: Any, resource: Any, schema: Any) -> None:
    """All that the API says, by the same names."""
    app = fakes.App()
    method = f"get_{class_.kind}"
    found = sdk_fakes.generate_fake_resource(resource)
    getattr(app.client, method).side_effect = lambda name: found
    shown = app.rows(class_, fakes.SESSION_ID)
    assert set(shown) == set(schema["properties"]) - {"links"}
    assert None not in shown.values()
    getattr(app.client, method).assert_called_once_with(fakes.SESSION_ID)


@pytest.mark.parametrize(
    "text", ["", "..", "/b", "a/../b", "a?b", "a#b", "%2e"]
)
@pytest.mark.parametrize(
    "class_",
    [
        accelerator.ShowAccelerator,
        device.ShowDevice,
        session.ShowSession,
        session.CloseSession,
        slot.ShowSlot,
        slot.TestSlot,
    ],
)
def test_what_is_no_identifier(
    class_: Any, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be another address, and perhaps another operation."""
    app = fakes.App()
    with pytest.raises(SystemExit):
        app.run(class_, text)
    assert f"{text!r} is not a name or an ID" in capsys.readouterr().err
    assert app.client.mock_calls == []


def _slot(state: str) -> dict[str, Any]:
    return {
        "slot": 0,
        "shape": "medium",
        "state": state,
        "accelerator": None,
        "programmed": None,
    }


def test_pool() -> None:
    """Counted: there may be many hosts."""
    app = fakes.App()
    boards = [
        {"name": "b0", "healthy": True, "slots": [_slot("idle")] * 3},
        {"name": "b1", "healthy": False, "slots": [_slot("faulty")]},
    ]
    app.client.get_pool.side_effect = lambda: inventory.Pool(
        strategy="wra",
        waiting=4,
        sessions={"QUEUED": 4},
        hosts=[
            {"uuid": "u1", "name": "h1", "up": True, "devices": boards},
            {"uuid": "u2", "name": "h2", "up": False, "devices": []},
        ],
    )
    expected = {
        "strategy": "wra",
        "hosts": 2,
        "hosts_up": 1,
        "devices": 2,
        "devices_healthy": 1,
        "slots": 4,
        "slots_by_state": {"idle": 3, "faulty": 1},
        "sessions_waiting": 4,
        "sessions_by_state": {"QUEUED": 4},
    }
    assert app.rows(pool.ShowPool) == expected
    app = fakes.App()
    app.client.get_pool.side_effect = lambda: inventory.Pool(
        strategy="wra",
        waiting=4,
        sessions={"QUEUED": 4},
        counts={
            "hosts": 2,
            "hosts_up": 1,
            "devices": 2,
            "devices_healthy": 1,
            "slots": {"small": {"idle": 1}, "large": {"idle": 2, "faulty": 1}},
        },
    )
    assert app.rows(pool.ShowPool) == expected


def test_table() -> None:
    app = fakes.App()
    app.client.get_device.side_effect = lambda name: inventory.Device(
        id=name, name="board0", dma_bytes_per_s=12_500_000_000.0
    )
    assert app.run(device.ShowDevice, fakes.SESSION_ID) == 0
    lines = app.stdout.getvalue().splitlines()
    assert ["dma_bytes_per_s", "12.5 GB/s"] in [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines
    ]


def test_a_schema_has_lines() -> None:
    """A person reads it; a program gets the value."""
    schema = {"type": "object", "properties": {"key": {"type": "string"}}}
    found = library.Accelerator(
        name="aes", params_schema=schema, peak_bytes_per_s=1e9
    )
    app = fakes.App()
    app.client.get_accelerator.side_effect = lambda name: found
    assert app.run(accelerator.ShowAccelerator, "aes") == 0
    lines = app.stdout.getvalue().splitlines()
    assert any('"properties": {' in line for line in lines)
    assert max(map(len, lines)) < 80
    app = fakes.App()
    app.client.get_accelerator.side_effect = lambda name: found
    shown = app.rows(accelerator.ShowAccelerator, "aes")
    assert shown["params_schema"] == schema


def test_nested_values_are_json_for_programs() -> None:
    app = fakes.App()
    reasons = [{"code": "NO_FREE_SLOT", "message": 'It\'s "full".'}]
    found = fakes.session(pending_reasons=reasons)
    app.client.get_session.side_effect = lambda name: found
    app.run(
        session.ShowSession,
        *(fakes.SESSION_ID, "-f", "value", "-c", "pending_reasons"),
    )
    assert json.loads(app.stdout.getvalue()) == reasons
