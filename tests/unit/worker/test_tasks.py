# SPDX-License-Identifier: Apache-2.0

"""Tasks of a group in a slot, without a process or a ring."""

import dataclasses
import itertools
import json

import pytest

from fpgapool.accelerators import base as accelerators
from fpgapool.agent.worker import tasks
from fpgapool.drivers import base
from fpgapool.protocol import frames
from fpgapool.protocol import records

PROFILE = accelerators.Profile(
    name="test",
    description="",
    peak_bytes_per_s=1.0,
    return_ratio=1.0,
    stateless=True,
    shapes=(),
    params_schema={},
    core="test",
    chunk_multiple_bytes=1,
)


class Core(base.Core):
    """Appends the number of its tasks to the input."""

    def __init__(self, params):
        self.params = params
        self.tasks = 0
        self.cancelled = False
        self.during = lambda: None

    @property
    def in_place(self):
        return self.params.get("in_place", False)

    @property
    def reusable(self):
        return self.params.get("reusable", False)

    def max_output_bytes(self, input_bytes):
        return self.params.get("most", input_bytes + 1)

    def process(self, chunk_in, chunk_out, offset_bytes):
        self.tasks += 1
        self.during()
        if self.params.get("fail"):
            raise ValueError("a secret")
        if self.in_place:
            return len(chunk_in)
        chunk_out[: len(chunk_in)] = chunk_in
        return len(chunk_in)

    def finish(self, chunk_out):
        if self.in_place:
            return 0
        chunk_out[:1] = b"%d" % self.tasks
        return 1

    def cancel(self):
        self.cancelled = True


class Driver:
    """Opens such cores, and keeps them."""

    def __init__(self):
        self.cores = []
        self.cleared = 0
        self.traffic = []
        self.during = lambda: None

    def expect(self, device, slot, traffic):
        self.traffic.append(traffic)

    def open(self, device, slot, params):
        assert (device, slot) == ("board0", 3)
        core = Core(params)
        core.during = self.during
        self.cores.append(core)
        return core

    def clear_task(self, device, slot):
        self.cleared += 1


@pytest.fixture
def driver():
    return Driver()


@pytest.fixture
def runner(driver):
    ticks = itertools.count(0, 7)
    return tasks.Runner(
        driver,
        "board0",
        3,
        PROFILE,
        base.Traffic(),
        clock_ns=lambda: next(ticks),
    )


def task(data=b"", params=None, offset=0):
    encoded = b"" if params is None else frames.encode_json(params)
    record = records.header(records.TASK, 9, len(encoded), offset)
    return records.split(memoryview(bytearray(record + encoded + data)))


def run(runner, *arguments, most=1000, **members):
    return runner.run(task(*arguments, **members), most)


def test_a_task_is_all_that_its_core_gets(driver, runner):
    for _ in range(3):
        result = run(runner, b"data", {"key": "x"})
        assert result.kind == records.DONE
        assert result.output == b"data1"
        assert result.busy_ns == 7
    assert len(driver.cores) == 3
    assert driver.traffic == [base.Traffic()] * 3
    assert (runner.input_bytes, runner.output_bytes) == (12, 15)
    assert runner.started == 3


def test_a_core_in_place_needs_no_room(runner):
    record = task(b"data", {"in_place": True})
    result = runner.run(record, 1000)
    assert result.output == b"data"
    assert result.output.obj is record.rest.obj


def test_no_parameters_are_an_empty_document(driver, runner):
    run(runner, b"data")
    assert driver.cores[0].params == {}


def code_of(result):
    assert result.kind == records.FAILED
    assert result.output == b""
    detail = json.loads(result.detail)
    assert "secret" not in detail["message"]
    return detail["code"]


