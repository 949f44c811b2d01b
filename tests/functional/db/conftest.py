# SPDX-License-Identifier: Apache-2.0

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from fpgapool.db import api
from fpgapool.db import migration

GENERAL = "sqlite"
DATABASES = [GENERAL, "mariadb", "postgresql"]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave what is the same on all servers to one of them, in the gate.

    What they differ in is marked; what names its server is of that one.
    """
    assert isinstance(item, pytest.Function)
    if item.get_closest_marker("dialect") or not hasattr(item, "callspec"):
        return
    own = {mark.args[0] for mark in item.iter_markers("parametrize")}
    server = item.callspec.params.get("empty_url", GENERAL)
    if server != GENERAL and "empty_url" not in own:
        item.add_marker(pytest.mark.long)


@pytest.fixture(params=DATABASES)
def empty_url(request, tmp_path) -> str:
    """Give the URL of a database without tables, on each kind of server."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/fpgapool.sqlite"
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql_url")
    return request.getfixturevalue("database_url")


@pytest.fixture
def empty(empty_url: str) -> Iterator[sa.Engine]:
    """Give an engine of a database without tables."""
    database = api.Database(empty_url)
    yield database.engine
    database.close()


@pytest.fixture
def database(empty_url) -> Iterator[api.Database]:
    """Give a database with tables."""
    subject = api.Database(empty_url)
    migration.sync(subject.engine)
    yield subject
    subject.close()


@pytest.fixture
def epoch(database) -> int:
    """Give the epoch of a conductor that leads."""
    return database.take_lease("c1", None).epoch
