# SPDX-License-Identifier: Apache-2.0

"""Statements of the product do in a world what SQLAlchemy does with them."""

import contextlib

import pytest
import sqlalchemy as sa
from oslo_db import exception as oslo_exception

from fpgapool.db import leadership
from fpgapool.db import models
from fpgapool.db import records
from fpgapool.db import rows
from tests.world import database as databases
from tests.world import kernel as kernels

#: SQLAlchemy has the first time, and what it has made of a statement the rest.
TIMES = 3

COPY = records.AcceleratorRecord(name="copy", profile={"stateless": True})
SHA = records.AcceleratorRecord(name="sha", profile={"shapes": ["small"]})


@pytest.fixture(scope="module")
def content() -> bytes:
    """Give a database without rows."""
    return databases.empty()


@pytest.fixture
def server(content: bytes) -> databases.Server:
    """Give the database of a world in which nothing has happened."""
    return databases.Server(kernels.Kernel("a seed"), content)


def test_rows_are_read_as_they_were_written(server: databases.Server) -> None:
    connection = server.connection
    for _ in range(TIMES):
        rows.upsert(connection, records.AcceleratorRecord, [COPY, SHA])
        found = rows.read(connection, records.AcceleratorRecord)
        assert found == [COPY, SHA]
    with server.engine.connect() as other:
        assert rows.read(other, records.AcceleratorRecord) == [COPY, SHA]


def test_a_condition_is_not_lost(server: databases.Server) -> None:
    connection = server.connection
    rows.upsert(connection, records.AcceleratorRecord, [COPY, SHA])
    name = models.accelerators.c.name
    for _ in range(TIMES):
        assert len(rows.read(connection, records.AcceleratorRecord)) == 2
        found = rows.read(connection, records.AcceleratorRecord, name == "sha")
        assert found == [SHA]


def test_rows_are_deleted(server: databases.Server) -> None:
    connection = server.connection
    quotas = [
        records.QuotaRecord(id=n, project_id=f"p{n}", resource="slots")
        for n in range(2 * TIMES + 1)
    ]
    rows.upsert(connection, records.QuotaRecord, quotas)
    for n in range(TIMES):
        rows.delete(connection, models.quotas.c.id, [2 * n, 2 * n + 1])
    assert rows.read(connection, records.QuotaRecord) == quotas[-1:]


def test_how_many_rows_have_changed_is_told(server: databases.Server) -> None:
    connection = server.connection
    lease = records.Lease(holder="one", epoch=7, renewals=0)
    leadership.insert(connection, lease)
    for _ in range(TIMES):
        leadership.lock_epoch(connection, 7)
        with pytest.raises(Exception, match="epoch 6 is over"):
            leadership.lock_epoch(connection, 6)


def test_what_sqlite_refuses_is_an_error_of_the_product(
    server: databases.Server,
) -> None:
    first, second = (
        records.QuotaRecord(id=n, project_id="p", resource="slots")
        for n in (1, 2)
    )
    for _ in range(TIMES):
        rows.upsert(server.connection, records.QuotaRecord, [first])
        with pytest.raises(oslo_exception.DBDuplicateEntry):
            rows.upsert(server.connection, records.QuotaRecord, [second])
    assert rows.read(server.connection, records.QuotaRecord) == [first]


def test_what_is_undone_has_not_happened(server: databases.Server) -> None:
    done = []

    def body() -> None:
        for _ in range(TIMES):
            with contextlib.suppress(ZeroDivisionError):
                with server.transaction() as one:
                    rows.upsert(one, records.AcceleratorRecord, [COPY])
                    raise ZeroDivisionError
            with server.transaction() as one:
                done.append(rows.read(one, records.AcceleratorRecord))

    kernel = server.kernel
    kernel.spawn(kernel.process("p"), "t", body)
    kernel.run(lambda: len(done) == TIMES, 60.0)
    assert (kernel.failures, done) == ([], [[]] * TIMES)


def test_a_query_of_two_tables(server: databases.Server) -> None:
    names = sa.select(models.accelerators.c.name)
    query = sa.union_all(names, names).order_by("name")
    rows.upsert(server.connection, records.AcceleratorRecord, [SHA])
    for _ in range(TIMES):
        found = server.connection.execute(query).all()
        assert [tuple(row) for row in found] == [("sha",), ("sha",)]
