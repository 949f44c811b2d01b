# SPDX-License-Identifier: Apache-2.0

"""Which thread of a program receives, when it uses a group in several ways."""

import concurrent.futures
import signal
import threading

import pytest

from tests.functional.groupdesk import harness

TIMEOUT_S = 30


@pytest.fixture
def desk(tmp_path):
    with harness.DeskProcess(tmp_path / "h", data_address="127.0.0.1") as made:
        made.keep("c", revision=1)
        made.join(0, 1)
        yield made


@pytest.fixture(params=[False, True], ids=["rings", "tls"])
def tcp(request):
    return request.param


def pieces(count):
    return [b"%d" % number for number in range(count)]


def test_a_map_that_pauses_keeps_nobody_waiting(desk, tcp):
    with harness.open_group(desk, tcp=tcp, window_tasks=8) as opened:
        results = opened.map(pieces(100))
        assert next(results) == b"0"
        # The window is full of tasks whose results are not asked for.
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            other = pool.submit(opened.run, b"other", timeout_s=TIMEOUT_S)
            assert other.result(TIMEOUT_S) == b"other"
        future = opened.submit(b"future")
        assert future.result(TIMEOUT_S) == b"future"
        assert [b"0", *results] == pieces(100)


def test_a_map_that_is_abandoned_does_not_delay_the_end(desk, tcp):
    opened = harness.open_group(desk, tcp=tcp, window_tasks=8)
    results = opened.map(pieces(100))
    assert next(results) == b"0"
    waiting = [opened.submit(piece) for piece in pieces(30)]
    opened.close(timeout_s=TIMEOUT_S)
    # All of them had the time to end well.
    assert [one.result(0) for one in waiting] == pieces(30)


def test_a_desk_that_stands_still_does_not_delay_the_end(desk, tcp):
    opened = harness.open_group(desk, tcp=tcp)
    assert opened.run(b"first") == b"first"
    desk.process.send_signal(signal.SIGSTOP)
    waiting = [opened.submit(piece) for piece in pieces(3)]
    end = threading.Thread(
        target=opened.close, kwargs={"timeout_s": 0.1}, daemon=True
    )
    end.start()
    end.join(TIMEOUT_S)
    assert not end.is_alive()
    codes = {one.exception(TIMEOUT_S).code for one in waiting}
    assert codes == {"SESSION_CLOSED"}


def test_maps_of_several_threads(desk, tcp):
    def work(number):
        mine = [b"%d-%d" % (number, piece) for piece in range(200)]
        return list(opened.map(mine)) == mine

    with (
        harness.open_group(desk, tcp=tcp, window_tasks=16) as opened,
        concurrent.futures.ThreadPoolExecutor(4) as pool,
    ):
        assert all(pool.map(work, range(4)))


def test_a_map_and_a_desk_that_is_killed(desk, tcp):
    with harness.open_group(desk, tcp=tcp, window_tasks=8) as opened:
        results = opened.map(pieces(50))
        assert next(results) == b"0"
        desk.restart()
        desk.admit()
        desk.join(0, 1)
        if tcp:
            opened._door.members_list = type(opened._door.members_list)(
                2, (desk.host(tcp=True),)
            )
        assert list(results) == pieces(50)[1:]
