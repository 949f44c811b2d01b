# SPDX-License-Identifier: Apache-2.0

"""Tasks of programs, through a group of slots of a real pool."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fpgapool import client
from fpgapool.client import grouplink
from fpgapool.vocabulary import states
from tests.functional.allinone import harness
from tests.functional.allinone import test_groups as plain
from tests.harness import programs
from tests.harness import waiting

ROOT = pathlib.Path(__file__).parents[3]
# As programs without a token are.
USER = "noauth:default:member,reader"
PARAMS = {"key": programs.KEY, "iv": programs.IV}
TASKS = 50
PIECE_BYTES = 40_000
DATA = bytes(range(256)) * (TASKS * PIECE_BYTES // 256)


class Site(plain.Site):
    """A pool whose programs have no tokens."""

    def __init__(
        self, pool: harness.Pool, url: str, state_dir: pathlib.Path
    ) -> None:
        super().__init__(pool, url, state_dir)
        self.pool = pool
        self.user = self._connect(USER)

    def start(
        self, directory: pathlib.Path, *command: str | pathlib.Path
    ) -> str:
        """Run a program to its end, and return what it prints."""
        done = subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, "FPGAPOOL_API_URL": self.url},
            capture_output=True,
            text=True,
            timeout=harness.LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def slot_states(self) -> set[str]:
        return {slot.state for slot in self.admin.slots()}


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Give a pool of four slots on two hosts."""
    with harness.short_directory() as run_dir:
        pool = harness.Pool(
            run_dir,
            *("--hosts=2", "--boards=1", "--slots=4", "--unlimited"),
            "--api-port=0",
        )
        try:
            url = pool.wait_until_ready()["api_url"]
            yield Site(pool, url, pathlib.Path(run_dir))
        finally:
            pool.close()


@pytest.fixture
def group(site: Site) -> Iterator[str]:
    """Give a group, of which nothing may be left."""
    made = site.user.create_group(name="render", accelerator="aes", size=3)
    yield made.id
    site.user.delete_group(made.id)
    waiting.wait_until(
        lambda: site.slot_states() == {states.SLOT_IDLE},
        lambda: f"only idle slots: {site.slot_states()}",
    )


def test_results_are_those_of_one_session(
    site: Site, group: str, tmp_path: pathlib.Path
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


def used(site: Site) -> tuple[float, float]:
    """Return the seconds of tasks and of idle members, of all days."""
    found = list(site.user.usage(group_by="accelerator", accelerator="aes"))
    return (
        sum(one.group_busy_s for one in found),
        sum(one.group_idle_s for one in found),
    )


def test_usage_shows_tasks_and_idle_members(site: Site, group: str) -> None:
    busy_s, idle_s = used(site)
    with client.group_open(
        "render",
        front_door=client.PoolApi.at(site.url),
        timeout_s=harness.LIMIT_S,
    ) as opened:
        for _ in range(5):
            opened.run(DATA, params=PARAMS, timeout_s=harness.LIMIT_S)
        waiting.wait_until(
            lambda: used(site)[0] > busy_s and used(site)[1] > idle_s,
            "usage of the group",
        )
        (own,) = site.user.group_clients(group)
        assert own.tasks == 5
        assert 0 < own.slot_s <= used(site)[0] - busy_s + 1e-6


@pytest.mark.long
def test_a_program_that_is_killed_is_no_client(
    site: Site, group: str, tmp_path: pathlib.Path
) -> None:
    program = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from fpgapool import client\n"
            "group = client.group_open('render', timeout_s=60)\n"
            "print('open', flush=True)\n"
            "sys.stdin.read()",
        ],
        cwd=tmp_path,
        env={**os.environ, "FPGAPOOL_API_URL": site.url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == b"open\n"
    assert len(list(site.user.group_clients(group))) == 1
    program.kill()
    program.communicate(timeout=harness.LIMIT_S)
    waiting.wait_until(
        lambda: not list(site.user.group_clients(group)),
        "no client",
        limit_s=90.0,
    )
    assert site.user.get_group(group).state != "DRAINING"


@pytest.mark.parametrize(
    ("door", "wire"),
    [("node1", grouplink.LocalWire), ("node2", grouplink.RemoteWire)],
)
def test_programs_of_the_members_host_use_shared_memory(
    site: Site,
    group: str,
    monkeypatch: pytest.MonkeyPatch,
    door: str,
    wire: type[grouplink.Wire],
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


def test_the_program_of_the_documentation_runs(
    site: Site, group: str, tmp_path: pathlib.Path
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
