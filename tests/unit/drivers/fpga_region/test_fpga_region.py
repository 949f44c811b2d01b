# SPDX-License-Identifier: Apache-2.0

"""The driver of regions, on a temporary tree of sysfs."""

import hashlib
import random
import struct
import uuid

import pytest

from fpgapool.drivers import base
from fpgapool.drivers import selftest
from fpgapool.drivers.fpga_region import dfl
from fpgapool.vocabulary import codes
from tests.unit.drivers.fpga_region import trees


@pytest.fixture
def tree(tmp_path, monkeypatch):
    tree = trees.Tree(tmp_path)
    tree.play_kernel(monkeypatch)
    return tree


@pytest.fixture
def driver(tree):
    return tree.driver(trees.MANAGER_BOARDS)


@pytest.fixture
def dfl_driver(tree):
    return tree.driver(trees.DFL_BOARDS)


def code_of(call, *arguments):
    """Return the code and the text with which a call fails."""
    with pytest.raises(base.DriverError) as caught:
        call(*arguments)
    return caught.value.code, caught.value.message


def library_file(place, contents, **members):
    """Put a bitstream of the library into a file."""
    place.write_bytes(contents)
    return base.BitstreamFile(
        **{
            "accelerator": "copy",
            "path": str(place),
            "checksum_sha256": hashlib.sha256(contents).hexdigest(),
            "size_bytes": len(contents),
            **members,
        }
    )


def copied(driver, device, data=b"some data"):
    """Send data through a slot."""
    core = driver.open(device, 0, {})
    room = bytearray(core.max_output_bytes(len(data)))
    count = core.process(memoryview(data), memoryview(room), 0)
    return bytes(room[:count])


def test_boards_and_their_regions_are_found(driver):
    (board,) = driver.discover()
    assert (board.name, board.model) == ("kria0", "kr260")
    assert [(slot.shape, slot.programmed) for slot in board.slots] == [
        ("rp0", None),
        ("rp1", None),
    ]
    assert driver.health("kria0") == base.Health(True)
    assert driver.telemetry("kria0") == base.Telemetry(7.25, 41.5)


def test_a_manager_programs_a_region(tree, driver):
    profile = driver.program("kria0", 0, "builtin:copy")
    assert profile.name == "copy"
    assert tree.programmed == [(b"copy", "1")]
    # The file of a tenant does not stay.
    assert list(tree.firmware.iterdir()) == []
    other = tree.driver(trees.MANAGER_BOARDS)
    (board,) = other.discover()
    assert [slot.programmed for slot in board.slots] == ["copy", None]
    assert copied(driver, "kria0") == b"some data"
    selftest.run(driver, "kria0", 0, profile)


def test_the_same_bitstream_is_programmed_once(tree, driver):
    driver.program("kria0", 0, "builtin:copy")
    driver.program("kria0", 0, "builtin:copy")
    assert len(tree.programmed) == 1
    # The operator has replaced it.
    (tree.root / "copy.bin").write_bytes(b"copy 2")
    driver.program("kria0", 0, "builtin:copy")
    assert tree.programmed[1:] == [(b"copy 2", "1")]


def test_a_region_is_empty_after_the_host_has_started(tree, driver):
    driver.program("kria0", 0, "builtin:copy")
    tree.boot("second")
    assert driver.discover()[0].slots[0].programmed is None
    assert code_of(driver.open, "kria0", 0, {})[0] == codes.NOT_PROGRAMMED
    driver.program("kria0", 0, "builtin:copy")
    assert len(tree.programmed) == 2


def test_a_file_of_the_library(tree, driver):
    file = library_file(tree.root / "f", b"new", accelerator="copy@p1")
    profile = driver.program("kria0", 1, "bitstream:x", file)
    assert profile.name == "copy@p1"
    assert tree.programmed == [(b"new", "1")]
    assert driver.discover()[0].slots[1].programmed == "copy@p1"


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"checksum_sha256": "0" * 64}, codes.BITSTREAM_DAMAGED),
        ({"path": "/nonexistent"}, codes.BITSTREAM_DAMAGED),
        ({"format": "opencl-source"}, codes.BITSTREAM_UNKNOWN),
        ({"format": "declaration"}, codes.BITSTREAM_UNKNOWN),
        ({"size_bytes": 1 << 40}, codes.BITSTREAM_UNKNOWN),
        ({"accelerator": "copy@p2"}, codes.BITSTREAM_UNKNOWN),
        ({"accelerator": "sha"}, "CORE_UNAVAILABLE"),
    ],
)
def test_a_refused_file_changes_nothing(tree, driver, members, code):
    driver.program("kria0", 0, "builtin:copy")
    file = library_file(tree.root / "f", b"new", **members)
    found, _ = code_of(driver.program, "kria0", 0, "bitstream:x", file)
    assert found == code
    assert len(tree.programmed) == 1
    assert driver.discover()[0].slots[0].programmed == "copy"


