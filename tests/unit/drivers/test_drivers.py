# SPDX-License-Identifier: Apache-2.0

"""Drivers and their loader."""

import dataclasses
import functools
import pathlib
import zlib

import pytest
import yaml

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers import base
from fpgapool.drivers import emulator
from fpgapool.drivers import loader
from fpgapool.drivers import noop
from fpgapool.drivers.emulator import boards
from fpgapool.drivers.emulator import pacing
from fpgapool.drivers.emulator import shares
from tests.unit.drivers import emulated

SAMPLE = (
    pathlib.Path(__file__).parents[3] / "etc" / "fpgapool"
) / "boards.yaml.sample"
BOARD = emulated.BOARD


def write(path, document):
    path.write_text(yaml.safe_dump(document))
    return str(path)


@pytest.fixture
def make_driver(tmp_path):
    return functools.partial(emulated.make, tmp_path)


class TestLoader:
    def test_every_driver_loads(self, tmp_path):
        settings = {"state_dir": str(tmp_path), "boards_file": str(SAMPLE)}
        for name in ("emulator", "noop"):
            path = loader.driver_path(name)
            driver = loader.load_driver_path(path, settings)
            assert isinstance(driver, base.Driver)

    def test_unknown_name_lists_the_known_ones(self):
        with pytest.raises(base.DriverError) as caught:
            loader.driver_path("nothing")
        assert caught.value.code == "DRIVER_UNKNOWN"
        for name in ("emulator", "noop"):
            assert name in caught.value.message

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
            ("", []),
            ("", {"color": 1, "boards": []}),
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
                "boards[0].faults.programming[0].slot",
                {"boards": [{**BOARD, "faults": {"programming": [2]}}]},
            ),
            (
                "boards[0].faults",
                {"boards": [{**BOARD, "faults": {"fire": 1}}]},
            ),
            ("rate_scale", {"rate_scale": 0, "boards": []}),
            ("rate_scale", {"rate_scale": float("nan"), "boards": []}),
            (
                "rate_scale",
                {"unlimited": True, "rate_scale": 1, "boards": []},
            ),
            ("unlimited", {"unlimited": 1, "boards": []}),
            ("nic_bytes_per_s", {"nic_bytes_per_s": 0, "boards": []}),
            ("power_cap_w", {"power_cap_w": -1, "boards": []}),
            ("power_cap_w", {"power_cap_w": None, "boards": []}),
            ("power_cap_w", {"power_cap_w": "much", "boards": []}),
            ("power_cap_w", {"power_cap_w": True, "boards": []}),
            ("power_cap_w", {"power_cap_w": float("inf"), "boards": []}),
        ],
    )
    def test_errors_say_where(self, tmp_path, member, document):
        path = write(tmp_path / "boards.yaml", document)
        with pytest.raises(base.DriverError) as caught:
            boards.read_boards(path)
        assert caught.value.code == "INVALID_SETTINGS"
        start = f"boards file {path}: {member}: ".removesuffix(": : ")
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
            {"state_dir": "/tmp", "boards_file": "x", "cluster_dir": "/tmp"},
            {
                "state_dir": "/tmp",
                "boards_file": "x",
                "cluster_dir": 1,
                "host_uuid": "h",
            },
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

    def test_core_that_is_not_installed(
        self, make_driver, tmp_path, monkeypatch
    ):
        profile = {
            "name": "odd",
            "description": "",
            "peak_bytes_per_s": 1.0,
            "return_ratio": 0.0,
            "stateless": True,
            "shapes": [],
            "params_schema": {},
            "core": "no.such.module:Core",
            "chunk_multiple_bytes": 1,
        }
        write(tmp_path / "odd.yaml", profile)
        monkeypatch.setenv(accelerators.DIRECTORY_VARIABLE, str(tmp_path))
        with pytest.raises(base.DriverError) as caught:
            make_driver().program("board0", 0, "builtin:odd")
        assert caught.value.code == "CORE_UNAVAILABLE"

    def test_a_dead_board_has_no_finish(self, make_driver):
        driver = make_driver()
        driver.program("board0", 0, "builtin:copy")
        core = driver.open("board0", 0, {})
        make_driver(faults={"dead": "gone"})
        # The file is looked at when the board's health is.
        assert driver.health("board0") == base.Health(False, "gone")
        with pytest.raises(base.DriverError) as caught:
            core.finish(memoryview(bytearray(1)))
        assert caught.value.code == "DEVICE_FAILED"

    @pytest.mark.parametrize("slots_in_table", [0, 1])
    def test_a_full_table(self, tmp_path, monkeypatch, slots_in_table):
        monkeypatch.setattr(shares, "MAX_STREAMS", slots_in_table)
        path = write(tmp_path / "boards.yaml", {"boards": [BOARD]})
        driver = emulator.EmulatorDriver(
            {"state_dir": str(tmp_path), "boards_file": path}
        )
        driver.program("board0", 0, "builtin:copy")
        driver.program("board0", 1, "builtin:copy")
        for slot in range(slots_in_table):
            driver.open("board0", slot, {})
        with pytest.raises(base.DriverError) as caught:
            driver.open("board0", slots_in_table, {})
        assert caught.value.code == "INVALID_SETTINGS"

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
        table = shares.ShareTable(tmp_path / "emulator")
        pipe = table.declare("dma//board0", 2.1e9)
        stream = table.join("slot", 1e9, {pipe: 1})
        table.announce(stream, 2**63)
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
    table = shares.ShareTable(tmp_path)
    pipe = table.declare("pipe", shared)
    return table, [
        pacing.Pacer(
            table,
            table.join(f"slot {slot}", peak, {pipe: 1}),
            peak,
            clock_ns=clock,
            wait=clock.wait,
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
        table.announce(1, 2**63)
        rate = run_alone(pacer, clock, 100, 1_000_000)
        assert rate == pytest.approx(40e6, rel=0.03)

    def test_idle_neighbour_does_not_count(self, tmp_path):
        clock = Clock()
        table, (pacer, _) = make_pacers(tmp_path, clock, [50e6, 50e6], 60e6)
        table.announce(1, clock.now_ns)
        rate = run_alone(pacer, clock, 100, 1_000_000)
        assert rate == pytest.approx(50e6, rel=0.03)

    def test_share_changes_within_a_piece(self, tmp_path):
        clock = Clock()
        table, (pacer, _) = make_pacers(tmp_path, clock, [50e6, 50e6], 50e6)
        # The neighbour works for the first second only.
        table.announce(1, clock.now_ns + 10**9)
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
        table = shares.ShareTable(tmp_path)
        stream = table.join("slot", 1.0, {})
        pacer = pacing.Pacer(table, stream, 1.0)
        pacer.start(10**9)
        pacer.cancel()
        with pytest.raises(pacing.Cancelled):
            pacer.finish(10**9)

    def test_slow(self, tmp_path):
        clock = Clock()
        table, (pacer, other) = make_pacers(
            tmp_path, clock, [50e6, 50e6], 60e6
        )
        table.announce(1, 2**63)
        pacer.slow_down(10.0)
        rate = run_alone(pacer, clock, 10, 1_000_000)
        assert rate == pytest.approx(5e6, rel=0.03)
        # What it leaves is the other one's.
        table.announce(0, 2**63)
        assert table.rate_bytes_per_s(1, clock.now_ns) == pytest.approx(50e6)
        pacer.slow_down(1.0)
        rate = run_alone(pacer, clock, 10, 1_000_000)
        assert rate == pytest.approx(30e6, rel=0.03)
        assert other is not pacer


class TestPacerOfTasks:
    """Each task opens the slot, and all of them are paced as one stream."""

    @pytest.fixture
    def clock(self, monkeypatch):
        made = Clock()
        monkeypatch.setattr(
            pacing,
            "Pacer",
            functools.partial(pacing.Pacer, clock_ns=made, wait=made.wait),
        )
        return made

    @pytest.fixture
    def driver(self, tmp_path, clock):
        path = write(
            tmp_path / "boards.yaml", {"rate_scale": 0.001, "boards": [BOARD]}
        )
        made = emulator.EmulatorDriver(
            {"state_dir": str(tmp_path), "boards_file": path}
        )
        made.program("board0", 0, "builtin:copy")
        return made

    @staticmethod
    def run_tasks(driver, count, size_bytes):
        data = memoryview(bytearray(size_bytes))
        for _ in range(count):
            driver.expect("board0", 0, base.Traffic())
            core = driver.open("board0", 0, {})
            core.process(data, data, 0)

    def test_small_tasks_keep_to_the_rate(self, driver, clock):
        profile = driver.program("board0", 0, "builtin:copy")
        peak = 0.001 * profile.peak_bytes_per_s
        started_ns = clock.now_ns
        # Each is shorter than what a new stream has to spare.
        size_bytes = int(peak * 0.003)
        self.run_tasks(driver, 200, size_bytes)
        taken_s = (clock.now_ns - started_ns) / 1e9
        assert 200 * size_bytes / taken_s == pytest.approx(peak, rel=0.02)

    def test_the_rate_is_that_of_the_platform(
        self, driver, clock, tmp_path, monkeypatch
    ):
        profile = driver.program("board0", 0, "builtin:copy")
        peak = 0.1 * profile.peak_bytes_per_s
        shape = driver.discover()[0].slots[0].shape
        document = dataclasses.asdict(profile) | {
            "shapes": [],
            "platforms": {shape: {"peak_bytes_per_s": peak}},
        }
        (tmp_path / "copy.yaml").write_text(yaml.safe_dump(document))
        monkeypatch.setenv(accelerators.DIRECTORY_VARIABLE, str(tmp_path))
        driver.program("board0", 0, "builtin:copy")
        started_ns = clock.now_ns
        size_bytes = int(peak * 0.001 * 0.003)
        self.run_tasks(driver, 200, size_bytes)
        taken_s = (clock.now_ns - started_ns) / 1e9
        assert 200 * size_bytes / taken_s == pytest.approx(
            0.001 * peak, rel=0.02
        )

    def test_clearing_gives_no_time_to_spare(self, driver, clock):
        size_bytes = 1000
        self.run_tasks(driver, 20, size_bytes)
        started_ns = clock.now_ns
        self.run_tasks(driver, 20, size_bytes)
        plain_ns = clock.now_ns - started_ns
        for _ in range(20):
            driver.clear_task("board0", 0)
            self.run_tasks(driver, 1, size_bytes)
        assert clock.now_ns - started_ns == pytest.approx(
            2 * plain_ns, rel=0.02
        )

    def test_a_stream_that_was_cancelled_is_not_used_again(self, driver):
        driver.open("board0", 0, {}).cancel()
        self.run_tasks(driver, 1, 1000)

    def test_other_traffic_is_another_stream(self, driver):
        pacers = []
        for traffic in (base.Traffic(), base.Traffic(local=False)) * 2:
            driver.expect("board0", 0, traffic)
            pacers.append(driver.open("board0", 0, {})._pacer)
        assert len(set(map(id, pacers))) == 4


class TestFreePacer:
    def test_holds_nothing_back(self):
        clock = Clock()
        pacer = pacing.FreePacer(clock, clock.wait)
        assert run_alone(pacer, clock, 3, 1000, pause_ns=1000) == 1e9

    def test_slow(self):
        clock = Clock()
        pacer = pacing.FreePacer(clock, clock.wait)
        pacer.slow_down(3.0)
        start_ns = clock.now_ns
        pacer.start(1000)
        clock.now_ns += 7000
        pacer.finish(1000)
        assert clock.now_ns - start_ns == 21000
        clock.cancelled = True
        with pytest.raises(pacing.Cancelled):
            pacer.finish(1000)


class TestChecksums:
    @pytest.fixture
    def open_core(self, make_driver):
        def open_named(accelerator, params=(), **board):
            driver = make_driver(**board)
            driver.program("board0", 0, f"builtin:{accelerator}")
            return driver.open("board0", 0, dict(params))

        return open_named

    def test_sum_up_all_calls(self, open_core):
        core = open_core("copy")
        core.start_checksums()
        assert core.checksums() == base.Checksums()
        room = memoryview(bytearray(100))
        for start, end in ((0, 10), (10, 11), (11, 60)):
            piece = memoryview(bytes(range(start, end)))
            core.process(piece, room, start)
        crc32 = zlib.crc32(bytes(range(60)))
        assert core.checksums() == base.Checksums(60, crc32, 60, crc32)

    def test_output_in_the_place_of_the_input(self, open_core):
        core = open_core("aes", {"key": "00" * 16, "iv": "00" * 16})
        assert core.in_place
        core.start_checksums()
        place = memoryview(bytearray(b"abc"))
        assert core.process(place, place, 0) == 3
        assert place != b"abc"
        assert core.checksums() == base.Checksums(
            3, zlib.crc32(b"abc"), 3, zlib.crc32(place)
        )

    def test_the_end_counts(self, open_core):
        core = open_core("sha")
        core.start_checksums()
        room = memoryview(bytearray(100))
        core.process(memoryview(b"abc"), room, 0)
        assert core.checksums() == base.Checksums(3, zlib.crc32(b"abc"))
        assert core.finish(room) == 32
        assert core.checksums() == base.Checksums(
            3, zlib.crc32(b"abc"), 32, zlib.crc32(room[:32])
        )

    @pytest.mark.parametrize("accelerator", ["copy", "sha"])
    def test_a_wrong_result_comes_behind_them(self, open_core, accelerator):
        sums, outputs = [], []
        for faults in ({}, {"wrong_result": [0]}):
            core = open_core(accelerator, faults=faults)
            core.start_checksums()
            room = memoryview(bytearray(100))
            written = core.process(memoryview(b"abc"), room, 0)
            written += core.finish(room[written:])
            sums.append(core.checksums())
            outputs.append(bytes(room[:written]))
        assert sums[0] == sums[1]
        assert outputs[0] != outputs[1]
        assert sums[1].output_crc32 == zlib.crc32(outputs[0])

    def test_nothing_is_summed_up_unless_started(self, open_core, monkeypatch):
        core = open_core("copy")
        monkeypatch.delattr(zlib, "crc32")
        core.process(memoryview(b"abc"), memoryview(bytearray(3)), 0)
        assert core.checksums() == base.Checksums()
