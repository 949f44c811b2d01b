# SPDX-License-Identifier: Apache-2.0

"""Messages that are doubled, delayed and lost."""

from __future__ import annotations

import collections
import random
import threading
import types

import pytest

from tests.chaos import faulty

CONTEXT = object()


class Sent:
    """Counts what is sent, in place of a client of oslo.messaging."""

    def __init__(self) -> None:
        self.casts: collections.Counter[int] = collections.Counter()
        self.changed = threading.Condition()

    def prepare(self, **_options: object) -> Sent:
        return self

    def cast(self, ctxt: object, method: str, number: int) -> None:
        assert (ctxt, method) == (CONTEXT, "hint")
        with self.changed:
            self.casts[number] += 1
            self.changed.notify_all()

    def call(self, _ctxt: object, _method: str, number: int) -> int:
        return number

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(
                lambda: self.casts.total() >= count, 10
            )


def client_in(faults: faulty.Faults) -> tuple[faulty.Client, Sent]:
    sent = Sent()
    world = types.SimpleNamespace(faults=faults, rng=random.Random(1))
    return faulty.Client(sent, world), sent


def cast_all(client: faulty.Client, count: int = 200) -> None:
    for number in range(count):
        client.prepare(server="a").cast(CONTEXT, "hint", number=number)


def test_without_faults_everything_comes_once() -> None:
    client, sent = client_in(faulty.Faults())
    cast_all(client)
    assert sent.casts == dict.fromkeys(range(200), 1)


def test_some_are_doubled() -> None:
    client, sent = client_in(faulty.Faults(doubled=0.5))
    cast_all(client)
    assert set(sent.casts) == set(range(200))
    assert set(sent.casts.values()) == {1, 2}


def test_some_are_lost() -> None:
    client, sent = client_in(faulty.Faults(lost=0.5))
    cast_all(client)
    assert 50 < sent.casts.total() < 150
    assert set(sent.casts.values()) == {1}


def test_late_ones_come_after_others() -> None:
    client, sent = client_in(faulty.Faults(delayed=0.5, delay_s=0.2))
    cast_all(client)
    sent.wait_for(200)
    assert list(sent.casts) != sorted(sent.casts)
    assert sent.casts == dict.fromkeys(range(200), 1)


def test_a_question_is_doubled_and_answered_once() -> None:
    client, sent = client_in(faulty.Faults(doubled=1.0))
    assert client.call(CONTEXT, "hint", number=7) == 7
    sent.wait_for(1)
    assert sent.casts == {7: 1}


def test_faults_are_read_from_the_file(tmp_path) -> None:
    path = tmp_path / "faults.json"
    assert faulty.World(path).faults == faulty.Faults()
    wrong = faulty.Faults(lost=0.1, clock_s=-5.0)
    wrong.write(path)
    assert faulty.World(path).faults == wrong


def test_chance_is_the_same_for_the_same_seed_and_daemon(tmp_path) -> None:
    def drawn(name: str, seed: int) -> float:
        path = tmp_path / name / "faults.json"
        path.parent.mkdir(exist_ok=True)
        faulty.Faults(seed=seed).write(path)
        world = faulty.World(path)
        assert world.faults.seed == seed
        return world.rng.random()

    assert drawn("one", 1) == drawn("one", 1)
    assert len({drawn("one", 1), drawn("one", 2), drawn("other", 1)}) == 3


def test_an_unknown_fault_is_an_error(tmp_path) -> None:
    path = tmp_path / "faults.json"
    path.write_text('{"rain": 1}')
    with pytest.raises(TypeError):
        _ = faulty.World(path).faults
