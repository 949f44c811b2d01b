# SPDX-License-Identifier: Apache-2.0

import contextlib
import gc
import time
import uuid

import pytest
import sqlalchemy as sa

from fpgapool import objects
from fpgapool.cmd import manage
from fpgapool.db import api
from fpgapool.db import migration
from fpgapool.db import models
from fpgapool.objects import base
from tests.functional.db import factory

PROFILE = """
name: rot13
description: Letters, turned by half an alphabet
peak_bytes_per_s: 1.0e+8
return_ratio: 1
stateless: true
shapes: [small]
params_schema: {type: object}
core: copy
chunk_multiple_bytes: 1
"""


@pytest.fixture
def run(empty_url, tmp_path, capsys):
    """Give a function that runs a command and returns its outcome."""
    conf = tmp_path / "fpgapool.conf"
    url = empty_url.replace("%", "%%")
    conf.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = {url}\n"
    )

    def run_(*argv: str) -> tuple[int, str, str]:
        exit_code = manage.main(["--config-file", str(conf), *argv])
        output = capsys.readouterr()
        return exit_code, output.out, output.err

    return run_


@pytest.fixture
def synced(run, empty_url):
    """Give a database with tables."""
    run("db", "sync")
    database = api.Database(empty_url)
    yield database
    database.close()


@pytest.mark.dialect
def test_sync_makes_the_tables_and_the_library(run, empty_url):
    assert run("db", "version")[:2] == (0, "none\n")
    exit_code, output, _ = run("db", "sync")
    assert exit_code == 0
    newest = migration.newest_version()
    assert f"version {newest}" in output
    assert run("db", "version")[:2] == (0, f"{newest}\n")
    assert run("db", "check")[0] == 0
    database = api.Database(empty_url)
    records = {record.name: record for record in database.accelerators()}
    database.close()
    assert {"aes", "copy"} <= set(records)
    # Whom it is for is said by bitstreams only.
    members = set(base.members(objects.AcceleratorProfile)) - {"projects"}
    assert all(set(record.profile) == members for record in records.values())


class _Killed(BaseException):
    """The process ends here, and with it its connections."""


@pytest.fixture
def changes():
    """Have each run killed after the first change that none made before it."""
    made = []

    def kill(_c, _cursor, statement, _values, context, _many) -> None:
        changes = context.isddl or context.isinsert or context.isupdate
        if changes and statement not in made:
            made.append(statement)
            raise _Killed

    sa.event.listen(sa.Engine, "after_cursor_execute", kill)
    yield made
    sa.event.remove(sa.Engine, "after_cursor_execute", kill)


@pytest.mark.dialect
def test_an_interrupted_sync_is_run_again(run, changes, empty_url):
    outcome = None
    while outcome is None:
        with contextlib.suppress(_Killed):
            outcome = run("db", "sync")
        # The connections of a killed process do not outlive it.
        gc.collect()
    assert outcome[0] == 0, outcome
    assert run("db", "check")[0] == 0
    # All tables, and what comes before and after them.
    assert len(changes) > len(models.metadata.tables) + 2
    database = api.Database(empty_url)
    names = {record.name for record in database.accelerators()}
    database.close()
    assert {"aes", "copy"} <= names


def test_sync_keeps_what_the_operator_has_changed(run, synced):
    mine = api.AcceleratorRecord(name="aes", profile={"mine": True})
    synced.upsert_accelerators([mine])
    exit_code, output, _ = run("db", "sync")
    assert (exit_code, "aes" in output) == (0, False)
    assert mine in synced.accelerators()
    run("accelerator", "load", "--builtin")
    assert mine not in synced.accelerators()


def test_check_finds_a_missing_schema(run):
    exit_code, _, error = run("db", "check")
    assert exit_code == 1
    assert "fpgapool-manage db sync" in error


@pytest.mark.dialect
def test_check_finds_a_change(run, synced):
    with synced.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE leader_lease")
    exit_code, output, _ = run("db", "check")
    assert exit_code == 1
    assert "leader_lease" in output


def test_an_unknown_version_is_a_usage_error(run):
    exit_code, _, error = run("db", "sync", "--version", "nowhere")
    assert exit_code == 2
    assert "nowhere" in error


def test_agents_accept_the_conductor_of_a_restored_database(run, synced):
    synced.take_lease("c1", None)
    assert run("db", "restored")[0] == 0
    lease = synced.read_lease()
    assert lease.holder == ""
    assert lease.epoch > 1000
    assert synced.take_lease("c2", lease).epoch == lease.epoch + 1


def test_a_restored_database_in_which_nobody_ever_led(run, synced):
    assert run("db", "restored")[0] == 0
    assert synced.read_lease() is None


def test_purge(run, synced, monkeypatch):
    monkeypatch.setattr(manage, "_PURGE_BATCH_ROWS", 2)
    now = time.time()
    day_s = 86400
    epoch = synced.take_lease("c1", None).epoch
    synced.commit(
        epoch,
        api.Changes.of(
            [
                factory.session(1, queued_at=now - 99 * day_s),
                *(factory.ended(i, now - 40 * day_s) for i in range(2, 7)),
                factory.ended(7, now - 20 * day_s),
            ]
        ),
    )
    exit_code, output, _ = run("db", "purge", "--older-than-days", "30")
    assert (exit_code, output) == (
        0,
        "5 sessions deleted.\n0 rows of former instances deleted.\n",
    )
    left = synced.list_sessions(limit=10)
    assert [one.id for one in left] == [7, 1]


