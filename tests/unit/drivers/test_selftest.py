# SPDX-License-Identifier: Apache-2.0

"""Self-tests of slots: known answers, right and wrong."""

import dataclasses

import pytest
import yaml

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers import base
from fpgapool.drivers import selftest
from fpgapool.vocabulary import codes
from tests.unit.drivers import emulated

DEVICE = "board0"


@pytest.fixture
def driver(tmp_path):
    return emulated.make(tmp_path)


def break_slot(directory, **faults):
    (directory / "boards.faults.yaml").write_text(
        yaml.safe_dump({DEVICE: faults})
    )


def failure(driver, name="aes"):
    profile = driver.program(DEVICE, 0, f"builtin:{name}")
    with pytest.raises(base.DriverError) as caught:
        selftest.run(driver, DEVICE, 0, profile)
    assert caught.value.code == codes.SELF_TEST_FAILED
    return caught.value.message


@pytest.mark.parametrize("name", accelerators.profile_names())
def test_every_accelerator_of_ours_has_a_known_answer(driver, name):
    profile = driver.program(DEVICE, 0, f"builtin:{name}")
    assert accelerators.load_core(profile.core).known_answers
    selftest.run(driver, DEVICE, 0, profile)


@pytest.mark.parametrize("name", ["aes", "sha"])
def test_a_wrong_result_is_found(driver, tmp_path, name):
    break_slot(tmp_path, wrong_result=[0])
    assert "computed a wrong result" in failure(driver, name)


def test_a_core_that_fails_is_found(driver, tmp_path):
    break_slot(tmp_path, core_error=[0])
    assert failure(driver) == "the slot failed to compute: FaultInjected"


def test_a_slot_that_holds_nothing_is_found(driver):
    profile = accelerators.load_profile("aes")
    with pytest.raises(base.DriverError) as caught:
        selftest.run(driver, DEVICE, 0, profile)
    assert caught.value.message == "the slot cannot be opened: DriverError"


def set_answers(monkeypatch, *answers):
    core = accelerators.load_core("aes")
    monkeypatch.setattr(core, "known_answers", answers)


def test_an_accelerator_without_known_answers_passes(driver, monkeypatch):
    profile = driver.program(DEVICE, 0, "builtin:aes")
    set_answers(monkeypatch)
    selftest.run(driver, DEVICE, 0, profile)


def test_an_accelerator_without_software_passes(driver):
    profile = driver.program(DEVICE, 0, "builtin:aes")
    profile = dataclasses.replace(profile, core="of-the-board-only")
    selftest.run(driver, DEVICE, 0, profile)


def test_all_answers_are_looked_at(driver, monkeypatch):
    profile = driver.program(DEVICE, 0, "builtin:copy")
    core = accelerators.load_core("copy")
    wrong = accelerators.KnownAnswer({}, b"abc", b"abd")
    monkeypatch.setattr(core, "known_answers", (*core.known_answers, wrong))
    with pytest.raises(base.DriverError) as caught:
        selftest.run(driver, DEVICE, 0, profile)
    assert "computed a wrong result" in caught.value.message


class AddCore(accelerators.Core):
    """Adds a byte, its argument, to each byte."""

    def __init__(self, params):
        self._number = None

    def set_argument(self, number, data):
        if (number, len(data)) != (1, 1):
            super().set_argument(number, data)
        self._number = data[0]

    def process(self, chunk_in, chunk_out, offset_bytes):
        if self._number is None:
            raise accelerators.InvalidArgument("argument 1 is missing")
        chunk_out[:] = bytes(each + self._number for each in chunk_in)
        return len(chunk_in)


@pytest.fixture
def adding(driver, monkeypatch):
    """Give a profile whose core needs an argument."""
    monkeypatch.setattr(accelerators, "load_core", lambda _: AddCore)
    return driver.program(DEVICE, 0, "builtin:copy")


def test_answers_have_arguments(driver, monkeypatch, adding):
    right = accelerators.KnownAnswer({}, b"abc", b"bcd", (b"\1",))
    monkeypatch.setattr(AddCore, "known_answers", (right,))
    selftest.run(driver, DEVICE, 0, adding)
    wrong = right._replace(arguments=(b"\2",))
    monkeypatch.setattr(AddCore, "known_answers", (right, wrong))
    with pytest.raises(base.DriverError) as caught:
        selftest.run(driver, DEVICE, 0, adding)
    assert "computed a wrong result" in caught.value.message


@pytest.mark.parametrize("arguments", [(), (b"",), (b"\1", b"\1")])
def test_wrong_arguments_of_an_answer_fail(
    driver, monkeypatch, adding, arguments
):
    answer = accelerators.KnownAnswer({}, b"abc", b"bcd", arguments)
    monkeypatch.setattr(AddCore, "known_answers", (answer,))
    with pytest.raises(base.DriverError) as caught:
        selftest.run(driver, DEVICE, 0, adding)
    assert caught.value.message == (
        "the slot failed to compute: InvalidArgument"
    )


def test_parameters_that_a_bitstream_fixes_otherwise_pass(driver, monkeypatch):
    profile = driver.program(DEVICE, 0, "builtin:aes")
    set_answers(monkeypatch, accelerators.KnownAnswer({"key": "00"}, b"", b""))
    selftest.run(driver, DEVICE, 0, profile)
