# SPDX-License-Identifier: Apache-2.0

"""The board file, names and shapes of devices, sensors, and looks at them."""

import dataclasses
import subprocess
import threading
import uuid

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.drivers import base
from fpgapool.drivers.opencl import devices
from fpgapool.drivers.opencl import probing

PCI = "0000:3b:00.1"
CPU = devices.Found(
    platform="Portable Computing Language",
    name="pthread-AMD EPYC (TM) 7763",
    number=0,
    pci=None,
    memory_bytes=1 << 30,
    unified=True,
)


def gpu(number, pci=None):
    return devices.Found("NVIDIA CUDA", "A100", number, pci, 1 << 32, False)


def read(tmp_path, document):
    path = tmp_path / "boards.yaml"
    path.write_text(yaml.safe_dump(document))
    return devices.read_boards(path)[0]


@pytest.mark.parametrize(
    ("member", "entry"),
    [
        ("boards[0].name", {}),
        ("boards[0].name", {"name": "a/b"}),
        ("boards[0].name", {"name": "x" * 60}),
        ("boards[0]", {"name": "a", "color": 1}),
        ("boards[0].platform", {"name": "a", "platform": 1}),
        ("boards[0].device", {"name": "a", "device": ""}),
        ("boards[0].pci", {"name": "a", "pci": "3b:00.0"}),
        ("boards[0].pci", {"name": "a", "pci": "0000:3b:00.0/../.."}),
        ("boards[0].slots", {"name": "a", "slots": 0}),
        ("boards[0].slots", {"name": "a", "slots": True}),
        ("boards[0].slots", {"name": "a", "slots": 65}),
        ("boards[0].shares", {"name": "a", "shares": []}),
        ("boards[0].shares[1]", {"name": "a", "shares": [1, 0]}),
        ("boards[0].shares", {"name": "a", "shares": [1, 2], "slots": 2}),
        ("boards[0].cu[1]", {"name": "a", "cu": ["vadd_1", "x}"]}),
        ("boards[0].cu", {"name": "a", "cu": "vadd_1"}),
        ("boards[0].cu", {"name": "a", "cu": ["v"], "shares": [1]}),
        ("boards[0].shape", {"name": "a", "shape": "a b"}),
        ("boards[0].model", {"name": "a", "model": None}),
        ("boards[0].hang_min_s", {"name": "a", "hang_min_s": 0}),
        ("boards[0].hang_factor", {"name": "a", "hang_factor": 0.5}),
        ("boards[0].dma_bytes_per_s", {"name": "a", "dma_bytes_per_s": "1"}),
        (
            "boards[0].programming_time_s",
            {"name": "a", "programming_time_s": -1},
        ),
    ],
)
def test_wrong_entries(tmp_path, member, entry):
    with pytest.raises(base.DriverError) as caught:
        read(tmp_path, {"boards": [entry]})
    assert caught.value.code == "INVALID_SETTINGS"
    assert f" {member}: " in caught.value.message


@pytest.mark.parametrize(
    ("member", "document"),
    [
        ("boards.yaml", []),
        ("boards.yaml", {"boards": [], "shapes": {}}),
        ("boards", {"boards": []}),
        ("boards", {"boards": [{"name": "a"}] * 65}),
        ("boards[0]", {"boards": ["a"]}),
        ("boards[1].name", {"boards": [{"name": "a"}, {"name": "a"}]}),
    ],
)
def test_wrong_files(tmp_path, member, document):
    with pytest.raises(base.DriverError) as caught:
        read(tmp_path, document)
    assert caught.value.code == "INVALID_SETTINGS"
    assert f"{member}: " in caught.value.message


def test_slots(tmp_path):
    found = read(
        tmp_path,
        {
            "boards": [
                {"name": "whole"},
                {"name": "equal", "slots": 2},
                {"name": "shares", "shares": [3, 1]},
                {"name": "instances", "cu": ["vadd_1", "vadd_2"]},
            ]
        },
    )
    made = {
        board.name: devices.Device(board.name, board, CPU) for board in found
    }
    assert [each.board.slots for each in made.values()] == [1, 2, 2, 2]
    assert made["whole"].memory_bytes(0) == 1 << 30
    assert made["equal"].memory_bytes(1) == 1 << 29
    assert made["shares"].memory_bytes(0) == 3 << 28
    assert made["shares"].instance(1) == ""
    assert made["instances"].instance(1) == "vadd_2"
    divided = [each.board.is_divided for each in made.values()]
    assert divided == [False, False, True, False]