@pytest.mark.dialect
def test_purge_goes_by_the_clock_of_the_database(run, synced, monkeypatch):
    day_s = 86400
    monkeypatch.setattr(api.Database, "now", lambda self: 100.0 * day_s)
    epoch = synced.take_lease("c1", None).epoch
    ended = [factory.ended(1, 60 * day_s), factory.ended(2, 80 * day_s)]
    synced.commit(epoch, api.Changes.of(ended))
    run("db", "purge", "--older-than-days", "30")
    assert [one.id for one in synced.list_sessions(limit=10)] == [2]


@pytest.mark.parametrize("days", ["-1", "nan", "inf", "soon", ""])
def test_purge_needs_a_number_of_days(run, days, capsys):
    with pytest.raises(SystemExit) as error:
        run("db", "purge", f"--older-than-days={days}")
    assert error.value.code == 2
    assert "number of days" in capsys.readouterr().err


def test_load_a_file(run, synced, tmp_path):
    path = tmp_path / "rot13.yaml"
    path.write_text(PROFILE)
    assert run("accelerator", "load", str(path))[0] == 0
    (record,) = [r for r in synced.accelerators() if r.name == "rot13"]
    assert record.profile["peak_bytes_per_s"] == 1e8
    assert record.profile["shapes"] == ["small"]


@pytest.mark.parametrize(
    "text", [None, "[", "name: rot13", PROFILE.replace("1.0e+8", "-1")]
)
def test_bad_files_are_refused(run, synced, tmp_path, text):
    path = tmp_path / "bad.yaml"
    if text is not None:
        path.write_text(text)
    before = synced.accelerators()
    exit_code, _, error = run("accelerator", "load", str(path))
    assert exit_code == 2
    assert "bad.yaml" in error
    assert synced.accelerators() == before


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["db"],
        ["frobnicate"],
        ["db", "purge"],
        ["accelerator", "load"],
        ["accelerator", "load", "--builtin", "x.yaml"],
        ["placement", "clean", "--pool-name", "A Pool"],
    ],
)
def test_usage_errors(run, argv):
    with pytest.raises(SystemExit) as error:
        run(*argv)
    assert error.value.code == 2


def test_a_database_that_is_away(tmp_path, capsys):
    conf = tmp_path / "fpgapool.conf"
    conf.write_text(
        "[database]\nconnection = mysql+pymysql://u:p@127.0.0.1:1/d\n"
    )
    argv = ["--config-file", str(conf), "db", "version"]
    assert manage.main(argv) == 1
    error = capsys.readouterr().err
    assert "not available" in error
    assert "Traceback" not in error


def test_bad_configuration(tmp_path, capsys):
    conf = tmp_path / "fpgapool.conf"
    conf.write_text("[database]\nconnection = nonsense\n")
    argv = ["--config-file", str(conf), "db", "version"]
    assert manage.main(argv) == 2
    assert "connection" in capsys.readouterr().err


def test_the_default_database_is_made_in_the_state_path(tmp_path, capsys):
    state_path = tmp_path / "var" / "fpgapool"
    conf = tmp_path / "fpgapool.conf"
    conf.write_text(f"[DEFAULT]\nstate_path = {state_path}\n")
    argv = ["--config-file", str(conf), "db", "sync"]
    assert manage.main(argv) == 0
    assert (state_path / "fpgapool.sqlite").exists()
    assert state_path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("options", "exit_code", "text"),
    [
        ("", 2, "[placement] sets neither auth_type nor auth_section"),
        ("[placement]\nauth_type = none\nendpoint_override = {}\n", 1, "Conn"),
        ("[placement]\nauth_type = nonsense\n", 2, "[placement]: "),
        ("[placement]\npool_name = No\n", 2, "pool_name"),
    ],
)
def test_a_placement_that_cannot_be_cleaned(
    tmp_path, capsys, options, exit_code, text
):
    conf = tmp_path / "fpgapool.conf"
    options = options.format("http://127.0.0.1:1")
    conf.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n{options}")
    argv = ["--config-file", str(conf), "placement", "clean"]
    assert manage.main(argv) == exit_code
    error = capsys.readouterr().err
    assert text in error
    assert "Traceback" not in error


def test_no_database_is_made_that_the_operator_has_not_chosen(
    tmp_path, monkeypatch, capsys
):
    default = tmp_path / "state"
    conf = tmp_path / "fpgapool.conf"
    conf.write_text("[DEFAULT]\n")
    monkeypatch.setattr(
        manage.config.fpgapool_conf,
        "register_opts",
        (
            lambda conf, register=manage.config.fpgapool_conf.register_opts: (
                register(conf),
                conf.set_default("state_path", str(default)),
            )
        ),
    )
    named = ["--config-file", str(conf)]
    for words in (("db", "sync"), ("db", "version"), ("audit",)):
        assert manage.main([*named, *words]) == 2
        error = capsys.readouterr().err
        assert "no database is configured" in error
        assert str(conf) in error
    assert not default.exists()
    # These need none.
    assert manage.main([*named, "host", "permissions", str(uuid.uuid4())]) == 0
    conf.write_text(f"[DEFAULT]\nstate_path = {default}\n")
    assert manage.main([*named, "db", "version"]) == 0