def test_failures_have_codes_and_change_nothing(driver, runner):
    failing = run(runner, b"data", {"fail": True})
    assert code_of(failing) == "CORE_FAILED"
    assert failing.busy_ns == 7
    assert code_of(run(runner, b"x" * 10, most=10)) == "TASK_TOO_LARGE"
    assert code_of(run(runner, b"x", {"most": "secret"})) == "CORE_FAILED"
    assert code_of(run(runner, b"x", offset=2**63 + 1)) == "BAD_OFFSET"
    assert run(runner, b"data").output == b"data1"
    assert not runner.is_running


def test_a_core_that_writes_more_than_it_announced(runner):
    assert code_of(run(runner, b"data", {"most": 0})) == "CORE_FAILED"


def test_a_core_stays_under_a_lock_only(driver, runner):
    params = {"reusable": True}
    runner.keep()
    assert run(runner, b"a", params).output == b"a1"
    assert run(runner, b"a", params).output == b"a2"
    assert run(runner, b"a", {**params, "key": 1}).output == b"a1"
    runner.clear()
    assert run(runner, b"a", params).output == b"a1"
    assert run(runner, b"a", params).output == b"a1"
    assert driver.cleared == 1


def test_a_core_without_parameters_and_state_stays_until_it_is_cleared(
    driver, runner, monkeypatch
):
    monkeypatch.setattr(Core, "reusable", True)
    run(runner, b"a")
    assert run(runner, b"a").output == b"a2"
    assert run(runner, b"a", {}).output == b"a1"
    assert run(runner, b"a").output == b"a1"
    runner.clear()
    assert run(runner, b"a").output == b"a1"
    assert len(driver.cores) == 4


def test_a_core_with_state_does_not_stay(driver, monkeypatch):
    monkeypatch.setattr(Core, "reusable", True)
    profile = dataclasses.replace(PROFILE, stateless=False)
    runner = tasks.Runner(driver, "board0", 3, profile, base.Traffic())
    for _ in range(2):
        assert run(runner, b"a").output == b"a1"


def test_clearing_wipes_the_room(runner):
    output = run(runner, b"secret").output
    runner.clear()
    assert output == bytes(7)


def test_cancelling_reaches_the_core_that_runs(driver, runner):
    driver.during = runner.cancel
    run(runner, b"data")
    assert driver.cores[0].cancelled
    # And all that come after it.
    assert code_of(run(runner, b"data")) == "SESSION_CLOSED"
    assert driver.cores[1].tasks == 0


def test_a_task_shows_while_it_runs(driver, runner):
    seen = []
    driver.during = lambda: seen.append(runner.is_running)
    run(runner, b"data")
    assert seen == [True]
    assert not runner.is_running


@pytest.mark.parametrize("record", [b"", b"x" * 23])
def test_a_record_has_a_header(record):
    with pytest.raises(frames.ProtocolError):
        records.split(memoryview(record))


def test_the_middle_is_within_the_record():
    record = records.header(records.TASK, 1, 5) + b"1234"
    with pytest.raises(frames.ProtocolError, match="exceed"):
        records.split(memoryview(record))


def test_the_default_for_clearing_a_task_is_a_scrub():
    calls = []

    class Scrubs:
        def scrub(self, device, slot):
            calls.append((device, slot))

    base.Driver.clear_task(Scrubs(), "board0", 3)
    assert calls == [("board0", 3)]


@pytest.mark.parametrize(
    ("code", "told", "fault"),
    [
        ("KERNEL_HUNG", "KERNEL_HUNG", "KERNEL_HUNG"),
        ("DEVICE_FAILED", "DEVICE_FAILED", "DEVICE_FAILED"),
        ("DEVICE_OUT_OF_MEMORY", "DEVICE_OUT_OF_MEMORY", None),
        ("SCRUB_FAILED", "CORE_FAILED", None),
    ],
)
def test_failures_of_the_device(driver, runner, code, told, fault):
    run(runner, b"data", {"reusable": True})
    runner.keep()
    run(runner, b"data", {"reusable": True})

    def fail():
        raise base.DriverError(code, "a secret")

    driver.cores[-1].during = fail
    failing = run(runner, b"data", {"reusable": True})
    assert code_of(failing) == told
    assert runner.fault == fault