@pytest.mark.parametrize(
    ("shares", "most", "units"),
    [
        ((1, 1), 8, [4, 4]),
        ((3, 1), 8, [6, 2]),
        ((1, 1), 3, [2, 1]),
        ((1, 999), 2, [1, 1]),
        ((1, 1, 100), 4, [1, 1, 2]),
        ((1,), 2, [2]),
        ((1, 1), 1, []),
    ],
)
def test_units_of_slots(shares, most, units):
    board = devices.Board(shares=shares, is_divided=True)
    assert devices.Device("device", board, CPU).units(most) == units


def test_the_first_entry_that_fits_has_a_device():
    boards = (
        devices.Board("first", device="A1*"),
        devices.Board("rest"),
        devices.Board("none"),
    )
    found = devices.matched(boards, [CPU, gpu(0)])
    assert [(each.name, each.found) for each in found] == [
        ("first", gpu(0)),
        ("rest", CPU),
    ]


def test_devices_of_one_entry_have_names_that_stay():
    board = devices.Board("gpu", platform="NVIDIA*")
    several = [gpu(0, "0000:3b:00.0"), gpu(1, "0000:05:00.0")]
    names = ["gpu-0000.05.00.0", "gpu-0000.3b.00.0"]
    for found in (several, several[::-1]):
        made = devices.matched((board,), found)
        assert [each.name for each in made] == names
    # Without an address they are counted.
    made = devices.matched((board,), [gpu(0), gpu(1)])
    assert [each.name for each in made] == ["gpu-0", "gpu-1"]
    assert len({each.name for each in made}) == 2


def test_an_entry_for_one_address():
    board = devices.Board("one", pci="0000:05:00.0")
    several = [gpu(0, "0000:3b:00.0"), gpu(1, "0000:05:00.0")]
    (made,) = devices.matched((board,), several)
    assert (made.name, made.found.number) == ("one", 1)
    # What the runtime does not say the file does.
    (made,) = devices.matched((board,), [CPU])
    assert made.pci == "0000:05:00.0"


@given(st.text(max_size=200), st.text(max_size=200))
def test_names_of_any_text(first, second):
    for text in (first, second):
        assert base.NAME_PATTERN.fullmatch(devices.sanitised(text))
    if len(first) > 64 and len(second) > 64 and first != second:
        long = f"x{first}", f"x{second}"
        names = {devices.sanitised(text) for text in long}
        assert len(names) == 2 or all(len(name) < 64 for name in names)


def test_shapes():
    device = devices.Device("a", devices.Board(), CPU)
    assert device.shape == (
        "Portable-Computing-Language-pthread-AMD-EPYC-TM-7763"
    )
    assert device.model == "pthread-AMD-EPYC-TM-7763"
    board = devices.Board(shape="mine", model="this")
    device = devices.Device("a", board, CPU)
    assert (device.shape, device.model) == ("mine", "this")


def write(directory, name, text):
    path = directory / PCI / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_sensors(tmp_path):
    nothing = base.Telemetry(None, None)
    assert devices.telemetry(None, tmp_path) == nothing
    assert devices.telemetry(PCI, tmp_path) == nothing
    assert not devices.is_on_bus(PCI, tmp_path)
    assert devices.is_on_bus(None, tmp_path)
    write(tmp_path, "xmc.m.1/xmc_power", "31500000\n")
    write(tmp_path, "xmc.m.1/xmc_fpga_temp", "55\n")
    assert devices.telemetry(PCI, tmp_path) == base.Telemetry(31.5, 55.0)
    assert devices.is_on_bus(PCI, tmp_path)
    write(tmp_path, "hwmon/hwmon3/power1_average", "42000000\n")
    write(tmp_path, "hwmon/hwmon3/temp1_input", "61500\n")
    assert devices.telemetry(PCI, tmp_path) == base.Telemetry(42.0, 61.5)
    write(tmp_path, "hwmon/hwmon3/power1_average", "broken\n")
    assert devices.telemetry(PCI, tmp_path).power_w == 31.5


def test_the_interface_of_a_shell(tmp_path):
    wanted, other = uuid.UUID(int=1), uuid.UUID(int=2)
    for pci in (None, PCI):
        assert devices.interface_uuid(pci, wanted, tmp_path) == wanted
    write(tmp_path, "interface_uuids", f"{other.hex}\n")
    assert devices.interface_uuid(PCI, wanted, tmp_path) == other
    write(tmp_path, "interface_uuids", f"{other.hex}\n{wanted.hex}\n")
    assert devices.interface_uuid(PCI, wanted, tmp_path) == wanted
    write(tmp_path, "interface_uuids", "nonsense")
    assert devices.interface_uuid(PCI, wanted, tmp_path) == wanted


