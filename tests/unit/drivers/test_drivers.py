#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Drivers and their loader."""

import multiprocessing
import pathlib

import pytest
import yaml

from fpgapool.drivers import base
from fpgapool.drivers import emulator
from fpgapool.drivers import loader
from fpgapool.drivers import noop
from fpgapool.drivers.emulator import boards
from fpgapool.drivers.emulator import pacing

SAMPLE = (
    pathlib.Path(__file__).parents[3] / "etc" / "fpgapool"
) / "boards.yaml.sample"
BOARD = {"name": "board0", "slots": 2}


def write(path, document):
    path.write_text(yaml.safe_dump(document))
    return str(path)


@pytest.fixture
def make_driver(tmp_path):
    def make(**board):
        path = write(
            tmp_path / "boards.yaml",
            {"unlimited": True, "boards": [{**BOARD, **board}]},
        )
        return emulator.EmulatorDriver(
            {"state_dir": str(tmp_path), "boards_file": path}
        )

    return make


class TestLoader:
    def test_every_driver_loads(self, tmp_path):
        settings = {"state_dir": str(tmp_path), "boards_file": str(SAMPLE)}
        for name in ("emulator", "noop"):
            driver = loader.load_driver(name, settings)
            assert isinstance(driver, base.Driver)
            path = loader.driver_path(name)
            assert type(loader.load_driver_path(path, settings)) is type(
                driver
            )

    def test_unknown_name_lists_the_known_ones(self):
        with pytest.raises(base.DriverError) as caught:
            loader.load_driver("nothing", {})
        assert caught.value.code == "DRIVER_UNKNOWN"
        assert "emulator, noop" in caught.value.message

    @pytest.mark.parametrize(
        "path",
        ["", ":", "no.such:Thing", "fpgapool.drivers.noop:No", "json:loads"],
    )
    def test_path_of_no_driver(self, path):
        with pytest.raises(base.DriverError) as caught:
            loader.load_driver_path(path, {})
        assert caught.value.code == "DRIVER_UNKNOWN"


def test_noop_has_no_boards():
    driver = noop.NoopDriver({})
    assert driver.discover() == ()
    assert not driver.health("board0").healthy
    for call in (
        lambda: driver.program("board0", 0, "builtin:copy"),
        lambda: driver.open("board0", 0, {}),
        lambda: driver.scrub("board0", 0),
        lambda: driver.telemetry("board0"),
    ):
        with pytest.raises(base.DriverError) as caught:
            call()
        assert caught.value.code == "NO_SUCH_SLOT"


class TestBoards:
    def test_sample(self):
        found = boards.read_boards(SAMPLE)
        assert found.rate_scale == 1.0
        assert [board.slots for board in found.boards] == [4]
        assert found.boards[0].dma_bytes_per_s == 2.1e9

    @pytest.mark.parametrize(
        ("member", "document"),
        [
            ("file", []),
            ("file.color", {"color": 1, "boards": []}),
            ("boards", {}),
            ("boards", {"boards": [BOARD] * 65}),
            ("boards[1].name", {"boards": [BOARD, BOARD]}),
            ("boards[0]", {"boards": ["board0"]}),
            ("boards[0].name", {"boards": [{"slots": 1}]}),
            ("boards[0].name", {"boards": [{**BOARD, "name": "a/b"}]}),
            ("boards[0].slots", {"boards": [{"name": "board0"}]}),
            ("boards[0].slots", {"boards": [{**BOARD, "slots": True}]}),
            ("boards[0].slots", {"boards": [{**BOARD, "slots": 0}]}),
            (
                "boards[0].dma_bytes_per_s",
                {"boards": [{**BOARD, "dma_bytes_per_s": "2e9"}]},
            ),
            (
                "boards[0].programming_time_s",
                {"boards": [{**BOARD, "programming_time_s": -1}]},
            ),
            (
                "boards[0].faults.programming",
                {"boards": [{**BOARD, "faults": {"programming": [2]}}]},
            ),
            (
                "boards[0].faults.fire",
                {"boards": [{**BOARD, "faults": {"fire": 1}}]},
            ),
            ("rate_scale", {"rate_scale": 0, "boards": []}),
            ("rate_scale", {"rate_scale": float("nan"), "boards": []}),
            (
                "rate_scale",
                {"unlimited": True, "rate_scale": 1, "boards": []},
            ),
            ("unlimited", {"unlimited": 1, "boards": []}),
        ],
    )
    def test_errors_say_where(self, tmp_path, member, document):
        path = write(tmp_path / "boards.yaml", document)
        with pytest.raises(base.DriverError) as caught:
            boards.read_boards(path)
        assert caught.value.code == "INVALID_SETTINGS"
        start = f"boards file {path}: {member}: "
        assert caught.value.message.startswith(start)

    @pytest.mark.parametrize("text", ["{", "a: b: c", "\x00"])
    def test_no_yaml(self, tmp_path, text):
        path = tmp_path / "boards.yaml"
        path.write_text(text)
        with pytest.raises(base.DriverError) as caught:
            boards.read_boards(path)
        assert caught.value.code == "INVALID_SETTINGS"


