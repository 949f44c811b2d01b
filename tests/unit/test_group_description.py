# SPDX-License-Identifier: Apache-2.0

"""Two lists describe groups and their clients; every place follows them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fpgapool import objects
from fpgapool.api.schemas import groups as schemas
from fpgapool.db import api as db_api
from fpgapool.db import models
from fpgapool.objects import base
from fpgapool.osc.sdk import group as sdk
from fpgapool.osc.v1 import base as osc
from fpgapool.osc.v1 import group as commands
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import group as description
from fpgapool.vocabulary import rules

#: Members of a view that have forms of their own.
OWN = {"members", "hosts", "hosts_revision"}

every_member = pytest.mark.parametrize(
    "field", list(description.GROUP), ids=lambda field: field.name
)


@pytest.mark.parametrize("described", [description.GROUP, description.CLIENT])
def test_names_are_unique(described: fields.Fields) -> None:
    names = [field.name for field in described]
    assert len(set(names)) == len(names)
    shown = [(one.part, one.shown) for one in described if one.shown]
    assert len(set(shown)) == len(shown)


@pytest.mark.parametrize(
    ("described", "record", "table", "payload"),
    [
        (
            description.GROUP,
            db_api.GroupRecord,
            models.groups,
            objects.GroupPayload,
        ),
        (
            description.CLIENT,
            db_api.GroupClientRecord,
            models.group_clients,
            objects.GroupClientPayload,
        ),
    ],
)
def test_rows_and_notifications(
    described: fields.Fields, record: Any, table: Any, payload: Any
) -> None:
    kept = {"id", *(one.name for one in described.in_record)}
    assert {one.name for one in dataclasses.fields(record)} == kept
    assert set(table.columns.keys()) == kept
    for one in described.in_record:
        assert table.c[one.name].nullable == (one.default is None)
    noted = {one.name for one in described.in_notification}
    assert set(base.members(payload)) == noted
    assert not {"secret_hash"} & noted


@every_member
def test_messages_and_answers(field: fields.Field) -> None:
    told = field.in_view is not None
    assert (field.name in base.members(objects.GroupView)) == told
    asked = isinstance(field, fields.Option)
    for request in (objects.CreateGroup, objects.UpdateGroup):
        names = set(base.members(request)) - {"group_id"}
        if request is objects.CreateGroup:
            names -= {"accelerator", "project_id"}
            assert (field.name in names) == asked
        else:
            assert (field.name in names) == (asked and not field.fixed)
    wanted = schemas.UPDATE["properties"]["group"]["properties"]
    assert (field.name in wanted) == (asked and not field.fixed)
    if field.shown is None:
        return
    shown = schemas.GROUP["properties"]
    if field.part == description.GOAL:
        shown = shown["goal"]["oneOf"][0]["properties"]
    assert field.shown in shown
    if not field.part and field.shown not in ("id", "name"):
        assert sdk.Group._body_mapping()[field.shown] == field.name


def test_lists_show_the_columns() -> None:
    for command, described in (
        (commands.ListGroups, description.GROUP),
        (commands.ListGroupClients, description.CLIENT),
    ):
        assert command.described is described
        for listed in (True, False):
            columns = osc.headings(described, listed=listed)
            wanted = {
                "id" if one.shown == "id" else one.name
                for one in described.shown
                if one.column is listed
            }
            assert wanted <= set(columns)


def test_a_view_has_what_its_row_has() -> None:
    record = db_api.GroupRecord(
        id=7,
        group_id="g",
        name="n",
        project_id="p",
        accelerator="copy",
        state="CREATING",
        size=2,
        min_size=1,
        max_size=4,
        projects=["q"],
        created_at=5.0,
        goal_kind="rate",
        rate_per_s=2.5,
    )
    view = objects.GroupView.of(record, goal_progress=1.5)
    for name in set(base.members(view)) - OWN - {"goal_progress"}:
        assert getattr(view, name) == getattr(record, name, None), name
    assert (view.goal_progress, view.goal_slots) == (1.5, None)


@pytest.mark.parametrize(
    ("group", "open_to"),
    [
        ({}, {"p"}),
        ({"projects": ["q"]}, {"p"}),
        ({"shared": True}, {"p", "q", "r"}),
        ({"shared": True, "projects": ["q"]}, {"p", "q"}),
    ],
)
def test_who_may_use_a_group(group: Any, open_to: set[str]) -> None:
    view = objects.UpdateGroup(group_id="g", **group)
    members = {"project_id": "p", "shared": view.shared or False}
    members["projects"] = view.projects or ()
    one = type("Group", (), members)
    found = {
        project_id
        for project_id in ("p", "q", "r")
        if description.is_open_to(one, project_id)
    }
    assert found == open_to


@pytest.mark.parametrize("name", ["a", "a" * 64, "Render-2.final_1", "0"])
def test_names_of_groups(name: str) -> None:
    assert rules.check_group_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "a" * 65, "-a", ".a", "a b", "a/b", "é", "a\n", None, 5]
)
def test_what_is_no_name(name: object) -> None:
    with pytest.raises(rules.RequestError) as caught:
        rules.check_group_name(name)
    assert caught.value.code == codes.INVALID_REQUEST


def test_rates_and_times_that_are_no_numbers() -> None:
    for goal in (
        {"rate_per_s": float("nan")},
        {"rate_per_s": float("inf")},
        {"deadline_at": float("nan"), "actions": 1},
        {"deadline_at": float("inf"), "actions": 1},
    ):
        wanted = dict.fromkeys(("deadline_at", "rate_per_s", "actions"))
        with pytest.raises(rules.RequestError) as caught:
            rules.check_goal(**{**wanted, **goal}, now=0.0)  # type: ignore[arg-type]
        assert caught.value.code == codes.INVALID_GOAL
