# SPDX-License-Identifier: Apache-2.0

"""Sets of sessions in a pool of real processes, through both doors."""

from __future__ import annotations

import asyncio
import concurrent.futures
import hashlib
import os
import pathlib
import subprocess
import sys
import threading
import uuid

import pytest

from fpgapool import client
from fpgapool.vocabulary import codes
from tests.functional.allinone import harness
from tests.harness import waiting

_EXAMPLE = pathlib.Path(__file__).parents[3] / "doc/examples/use_set.py"
_PAIR = [("copy", 1000), {"accelerator": "copy", "size_bytes": 1000}]


def open_pair(
    door: str | client.PoolApi, **options: object
) -> client.SessionSet:
    return client.acc_open_set(
        _PAIR,
        front_door=door,
        **{"timeout_s": harness.LIMIT_S, **options},
    )


def use(opened: client.SessionSet) -> None:
    for number, session in enumerate(opened):
        data = bytes([number]) * 1000
        assert bytes(session.run(data)) == data


def wait_until_free(door: str | client.PoolApi) -> None:
    """Get both slots, which nobody else may have."""
    open_pair(door).close()


def test_all_or_none(front_door: str | client.PoolApi) -> None:
    with open_pair(front_door, placement="same_board") as opened:
        use(opened)
        first, second = opened
        assert first.slot != second.slot
        assert (
            repr(opened) == f"<SessionSet set_id='{opened.set_id}' sessions=2>"
        )
        found = client.acc_dry_run(
            "copy", 1000, front_door=front_door, set_size=2
        )
        assert (found.state, found.reasons) == (
            "QUEUED",
            (codes.NO_IDLE_SLOT,),
        )
    assert first.closed
    assert second.closed
    opened.close()


def test_sets_never_wait_for_each_other(
    front_door: str | client.PoolApi,
) -> None:
    """Each needs all slots of the pool."""

    def one() -> None:
        with open_pair(front_door) as opened:
            use(opened)

    with concurrent.futures.ThreadPoolExecutor() as threads:
        for done in [threads.submit(one) for _ in range(4)]:
            done.result(harness.LIMIT_S)


def test_it_waits_for_what_runs(
    site: harness.Site, front_door: str | client.PoolApi
) -> None:
    views: list[client.SessionView] = []
    name = uuid.uuid4().hex
    waits = threading.Event()

    def note(view: client.SessionView) -> None:
        views.append(view)
        if view.state == "QUEUED":
            waits.set()

    with concurrent.futures.ThreadPoolExecutor() as threads:
        with client.acc_open(
            "copy", 1000, front_door=front_door, timeout_s=harness.LIMIT_S
        ):
            pending = threads.submit(
                open_pair, front_door, set_id=name, on_state=note
            )
            assert waits.wait(harness.LIMIT_S)
            shown = site.shown(views[0].session_id)
            assert shown["set_id"] == name
            assert (shown["set_size"], shown["set_placement"]) == (2, None)
            assert shown["reason"] == codes.SET_WAITS
            assert shown["request_id"] in (f"{name}.0", f"{name}.1")
        with pending.result(harness.LIMIT_S) as opened:
            use(opened)
            assert site.shown(opened[0].session_id)["set_id"] is None


def refused(
    door: str | client.PoolApi, members: list[object], **options: object
) -> client.FpgapoolError:
    with pytest.raises(client.FpgapoolError) as caught:
        client.acc_open_set(
            members, front_door=door, timeout_s=harness.LIMIT_S, **options
        )
    return caught.value


def test_one_that_fails_ends_all(front_door: str | client.PoolApi) -> None:
    error = refused(front_door, [("copy", 1000), ("nothing", 1000)])
    assert (error.code, error.index) == (codes.UNKNOWN_ACCELERATOR, 1)
    assert "session 1 of the set" in error.__notes__
    error = refused(front_door, [("copy", 1000)] * 3)
    assert error.code == codes.SET_IMPOSSIBLE
    with client.acc_open(
        "copy", 1000, front_door=front_door, timeout_s=harness.LIMIT_S
    ):
        error = refused(front_door, [*_PAIR], wait_timeout_s=0.2)
    assert isinstance(error, client.WaitTimeout)
    wait_until_free(front_door)


def test_a_session_too_few(front_door: str | client.PoolApi) -> None:
    """A program ends before it has opened all."""
    token = client.CancelToken()
    waits = threading.Event()

    def one() -> client.Session:
        return client.acc_open(
            "copy",
            1000,
            front_door=front_door,
            set_id="half",
            set_size=2,
            cancel=token,
            on_state=lambda _: waits.set(),
        )

    with concurrent.futures.ThreadPoolExecutor() as threads:
        pending = threads.submit(one)
        assert waits.wait(harness.LIMIT_S)
        token.cancel()
        with pytest.raises(client.Cancelled):
            pending.result(harness.LIMIT_S)
    wait_until_free(front_door)


def test_asyncio(front_door: str | client.PoolApi) -> None:
    async def run() -> None:
        opened = await client.aio.acc_open_set(
            _PAIR, front_door=front_door, timeout_s=harness.LIMIT_S
        )
        async with opened:
            for session in opened:
                assert bytes(await session.run(b"hello")) == b"hello"
            with pytest.raises(client.WaitTimeout):
                await client.aio.acc_open_set(
                    _PAIR, front_door=front_door, wait_timeout_s=0.2
                )
        with pytest.raises(client.RequestRejected) as caught:
            await client.aio.acc_open_set(
                [("copy", 1), ("nothing", 1)], front_door=front_door
            )
        assert caught.value.index == 1
        task = asyncio.ensure_future(
            client.aio.acc_open_set(
                [("copy", 1)] * 2,
                front_door=front_door,
                set_id=uuid.uuid4().hex,
            )
        )
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    wait_until_free(front_door)


def test_the_command(site: harness.Site) -> None:
    done = subprocess.run(
        harness.command(
            *("run", "copy", "--in", "/dev/zero", "--size-bytes", "1000"),
            *("--dry-run", "--set-size", "3"),
            *("--socket", site.pool.front_door()),
        ),
        capture_output=True,
        text=True,
        check=False,
        timeout=harness.LIMIT_S,
    )
    assert codes.SET_IMPOSSIBLE in done.stdout + done.stderr
    waiting.wait_until(
        lambda: (
            client.acc_dry_run(
                "copy", 1000, front_door=site.api, set_size=2
            ).fits
        ),
        "both slots are free",
        harness.LIMIT_S,
    )


def test_the_program_of_the_documentation(site: harness.Site) -> None:
    done = subprocess.run(
        [sys.executable, _EXAMPLE],
        env={**os.environ, "FPGAPOOL_SOCKET": site.pool.front_door()},
        capture_output=True,
        text=True,
        check=False,
        timeout=harness.LIMIT_S,
    )
    digest = hashlib.sha256(bytes(range(256)) * 4096).hexdigest()
    assert done.stdout.endswith(f" bytes, {digest}\n"), done.stderr
