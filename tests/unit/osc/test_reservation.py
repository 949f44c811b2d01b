# SPDX-License-Identifier: Apache-2.0

"""Commands for reservations."""

from __future__ import annotations

import types
from typing import Any
from unittest import mock

import pytest
from osc_lib import exceptions

from fpgapool.osc.sdk import inventory
from fpgapool.osc.sdk import reservation as sdk
from fpgapool.osc.v1 import reservation
from tests.unit.osc import fakes

PROJECT_ID = "5f0e6b7c9a1d4e2f8b3c7d9e0a1b2c3d"
ID = "12345678-1234-4234-9234-123456789abc"
HOSTS = {
    "node1": "00000001-0000-4000-8000-000000000000",
    "node2": "00000002-0000-4000-8000-000000000000",
}
WHEN = ("--start", "2030-01-01T08:00:00", "--end", "2030-01-01T18:00:00")
WHAT = ("--accelerator", "aes", "--slots", "4", *WHEN)


@pytest.fixture
def app() -> fakes.App:
    made = fakes.App()
    made.know_projects({"research": PROJECT_ID})
    made.client.create_reservation.side_effect = lambda **new: found(**new)
    made.client.update_reservation.side_effect = lambda _id, **new: found(
        **new
    )
    made.client.get_reservation.side_effect = lambda _id: found()
    made.client.reservations.side_effect = lambda **query: iter([found()])
    made.client.hosts.side_effect = lambda **query: iter(
        inventory.Host(id=uuid, name=name)
        for name, uuid in HOSTS.items()
        if query.get("name", name) == name
    )
    return made


def found(**members: Any) -> sdk.Reservation:
    return sdk.Reservation(
        **{
            "id": ID,
            "name": "night",
            "project_id": PROJECT_ID,
            "accelerator": "aes",
            "slots": 4,
            "start_at": "2030-01-01T08:00:00Z",
            "end_at": "2030-01-01T18:00:00Z",
            "state": "scheduled",
            "repeat": "never",
            "times": 1,
            "host_uuids": [],
            "device_id": None,
            "grace_s": 900.0,
            "working_slots": 4,
            "used_slot_s": 0.0,
            "unused_slot_s": 0.0,
            "created_at": "2029-12-31T08:00:00Z",
        }
        | members
    )


def test_what_is_reserved_is_shown(app: fakes.App) -> None:
    (row,) = app.rows(reservation.ListReservations, "--state", "scheduled")
    assert (row["ID"], row["Slots"], row["State"]) == (ID, 4, "scheduled")
    app.client.reservations.assert_called_once_with(state="scheduled")


def test_a_reservation_for_a_project(app: fakes.App) -> None:
    app.run(
        reservation.CreateReservation,
        *(*WHAT, "--repeat", "day", "--times", "5", "--grace", "0"),
        *("--project", "research", "--host", "node2", "--name", "night"),
    )
    app.client.create_reservation.assert_called_once_with(
        accelerator="aes",
        slots=4,
        start_at="2030-01-01T08:00:00",
        end_at="2030-01-01T18:00:00",
        name="night",
        repeat="day",
        times=5,
        grace_s=0.0,
        host_uuids=[HOSTS["node2"]],
        project_id=PROJECT_ID,
    )


def test_it_begins_now_by_default(app: fakes.App) -> None:
    app.run(
        reservation.CreateReservation,
        *("--accelerator", "aes", "--slots", "1", "--end", "2030-01-01"),
    )
    (call,) = app.client.create_reservation.call_args_list
    assert call.kwargs["start_at"].endswith("+00:00")


def test_the_hosts_of_an_aggregate(app: fakes.App) -> None:
    compute = mock.Mock()
    app.client_manager.sdk_connection.compute = compute
    compute.find_aggregate.side_effect = lambda name, ignore_missing: (
        types.SimpleNamespace(hosts=["node1", "elsewhere"])
    )
    app.run(reservation.CreateReservation, *WHAT, "--host-aggregate", "fpga")
    (call,) = app.client.create_reservation.call_args_list
    assert call.kwargs["host_uuids"] == [HOSTS["node1"]]
    compute.find_aggregate.side_effect = lambda name, ignore_missing: (
        types.SimpleNamespace(hosts=["elsewhere"])
    )
    with pytest.raises(exceptions.CommandError, match="'fpga' is in the pool"):
        app.run(
            reservation.CreateReservation, *WHAT, "--host-aggregate", "fpga"
        )


def test_it_is_changed_by_its_name(app: fakes.App) -> None:
    app.run(reservation.SetReservation, "night", *WHEN[2:])
    app.client.update_reservation.assert_called_once_with(
        ID, end_at="2030-01-01T18:00:00"
    )
    with pytest.raises(exceptions.CommandError, match="at least one option"):
        app.run(reservation.SetReservation, "night")


def test_it_is_shown_and_deleted(app: fakes.App) -> None:
    app.run(reservation.ShowReservation, "night")
    app.client.get_reservation.assert_called_once_with(ID)
    app.run(reservation.DeleteReservation, "night")
    app.client.delete_reservation.assert_called_once_with(
        ID, ignore_missing=False
    )


@pytest.mark.parametrize(
    "options",
    [
        ("--slots", "0"),
        ("--slots", "four"),
        ("--start", "tomorrow"),
        ("--repeat", "hour"),
        ("--times", "0"),
        ("--grace", "-1"),
    ],
)
def test_nonsense_is_not_sent(app: fakes.App, options: tuple[str]) -> None:
    with pytest.raises(SystemExit):
        app.run(reservation.CreateReservation, *WHAT, *options)
    app.client.create_reservation.assert_not_called()
