# SPDX-License-Identifier: Apache-2.0

"""One list describes a session; every place has what it says."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any

import pytest

from fpgapool import objects
from fpgapool.api.answers import views
from fpgapool.api.http import microversion
from fpgapool.api.schemas import sessions as schemas
from fpgapool.client.doors import view as client_view
from fpgapool.conductor.decisions.requests import sessions
from fpgapool.db import api as db_api
from fpgapool.db import models
from fpgapool.objects import base
from fpgapool.osc.sdk import session as sdk
from fpgapool.osc.v1 import base as osc
from fpgapool.osc.v1 import session as commands
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import session as description

every_field = pytest.mark.parametrize(
    "field", list(description.FIELDS), ids=lambda field: field.name
)

#: What a client's view has besides: the slot, and how to connect to it.
OWN_OF_CLIENTS = {
    "device",
    "endpoints",
    "host_name",
    "secret",
    "slot",
    "certificate_sha256",
}

NEW = fields.Field(
    "novelty",
    fields.TEXT,
    default="",
    in_view=4,
    shown="novelty",
    since=(1, 1),
)


def test_names_are_unique() -> None:
    names = [field.name for field in description.FIELDS]
    shown = [field.shown for field in description.FIELDS.shown]
    assert len(set(names)) == len(names)
    assert len(set(shown)) == len(shown)


@every_field
def test_who_has_a_field(field: fields.Field) -> None:
    record = {one.name for one in dataclasses.fields(db_api.SessionRecord)}
    own = {one.name for one in dataclasses.fields(sessions.Session)}
    # It follows from the session's slot.
    own.add("state")
    assert (field.name in record) == field.in_record
    assert (field.name in models.sessions.c) == field.in_record
    assert not field.in_record or field.name in own
    told = field.in_view is not None
    assert (field.name in base.members(objects.SessionView)) == told
    noted = field.in_notification is not None
    assert (field.name in base.members(objects.SessionPayload)) == noted
    asked = isinstance(field, fields.Option)
    wanted = schemas.CREATE["properties"]["session"]["properties"]
    if asked:
        assert field.name in wanted
        assert field.name in base.members(objects.OpenRequest)


@every_field
def test_where_users_see_a_field(field: fields.Field) -> None:
    described = commands.ListSessions.described
    columns = [osc.headings(described, listed=one) for one in (True, False)]
    name = "id" if field.name == "session_id" else field.name
    listed = [name in names for names in columns]
    assert listed == [field.column is True, field.column is False]
    if field.shown is None:
        return
    # The user's ID has it.
    assert field.in_view is not None or field.name == "instance_id"
    assert field.shown in schemas.SESSION["properties"]
    assert (field.shown in schemas.LISTED["properties"]) == field.listed
    if name != "id":
        assert sdk.Session._body_mapping()[field.shown] == name


def test_a_column_may_be_null_if_it_may_be_unknown() -> None:
    for field in description.FIELDS.in_record:
        column = models.sessions.c[field.name]
        assert column.nullable == (field.default is None)


def _record(**members: Any) -> db_api.SessionRecord:
    values: dict[str, Any] = {
        "id": 7,
        "session_id": "s",
        "request_id": "r",
        "project_id": "p",
        "user_id": "u",
        "accelerator": "aes",
        "claimed_bytes": 5,
        "state": "CLOSED",
        "connect_timeout_s": 1.0,
        "resume_grace_s": 2.0,
        "queued_at": 3.0,
        "arrival_s": 1.0,
    }
    return db_api.SessionRecord(**{**values, **members})


def test_a_record_and_what_is_made_of_it_tell_the_same() -> None:
    record = _record(local=False, input_bytes=9, generation=2, priority=-4)
    session = sessions.Session.from_record(record, None)
    assert session.record() == record
    assert session.view() == objects.SessionView.of(record)
    told = objects.SessionView.of(record)
    # It is as complete as one that was made in full.
    assert told == dataclasses.replace(told)
    assert vars(told).keys() == base.members(objects.SessionView).keys()


def test_a_class_keeps_members_of_its_own() -> None:
    @dataclasses.dataclass(kw_only=True)
    @fields.with_members([("a", int, 1), ("b", str, "x")])
    class Some:
        b: bytes = b""
        c: int

    assert Some(c=3) == Some(a=1, b=b"", c=3)
    assert typing.get_type_hints(Some) == {"a": int, "b": bytes, "c": int}


def test_what_a_client_leaves_out_is_not_checked() -> None:
    assert description.FIELDS.checked({"priority": 3, "anything": 1}) == {
        "priority": 3
    }
    with pytest.raises(rules.RequestError):
        description.FIELDS.checked({"wait_timeout_s": 0})
    assert description.FIELDS.checked({"resume_grace_s": 0}) == {
        "resume_grace_s": 0
    }


def test_the_clients_view() -> None:
    """It is plain, and says what is described by the same names and types."""
    told = base.members(objects.SessionView)
    own = typing.get_type_hints(client_view.SessionView)
    described = own.keys() - OWN_OF_CLIENTS
    assert described <= {field.name for field in description.FIELDS.in_view}
    for name in described:
        assert own[name] == told[name]
    view = objects.SessionView.of(
        _record(local=False, ready_at=4.0, message="m"),
        queue_position=0,
        pending_reasons=("C",),
        expected_wait_s=0.5,
    )
    message = {**vars(view), "pending_reasons": ["C"], "endpoints": []}
    read = client_view.SessionView.from_message(message)
    assert {name: getattr(read, name) for name in described} == {
        name: getattr(view, name) for name in described
    }


def test_an_older_version_does_not_show_what_is_new() -> None:
    described = fields.Fields(*description.FIELDS, NEW)
    one = types.SimpleNamespace(**{field.name: None for field in described})
    for recorded in (False, True):
        old, new = (
            views.members(
                described,
                one,
                microversion.Version(1, minor),
                recorded=recorded,
            )
            for minor in (0, 1)
        )
        ranges = {"expected_wait_low_s", "expected_wait_high_s"}
        # What the database has says nothing about the future.
        assert set(new) - set(old) - ranges == {"novelty"}
        assert ranges.isdisjoint(old)
