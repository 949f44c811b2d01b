# SPDX-License-Identifier: Apache-2.0

"""Each signed message takes effect once, and not late."""

import os
import random

import pytest

from fpgapool.common import exception
from fpgapool.common.messaging import freshness
from fpgapool.common.messaging import signing
from tests.unit.common import signers

pytestmark = pytest.mark.security

TOPIC = "topic"
KEYS = signers.POOL
TIMEOUT_S = 5.0


class Clock:
    """A process's monotonic time."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch):
    """Give the time of sender and receiver."""
    made = Clock(1000.0)
    monkeypatch.setattr(freshness, "time", made)
    return made


@pytest.fixture
def sender():
    return freshness.Sender(KEYS, TOPIC)


@pytest.fixture
def receiver():
    return freshness.Receiver(KEYS, TOPIC)


def call(sender, receiver, keys=KEYS, timeout_s=TIMEOUT_S):
    """Make a call as a client does; return the stamp that was accepted."""
    sent_s = freshness.time.monotonic()
    for _ in range(freshness.TRIES):
        stamp = sender.call(timeout_s)
        try:
            receiver.accept(keys.party, stamp)
        except exception.MessageStale as stale:
            sender.learn(stale, stamp, sent_s)
        else:
            return stamp
    pytest.fail("refused")


def refuse(receiver, stamp, party=signing.CONTROL, error=freshness.NotFresh):
    with pytest.raises(error):
        receiver.accept(party, stamp)


def test_a_cast_takes_effect_once(sender, receiver):
    for stamp in [sender.cast() for _ in range(3)]:
        receiver.accept("a", stamp)
        refuse(receiver, stamp, "a")


def test_parties_do_not_share_numbers(sender, receiver):
    stamp = sender.cast()
    for party in ("a", "b"):
        receiver.accept(party, stamp)


def test_clients_of_a_process_and_its_forks_do_not_share_numbers(
    sender, receiver
):
    stamps = [sender.cast(), freshness.Sender(KEYS, TOPIC).cast()]
    reading, writing = os.pipe()
    with open(reading) as answer, open(writing, "w") as question:
        pid = os.fork()
        if pid == 0:
            try:
                print(*sender.cast().to_list(), file=question, flush=True)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        run, number = answer.readline().split()
    stamps += [freshness.Stamp(run, int(number)), sender.cast()]
    for stamp in stamps:
        receiver.accept("a", stamp)


def test_messages_may_overtake_each_other(sender, receiver):
    rng = random.Random(6)
    stamps = [sender.cast() for _ in range(500)]
    rng.shuffle(stamps)
    for stamp in stamps:
        receiver.accept("a", stamp)
    for stamp in stamps:
        refuse(receiver, stamp, "a")


def test_what_can_no_longer_be_told_is_refused(sender, receiver):
    first, second = sender.cast(), sender.cast()
    late = freshness.Stamp(first.run, second.number + freshness.WINDOW - 1)
    receiver.accept("a", late)
    refuse(receiver, first, "a")
    receiver.accept("a", second)
    refuse(receiver, second, "a")
    # Far ahead, all lower ones are forgotten.
    far = freshness.Stamp(first.run, late.number + 10 * freshness.WINDOW)
    receiver.accept("a", far)
    for stamp in (first, second, late, far):
        refuse(receiver, stamp, "a")


def test_a_call_names_its_receiver(sender, receiver):
    stamp = call(sender, receiver)
    refuse(receiver, stamp)
    # The next leader has not seen it, but is another receiver.
    following = freshness.Receiver(KEYS, TOPIC)
    refuse(following, stamp, error=exception.MessageStale)
    again = call(sender, following)
    assert again.number == stamp.number + 2
    refuse(following, again)


def test_only_the_first_call_to_a_receiver_is_repeated(sender, receiver):
    first = call(sender, receiver).number
    numbers = [call(sender, receiver).number for _ in range(2)]
    assert numbers == [first + 1, first + 2]


def test_a_call_expires_with_its_senders_patience(clock, sender, receiver):
    stamp = call(sender, receiver)
    held = sender.call(TIMEOUT_S)
    clock.now_s += TIMEOUT_S + 1.01
    refuse(receiver, held, error=exception.MessageStale)
    refuse(receiver, stamp, error=exception.MessageStale)
    call(sender, receiver)


@pytest.mark.parametrize("ahead_s", [-1e6, -3.0, 0.0, 3.0, 1e6])
def test_clocks_need_not_agree(clock, sender, receiver, ahead_s):
    def accept(stamp):
        clock.now_s += ahead_s + 0.5
        try:
            receiver.accept(signing.CONTROL, stamp)
        finally:
            clock.now_s -= ahead_s

    stamp, sent_s = sender.call(TIMEOUT_S), clock.now_s
    with pytest.raises(exception.MessageStale) as raised:
        accept(stamp)
    sender.learn(raised.value, stamp, sent_s)
    held = [sender.call(TIMEOUT_S) for _ in range(2)]
    clock.now_s += TIMEOUT_S
    accept(held[0])
    clock.now_s += 2.0
    with pytest.raises(exception.MessageStale):
        accept(held[1])


@pytest.mark.parametrize(
    "change",
    [
        {"receiver": "0" * 16},
        {"now_s": 1e9},
        {"proof": "0" * 64},
        {"proof": KEYS.sign(KEYS.party, TOPIC, "other")},
        {"proof": "\ud800"},
    ],
)
def test_only_a_receiver_with_the_key_says_what_to_stamp(
    sender, receiver, change
):
    stamp = sender.call(TIMEOUT_S)
    with pytest.raises(exception.MessageStale) as raised:
        receiver.accept(signing.CONTROL, stamp)
    forged = exception.MessageStale(**(raised.value.kwargs | change))
    with pytest.raises(exception.MessageRefused, match="invalid signature"):
        sender.learn(forged, stamp, 0.0)


def test_an_answer_to_another_call_teaches_nothing(sender, receiver):
    stamps = [sender.call(TIMEOUT_S), sender.call(TIMEOUT_S)]
    with pytest.raises(exception.MessageStale) as raised:
        receiver.accept(signing.CONTROL, stamps[0])
    with pytest.raises(exception.MessageRefused):
        sender.learn(raised.value, stamps[1], 0.0)


def test_a_host_calls_with_its_own_key(receiver):
    keys = signers.keys_of("a")
    call(freshness.Sender(keys, TOPIC), receiver, keys)


def test_many_runs_are_forgotten_together(sender, receiver):
    stamp = call(sender, receiver)
    for number in range(freshness.MAX_RUNS):
        receiver.accept(signing.CONTROL, freshness.Stamp(f"{number:016x}", 1))
    # What was forgotten cannot be repeated.
    refuse(receiver, stamp, error=exception.MessageStale)
    (known,) = receiver._parties.values()
    assert len(known.runs) == 1
    call(sender, receiver)


@pytest.mark.parametrize(
    "parts",
    [
        *(None, [], {}, "stamp", [1, 2], ["0" * 16], ["0" * 16, "1"]),
        *(["0" * 15, 1], ["0" * 16, 0], ["0" * 16, -1], ["0" * 16, 1 << 62]),
        *(["0" * 16, 1.5], ["0" * 16, 1, "r"], ["0" * 16, 1, None, 1.0]),
        *(["0" * 16, 1, "r", "1"], ["0" * 16, 1, "r", 1.0, 1]),
        *(["0" * 16, True], ["0" * 16, 1, "r", float("nan")]),
        ["0" * 16, 1, "r", 10**400],
    ],
)
def test_what_is_no_stamp(parts):
    with pytest.raises(freshness.NotFresh):
        freshness.Stamp.read(parts)


def test_stamps_are_read_as_they_were_written(sender):
    for stamp in (sender.cast(), sender.call(1.0)):
        assert freshness.Stamp.read(stamp.to_list()) == stamp
