# SPDX-License-Identifier: Apache-2.0

"""Devices, slots and bitstreams by their names, in all commands."""

from __future__ import annotations

import io
import pathlib
from typing import Any

import pytest
from openstack.test import fakes as sdk_fakes
from osc_lib import exceptions

from fpgapool.osc.sdk import group as group_sdk
from fpgapool.osc.sdk import inventory
from fpgapool.osc.sdk import library
from fpgapool.osc.v1 import bitstream
from fpgapool.osc.v1 import device
from fpgapool.osc.v1 import group
from fpgapool.osc.v1 import host
from fpgapool.osc.v1 import slot
from tests.unit.osc import fakes

ID = fakes.SESSION_ID
OTHER_ID = ID[:-1] + "2"


def _slots(*names: str) -> list[inventory.Slot]:
    parts = [name.rpartition(".") for name in names]
    return [
        inventory.Slot(
            id=identifier,
            host_name=f"on-{identifier[-1]}",
            device_name=device_name,
            number=int(number),
        )
        for identifier, (device_name, _, number) in zip(
            (ID, OTHER_ID), parts, strict=True
        )
    ]


def _named(resource: Any, *names: str) -> list[Any]:
    return [
        resource(id=identifier, name=name, host_name=f"on-{identifier[-1]}")
        for identifier, name in zip((ID, OTHER_ID), names, strict=True)
    ]


#: Class, options before the name, method of the proxy that gets the id.
COMMANDS: dict[str, tuple[Any, list[str], str]] = {
    "host show": (host.ShowHost, [], "get_host"),
    "host set": (host.SetHost, ["--enable"], "administer_host"),
    "device show": (device.ShowDevice, [], "get_device"),
    "device set": (device.SetDevice, ["--enable"], "administer_device"),
    "slot list": (slot.ListSlots, ["--device"], "slots"),
    "slot show": (slot.ShowSlot, [], "get_slot"),
    "slot test": (slot.TestSlot, [], "test_slot"),
    "bitstream show": (bitstream.ShowBitstream, [], "get_bitstream"),
    "bitstream set": (
        bitstream.SetBitstream,
        ["--approve"],
        "approve_bitstream",
    ),
    "bitstream unset": (
        bitstream.UnsetBitstream,
        ["--project=p", "--force-project"],
        "unshare_bitstream",
    ),
    "bitstream delete": (bitstream.DeleteBitstream, [], "delete_bitstream"),
    "group show": (group.ShowGroup, [], "get_group"),
    "group set": (group.SetGroup, ["--rate=5"], "set_group_goal"),
    "group unset": (group.UnsetGroup, ["--goal"], "delete_group_goal"),
    "group delete": (group.DeleteGroup, [], "delete_group"),
    "group client list": (group.ListGroupClients, [], "group_clients"),
    "bitstream save": (
        bitstream.SaveBitstream,
        ["--file=mine.bit"],
        "download_bitstream",
    ),
}

#: How the second of two is called, and how one that there is not.
NAMES = {
    "host": ("second", "third"),
    "device": ("board1", "board2"),
    "slot": ("board0.1", "board0.2"),
    "bitstream": ("second", "third"),
    "group": ("second", "third"),
}


def _names(command: str) -> tuple[str, str]:
    """Return the names of what a command takes."""
    is_device = command in ("slot list", "device show", "device set")
    return NAMES["device" if is_device else command.split()[0]]


