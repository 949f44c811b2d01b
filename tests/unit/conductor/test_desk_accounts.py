# SPDX-License-Identifier: Apache-2.0

"""What desks have counted that is in the usage."""

from __future__ import annotations

import dataclasses
from typing import Any

from fpgapool import objects
from fpgapool.conductor.decisions.assignments import desk_accounts
from fpgapool.db import api as db_api

_HOST = 3


def line(boot_id: str, **ended: int) -> objects.GroupReport:
    return objects.GroupReport(
        group_id="g",
        revision=1,
        desk_boot_id=boot_id,
        clients=tuple(
            objects.ClientCounts(
                client_id=name,
                ended=count,
                arrived=count,
                waiting=0,
                running=0,
                busy_s=0.5 * count,
                connected=True,
                input_bytes=10 * count,
                output_bytes=7 * count,
            )
            for name, count in ended.items()
        ),
    )


def new(
    account: desk_accounts.DeskAccount, *reported: Any, **ended: int
) -> Any:
    found = account.new_tasks(line(*reported, **ended), lambda name: name * 2)
    for one in found:
        assert one.input_bytes == 10 * one.stats.ended
        assert one.output_bytes == 7 * one.stats.ended
    return {
        one.stats.client: (one.stats.ended, one.stats.busy_s, one.project_id)
        for one in found
    }


def test_rows_have_all_that_was_counted() -> None:
    accounts = desk_accounts.DeskAccounts((), 4)
    account = accounts.of("g", _HOST, 1.0)
    assert new(account, "1", a=3, b=0) == {
        "a": (3, 1.5, "aa"),
        "b": (0, 0.0, "bb"),
    }
    account.add_time(4.0, 6.0)
    account.pay(1.5)
    (row,) = accounts.take()
    assert (row.id, row.group_id, row.host_id) == (5, "g", _HOST)
    assert (row.charged_at, row.unpaid_s) == (6.0, 2.5)
    # Clients without tasks are left out.
    assert row.counts == {
        "a": {
            "ended": 3,
            "arrived": 3,
            "busy_s": 1.5,
            "input_bytes": 30,
            "output_bytes": 21,
            "project_id": "aa",
        }
    }
    assert accounts.take() == []
    # The next leader goes on with it.
    after = desk_accounts.DeskAccounts([row], 5)
    assert after.charged_at("g", _HOST) == 6.0
    account = after.of("g", _HOST, 9.0)
    assert new(account, "1", a=4, b=1) == {
        "a": (1, 0.5, "aa"),
        "b": (1, 0.5, "bb"),
    }
    # A report that is older than this one counts nothing.
    assert new(account, "1", a=3)["a"] == (0, 0.0, "aa")
    # Of another process, and of none.
    assert new(account, "2", a=1)["a"] == (1, 0.5, "aa")
    assert new(account, "", a=7) == {}
    assert new(account, "2", a=1)["a"] == (0, 0.0, "aa")
    assert new(account, "x" * 1000, a=1)["a"] == (1, 0.5, "aa")
    (row,) = after.take()
    assert row.boot_id == "x" * 255


def new_bytes(
    account: desk_accounts.DeskAccount, report: objects.GroupReport
) -> tuple[int, int]:
    (found,) = account.new_tasks(report, lambda _: "p")
    return found.input_bytes, found.output_bytes


def test_bytes_count_once_with_a_leader_of_an_earlier_release() -> None:
    accounts = desk_accounts.DeskAccounts((), 0)
    account = accounts.of("g", _HOST, 0.0)
    assert new_bytes(account, line("1", a=3)) == (30, 21)
    (row,) = accounts.take()
    # It drops what it does not know.
    for counts in row.counts.values():
        del counts["input_bytes"], counts["output_bytes"]
        counts["ended"] = 4
    account = desk_accounts.DeskAccounts([row], 1).of("g", _HOST, 0.0)
    assert new_bytes(account, line("1", a=5)) == (0, 0)
    assert new_bytes(account, line("1", a=6)) == (10, 7)
    # What another process has counted was never charged.
    assert new_bytes(account, line("2", a=2)) == (20, 14)


