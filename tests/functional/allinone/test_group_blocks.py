# SPDX-License-Identifier: Apache-2.0

"""Data that stays in the members of a group, in a real pool."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Iterator

import pytest

from fpgapool import client
from fpgapool.accelerators import base
from fpgapool.client import grouplink
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.functional.allinone import harness
from tests.functional.allinone import test_group_tasks as plain
from tests.harness import masking
from tests.harness import waiting

PARTS = 16
PART_BYTES = 100_000


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[plain.Site]:
    """Give a pool of four slots, with an accelerator that has arguments."""
    profiles = tmp_path_factory.mktemp("profiles")
    masking.write_profile(profiles)
    with (
        harness.short_directory() as run_dir,
        pytest.MonkeyPatch.context() as (patch),
    ):
        patch.setenv(base.DIRECTORY_VARIABLE, str(profiles))
        pool = harness.Pool(
            run_dir,
            *("--hosts=1", "--boards=1", "--slots=4", "--unlimited"),
            "--api-port=0",
        )
        try:
            url = pool.wait_until_ready()["api_url"]
            yield plain.Site(pool, url, pathlib.Path(run_dir))
        finally:
            pool.close()


@pytest.fixture
def group(site: plain.Site) -> Iterator[str]:
    """Give a group of four members, of which nothing may be left."""
    made = site.user.create_group(name="lr", accelerator="mask", size=4)
    site.user_members(made.id, 4)
    yield made.id
    site.user.delete_group(made.id)
    waiting.wait_until(
        lambda: site.slot_states() == {states.SLOT_IDLE},
        lambda: f"only idle slots: {site.slot_states()}",
    )


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give the lengths of all records that go to desks."""
    lengths: list[int] = []
    put = grouplink.Link._put

    def counted(link, parts):
        taken = put(link, parts)
        if taken:
            lengths.append(sum(map(len, parts)))
        return taken

    monkeypatch.setattr(grouplink.Link, "_put", counted)
    return lengths


def open_group(site: plain.Site, local: bool, **options) -> client.Group:
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


@pytest.mark.parametrize("local", [True, False])
def test_a_cached_iteration_sends_under_one_percent(
    site: plain.Site, group: str, sent: list[int], local: bool
) -> None:
    chooser = random.Random(local)
    made = [client.Block(chooser.randbytes(PART_BYTES)) for _ in range(PARTS)]
    with open_group(site, local, application="lr") as opened:
        data_bytes = PARTS * PART_BYTES
        lengths = [data_bytes]
        # If a member with the block is busy, another one may get it, too.
        while lengths[-1] >= 0.01 * data_bytes:
            sent.clear()
            # The weights are new each time.
            iterate(opened, made, bytes([len(lengths)]) * 50)
            lengths.append(sum(sent))
    assert lengths[1] > data_bytes
    # At most once to each of the members.
    assert sum(lengths[1:]) < 4.1 * data_bytes


def test_programs_of_one_application_share_blocks(
    site: plain.Site, group: str, sent: list[int]
) -> None:
    block = client.Block(bytes(PART_BYTES))
    mask = {1: b"x"}

    def bytes_of(application: str) -> int:
        sent.clear()
        with open_group(site, True, application=application) as opened:
            link = next(iter(opened._hosts._links.values()))
            opened.run(b"x", arguments=mask)
            # As if it knew of the others' data.
            link._there.add(block.reference, PART_BYTES)
            sent.clear()
            opened.run(block, arguments=mask, timeout_s=harness.LIMIT_S)
        return sum(sent)

    assert bytes_of("one") > PART_BYTES
    assert bytes_of("one") < PART_BYTES
    assert bytes_of("other") > PART_BYTES
    assert bytes_of("") > PART_BYTES


def test_wrong_arguments_fail_their_task_alone(
    site: plain.Site, group: str
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
