# SPDX-License-Identifier: Apache-2.0
"""Commands that enable, drain and disable."""

from __future__ import annotations

from typing import Any

import pytest
from openstack.test import fakes as sdk_fakes
from osc_lib import exceptions

from fpgapool.osc.sdk import inventory
from fpgapool.osc.v1 import device
from fpgapool.osc.v1 import host
from tests.unit.osc import fakes

ID = fakes.SESSION_ID
OTHER_ID = ID[:-1] + "2"

COMMANDS = [
    (device.SetDevice, "administer_device", "devices", inventory.Device),
    (host.SetHost, "administer_host", "hosts", inventory.Host),
]

each = pytest.mark.parametrize(
    ("class_", "method", "lists", "resource"), COMMANDS
)


def _app(method: str, lists: str, resource: Any, *names: str) -> fakes.App:
    """Return a shell before a cloud with things of these names."""
    app = fakes.App()
    shown = sdk_fakes.generate_fake_resource(resource)
    getattr(app.client, method).side_effect = lambda name, **wish: shown
    members = [
        resource(id=identifier, name=name, host_name=f"on-{identifier[-1]}")
        for identifier, name in zip((ID, OTHER_ID), names, strict=False)
    ]
    getattr(app.client, lists).side_effect = lambda **query: iter(members)
    return app


@each
@pytest.mark.parametrize(
    ("options", "wish"),
    [
        (["--enable"], {"state": "enabled"}),
        (["--disable"], {"state": "disabled"}),
        (["--drain"], {"state": "draining"}),
        (
            ["--drain", "--deadline", "90", "--reason", "new firmware"],
            {
                "state": "draining",
                "drain_deadline_s": 90.0,
                "reason": "new firmware",
            },
        ),
        (
            ["--drain", "--deadline", "0"],
            {"state": "draining", "drain_deadline_s": 0.0},
        ),
    ],
)
def test_what_is_asked_for(
    class_: Any,
    method: str,
    lists: str,
    resource: Any,
    options: Any,
    wish: Any,
) -> None:
    app = _app(method, lists, resource)
    assert app.rows(class_, *options, ID)["admin_state"]
    getattr(app.client, method).assert_called_once_with(ID, **wish)


@each
@pytest.mark.parametrize("state", ["--enable", "--disable"])
def test_a_deadline_is_for_drains(
    class_: Any, method: str, lists: str, resource: Any, state: str
) -> None:
    app = _app(method, lists, resource)
    with pytest.raises(exceptions.CommandError, match="requires --drain"):
        app.run(class_, state, "--deadline", "3", ID)
    assert app.client.mock_calls == []


@each
@pytest.mark.parametrize(
    "arguments",
    [
        ["--enable", "--drain", ID],
        ["--drain"],
        ["--drain", "--deadline", "-1", ID],
        ["--drain", "--deadline", "nan", ID],
        ["--drain", "--deadline", "inf", ID],
        ["--drain", "--deadline", "soon", ID],
        ["--drain", "a/b/c"],
    ],
)
def test_wrong_options(
    class_: Any, method: str, lists: str, resource: Any, arguments: list[str]
) -> None:
    app = _app(method, lists, resource)
    with pytest.raises(SystemExit) as caught:
        app.run(class_, *arguments)
    assert caught.value.code == 2
    assert app.client.mock_calls == []


def test_a_host_needs_a_state() -> None:
    app = _app("administer_host", "hosts", inventory.Host)
    with pytest.raises(SystemExit) as caught:
        app.run(host.SetHost, ID)
    assert caught.value.code == 2
    assert app.client.mock_calls == []


@pytest.mark.parametrize(
    ("options", "wish"),
    [
        (["--reservable-slots", "2"], {"reservable_slots": 2}),
        (
            ["--reservable-slots", "0", "--disable", "--reason", "why"],
            {"reservable_slots": 0, "state": "disabled", "reason": "why"},
        ),
    ],
)
def test_slots_that_can_be_reserved(
    options: list[str], wish: dict[str, Any]
) -> None:
    app = _app("administer_device", "devices", inventory.Device, "one")
    assert "reserved_slots" in app.rows(device.SetDevice, *options, "one")
    app.client.administer_device.assert_called_once_with(ID, **wish)


@pytest.mark.parametrize("count", ["-1", "1.5", "many", "", "²"])
def test_what_is_no_number_of_slots(count: str) -> None:
    app = _app("administer_device", "devices", inventory.Device)
    with pytest.raises(SystemExit) as caught:
        app.run(device.SetDevice, f"--reservable-slots={count}", ID)
    assert caught.value.code == 2
    assert app.client.mock_calls == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([], "specify --enable"),
        (["--reservable-slots", "1", "--reason", "why"], "requires --enable"),
        (["--reservable-slots", "1", "--deadline", "3"], "requires --drain"),
    ],
)
def test_a_device_needs_a_wish(options: list[str], text: str) -> None:
    app = _app("administer_device", "devices", inventory.Device)
    with pytest.raises(exceptions.CommandError, match=text):
        app.run(device.SetDevice, *options, ID)
    assert app.client.mock_calls == []