def test_bytes_count_once_with_an_agent_of_an_earlier_release() -> None:
    account = desk_accounts.DeskAccounts((), 0).of("g", _HOST, 0.0)
    assert new_bytes(account, line("1", a=3)) == (30, 21)
    (client,) = line("1", a=4).clients
    client = dataclasses.replace(client, input_bytes=0, output_bytes=0)
    older = dataclasses.replace(line("1"), clients=(client,))
    assert new_bytes(account, older) == (0, 0)
    assert new_bytes(account, line("1", a=4)) == (10, 7)


def test_a_client_with_locks_alone_is_charged_once() -> None:
    account = desk_accounts.DeskAccounts((), 0).of("g", _HOST, 0.0)
    locks = objects.ClientCounts(
        client_id="a",
        ended=0,
        arrived=0,
        waiting=0,
        running=1,
        busy_s=3.0,
        connected=True,
    )
    report = dataclasses.replace(line("1"), clients=(locks,))
    for charged_s in (3.0, 0.0):
        (new_tasks,) = account.new_tasks(report, lambda _: "p")
        assert new_tasks.stats.busy_s == charged_s


def test_a_lock_leaves_the_time_of_another_task_to_its_end() -> None:
    """The owner pays neither for it nor for the lock."""
    account = desk_accounts.DeskAccounts((), 0).of("g", _HOST, 0.0)
    for now in (1.0, 2.0, 3.0, 4.0):
        # Two members: one has a lock, the other one a long task.
        account.add_time(2.0, now)
        lock, task = (
            objects.ClientCounts(
                client_id=name,
                ended=0,
                arrived=1,
                waiting=0,
                running=1,
                busy_s=busy_s,
                connected=True,
            )
            for name, busy_s in (("lock", now), ("task", 0.0))
        )
        report = dataclasses.replace(line("1"), clients=(lock, task))
        for one in account.new_tasks(report, lambda _: "p"):
            account.pay(one.stats.busy_s)
        assert account.idle_s == 0.0


def busy(running: int) -> objects.GroupReport:
    (client,) = line("1", a=1).clients
    return dataclasses.replace(
        line("1"), clients=(dataclasses.replace(client, running=running),)
    )


def test_what_ran_at_a_missing_desk_was_idle_time() -> None:
    accounts = desk_accounts.DeskAccounts((), 0)
    account = accounts.of("g", _HOST, 0.0)
    account.new_tasks(busy(1), lambda name: name)
    account.add_time(4.0, 4.0)
    account.new_tasks(busy(1), lambda name: name)
    assert (account.record.unpaid_s, account.idle_s) == (4.0, 0.0)
    # The group still has members there.
    accounts.expire_missing(_HOST, (), {"g"}, 5.0)
    assert account.idle_s == 4.0
    # A new leader must find how far they were charged.
    accounts.expire_missing(_HOST, (), {"g"}, 5.0 + desk_accounts.KEPT_S)
    assert accounts.charged_at("g", _HOST) == 4.0
    accounts.expire_missing(_HOST, (), (), 5.0 + desk_accounts.KEPT_S)
    assert accounts.charged_at("g", _HOST) == 0.0


def test_desks_that_are_gone_are_forgotten() -> None:
    accounts = desk_accounts.DeskAccounts((), 0)
    for group_id in ("g", "h"):
        new(accounts.of(group_id, _HOST, 0.0), "1", a=1)
    new(accounts.of("g", _HOST + 1, 0.0), "1", a=1)
    accounts.take()
    kept_s = desk_accounts.KEPT_S
    # A host that was silent may have it still.
    for now in (kept_s, 2 * kept_s - 1):
        accounts.expire_missing(_HOST, {"h"}, {"h"}, now)
    accounts.expire_missing(_HOST, {"g", "h"}, {"g", "h"}, 2 * kept_s)
    for now in (2 * kept_s, 3 * kept_s - 1):
        accounts.expire_missing(_HOST, {"h"}, {"h"}, now)
    assert accounts.take() == []
    accounts.expire_missing(_HOST, {"h"}, {"h"}, 3 * kept_s)
    (gone,) = accounts.take()
    assert (gone.id, gone.boot_id) == (1, db_api.DELETED)
    assert accounts.charged_at("g", _HOST) == 0.0
    accounts.drop("g")
    (gone,) = accounts.take()
    assert (gone.id, gone.boot_id) == (3, db_api.DELETED)
    assert [one.record.group_id for one in accounts.on(_HOST)] == ["h"]