class TestEmulator:
    @pytest.mark.parametrize(
        "settings",
        [
            {},
            {"state_dir": "/tmp"},
            {"state_dir": "/tmp", "boards_file": 1},
        ],
    )
    def test_settings_that_are_missing(self, settings):
        with pytest.raises(base.DriverError) as caught:
            emulator.EmulatorDriver(settings)
        assert caught.value.code == "INVALID_SETTINGS"

    def test_discover_shows_what_is_programmed(self, make_driver):
        driver = make_driver(shape="medium")
        (device,) = driver.discover()
        assert device.name == "board0"
        assert [slot.programmed for slot in device.slots] == [None, None]
        driver.program("board0", 1, "builtin:aes")
        # Another instance, as in the agent, sees it too.
        (device,) = make_driver(shape="medium").discover()
        assert [slot.programmed for slot in device.slots] == [None, "aes"]
        assert {slot.shape for slot in device.slots} == {"medium"}

    def test_open_computes(self, make_driver):
        driver = make_driver()
        driver.program("board0", 0, "builtin:copy")
        core = driver.open("board0", 0, {})
        out = bytearray(4)
        assert core.process(memoryview(b"data"), memoryview(out), 0) == 4
        assert out == b"data"
        driver.scrub("board0", 0)
        with pytest.raises(base.InvalidParams):
            driver.open("board0", 0, {"key": 1})

    def test_open_needs_a_program(self, make_driver):
        with pytest.raises(base.DriverError) as caught:
            make_driver().open("board0", 0, {})
        assert caught.value.code == "NOT_PROGRAMMED"

    @pytest.mark.parametrize("bitstream", ["aes", "builtin:x", "builtin:"])
    def test_unknown_bitstream(self, make_driver, bitstream):
        with pytest.raises(base.DriverError) as caught:
            make_driver().program("board0", 0, bitstream)
        assert caught.value.code == "BITSTREAM_UNKNOWN"

    @pytest.mark.parametrize(
        ("device", "slot"), [("board1", 0), ("board0", 2), ("board0", -1)]
    )
    def test_unknown_slot(self, make_driver, device, slot):
        with pytest.raises(base.DriverError) as caught:
            make_driver().program(device, slot, "builtin:copy")
        assert caught.value.code == "NO_SUCH_SLOT"

    def test_faults_can_be_switched_on(self, make_driver):
        driver = make_driver()
        driver.program("board0", 0, "builtin:copy")
        driver.scrub("board0", 0)
        assert driver.health("board0") == base.Health(True)
        make_driver(
            faults={"unhealthy": "hot", "programming": [0], "scrub": [0]}
        )
        assert driver.health("board0") == base.Health(False, "hot")
        with pytest.raises(base.DriverError) as caught:
            driver.program("board0", 0, "builtin:copy")
        assert caught.value.code == "PROGRAMMING_FAILED"
        with pytest.raises(base.DriverError) as caught:
            driver.scrub("board0", 0)
        assert caught.value.code == "SCRUB_FAILED"
        assert driver.discover()[0].slots[0].programmed is None

    def test_health_of_a_board_that_is_gone(self, make_driver):
        assert not make_driver().health("board7").healthy

    def test_power_grows_with_busy_slots(self, make_driver, tmp_path):
        driver = make_driver(idle_power_w=10, active_power_w=3)
        idle = driver.telemetry("board0")
        assert idle.power_w == 10
        table = pacing.ShareTable(tmp_path / "emulator" / "board0.shm", 2)
        table.announce(1, 2**63, 1e9)
        busy = driver.telemetry("board0")
        assert busy.power_w == 13
        assert busy.temperature_c > idle.temperature_c


class Clock:
    """Time that passes while somebody waits."""

    def __init__(self):
        self.now_ns = 10**12
        self.cancelled = False

    def __call__(self):
        return self.now_ns

    def wait(self, wait_s):
        self.now_ns += max(1, round(wait_s * 1e9))
        return self.cancelled


def make_pacers(tmp_path, clock, peaks, shared):
    table = pacing.ShareTable(tmp_path / "t.shm", len(peaks))
    return table, [
        pacing.Pacer(
            table, slot, peak, shared, clock_ns=clock, wait=clock.wait
        )
        for slot, peak in enumerate(peaks)
    ]


