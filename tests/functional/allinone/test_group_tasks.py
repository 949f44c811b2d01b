# SPDX-License-Identifier: Apache-2.0

"""Tasks of programs, through a group of slots of a real pool."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import pathlib
import random
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fpgapool import client
from fpgapool.accelerators import base
from fpgapool.client.groups import grouplink
from fpgapool.client.links import wires
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.functional.allinone import harness
from tests.functional.allinone import tasksite
from tests.harness import cases
from tests.harness import masking
from tests.harness import programs
from tests.harness import waiting

ROOT = pathlib.Path(__file__).parents[3]
PARAMS = {"key": programs.KEY, "iv": programs.IV}
TASKS = 50
PIECE_BYTES = 40_000
DATA = bytes(range(256)) * (TASKS * PIECE_BYTES // 256)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tasksite.Site]:
    """Give a pool of four slots on each of two hosts.

    It has an accelerator with arguments.
    """
    profiles = tmp_path_factory.mktemp("profiles")
    masking.write_profile(profiles)
    with (
        harness.short_directory() as run_dir,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv(base.DIRECTORY_VARIABLE, str(profiles))
        with harness.Pool(
            run_dir,
            *("--hosts=2", "--boards=1", "--slots=4", "--unlimited"),
            "--api-port=0",
        ) as pool:
            url = pool.wait_until_ready()["api_url"]
            yield tasksite.Site(pool, url, pathlib.Path(run_dir))


@pytest.fixture
def group(site: tasksite.Site) -> Iterator[str]:
    """Give a group, of which nothing may be left."""
    made = site.user.create_group(name="render", accelerator="aes", size=3)
    yield made.id
    site.user.delete_group(made.id)
    # What the API tells of slots may be a second old.
    site.wait_until_gone()
    waiting.wait_until(
        lambda: site.slot_states() == {states.SLOT_IDLE},
        lambda: f"only idle slots: {site.slot_states()}",
    )


def test_results_are_those_of_one_session(
    site: tasksite.Site, group: str, tmp_path: pathlib.Path
) -> None:
    reference = programs.encrypted(DATA)
    with client.group_open(
        "render",
        front_door=client.PoolApi.at(site.url),
        timeout_s=harness.LIMIT_S,
    ) as opened:
        futures = [
            opened.submit(
                DATA[offset : offset + PIECE_BYTES],
                params=PARAMS,
                offset=offset,
            )
            for offset in range(0, len(DATA), PIECE_BYTES)
        ]
        assert len(futures) == TASKS
        results = [one.result(harness.LIMIT_S) for one in futures]
    assert b"".join(results) == reference
    assert list(site.user.group_clients(group)) == []

    (tmp_path / "key.hex").write_text(programs.KEY.hex())
    (tmp_path / "data").write_bytes(DATA)
    report = site.start(
        tmp_path,
        *harness.command(
            "run",
            *("aes", "--group", "render", "--json"),
            *("--key-file", "key.hex", "--iv", programs.IV.hex()),
            *("--in", "data", "--out", "data.enc"),
        ),
    )
    assert json.loads(report)["input_bytes"] == len(DATA)
    assert (tmp_path / "data.enc").read_bytes() == reference

    waiting.wait_until(
        lambda: site.user.get_group(group).state == "ACTIVE", "all members"
    )
    assert len(site.user.get_group(group).members) == 3


def used(
    site: tasksite.Site, accelerator: str = "aes"
) -> tuple[float, float, int, int]:
    """Return what was used on all days.

    :returns: seconds of tasks and of idle members; bytes of input and output.
    """
    rows = site.user.usage(group_by="accelerator", accelerator=accelerator)
    names = ("group_busy_s", "group_idle_s", "input_bytes", "output_bytes")
    found = list(rows)
    return tuple(  # type: ignore[return-value]
        sum(getattr(one, name) for one in found) for name in names
    )


def test_usage_shows_tasks_and_idle_members(
    site: tasksite.Site, group: str
) -> None:
    busy_s, idle_s, input_bytes, output_bytes = used(site)
    with client.group_open(
        "render",
        front_door=client.PoolApi.at(site.url),
        timeout_s=harness.LIMIT_S,
    ) as opened:
        for _ in range(5):
            opened.run(DATA, params=PARAMS, timeout_s=harness.LIMIT_S)
        waiting.wait_until(
            lambda: (
                [one.tasks for one in site.user.group_clients(group)] == [5]
            ),
            "the report of all tasks",
        )
        waiting.wait_until(
            lambda: used(site)[0] > busy_s and used(site)[1] > idle_s,
            "usage of the group",
        )
        # Each byte of all tasks, and no parameters.
        assert used(site)[2:] == (
            input_bytes + 5 * len(DATA),
            output_bytes + 5 * len(DATA),
        )
        (own,) = site.user.group_clients(group)
        assert 0 < own.slot_s <= used(site)[0] - busy_s + 1e-6


@pytest.mark.parametrize(
    ("door", "wire"),
    [("node1", wires.LocalWire), ("node2", wires.RemoteWire)],
)
def test_programs_of_the_members_host_use_shared_memory(
    site: tasksite.Site,
    group: str,
    monkeypatch: pytest.MonkeyPatch,
    door: str,
    wire: type[wires.Wire],
) -> None:
    """All slots are on the first host."""
    monkeypatch.setenv("FPGAPOOL_SOCKET", site.pool.front_door(door))
    monkeypatch.setenv("FPGAPOOL_API_URL", site.url)
    with client.group_open("render", timeout_s=harness.LIMIT_S) as opened:
        result = opened.run(
            DATA[:1000], params=PARAMS, timeout_s=harness.LIMIT_S
        )
        assert result == programs.encrypted(DATA[:1000])
        (link,) = opened._hosts._links.values()
        assert isinstance(link.wire, wire)


@pytest.mark.parametrize("door", ["node1", "node2"])
def test_a_program_needs_nothing_but_a_front_door(
    site: tasksite.Site,
    group: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
    door: str,
) -> None:
    path = site.pool.front_door(door)
    monkeypatch.setenv("FPGAPOOL_SOCKET", path)
    with client.group_open(
        "render", accelerator="aes", timeout_s=harness.LIMIT_S
    ) as opened:
        result = opened.run(
            DATA[:1000], params=PARAMS, timeout_s=harness.LIMIT_S
        )
        assert result == programs.encrypted(DATA[:1000])
        (listed,) = site.user.group_clients(group)
        assert listed.id == opened.client_id
    assert list(site.user.group_clients(group)) == []
    with pytest.raises(client.RequestRejected) as caught:
        client.group_open("other", front_door=path)
    assert caught.value.code == codes.GROUP_NOT_FOUND


@contextlib.contextmanager
def held_elsewhere(opened: client.Group) -> Iterator[None]:
    """Have another thread of a program hold a lock."""
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with opened.lock(timeout_s=harness.LIMIT_S):
            held.set()
            over.wait(harness.LIMIT_S)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        holding = pool.submit(hold)
        try:
            assert held.wait(harness.LIMIT_S)
            yield
        finally:
            over.set()
            holding.result(harness.LIMIT_S)


def test_programs_that_do_what_they_may_not(
    site: tasksite.Site, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FPGAPOOL_API_URL", site.url)
    monkeypatch.setenv("FPGAPOOL_SOCKET", site.pool.front_door("node1"))
    site.user_members(group, 3)
    before = site.rows("groups")

    def run(opened: client.Group, data: bytes = DATA[:1000]) -> bytes:
        result: bytes = opened.run(
            data, params=PARAMS, timeout_s=harness.LIMIT_S
        )
        return result

    def code_of(*arguments: Any) -> str:
        with pytest.raises(client.FpgapoolError) as caught:
            run(*arguments)
        return caught.value.code

    def run_until_refused(opened: client.Group) -> None:
        while True:
            run(opened)

    good = programs.encrypted(DATA[:1000])
    with (
        client.group_open("render") as wild,
        client.group_open("render") as tame,
    ):
        assert run(wild) == run(tame) == good
        assert code_of(wild, bytes((4 << 20) + 1)) == codes.TASK_TOO_LARGE
        # Three members have two locks, as there are two clients.
        with wild.lock(timeout_s=harness.LIMIT_S), held_elsewhere(wild):
            with (
                pytest.raises(client.TaskFailed) as caught,
                tame.lock(timeout_s=harness.LIMIT_S),
            ):
                pass
            assert caught.value.code == codes.LOCK_LIMIT
            assert run(wild) == run(tame) == good
        tasks = [wild.submit(DATA[:1000], params=PARAMS) for _ in range(100)]
        site.user.revoke_group_client(
            group, wild.client_id, ignore_missing=False
        )
        kept = [tame.submit(DATA[:1000], params=PARAMS) for _ in range(100)]
        with pytest.raises(client.TaskFailed) as caught:
            run_until_refused(wild)
        assert caught.value.code == codes.ACCESS_REVOKED
        assert code_of(wild) == codes.ACCESS_REVOKED
        for one in tasks:
            error = one.exception(harness.LIMIT_S)
            assert error is None or error.code == codes.ACCESS_REVOKED
        assert all(one.result(harness.LIMIT_S) == good for one in kept)
        listed = [one.id for one in site.user.group_clients(group)]
        assert listed == [tame.client_id]
    assert site.rows("groups") == before


def test_the_program_of_the_documentation_runs(
    site: tasksite.Site, group: str, tmp_path: pathlib.Path
) -> None:
    program = ROOT / "doc" / "examples" / "use_group.py"
    printed = site.start(tmp_path, sys.executable, program).split("\n")
    key, iv = bytes(32), bytes(16)
    hello, *pieces = (
        programs.encrypted(text, key, iv).hex()
        for text in (b"hello world", b"one", b"two", b"three")
    )
    assert printed == [
        *(hello, *pieces, hello, "(3, 4) True", pieces[0], *pieces),
        "",
    ]


PARTS = 16
PART_BYTES = 100_000


@pytest.fixture
def lr(site: tasksite.Site) -> Iterator[str]:
    """Give a group of four members, of which nothing may be left."""
    made = site.user.create_group(name="lr", accelerator="mask", size=4)
    site.user_members(made.id, 4)
    yield made.id
    site.user.delete_group(made.id)
    # What the API tells of slots may be a second old.
    site.wait_until_gone()
    waiting.wait_until(
        lambda: site.slot_states() == {states.SLOT_IDLE},
        lambda: f"only idle slots: {site.slot_states()}",
    )


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give the lengths of all records that go to desks."""
    lengths: list[int] = []
    put = grouplink.HostLink._put

    def counted(link, parts):
        taken = put(link, parts)
        if taken:
            lengths.append(sum(map(len, parts)))
        return taken

    monkeypatch.setattr(grouplink.HostLink, "_put", counted)
    return lengths


