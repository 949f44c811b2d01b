# SPDX-License-Identifier: Apache-2.0

"""Tasks of a group in a slot, without a process or a ring."""

import dataclasses
import itertools
import json
import zlib

import pytest

from fpgapool.accelerators import base as accelerators
from fpgapool.agent.worker import tasks
from fpgapool.agent.worker.data import blocks
from fpgapool.agent.worker.data import processing
from fpgapool.common.channels import rings
from fpgapool.drivers import base
from fpgapool.protocol import blocks as references
from fpgapool.protocol import frames
from fpgapool.protocol import records

CACHE_BYTES = 100
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
        self.arguments = {}
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

    def set_argument(self, number, data):
        if number > 2:
            super().set_argument(number, data)
        self.arguments[number] = bytes(data)

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
        blocks.BlockCache(CACHE_BYTES),
        clock_ns=lambda: next(ticks),
    )


def task(data=b"", params=None, offset=0):
    encoded = b"" if params is None else frames.encode_json(params)
    record = records.header(records.TASK, 9, len(encoded), offset)
    memory = memoryview(bytearray(record + encoded + data))
    return records.split(rings.Record(memory))


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


def test_work_before_the_core_counts_too(driver, runner):
    refused = run(runner, b"x", offset=2**63 + 1)
    assert (code_of(refused), refused.busy_ns) == ("BAD_OFFSET", 7)


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
    runner = tasks.Runner(
        driver, "board0", 3, profile, base.Traffic(), blocks.BlockCache(0)
    )
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
        records.split(record)


def test_the_middle_is_within_the_record():
    record = records.header(records.TASK, 1, 5) + b"1234"
    with pytest.raises(frames.ProtocolError, match="does not fit"):
        records.split(record)


def test_the_default_for_clearing_a_task_is_a_scrub():
    calls = []

    class Scrubs:
        def scrub(self, device, slot):
            calls.append((device, slot))

    base.Driver.clear_task(Scrubs(), "board0", 3)
    assert calls == [("board0", 3)]


def test_a_task_without_memory_fails_alone(driver, runner):
    run(runner, b"data", {"reusable": True})
    runner.keep()
    run(runner, b"data", {"reusable": True})

    def fail():
        raise MemoryError

    driver.cores[-1].during = fail
    failing = run(runner, b"data", {"reusable": True})
    assert code_of(failing) == "OUT_OF_MEMORY"
    assert runner.fault is None


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


reference = references.Reference.of


def refer(*parts, rest=b"", params=None):
    """Make a task of references; each is data, and whether it comes along."""
    listed = [
        references.Part(reference(data, number), data if comes else None)
        for number, data, comes in parts
    ]
    made = task(
        b"".join([*references.encode_parts(listed), rest]), params=params
    )
    return made._replace(kind=records.BLOCKS_TASK)


def missing(result):
    assert result.kind == records.MISS
    return frames.decode_json(result.detail)["arguments"]


@pytest.fixture
def cache():
    return blocks.BlockCache(CACHE_BYTES)


@pytest.fixture
def keeping(driver, cache):
    """A runner whose tasks are those of an application."""
    made = tasks.Runner(driver, "board0", 3, PROFILE, base.Traffic(), cache)
    made.use_blocks("p", "a")
    return made


def test_a_task_is_run_with_the_blocks_that_are_kept(keeping, driver, cache):
    first = (0, b"input", False), (1, b"weights", False)
    assert missing(keeping.run(refer(*first), 99)) == [0, 1]
    assert keeping.input_bytes == 0
    comes = (0, b"input", True), (1, b"weights", True)
    assert keeping.run(refer(*comes), 99).output == b"input1"
    assert keeping.run(refer(*first), 99).output == b"input1"
    assert driver.cores[-1].arguments == {1: b"weights"}
    # Its core was its own.
    assert len(driver.cores) == 2
    assert keeping.input_bytes == 10
    mixed = refer((1, b"weights", False), rest=b"other")
    assert keeping.run(mixed, 99).output == b"other1"
    assert cache.counts == blocks.BlockCounts(3, 2, 0, 12)


def test_a_core_in_place_leaves_its_block_as_it_is(keeping, driver):
    params = {"in_place": True}
    driver.during = lambda: None
    for comes in (True, False, False):
        made = refer((0, b"data", comes), params=params)
        result = keeping.run(made, 99)
        assert result.output == b"data"
        result.output[:] = b"xxxx"


def test_arguments_stay_in_no_core_for_another_task(keeping, driver):
    keeping.keep()
    params = {"reusable": True}
    for _ in range(2):
        made = refer((1, b"one", True), rest=b"x", params=params)
        keeping.run(made, 99)
    keeping.run(task(b"x", params=params), 99)
    assert [core.tasks for core in driver.cores] == [1, 1, 1]
    assert driver.cores[-1].arguments == {}