def run_alone(pacer, clock, pieces, piece_bytes, pause_ns=0):
    start_ns = clock.now_ns
    for _ in range(pieces):
        pacer.start(piece_bytes)
        pacer.finish(piece_bytes)
        clock.now_ns += pause_ns
    return pieces * piece_bytes / (clock.now_ns - start_ns) * 1e9


class TestPacer:
    def test_alone_at_its_peak(self, tmp_path):
        clock = Clock()
        _, (pacer,) = make_pacers(tmp_path, clock, [50e6], 80e6)
        rate = run_alone(pacer, clock, 100, 1_000_000)
        assert rate == pytest.approx(50e6, rel=0.03)

    def test_pauses_within_the_bucket_cost_nothing(self, tmp_path):
        clock = Clock()
        _, (pacer,) = make_pacers(tmp_path, clock, [50e6], 80e6)
        rate = run_alone(pacer, clock, 100, 1_000_000, pause_ns=3_000_000)
        assert rate == pytest.approx(50e6, rel=0.03)

    def test_longer_pauses_are_lost(self, tmp_path):
        clock = Clock()
        _, (pacer,) = make_pacers(tmp_path, clock, [50e6], 80e6)
        # 20 ms of work, of which 5 ms fit into each pause of 25 ms.
        rate = run_alone(pacer, clock, 100, 1_000_000, pause_ns=25_000_000)
        assert rate == pytest.approx(25e6, rel=0.03)

    def test_busy_neighbour_takes_its_share(self, tmp_path):
        clock = Clock()
        table, (pacer, _) = make_pacers(tmp_path, clock, [50e6, 20e6], 60e6)
        table.announce(1, 2**63, 20e6)
        rate = run_alone(pacer, clock, 100, 1_000_000)
        assert rate == pytest.approx(40e6, rel=0.03)

    def test_idle_neighbour_does_not_count(self, tmp_path):
        clock = Clock()
        table, (pacer, _) = make_pacers(tmp_path, clock, [50e6, 50e6], 60e6)
        table.announce(1, clock.now_ns, 50e6)
        rate = run_alone(pacer, clock, 100, 1_000_000)
        assert rate == pytest.approx(50e6, rel=0.03)

    def test_share_changes_within_a_piece(self, tmp_path):
        clock = Clock()
        table, (pacer, _) = make_pacers(tmp_path, clock, [50e6, 50e6], 50e6)
        # The neighbour works for the first second only.
        table.announce(1, clock.now_ns + 10**9, 50e6)
        rate = run_alone(pacer, clock, 1, 75_000_000)
        assert rate == pytest.approx(75e6 / 2, rel=0.03)

    def test_cancel(self, tmp_path):
        clock = Clock()
        clock.cancelled = True
        _, (pacer,) = make_pacers(tmp_path, clock, [1.0], 1.0)
        pacer.start(10**9)
        with pytest.raises(pacing.Cancelled):
            pacer.finish(10**9)

    def test_cancel_wakes_a_real_wait(self, tmp_path):
        table = pacing.ShareTable(tmp_path / "t.shm", 1)
        pacer = pacing.Pacer(table, 0, 1.0, 1.0)
        pacer.start(10**9)
        pacer.cancel()
        with pytest.raises(pacing.Cancelled):
            pacer.finish(10**9)

    def test_table_shrinks_for_nobody(self, tmp_path):
        large = pacing.ShareTable(tmp_path / "t.shm", 4)
        pacing.ShareTable(tmp_path / "t.shm", 2)
        large.announce(3, 2**63, 7.0)
        assert large.busy_peaks_bytes_per_s(0) == [7.0]
        assert large.busy_peaks_bytes_per_s(0, besides=3) == []


def _pace(path, slot, slots, barrier, counts, seconds):
    table = pacing.ShareTable(path, slots)
    pacer = pacing.Pacer(table, slot, 50e6, 120e6)
    barrier.wait()
    clock_ns = pacer._clock_ns
    end_ns = clock_ns() + int(seconds * 1e9)
    while clock_ns() < end_ns:
        pacer.start(100_000)
        pacer.finish(100_000)
        counts[slot] += 100_000


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_processes_share_fairly(tmp_path, slots):
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(slots)
    counts = context.Array("q", slots, lock=False)
    path = str(tmp_path / "t.shm")
    processes = [
        context.Process(
            target=_pace, args=(path, slot, slots, barrier, counts, 1.0)
        )
        for slot in range(slots)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    # A slot that a loaded machine delays leaves its share to the others, so
    # only what holds whatever the load is asserted.
    assert max(counts) <= 50e6 * 1.05
    assert sum(counts) <= 120e6 * 1.05
    assert min(counts) >= 0.5 * max(counts)
