# SPDX-License-Identifier: Apache-2.0

"""The table that the processes of an emulated cluster share."""

import concurrent.futures
import errno
import os
import subprocess
import sys
import threading

import pytest

from fpgapool.drivers import base
from fpgapool.drivers.emulator import boards
from fpgapool.drivers.emulator import fairness
from fpgapool.drivers.emulator import ports
from fpgapool.drivers.emulator import shares

NOW_NS = 10**12
LATER_NS = 2**62


@pytest.fixture
def table(tmp_path):
    return shares.ShareTable(tmp_path)


class TestShareTable:
    def test_others_see_what_one_announces(self, table, tmp_path):
        pipe = table.declare("pipe", 100.0)
        first = table.join("first", 80.0, {pipe: 1})
        other = shares.ShareTable(tmp_path)
        assert other.declare("pipe", 100.0) == pipe
        second = other.join("second", 80.0, {pipe: 1})
        assert table.rate_bytes_per_s(first, NOW_NS) == 80.0
        other.announce(second, NOW_NS + 1)
        assert table.rate_bytes_per_s(first, NOW_NS) == 50.0
        assert table.busy_users(pipe, NOW_NS) == 1
        # Who is idle does not count.
        assert table.rate_bytes_per_s(first, NOW_NS + 1) == 80.0
        assert table.busy_users(pipe, NOW_NS + 1) == 0

    def test_changes_are_noticed_at_once(self, table, tmp_path):
        other = shares.ShareTable(tmp_path)
        pipe = table.declare("pipe", 100.0)
        stream = table.join("stream", 80.0, {pipe: 1})
        assert table.rate_bytes_per_s(stream, NOW_NS) == 80.0
        other.set_peak(stream, 70.0)
        assert table.rate_bytes_per_s(stream, NOW_NS) == 70.0
        other.declare("pipe", 60.0)
        assert table.rate_bytes_per_s(stream, NOW_NS) == 60.0
        assert other.join("stream", 80.0, {pipe: 2}) == stream
        assert table.rate_bytes_per_s(stream, NOW_NS) == 30.0

    def test_a_slot_that_joins_again_is_idle(self, table):
        pipe = table.declare("pipe", 100.0)
        stream = table.join("stream", 80.0, {pipe: 1})
        table.announce(stream, LATER_NS)
        table.join("stream", 80.0, {})
        assert table.busy_users(pipe, NOW_NS) == 0

    def test_the_owner_knows_better(self, table):
        guessed = table.declare("nic", 10.0, is_owner=False)
        stream = table.join("stream", 80.0, {guessed: 1})
        assert table.rate_bytes_per_s(stream, NOW_NS) == 10.0
        assert table.declare("nic", 20.0) == guessed
        assert table.declare("nic", 10.0, is_owner=False) == guessed
        assert table.rate_bytes_per_s(stream, NOW_NS) == 20.0

    def test_an_earlier_boot_is_forgotten(self, table, tmp_path):
        pipe = table.declare("pipe", 100.0)
        table.announce(table.join("stream", 80.0, {pipe: 1}), LATER_NS)
        assert shares.ShareTable(tmp_path).busy_users(pipe, NOW_NS) == 1
        path = tmp_path / shares.FILE_NAME
        with path.open("r+b") as file:
            file.write(bytes(16))
        fresh = shares.ShareTable(tmp_path)
        assert fresh.busy_users(pipe, NOW_NS) == 0
        assert fresh.declare("another pipe", 1.0) == 0

    def test_there_is_an_end(self, table, monkeypatch):
        monkeypatch.setattr(shares, "MAX_RESOURCES", 2)
        monkeypatch.setattr(shares, "MAX_STREAMS", 1)
        table.declare("a", 1.0)
        table.declare("b", 1.0, is_owner=False)
        table.declare("a", 2.0)
        with pytest.raises(shares.TableFull):
            table.declare("c", 1.0)
        table.join("s", 1.0, {})
        with pytest.raises(shares.TableFull):
            table.join("t", 1.0, {})

    def test_entries_of_many_threads_are_apart(self, tmp_path):
        threads, names = 8, 40
        barrier = threading.Barrier(threads)

        def enter(thread):
            # Every second one has a table, as a process would.
            mine = tables[thread // 2]
            barrier.wait()
            return [
                mine.declare(f"{(thread + n) % names}", 1.0)
                for n in range(names)
            ]

        tables = [shares.ShareTable(tmp_path) for _ in range(threads // 2)]
        with concurrent.futures.ThreadPoolExecutor(threads) as executor:
            found = list(executor.map(enter, range(threads)))
        for numbers in found:
            assert sorted(numbers) == list(range(names))


NIC = 10.0
DMA = 16.0


def make_ports(table, uuid="a", several_hosts=True):
    board = boards.Board(name="board0", slots=4, dma_bytes_per_s=DMA)
    found = ports.Ports(table, uuid, several_hosts)
    found.declare(boards.Boards(boards=(board,), nic_bytes_per_s=NIC))
    return found


def join(host, slot, origin=None, *, local=False, returned=0.0):
    return host.join(
        "board0", slot, base.Traffic(local, origin), 100.0, returned
    )


def rates(table, streams):
    for stream in streams:
        table.announce(stream, LATER_NS)
    return [table.rate_bytes_per_s(stream, NOW_NS) for stream in streams]


class TestPorts:
    def test_local_data_uses_the_pipe_only(self, table):
        here = make_ports(table)
        streams = [join(here, 0, "a", local=True, returned=1.0)]
        assert rates(table, streams) == [DMA]
        streams.append(join(here, 1, "a", local=True))
        assert rates(table, streams) == [DMA / 2, DMA / 2]

    def test_remote_data_uses_two_nics(self, table):
        here, there = make_ports(table), make_ports(table, "b")
        incoming = join(here, 0, "b")
        local = join(there, 0, "b", local=True)
        assert rates(table, [incoming, local]) == [NIC, DMA]
        assert rates(table, [incoming, join(there, 1, "b")])[0] == NIC / 2

    def test_returning_data_uses_the_way_back(self, table):
        here, there = make_ports(table), make_ports(table, "b")
        streams = [
            join(here, 0, "b", returned=1.0),
            join(there, 0, "a", returned=0.5),
        ]
        # b's egress carries the input of one and the output of the other.
        expected = fairness.max_min_rates(
            [100.0, 100.0],
            [[(0, 1.0), (1, 1.0)], [(0, 0.5), (1, 1.0)]],
            [NIC, NIC],
        )
        assert rates(table, streams) == pytest.approx(expected)

    def test_data_from_outside_the_pool(self, table):
        here = make_ports(table)
        assert rates(table, [join(here, 0, returned=4.0)]) == [NIC / 4]

    def test_data_that_leaves_its_host_and_comes_back(self, table):
        here = make_ports(table)
        assert rates(table, [join(here, 0, "a", returned=1.0)]) == [NIC / 2]

    def test_a_host_without_boards_has_a_nic_like_this(self, table):
        here, there = make_ports(table), make_ports(table, "b")
        streams = [join(here, 0, "c"), join(there, 0, "c")]
        assert rates(table, streams) == [NIC / 2, NIC / 2]

    def test_one_host_does_not_know_the_other_end(self, table):
        here = make_ports(table, several_hosts=False)
        there = make_ports(table, "b", several_hosts=False)
        streams = [join(here, 0, "c"), join(there, 0, "c")]
        assert rates(table, streams) == [NIC, NIC]

    def test_busy_slots_are_those_of_the_device(self, table):
        here, there = make_ports(table), make_ports(table, "b")
        table.announce(join(here, 0, "b"), LATER_NS)
        table.announce(join(here, 1, local=True), LATER_NS)
        assert here.busy_slots("board0", NOW_NS) == 2
        assert there.busy_slots("board0", NOW_NS) == 0


TRUNCATES = """
import os, sys
from fpgapool.drivers import base, emulator

directory, size_bytes = sys.argv[1], int(sys.argv[2])
settings = {"state_dir": directory, "boards_file": directory + "/boards.yaml"}
driver = emulator.EmulatorDriver(settings)
driver.program("board0", 0, "builtin:copy")
running = driver.open("board0", 0, {})
piece = memoryview(bytearray(16))
running.process(piece, memoryview(bytearray(16)), 0)
os.truncate(directory + "/emulator/shares.shm", size_bytes)
if sys.argv[3] == "session":
    try:
        running.process(piece, memoryview(bytearray(16)), 16)
    except Exception as error:
        print(error, file=sys.stderr)
    else:
        sys.exit("the session goes on")
print(driver.health("board0"), driver.telemetry("board0"))
after = driver.open("board0", 0, {})
assert after.process(piece, memoryview(bytearray(16)), 0) == 16
"""


@pytest.mark.parametrize("size_bytes", [0, 30_000])
@pytest.mark.parametrize("who", ["agent", "session"])
def test_a_table_that_is_truncated_ends_no_process(tmp_path, size_bytes, who):
    """The kernel would, at the next look at what is mapped."""
    (tmp_path / "boards.yaml").write_text(
        "boards: [{name: board0, slots: 1}]\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            TRUNCATES,
            str(tmp_path),
            str(size_bytes),
            who,
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert f"{shares.FILE_NAME} was truncated" in done.stderr


def test_a_table_that_finds_no_room_says_where(tmp_path, monkeypatch):
    def no_room(fd: int, offset: int, length_bytes: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", no_room)
    monkeypatch.setattr(os, "ftruncate", lambda fd, size: no_room(fd, 0, size))
    with pytest.raises(OSError, match=shares.FILE_NAME):
        shares.ShareTable(tmp_path)
