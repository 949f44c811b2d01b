# SPDX-License-Identifier: Apache-2.0

"""Slots that break and are repaired: real agents, workers and boards."""

from collections.abc import Callable
from collections.abc import Iterator

import pytest
import yaml

from fpgapool.db import api as db_api
from tests.functional.worker import harness as wire
from tests.harness import cloud as clouds
from tests.harness import door as doors
from tests.harness import waiting

# In the gate: emulator/test_faults.py, tests/unit/conductor/test_probation.py,
# and tests/world.
pytestmark = pytest.mark.long

DATA = b"what a tenant sends" * 100


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    """Give a pool with one board, whose slots are soon taken out."""
    return make_cloud(
        clouds.HostPlan("board", slots=2),
        options={
            "conductor": {
                "accelerator_fault_limit": 1000,
                "slot_fault_limit": 2,
                "device_fault_limit": 1000,
                "self_test_after_s": 0.5,
                "self_test_max_s": 2,
            }
        },
    )


@pytest.fixture
def break_slots(cloud) -> Iterator[Callable[..., None]]:
    """Give a function that breaks slots; without faults it repairs them."""
    path = cloud.hosts["board"].agent.directory / "boards.faults.yaml"

    def write(**faults: object) -> None:
        fresh = path.with_suffix(".new")
        fresh.write_text(yaml.safe_dump({"board0": faults}))
        fresh.rename(path)

    yield write
    path.unlink(missing_ok=True)
    waiting.wait_until(
        lambda: not faults_of(cloud), "everything is in use again"
    )
    cloud.check_consistent()


@pytest.fixture
def door(cloud) -> Iterator[doors.Door]:
    with cloud.hosts["board"].door() as one:
        yield one


def faults_of(cloud: clouds.Cloud) -> list[db_api.FaultRecord]:
    return cloud.database.inventory().faults


def wait_for_fault(
    cloud: clouds.Cloud, test: Callable[[db_api.FaultRecord], object]
) -> db_api.FaultRecord:
    """Wait for the only fault to be as it should."""

    def found() -> db_api.FaultRecord | None:
        faults = faults_of(cloud)
        return faults[0] if len(faults) == 1 and test(faults[0]) else None

    return waiting.wait_until(found, "the fault is as it should be")


def try_until_taken_out(
    cloud: clouds.Cloud, door: doors.Door
) -> db_api.FaultRecord:
    """Use slots, again and again, until one is out of use."""

    def taken_out() -> bool:
        view = door.open_ready(size_bytes=len(DATA))
        try:
            client = door.attach(view)
            client.run(DATA)
            doors.let_go([client])
        except (ConnectionError, wire.ErrorFrame):
            # It may wait for another slot, and nobody would come for that.
            door.request("cancel", request_id=view["request_id"])
        return bool(faults_of(cloud))

    waiting.wait_until(taken_out, "a slot is taken out")
    return wait_for_fault(cloud, lambda fault: True)


def use_both(door: doors.Door) -> None:
    """Both slots serve sessions at the same time."""
    held = [
        door.attach(door.open_ready(size_bytes=len(DATA))) for _ in range(2)
    ]
    for client in held:
        assert client.run(DATA) == DATA
    doors.let_go(held)


def test_a_slot_that_cannot_be_programmed(cloud, door, break_slots) -> None:
    break_slots(programming=[0])
    fails = 0
    while not faults_of(cloud):
        # Each waits again when slot 0 has failed, and gets slot 1.
        view = door.open_ready("sha" if fails % 2 else "aes")
        fails += 1
        assert view["slot"] == 1
        door.request("cancel", request_id=view["request_id"])
        door.wait_state(view["request_id"], "CANCELLED")
    fault = wait_for_fault(cloud, lambda fault: fault.tests >= 2)
    assert (fault.level, fault.failures, fault.reason) == (
        "slot",
        2,
        "PROGRAM_FAILED",
    )
    assert fault.last_test.startswith("PROGRAM_FAILED: PROGRAMMING_FAILED")
    break_slots()
    waiting.wait_until(lambda: not faults_of(cloud), "the slot passes")
    use_both(door)


def test_the_next_conductor_goes_on(cloud, door, break_slots) -> None:
    break_slots(core_error=[0])
    fault = try_until_taken_out(cloud, door)
    assert fault.reason == "CORE_FAILED"
    before = wait_for_fault(cloud, lambda fault: fault.tests)
    assert before.last_test == (
        "SELF_TEST_FAILED: the slot does not compute: FaultInjected"
    )
    (conductor,) = cloud.conductors
    conductor.kill()
    conductor.start()
    after = wait_for_fault(cloud, lambda fault: fault.tests > before.tests)
    assert (after.since, after.failures) == (before.since, before.failures)
    break_slots()
    waiting.wait_until(lambda: not faults_of(cloud), "the slot passes")
    use_both(door)


def test_a_slot_whose_workers_die(cloud, door, break_slots) -> None:
    break_slots(core_crash=[0])
    fault = try_until_taken_out(cloud, door)
    assert fault.reason == "WORKER_DIED"
    # Tests between a death and the next worker are SLOT_FAULTY.
    wait_for_fault(
        cloud, lambda fault: fault.last_test.startswith("WORKER_DIED")
    )
    break_slots()
    waiting.wait_until(lambda: not faults_of(cloud), "the slot passes")
    use_both(door)


def test_a_slot_that_cannot_be_cleaned(cloud, door, break_slots) -> None:
    break_slots(scrub=[0])
    fault = try_until_taken_out(cloud, door)
    assert (fault.reason, fault.failures) == ("SLOT_FAULTY", 0)
    fault = wait_for_fault(cloud, lambda fault: fault.tests)
    assert fault.last_test == "SLOT_FAULTY: the slot cannot be cleaned"
    # Meanwhile the other one serves.
    view = door.open_ready(size_bytes=len(DATA))
    assert view["slot"] == 1
    client = door.attach(view)
    assert client.run(DATA) == DATA
    doors.let_go([client])
    break_slots()
    waiting.wait_until(lambda: not faults_of(cloud), "the slot passes")
    use_both(door)