@pytest.fixture
def app(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> fakes.App:
    """Give a shell before a cloud with two of each kind."""
    monkeypatch.chdir(tmp_path)
    made = fakes.App()
    client = made.client
    client.devices.side_effect = lambda **_: iter(
        _named(inventory.Device, "board0", "board1")
    )
    client.approve_bitstream.return_value = library.Bitstream(
        accelerator="a", version="1", shapes=["small"]
    )
    client.hosts.side_effect = lambda **_: iter(
        _named(inventory.Host, "first", "second")
    )
    client.slots.side_effect = lambda **_: iter(_slots("board0.0", "board0.1"))
    client.bitstreams.side_effect = lambda **query: iter(
        one
        for one in _named(library.Bitstream, "first", "second")
        if one.name == query["name"]
    )
    client.groups.side_effect = lambda **query: iter(
        one
        for one in _named(group_sdk.Group, "first", "second")
        if one.name == query["name"]
    )
    for name, resource in (
        ("get_group", group_sdk.Group),
        ("get_host", inventory.Host),
        ("administer_host", inventory.Host),
        ("get_device", inventory.Device),
        ("administer_device", inventory.Device),
        ("get_slot", inventory.Slot),
        ("get_bitstream", library.Bitstream),
    ):
        shown = sdk_fakes.generate_fake_resource(resource)
        getattr(client, name).side_effect = lambda *_, shown=shown, **__: shown
    client.group_clients.side_effect = lambda *_, **__: iter([])
    client.download_bitstream.side_effect = lambda *_: iter([b"data"])
    return made


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("given", ["name", "id"])
def test_what_is_named_is_found(app: fakes.App, name: str, given: str) -> None:
    class_, options, method = COMMANDS[name]
    text = _names(name)[0] if given == "name" else OTHER_ID
    assert app.run(class_, *options, text) == 0
    call = getattr(app.client, method).call_args
    assert OTHER_ID in (*call.args, *call.kwargs.values())


@pytest.mark.parametrize("name", COMMANDS)
def test_what_nothing_is_called(
    app: fakes.App, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    class_, options, method = COMMANDS[name]
    text = _names(name)[1]
    with pytest.raises(exceptions.CommandError) as caught:
        app.run(class_, *options, text)
    said = f"{caught.value} {caplog.text}"
    kind = "device" if name == "slot list" else name.split()[0]
    assert f"no {kind} is named {text!r}" in said
    if name not in (
        *("slot list", "slot show", "slot test"),
        "group client list",
    ):
        getattr(app.client, method).assert_not_called()


@pytest.mark.parametrize(
    ("class_", "text", "lists", "members"),
    [
        (
            device.ShowDevice,
            "board0",
            "devices",
            _named(inventory.Device, "board0", "board0"),
        ),
        (slot.ShowSlot, "board0.0", "slots", _slots("board0.0", "board0.0")),
        (
            bitstream.ShowBitstream,
            "aes",
            "bitstreams",
            _named(library.Bitstream, "aes", "aes"),
        ),
    ],
)
def test_what_several_are_called(
    app: fakes.App, class_: Any, text: str, lists: str, members: Any
) -> None:
    """They are told with what tells them apart, and so can be named."""
    getattr(app.client, lists).side_effect = lambda **_: iter(members)
    with pytest.raises(exceptions.CommandError) as caught:
        app.run(class_, text)
    assert f"{text!r} is ambiguous (2 {lists})" in str(caught.value)
    assert f"{ID} " in str(caught.value)
    assert f"{OTHER_ID} " in str(caught.value)
    if lists != "bitstreams":
        assert f"use on-1/{text} or an ID:" in str(caught.value)
        assert app.run(class_, f"on-2/{text}") == 0
        call = getattr(app.client, f"get_{class_.kind}").call_args
        assert call.args == (OTHER_ID,)
        with pytest.raises(exceptions.CommandError, match="'on-3/board0"):
            app.run(class_, f"on-3/{text}")


def test_bitstreams_of_other_projects(app: fakes.App) -> None:
    """Administrators decide about those by name, too."""
    foreign = _named(library.Bitstream, "first", "theirs")
    app.client.bitstreams.side_effect = lambda **query: iter(
        foreign[1:] if query.get("all_projects") else []
    )
    assert app.run(bitstream.SetBitstream, "--approve", "theirs") == 0
    app.client.approve_bitstream.assert_called_once_with(OTHER_ID, force=False)


def test_tenants_do_not_see_those_of_other_projects(app: fakes.App) -> None:
    """A name that nothing has is no matter of rights."""

    def listed(**query: Any) -> Any:
        if query.get("all_projects"):
            raise fakes.refusal(403, "FORBIDDEN", "the policy does not allow")
        return iter([])

    app.client.bitstreams.side_effect = listed
    with pytest.raises(exceptions.CommandError, match="no bitstream is named"):
        app.run(bitstream.ShowBitstream, "theirs")


def test_one_of_several_that_nothing_is_called(
    app: fakes.App, caplog: pytest.LogCaptureFixture
) -> None:
    """The others are deleted."""
    app.stderr = io.StringIO()
    with pytest.raises(exceptions.CommandError, match="1 of 2"):
        app.run(bitstream.DeleteBitstream, "third", "second")
    app.client.delete_bitstream.assert_called_once_with(
        OTHER_ID, ignore_missing=False
    )
