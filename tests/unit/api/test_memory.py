# SPDX-License-Identifier: Apache-2.0

"""What the live page remembers, and who may see it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fpgapool.api.ui import memory
from fpgapool.api.ui import recall
from fpgapool.vocabulary import codes
from tests.unit.api import fakes

ADMIN = "admin:operators"
START = 1.8e9


def _counts(**more: Any) -> dict[str, Any]:
    return {
        "sessions": {"QUEUED": 3},
        "hosts_up": 2,
        "slots": {"small": {"idle": 1}, "large": {"idle": 2, "active": 1}},
        **more,
    }


def _rates(*totals: tuple[float, int]) -> list[float | None]:
    """Return the rates of samples; totals: seconds, and bytes until then."""
    kept = memory.Memory()
    for at, moved_bytes in totals:
        counts = _counts(moved_bytes=moved_bytes, waits=0, waited_s=0.0)
        kept.note_counts(START + at, counts, leads=True)
    samples, _ = kept.recall(0)
    return [one["bytes_per_s"] for one in samples]


def test_sample_has_slots_of_all_shapes() -> None:
    kept = memory.Memory()
    kept.note_counts(START, _counts(), leads=True)
    (sample,), events = kept.recall(0)
    assert sample == {
        "at": START,
        "waiting": 3,
        "hosts_up": 2,
        "slots": {"idle": 3, "active": 1},
        "bytes_per_s": None,
        "wait_s": None,
    }
    assert events == []


def test_rate_is_a_mean() -> None:
    """Hosts report every few seconds, at once what moved since the last."""
    assert _rates((0, 0), (10, 900), (20, 900), (30, 1800)) == [
        None,
        90.0,
        45.0,
        60.0,
    ]


def test_rate_forgets_what_was_long_ago() -> None:
    rates = _rates(*((10 * n, 1000 * min(n, 3)) for n in range(9)))
    assert rates[3] == 100.0
    assert rates[-1] == 0.0


def test_next_leader_counts_from_zero() -> None:
    assert _rates((0, 5000), (10, 6000), (20, 10), (30, 110)) == [
        None,
        100.0,
        None,
        10.0,
    ]


def test_wait_is_that_of_the_sessions_in_between() -> None:
    kept = memory.Memory()
    for number, (waits, waited_s) in enumerate([(5, 50.0), (7, 58.0)]):
        counts = _counts(moved_bytes=0, waits=waits, waited_s=waited_s)
        kept.note_counts(START + 10 * number, counts, leads=True)
    assert [one["wait_s"] for one in kept.recall(0)[0]] == [None, 4.0]


def test_memory_is_bounded() -> None:
    kept = memory.Memory()
    for number in range(2000):
        kept.note_counts(START + number, _counts(), leads=bool(number // 1000))
        kept.note_hardware(
            START + number, {"hosts/h": ("host h", str(number))}
        )
    samples, events = kept.recall(0)
    assert len(samples) * recall.INTERVAL_S >= 3600
    assert len(samples) < 1000
    assert len(events) == 1000
    assert kept.recall(samples[-2]["at"])[0] == samples[-1:]
    assert [one.at for one in kept.recall(START + 1998)[1]] == [START + 1999]


def test_events_of_hardware() -> None:
    kept = memory.Memory()
    before = {
        "hosts/a": ("host a", "up"),
        "hosts/b": ("host b", "up"),
        "slots/s": ("slot 0 of a, board0", "up"),
    }
    kept.note_hardware(START, before)
    kept.note_hardware(
        START + 1,
        {
            "hosts/a": ("host a", "down"),
            "slots/s": ("slot 0 of a, board0", "up"),
            "hosts/c": ("host c", "up"),
        },
    )
    assert {
        (one.kind, one.what, one.text, one.place) for one in kept.recall(0)[1]
    } == {
        ("host", "host a", "up → down", "hosts/a"),
        ("host", "host b", "removed", "hosts/b"),
        ("host", "host c", "new: up", "hosts/c"),
    }


def test_many_alike_are_one_event() -> None:
    kept = memory.Memory()
    for state in ("up", "down"):
        hosts = {f"hosts/{n}": (f"host n{n}", state) for n in range(2000)}
        kept.note_hardware(START, hosts)
    (event,) = kept.recall(0)[1]
    assert event.what.startswith("2000 hosts: host n0, ")
    assert len(event.what) < 100


def test_conductor_that_goes_and_comes() -> None:
    kept = memory.Memory()
    for number, leads in enumerate([True, True, False, False, True]):
        kept.note_counts(START + number, _counts(), leads=leads)
    assert [(one.at, one.text) for one in kept.recall(0)[1]] == [
        (START + 2, "no conductor answers"),
        (START + 4, "a conductor answers"),
    ]


class _Sampled:
    """A world whose memory has had two samples, with a host lost between."""

    def __init__(self, world: fakes.Api) -> None:
        self.now = START
        sampler = recall.Sampler(world.backends, lambda: self.now)
        sampler.sample()
        down = [
            dataclasses.replace(one, up=False)
            for one in world.database.inventory().hosts
        ]
        world.database.change_inventory(hosts=down)
        self.now += recall.INTERVAL_S
        sampler.sample()
        # The numbers, here those of a fake, have not changed.
        assert world.backends.memory.recall(0)[1] == []
        self.now += 100.0
        sampler.sample()


def test_sampler_compares_hardware(world: fakes.Api) -> None:
    _Sampled(world)
    samples, events = world.backends.memory.recall(0)
    assert len(samples) == 3
    assert [(one.what, one.text) for one in events] == [
        ("host compute1", "up → down")
    ]


def _recalled(world: fakes.Api, token: str, path: str = recall.PATH) -> Any:
    return world.ask("GET", path, token, check=False)


@pytest.mark.security
def test_who_sees_what(world: fakes.Api) -> None:
    """Tenants see the whole pool's slots, but no rates and no hosts."""
    _Sampled(world)
    operator = _recalled(world, ADMIN)
    assert operator.headers["cache-control"] == "no-store"
    assert operator.json["events"][0]["place"] == f"hosts/{fakes.HOST}"
    tenant = _recalled(world, fakes.MEMBER)
    assert tenant.json["events"] == []
    assert "compute1" not in tenant.text
    assert len(tenant.json["samples"]) == 3
    for one in tenant.json["samples"]:
        assert one["bytes_per_s"] is one["wait_s"] is None
        assert one["slots"] == {"active": 2, "faulty": 2}
    no_role = _recalled(world, "u1:p1:stranger")
    assert no_role.status_code == 403
    assert no_role.json["errors"][0]["code"] == codes.FORBIDDEN