def open_group(site: tasksite.Site, local: bool, **options) -> client.Group:
    door = client.PoolApi.at(site.url)
    return client.group_open(
        "lr",
        front_door=site.pool.front_door() if local else door,
        timeout_s=harness.LIMIT_S,
        **options,
    )


def iterate(
    opened: client.Group, made: list[client.Block], weights: bytes
) -> None:
    """Run a task for each block, and check the results."""
    futures = [opened.submit(one, arguments={1: weights}) for one in made]
    for block, future in zip(made, futures, strict=True):
        output = future.result(harness.LIMIT_S)
        assert output == masking.masked(block.data, weights)


@pytest.mark.parametrize("local", cases.first(False, True))
def test_a_cached_iteration_sends_under_one_percent(
    site: tasksite.Site, lr: str, sent: list[int], local: bool
) -> None:
    chooser = random.Random(local)
    made = [client.Block(chooser.randbytes(PART_BYTES)) for _ in range(PARTS)]
    with open_group(site, local, application="lr") as opened:
        data_bytes = PARTS * PART_BYTES
        lengths = [data_bytes]
        before = used(site, "mask")[2:]
        # If a member with the block is busy, another one may get it, too.
        while lengths[-1] >= 0.01 * data_bytes:
            sent.clear()
            # The weights are new each time.
            iterate(opened, made, bytes([len(lengths)]) * 50)
            lengths.append(sum(sent))
    assert lengths[1] > data_bytes
    # At most once to each of the members.
    assert sum(lengths[1:]) < 4.1 * data_bytes
    # All of it was computed each time.
    due = [one + data_bytes * (len(lengths) - 1) for one in before]
    waiting.wait_until(
        lambda: [*used(site, "mask")[2:]] == due,
        lambda: f"{due} bytes: {used(site, 'mask')}",
    )


def test_wrong_arguments_fail_their_task_alone(
    site: tasksite.Site, lr: str
) -> None:
    with open_group(site, True) as opened:
        for arguments in ({}, {2: b"x"}, {1: b"wrong"}):
            with pytest.raises(client.TaskFailed) as caught:
                opened.run(b"data", arguments=arguments)
            assert caught.value.code == codes.INVALID_ARGUMENT
        for arguments in ({0: b"x"}, {"1": b"x"}, {1: 5}):
            with pytest.raises(client.InvalidRequest):
                opened.run(b"data", arguments=arguments)
        results = opened.map([b"ab", b"cd"], arguments={1: b"\1"})
        assert list(results) == [b"`c", b"be"]
        with opened.lock():
            assert opened.run(b"ab", arguments={1: b"\1"}) == b"`c"