def test_an_accelerator_without_a_file_of_the_host(driver):
    code, message = code_of(driver.program, "kria0", 0, "builtin:fft")
    assert (code, "sets no 'file'" in message) == (
        codes.BITSTREAM_UNKNOWN,
        True,
    )


def test_an_fpga_that_refuses_a_file(tree, driver):
    driver.program("kria0", 0, "builtin:copy")
    tree.refuses = True
    (tree.root / "copy.bin").write_bytes(b"bad")
    code, message = code_of(driver.program, "kria0", 0, "builtin:copy")
    assert code == codes.PROGRAMMING_FAILED
    assert "write error" in message
    assert "reconfig CRC error" in message
    assert list(tree.firmware.iterdir()) == []
    assert driver.discover()[0].slots[0].programmed is None
    health = driver.health("kria0")
    assert not health.healthy
    assert "write error" in health.message
    tree.refuses = False
    driver.program("kria0", 0, "builtin:copy")
    assert driver.health("kria0").healthy


def test_a_manager_that_is_gone(tree, driver):
    (tree.root / "sys/class/fpga_manager/fpga0/firmware").unlink()
    code, _ = code_of(driver.program, "kria0", 0, "builtin:copy")
    assert code == codes.PROGRAMMING_FAILED
    manager = tree.root / "sys/class/fpga_manager/fpga0"
    # The driver makes no file in place of an attribute.
    assert not (manager / "firmware").exists()
    manager.rename(manager.with_name("fpga1"))
    assert driver.health("kria0") == base.Health(
        False, "FPGA manager fpga0 is missing"
    )
    assert driver.discover()[0].slots[0].programmed is None


@pytest.mark.parametrize("state", ["power off", "write init error"])
def test_states_in_which_an_fpga_cannot_be_used(tree, driver, state):
    tree.state(state)
    assert state in driver.health("kria0").message


def test_a_region_that_is_gone(tree, driver):
    region = tree.root / "sys/class/fpga_region/region1"
    region.rename(region.with_name("region9"))
    health = driver.health("kria0")
    assert health == base.Health(False, "region region1 is missing")


def test_scrub_clears_what_a_session_left(tree, driver):
    driver.scrub("kria0", 0)
    driver.program("kria0", 0, "builtin:copy")
    copied(driver, "kria0", b"secret")
    memory = tree.root / "sys/class/fpga_region/region0/memory"
    assert memory.read_bytes() == b"secret"
    # In the process that replaces a killed one.
    tree.driver(trees.MANAGER_BOARDS).scrub("kria0", 0)
    assert memory.read_bytes() == b""
    driver.scrub("kria0", 0)


def test_a_region_that_cannot_be_cleared(driver):
    driver.program("kria0", 0, "builtin:aes")
    code, message = code_of(driver.scrub, "kria0", 0)
    assert (code, "does not answer" in message) == (codes.SCRUB_FAILED, True)


def test_slots_that_are_not_there(driver):
    for call in (
        lambda: driver.program("kria0", 2, "builtin:copy"),
        lambda: driver.open("kria1", 0, {}),
        lambda: driver.scrub("kria0", -1),
        lambda: driver.telemetry("kria1"),
    ):
        assert code_of(call)[0] == codes.NO_SUCH_SLOT
    assert not driver.health("kria1").healthy


def test_sensors_may_be_missing_or_broken(tree, driver):
    tree.write("sys/class/hwmon/hwmon1/power1_input", "asleep")
    assert driver.telemetry("kria0") == base.Telemetry(None, 41.5)
    tree.write("sys/class/hwmon/hwmon1/name", "another")
    assert driver.telemetry("kria0") == base.Telemetry(None, None)


def test_an_fme_programs_the_region_of_a_port(tree, dfl_driver):
    profile = dfl_driver.program("pac0", 0, "builtin:copy")
    assert tree.programmed == [(b"partial bitstream", "port 1")]
    selftest.run(dfl_driver, "pac0", 0, profile)
    assert copied(dfl_driver, "pac0") == b"some data"
    dfl_driver.scrub("pac0", 0)
    assert tree.resets == 1
    memory = tree.root / "sys/class/fpga_region/region2/memory"
    assert memory.read_bytes() == b""
    assert dfl_driver.telemetry("pac0") == base.Telemetry(21.0, None)
    assert dfl_driver.discover()[0].slots[0].programmed == "copy"