@pytest.mark.security
def test_memory_needs_a_token(make_world: Any) -> None:
    world = make_world(auth_strategy="keystone")
    answer = world.client.simulate_get(recall.PATH)
    assert answer.status_code == 401
    assert "samples" not in answer.text


def test_since(world: fakes.Api) -> None:
    _Sampled(world)
    path = f"{recall.PATH}?since="
    assert len(_recalled(world, ADMIN, f"{path}{START}").json["samples"]) == 2
    for text in ("x", "", "1e999x"):
        answer = _recalled(world, ADMIN, f"{path}{text}y")
        assert answer.status_code == 400
        assert answer.json["errors"][0]["code"] == codes.INVALID_REQUEST
    for text in ("nan", "inf", "1e30"):
        answer = _recalled(world, ADMIN, f"{path}{text}")
        assert answer.json["samples"] == []


def test_it_can_only_be_read(world: fakes.Api) -> None:
    answer = world.ask("POST", recall.PATH, ADMIN, check=False)
    assert answer.status_code == 405
    assert world.ask("HEAD", recall.PATH, ADMIN, check=False).content == b""


def test_sampler_survives_a_database_that_is_away(world: fakes.Api) -> None:
    world.database.failure = fakes.UNAVAILABLE
    world.conductor.failure = fakes.UNAVAILABLE
    sampler = recall.Sampler(world.backends)
    with pytest.raises(type(fakes.UNAVAILABLE)):
        sampler.sample()
    sampler.start()
    sampler.stop()
    assert world.backends.memory.recall(0) == ([], [])
