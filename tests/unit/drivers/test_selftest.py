# SPDX-License-Identifier: Apache-2.0

"""Self-tests of slots: known answers, right and wrong."""

import dataclasses

import pytest
import yaml

from fpgapool.accelerators import base as accelerators
from fpgapool.drivers import base
from fpgapool.drivers import emulator
from fpgapool.drivers import selftest
from fpgapool.vocabulary import codes

DEVICE = "board0"


@pytest.fixture
def driver(tmp_path):
    path = tmp_path / "boards.yaml"
    path.write_text(
        yaml.safe_dump(
            {"unlimited": True, "boards": [{"name": DEVICE, "slots": 2}]}
        )
    )
    return emulator.EmulatorDriver(
        {"state_dir": str(tmp_path), "boards_file": str(path)}
    )


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
    assert "computes a wrong result" in failure(driver, name)


def test_a_core_that_fails_is_found(driver, tmp_path):
    break_slot(tmp_path, core_error=[0])
    assert failure(driver) == "the slot does not compute: FaultInjected"


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
    assert "computes a wrong result" in caught.value.message


def test_parameters_that_a_bitstream_fixes_otherwise_pass(driver, monkeypatch):
    profile = driver.program(DEVICE, 0, "builtin:aes")
    set_answers(monkeypatch, accelerators.KnownAnswer({"key": "00"}, b"", b""))
    selftest.run(driver, DEVICE, 0, profile)