class Runtime:
    """Answers what a test says."""

    def __init__(self):
        self.answer = [(CPU, None)]
        self.asked = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def __call__(self, names, builds):
        self.asked.append((list(names), builds))
        self.may_answer.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def runtime():
    return Runtime()


@pytest.fixture
def watch(runtime):
    boards = (devices.Board("a"),)
    return probing.Watch(boards, devices.matched(boards, [CPU]), runtime)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ([(CPU, "it burns")], "it burns"),
        ([], "the OpenCL runtime no longer lists the device"),
        (
            [(dataclasses.replace(CPU, name="another"), None)],
            None,
        ),
        (base.DriverError("DEVICE_FAILED", "no runtime"), "no runtime"),
    ],
)
def test_a_device_that_fails_and_comes_back(watch, runtime, answer, fault):
    assert watch.fault("a") is None
    assert runtime.asked == []
    runtime.answer = answer
    watch.check()
    watch.wait()
    assert watch.fault("a") == fault
    assert runtime.asked == [([CPU.name], True)]
    runtime.answer = [(CPU, None)]
    watch.check()
    watch.wait()
    assert watch.fault("a") is None
    assert watch.fault("b") == "no such device"


def test_kernels_are_built_until_devices_are_well(watch, runtime, monkeypatch):
    monkeypatch.setattr(probing, "INTERVAL_S", 0)

    def built():
        watch.fault("a")
        watch.wait()
        return runtime.asked[-1][1]

    runtime.answer = [(CPU, "its compiler is missing")]
    watch.check_first()
    watch.wait()
    assert [built(), built()] == [True, True]
    runtime.answer = [(CPU, None)]
    # The next look may be without: a kernel has just been built.
    assert [built(), built(), built()] == [True, False, False]
    watch.check()
    watch.wait()
    assert runtime.asked[-1][1]


def test_an_untried_device_is_not_used(watch, runtime):
    runtime.may_answer.clear()
    watch.check_first()
    watch.wait(0.01)
    assert watch.fault("a") == base.UNANSWERED
    runtime.may_answer.set()
    watch.wait()
    assert watch.fault("a") is None


def test_a_runtime_that_hangs_blocks_nobody(watch, runtime):
    runtime.may_answer.clear()
    runtime.answer = [(CPU, "too late")]
    watch.check()
    watch.check()
    assert watch.fault("a") is None
    runtime.may_answer.set()
    watch.wait()
    # What was asked for meanwhile follows.
    assert watch.fault("a") == "too late"
    watch.wait()
    assert len(runtime.asked) == 2


def test_what_runtimes_can_do_to_the_question(monkeypatch):
    def run(outcome):
        def do(*_, **__):
            if isinstance(outcome, Exception):
                raise outcome
            return subprocess.CompletedProcess([], 0, outcome, b"")

        return do

    for outcome, text in (
        (subprocess.TimeoutExpired("x", 1), "did not answer"),
        (subprocess.CalledProcessError(-11, "x", b"", b""), "SIGSEGV"),
        (subprocess.CalledProcessError(1, "x", b"", b"no runtime\n"), "no ru"),
        (OSError("no memory"), "no memory"),
        (b"nonsense", "cannot query"),
        (b'[{"device": {}}]', "cannot query"),
    ):
        monkeypatch.setattr(probing.subprocess, "run", run(outcome))
        with pytest.raises(base.DriverError) as caught:
            probing.ask()
        assert caught.value.code == "DEVICE_FAILED"
        assert text in caught.value.message


def test_a_cap_on_power_is_checked(tmp_path):
    path = tmp_path / "boards.yaml"
    document = {"boards": [{"name": "a"}]}
    for cap_w, expected_w in ((None, None), (150, 150.0), (0, 0.0)):
        given = (
            document if cap_w is None else {**document, "power_cap_w": cap_w}
        )
        path.write_text(yaml.safe_dump(given))
        assert devices.read_boards(path)[1] == expected_w
    path.write_text(yaml.safe_dump({**document, "power_cap_w": -1}))
    with pytest.raises(
        base.DriverError, match="power_cap_w: must be"
    ) as caught:
        devices.read_boards(path)
    assert caught.value.code == "INVALID_SETTINGS"