def test_other_projects_and_applications_find_no_block(keeping, cache):
    keeping.run(refer((0, b"data", True)), 99)
    for project, application in (("p", "b"), ("q", "a")):
        keeping.use_blocks(project, application)
        assert missing(keeping.run(refer((0, b"data", False)), 99)) == [0]
    keeping.use_blocks("p", "a")
    assert keeping.run(refer((0, b"data", False)), 99).output == b"data1"
    keeping.clear("p")
    keeping.use_blocks("p", "a")
    assert keeping.run(refer((0, b"data", False)), 99).output == b"data1"
    keeping.clear("q")
    assert cache.counts.kept_bytes == 0
    keeping.use_blocks("p", "a")
    assert missing(keeping.run(refer((0, b"data", False)), 99)) == [0]


@pytest.mark.parametrize("place", ["input", "argument"])
def test_no_program_plants_other_data_under_a_name(keeping, cache, place):
    # Their lengths and CRC-32 are the same.
    good, evil = b"plumless", b"buckeroo"
    assert zlib.crc32(good) == zlib.crc32(evil)
    number = int(place == "argument")
    part = references.Part(reference(good, number), evil)
    planted = task(b"".join(references.encode_parts([part])))
    planted = planted._replace(kind=records.BLOCKS_TASK)
    assert code_of(keeping.run(planted, 99)) == "BLOCK_DAMAGED"
    assert missing(keeping.run(refer((number, good, False)), 99)) == [number]
    assert cache.counts.kept_bytes == 0


def test_a_block_too_large_to_be_kept_is_verified_too(keeping):
    good = b"plumless" * CACHE_BYTES
    part = references.Part(reference(good), b"buckeroo" + good[8:])
    planted = task(b"".join(references.encode_parts([part])))
    planted = planted._replace(kind=records.BLOCKS_TASK)
    assert code_of(keeping.run(planted, len(good))) == "BLOCK_DAMAGED"


def test_the_name_of_data_is_a_digest_of_all_of_it():
    """Clients and workers of all releases have the same."""
    assert (
        references.name_of(b"data").hex() == "810d2fc198f169b3ce2d30eb08d1402e"
    )
    names = {
        references.name_of(data)
        for data in (b"data", b"datb", b"data\0", b"dat", memoryview(b"dat"))
    }
    assert len(names) == 4


def test_nothing_is_kept_for_a_holder_that_is_gone(keeping, cache):
    kept = cache.open("p", "a")
    kept.keep(reference(b"data"), b"data")
    held = kept.find(reference(b"data"))
    assert held == b"data"
    cache.wipe()
    assert bytes(held) == bytes(4)
    assert kept.find(reference(b"data")) is None
    kept.keep(reference(b"data"), b"data")
    assert cache.counts.kept_bytes == 0


def test_evicted_blocks_are_zeroed_but_not_those_of_the_task(keeping, cache):
    kept = cache.open("p", "a")
    whole = bytes([1]) * 60
    kept.keep(reference(whole), whole)
    held = kept.find(reference(whole))
    # There is no room: it is needed now.
    other = bytes([2]) * 60
    kept.keep(reference(other), other)
    assert held == whole
    kept.release()
    kept.keep(reference(other), other)
    assert bytes(held) == bytes(60)
    assert cache.counts == blocks.BlockCounts(1, 3, 1, 60)


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (
            task(b"")._replace(kind=records.BLOCKS_TASK),
            "PROTOCOL_ERROR",
        ),
        (
            task(
                b"".join(
                    references.encode_parts(
                        [references.Part(reference(b"data"), b"dama")]
                    )
                )
            )._replace(kind=records.BLOCKS_TASK),
            "BLOCK_DAMAGED",
        ),
        (refer((3, b"x", True)), "INVALID_ARGUMENT"),
        (
            task(
                b"".join(
                    references.encode_parts(
                        [
                            references.Part(
                                reference(b"x")._replace(length_bytes=2**40),
                                None,
                            )
                        ]
                    )
                )
            )._replace(kind=records.BLOCKS_TASK),
            "FRAME_TOO_LARGE",
        ),
    ],
)
def test_wrong_references_fail_their_task_alone(keeping, cache, made, code):
    result = keeping.run(made, 99)
    assert result.kind == records.FAILED
    assert frames.decode_json(result.detail)["code"] == code
    assert keeping.run(refer((0, b"data", True)), 99).output == b"data1"


def test_references_need_an_application(runner):
    result = runner.run(refer((0, b"data", True)), 99)
    assert frames.decode_json(result.detail)["code"] == "PROTOCOL_ERROR"


def test_damaged_data_is_never_kept(cache):
    kept = cache.open("p", "a")
    for data in (b"dat", b"datb", b""):
        with pytest.raises(processing.Failure) as caught:
            kept.keep(reference(b"data"), data)
        assert caught.value.code == "BLOCK_DAMAGED"
    assert cache.counts == blocks.BlockCounts()
