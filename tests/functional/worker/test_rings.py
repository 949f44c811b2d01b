# SPDX-License-Identifier: Apache-2.0

"""A channel between two processes, under load."""

import collections
import contextlib
import random
import subprocess
import sys

import pytest

from fpgapool.common.channels import rings

TIMEOUT_S = 60


@contextlib.contextmanager
def echo(channel):
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.functional.worker.ring_echo",
            *map(str, channel.fds),
        ],
        pass_fds=channel.fds,
    )
    channel.forget_fds()
    try:
        yield process
        assert process.wait(TIMEOUT_S) == 0
    finally:
        process.kill()
        process.wait()
        channel.close()


@pytest.mark.parametrize("stranger", [False, True])
@pytest.mark.parametrize(
    ("size_bytes", "most_bytes", "count"),
    [(4096, 60, 30_000), (4096, 2040, 1_000), (1 << 20, 200_000, 3_000)],
)
def test_records_arrive_once_whole_and_in_order(
    size_bytes, most_bytes, count, stranger
):
    random_numbers = random.Random(size_bytes + most_bytes)
    source = random_numbers.randbytes(most_bytes * 2)
    sent = collections.deque()
    channel = rings.Channel.create(size_bytes, stranger=stranger)
    with echo(channel):
        for number in range(count):
            length = random_numbers.randrange(1, most_bytes + 1)
            start = number % most_bytes
            record = source[start : start + length]
            while not channel.put(record):
                # The peer may wait for room, too.
                if channel.wait(TIMEOUT_S, room_bytes=length):
                    drain(channel, sent)
            sent.append(record)
            if number % 7 == 0:
                drain(channel, sent)
        while sent:
            assert channel.wait(TIMEOUT_S)
            drain(channel, sent)
        channel.put(b"")
        assert channel.wait(TIMEOUT_S)
        assert bytes(channel.get()) == b""


def drain(channel, sent):
    while (record := channel.get()) is not None:
        assert bytes(record) == sent.popleft()
        channel.free(wipe=True)


def test_one_record_at_a_time_wakes_each_side_every_time():
    channel = rings.Channel.create(4096)
    with echo(channel):
        for number in range(20_000):
            channel.put(b"%d" % number)
            assert channel.wait(TIMEOUT_S), f"a bell was lost at {number}"
            assert bytes(channel.get()) == b"%d" % number
            channel.free()
        channel.put(b"")
