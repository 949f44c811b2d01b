# SPDX-License-Identifier: Apache-2.0

import dataclasses
import json

import pytest

from fpgapool.cmd import manage
from fpgapool.cmd import status
from fpgapool.common.walls import landlock
from fpgapool.db import api
from tests.functional.db import factory

SUCCESS, WARNING, FAILURE = range(3)

CONF = """
[DEFAULT]
state_path = {directory}
transport_url = rabbit://u:p@192.0.2.1:5672/

[keystone_authtoken]
auth_type = none

[database]
connection = {url}
"""


@pytest.fixture
def conf(empty_url, tmp_path):
    """Give a file with a configuration that is as it should be."""
    path = tmp_path / "fpgapool.conf"
    url = empty_url.replace("%", "%%")
    path.write_text(CONF.format(directory=tmp_path, url=url))
    return path


@pytest.fixture
def synced(conf, empty_url):
    """Give a database with tables and accelerators."""
    assert manage.main(["--config-file", str(conf), "db", "sync"]) == 0
    database = api.Database(empty_url)
    yield database
    database.close()


@pytest.fixture
def check(conf, capsys):
    """Give a function that runs all checks and returns what they found."""

    def check_(wait_s=lambda _s: None) -> tuple[int, dict]:
        capsys.readouterr()
        argv = ["--config-file", str(conf), "upgrade", "check", "--json"]
        code = status.main(argv, wait_s=wait_s)
        found = json.loads(capsys.readouterr().out)["checks"]
        return code, {
            one["check"]: (one["result"], one["details"]) for one in found
        }

    return check_


@pytest.fixture
def check_with_leader(check, synced):
    """Give a function that checks while a conductor leads."""
    epoch = synced.take_lease("c1", None).epoch
    return lambda: check(lambda _s: synced.renew_lease("c1", epoch))


def _append(conf, text: str) -> None:
    conf.write_text(conf.read_text() + text)


@pytest.mark.dialect
def test_all_is_well(check_with_leader, synced):
    code, found = check_with_leader()
    bad = {name for name, (result, _) in found.items() if result}
    if synced.engine.dialect.name == "sqlite":
        # Every installation with more than one machine is told.
        assert (code, bad) == (WARNING, {"Database characters"})
    else:
        assert (code, bad) == (SUCCESS, set())


@pytest.mark.parametrize("empty_url", ["sqlite"], indirect=True)
def test_a_table_for_people(conf, synced, capsys):
    argv = ["--config-file", str(conf), "upgrade", "check"]
    assert status.main(argv, wait_s=lambda _s: None) == WARNING
    assert "| Check: Database schema " in capsys.readouterr().out


def test_no_tables(check):
    code, found = check()
    assert code == FAILURE
    for name in ("Database schema", "Accelerators", "Agents"):
        result, details = found[name]
        assert result == FAILURE
        assert "fpgapool-manage db sync" in details
        assert "SELECT" not in details


@pytest.mark.parametrize("empty_url", ["sqlite"], indirect=True)
def test_old_tables(check, synced):
    with synced.engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE alembic_version SET version_num = '000'"
        )
    result, details = check()[1]["Database schema"]
    assert result == FAILURE
    assert "the tables are at revision 000" in details


def test_tables_that_someone_has_changed(check, synced):
    with synced.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE mine (id INTEGER)")
    result, details = check()[1]["Database schema"]
    assert result == WARNING
    assert "1 differences" in details


@pytest.mark.parametrize("empty_url", ["sqlite"], indirect=True)
def test_no_accelerators(check, synced):
    with synced.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM accelerators")
    result, details = check()[1]["Accelerators"]
    assert result == WARNING
    assert "accelerator load" in details


@pytest.mark.parametrize("empty_url", ["sqlite"], indirect=True)
def test_no_leader(check, synced):
    assert check()[1]["Leading conductor"][0] == WARNING


@pytest.mark.parametrize("empty_url", ["sqlite"], indirect=True)
def test_a_leader_that_has_died(check, synced):
    synced.take_lease("c1", None)
    waited = []
    result, details = check(waited.append)[1]["Leading conductor"]
    assert result == WARNING
    assert "c1" in details
    # For longer than the lease holds by default.
    assert sum(waited) > 5