def test_an_fme_or_a_port_that_refuses(tree, dfl_driver):
    dfl_driver.program("pac0", 0, "builtin:copy")
    tree.refuses = True
    assert code_of(dfl_driver.scrub, "pac0", 0)[0] == codes.SCRUB_FAILED
    (tree.root / "copy.gbs").write_bytes(trees.green(b"other"))
    code, message = code_of(dfl_driver.program, "pac0", 0, "builtin:copy")
    assert code == codes.PROGRAMMING_FAILED
    assert "Input/output error" in message
    assert dfl_driver.discover()[0].slots[0].programmed is None


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        ("dfl-fme.0/errors/fme_errors", "0x4"),
        ("dfl-fme.0/errors/catfatal_errors", "garbage"),
        ("dfl-port.0/errors/errors", "0x100"),
        ("dfl-port.0/power_state", "0x6"),
    ],
)
def test_faults_of_a_dfl(tree, dfl_driver, attribute, text):
    assert dfl_driver.health("pac0") == base.Health(True)
    tree.write(f"sys/bus/platform/devices/{attribute}", text)
    health = dfl_driver.health("pac0")
    assert not health.healthy
    assert health.message.startswith(attribute.split("/")[0])


@pytest.mark.parametrize("gone", ["dfl-fme.0", "dfl-port.0"])
def test_a_dfl_device_that_is_gone(tree, dfl_driver, gone):
    path = tree.root / "sys/bus/platform/devices" / gone
    path.rename(path.with_name("another"))
    assert dfl_driver.health("pac0") == base.Health(
        False, f"{gone} is missing"
    )


@pytest.mark.parametrize(
    ("contents", "code"),
    [
        (b"", codes.BITSTREAM_UNKNOWN),
        (b"XeonFPGA", codes.BITSTREAM_UNKNOWN),
        (trees.green()[1:], codes.BITSTREAM_UNKNOWN),
        (trees.green(b""), codes.BITSTREAM_UNKNOWN),
        (trees.green(interface="no UUID"), codes.BITSTREAM_UNKNOWN),
        (trees.green(interface=uuid.UUID(int=1)), codes.BITSTREAM_UNFIT),
    ],
)
def test_green_bitstreams_that_are_refused(tree, dfl_driver, contents, code):
    dfl_driver.program("pac0", 0, "builtin:copy")
    file = library_file(tree.root / "f", contents)
    found, _ = code_of(dfl_driver.program, "pac0", 0, "bitstream:x", file)
    assert found == code
    assert len(tree.programmed) == 1
    assert dfl_driver.discover()[0].slots[0].programmed == "copy"


def test_green_bitstreams_of_strangers():
    """Each changed file is refused with a code, or is one."""
    generator = random.Random(1)
    sound = trees.green()
    found, longest = set(), 0
    for _ in range(500):
        changed = bytearray(sound)
        for _ in range(generator.randint(1, 4)):
            changed[generator.randrange(len(changed))] = generator.randrange(
                256
            )
        struct.pack_into(
            "<I", changed, 16, generator.choice([0, 60, 2**32 - 1, 83, 84])
        )
        try:
            dfl.payload(bytes(changed), trees.INTERFACE.hex)
        except base.DriverError as error:
            found.add(error.code)
            longest = max(longest, len(error.message))
    assert codes.BITSTREAM_UNKNOWN in found
    assert found <= {codes.BITSTREAM_UNKNOWN, codes.BITSTREAM_UNFIT}
    assert longest < 500


@pytest.mark.parametrize(
    ("old", "new", "member"),
    [
        ("manager: fpga0", "manager: fpga0\n  fme: dfl-fme.0", "manager"),
        ("manager: fpga0", "model: other", "manager"),
        ("manager: fpga0", "manager: ../fpga0", "manager"),
        ("manager: fpga0", "manager: fpga0\n  color: red", "color"),
        ("manager: fpga0", "manager: fpga0\n  partial: false", "partial"),
        ("region: region1", "region: region0", "regions"),
        ("region: region1", "region: region1, port: p", "port"),
        ("shape: rp1", "shape: [rp1]", "shape"),
        (":CopyCore", "", "core"),
        ("  regions:", "  other:", "other"),
        ("name: kria0", "name: kria/0", "name"),
        ("copy@p1:", "'@p1':", "accelerators"),
    ],
)
def test_wrong_boards_files(tree, old, new, member):
    text = trees.MANAGER_BOARDS
    assert old in text
    code, message = code_of(tree.driver, text.replace(old, new))
    assert code == codes.INVALID_SETTINGS
    assert member in message.split("boards.yaml: ")[1]


def test_settings_that_are_missing(tmp_path):
    from fpgapool.drivers.fpga_region import driver

    code, message = code_of(
        driver.FpgaRegionDriver, {"state_dir": str(tmp_path)}
    )
    assert (code, "boards_file" in message) == (codes.INVALID_SETTINGS, True)
