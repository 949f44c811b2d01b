# SPDX-License-Identifier: Apache-2.0

"""Signs of life of services, on every kind of server."""

from __future__ import annotations

import dataclasses
import os
import socket

import pytest
import sqlalchemy as sa

from fpgapool import version
from fpgapool.db import api
from fpgapool.db import models
from fpgapool.db import services
from tests.harness import waiting

pytestmark = pytest.mark.dialect

ONE = api.ServiceRecord(
    name="c1", binary=services.CONDUCTOR, host="h", version="1.1.0"
)


def _age(database: api.Database, by_s: float) -> None:
    column = models.services.c.seen_at
    with database.engine.begin() as connection:
        connection.execute(
            sa.update(models.services).values(seen_at=column - by_s)
        )


def test_a_sign_replaces_the_one_before(database: api.Database) -> None:
    before = database.now()
    database.note_service(ONE)
    (first,) = database.services()
    assert before <= first.seen_at <= database.now()
    _age(database, 100.0)
    database.note_service(ONE)
    (second,) = database.services()
    assert second.seen_at >= first.seen_at


def test_who_has_been_silent_for_a_day_is_forgotten(
    database: api.Database,
) -> None:
    other = dataclasses.replace(ONE, name="c2")
    for age_s, known in ((86000.0, ["c1", "c2"]), (86800.0, ["c2"])):
        database.note_service(ONE)
        _age(database, age_s)
        database.note_service(other)
        assert [one.name for one in database.services()] == known
    database.forget_service("c2")
    assert database.services() == []


def test_a_process_shows_that_it_lives_until_it_stops(
    database: api.Database,
) -> None:
    api_process = services.Pulse(database, services.API)
    conductor = services.Pulse(database, services.CONDUCTOR, "c1")
    for one in (api_process, conductor):
        one.start()
    waiting.wait_until(lambda: len(database.services()) == 2, "both live")
    host = socket.gethostname()
    found = {one.binary: one for one in database.services()}
    assert found[services.API].name == f"{host}:{os.getpid()}"
    assert found[services.CONDUCTOR].name == "c1"
    assert {one.version for one in found.values()} == {
        version.version_string()
    }
    for one in (api_process, conductor):
        one.stop()
    # The last sign of a conductor stays.
    assert [one.name for one in database.services()] == ["c1"]


def test_who_never_started_can_stop(database: api.Database) -> None:
    services.Pulse(database, services.API).stop()
    assert database.services() == []