@pytest.mark.parametrize("empty_url", ["sqlite"], indirect=True)
def test_a_leader_that_gave_its_lease_back(check, synced):
    epoch = synced.take_lease("c1", None).epoch
    synced.release_lease("c1", epoch)
    assert check()[1]["Leading conductor"][0] == WARNING


def test_agents_that_are_silent(check, synced):
    epoch = synced.take_lease("c1", None).epoch
    (host, *_) = factory.hardware()
    synced.commit(epoch, api.Changes.of([host]))
    assert check()[1]["Agents"] == (SUCCESS, None)
    silent = dataclasses.replace(host, up=False)
    synced.commit(epoch, api.Changes.of([silent]))
    result, details = check()[1]["Agents"]
    assert result == WARNING
    assert "compute1" in details


@pytest.mark.parametrize("empty_url", ["sqlite"], indirect=True)
def test_a_compute_node_that_cannot_isolate_workers(
    check, conf, synced, monkeypatch
):
    name = "Isolation of workers on this host"
    monkeypatch.setattr(landlock, "version", lambda: 0)
    # It is no compute node.
    assert check()[1][name] == (SUCCESS, None)
    epoch = synced.take_lease("c1", None).epoch
    (host, *_) = factory.hardware()
    synced.commit(epoch, api.Changes.of([host]))
    _append(conf, f"[DEFAULT]\nhost_uuid = {host.uuid}\n")
    result, details = check()[1][name]
    assert result == WARNING
    assert "no Landlock" in details


@pytest.mark.parametrize("empty_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("old", "new", "name", "expected"),
    [
        ("rabbit://u:p@192.0.2.1:5672/", "fake://", "Message bus", FAILURE),
        ("transport_url", "#transport_url", "Message bus", WARNING),
        ("auth_type", "#auth_type", "Authentication", WARNING),
        ("", "[api]\nauth_strategy = noauth\n", "Authentication", FAILURE),
        ("", "[upgrade_levels]\nagent = 1.0\n", "Upgrade levels", WARNING),
        (
            "",
            "[oslo_policy]\npolicy_file = {json}\n",
            "Policy file format",
            FAILURE,
        ),
    ],
)
def test_what_the_configuration_lacks(
    check, conf, synced, tmp_path, old, new, name, expected
):
    policy = tmp_path / "policy.json"
    policy.write_text("{}")
    new = new.replace("{json}", str(policy))
    text = conf.read_text()
    conf.write_text(text.replace(old, new) if old else text + new)
    code, found = check()
    assert found[name][0] == expected
    assert found[name][1]
    assert code >= expected


@pytest.mark.parametrize("empty_url", ["mariadb"], indirect=True)
def test_names_that_would_be_equal(check, synced):
    with synced.engine.begin() as connection:
        connection.exec_driver_sql(
            "ALTER TABLE quotas CONVERT TO CHARACTER SET utf8mb4"
            " COLLATE utf8mb4_general_ci"
        )
    result, details = check()[1]["Database characters"]
    assert result == FAILURE
    assert ": quotas." in details


@pytest.mark.parametrize("empty_url", ["mariadb"], indirect=True)
def test_a_connection_that_loses_characters(check, conf, synced):
    text = conf.read_text()
    conf.write_text(text.replace("charset=utf8mb4", "charset=utf8"))
    result, details = check()[1]["Database characters"]
    assert result == WARNING
    assert "charset=utf8mb4" in details


@pytest.mark.parametrize("empty_url", ["sqlite"], indirect=True)
def test_a_database_that_is_away(conf, check):
    conf.write_text(
        CONF.format(
            directory=conf.parent, url="mysql+pymysql://u:p@127.0.0.1:1/d"
        )
    )
    code, found = check()
    assert code == FAILURE
    result, details = found["Database schema"]
    assert result == FAILURE
    assert "not available" in details
    assert "u:p" not in str(found)


@pytest.mark.parametrize("empty_url", ["sqlite"], indirect=True)
def test_a_bad_configuration(conf, capsys):
    _append(conf, "[agent]\nreport_interval_s = never\n")
    argv = ["--config-file", str(conf), "upgrade", "check"]
    assert status.main(argv) == FAILURE
    assert "report_interval_s" in capsys.readouterr().err
