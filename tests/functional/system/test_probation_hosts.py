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

"""Accelerators and boards that fail on one host: the other one serves."""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Callable
from collections.abc import Iterator

import pytest
import yaml
from oslo_config import cfg

from fpgapool.common import exception
from fpgapool.common import rpc
from fpgapool.db import api as db_api
from fpgapool.rpcapi import conductor as conductor_rpcapi
from tests.harness import cloud as clouds
from tests.harness import door as doors
from tests.harness import waiting

# In the gate: emulator/test_faults.py, tests/unit/conductor/test_probation.py,
# and tests/world.
pytestmark = pytest.mark.long

DATA = b"what a tenant sends" * 100
BOARD = "board0"
#: Failures in a row of what does not matter to a test.
MANY = 1000
#: So late that only an operator's test comes in time.
LATE_S = 3600


class Pair:
    """A cloud with two hosts, of which the near one breaks.

    :ivar door: of the near host.
    """

    def __init__(self, cloud: clouds.Cloud, stack: contextlib.ExitStack):
        self.cloud = cloud
        self.near, self.far = cloud.hosts["near"], cloud.hosts["far"]
        self._faults = self.near.agent.directory / "boards.faults.yaml"
        self._stack = stack
        self.door = stack.enter_context(self.near.door())

    def break_near(self, **faults: list[int]) -> None:
        """Have the near board fail."""
        fresh = self._faults.with_suffix(".new")
        fresh.write_text(yaml.safe_dump({BOARD: faults}))
        fresh.rename(self._faults)

    def repair(self) -> None:
        """Have it work again."""
        self._faults.unlink(missing_ok=True)

    def hold_far(self) -> list[typing.Any]:
        """Use the far host's only slot, so that all others go near."""
        door = self._stack.enter_context(self.far.door())
        view = door.open_ready(size_bytes=len(DATA))
        assert view["slot_host_name"] == "far"
        return [door.attach(view)]

    def faults(self) -> list[db_api.FaultRecord]:
        """Return what is out of use."""
        return self.cloud.database.inventory().faults

    def wait_for_fault(
        self, test: Callable[[db_api.FaultRecord], object]
    ) -> db_api.FaultRecord:
        """Wait for the only fault to be as it should."""

        def found() -> db_api.FaultRecord | None:
            faults = self.faults()
            return faults[0] if len(faults) == 1 and test(faults[0]) else None

        return waiting.wait_until(found, lambda: f"a fault: {self.faults()}")

    def wait_until_all_is_well(self) -> None:
        """Wait until nothing is out of use."""
        waiting.wait_until(
            lambda: not self.faults(), lambda: f"no fault: {self.faults()}"
        )

    def state(self, request_id: str) -> str:
        """Return the state of a session that was opened by the door."""
        view = self.door.wait_for(request_id, lambda view: True)
        return self.cloud.state(view["session_id"])

    def cancel(self, request_id: str) -> None:
        """Let go of a session without having used it."""
        self.door.request("cancel", request_id=request_id)
        self.door.wait_state(request_id, "CANCELLED")


def make_pair(
    make_cloud: Callable[..., clouds.Cloud], slots: int, **options: float
) -> clouds.Cloud:
    """Start a cloud of which the far host has one slot."""
    return make_cloud(
        clouds.HostPlan("near", slots=slots),
        clouds.HostPlan("far", slots=1),
        options={
            "conductor": {
                "accelerator_fault_limit": MANY,
                "slot_fault_limit": MANY,
                "device_fault_limit": MANY,
                # A host that is only slow is not to be lost.
                "report_timeout_s": 20,
                **options,
            }
        },
    )


@pytest.fixture(scope="module")
def patient_cloud(make_cloud) -> clouds.Cloud:
    """Give a pool in which only an operator has things tested."""
    return make_pair(
        make_cloud,
        1,
        accelerator_fault_limit=2,
        self_test_after_s=LATE_S,
        self_test_max_s=LATE_S,
    )


@pytest.fixture(scope="module")
def hurried_cloud(make_cloud) -> clouds.Cloud:
    """Give a pool whose boards are soon taken out, and soon tested."""
    return make_pair(
        make_cloud,
        2,
        device_fault_limit=2,
        self_test_after_s=0.5,
        self_test_max_s=2,
    )


@contextlib.contextmanager
def using(cloud: clouds.Cloud) -> Iterator[Pair]:
    """Give what a test does with a cloud, in which all is well then."""
    with contextlib.ExitStack() as stack:
        pair = Pair(cloud, stack)
        yield pair
        pair.repair()
        pair.wait_until_all_is_well()
    cloud.check_consistent()


@pytest.fixture
def patient(patient_cloud) -> Iterator[Pair]:
    with using(patient_cloud) as pair:
        yield pair


@pytest.fixture
def hurried(hurried_cloud) -> Iterator[Pair]:
    with using(hurried_cloud) as pair:
        yield pair


@pytest.fixture
def operator(patient) -> Iterator[Callable[[str], None]]:
    """Give a function that has the near slot tested with an accelerator."""
    rpc.cleanup()
    rpc.init(cfg.CONF, url=patient.cloud.transport_url)
    bus = conductor_rpcapi.ConductorAPI(call_timeout_s=waiting.LIMIT_S)
    yield lambda name: bus.test_slot(patient.near.uuid, BOARD, 0, name)
    rpc.cleanup()


def test_an_accelerator_that_fails_on_one_host(patient, operator) -> None:
    held = patient.hold_far()
    patient.break_near(programming=[0])
    waiting_ids = [patient.door.open("aes") for _ in range(2)]
    fault = patient.wait_for_fault(lambda fault: True)
    assert (fault.level, fault.accelerator, fault.failures, fault.reason) == (
        "accelerator",
        "aes",
        2,
        "PROGRAM_FAILED",
    )
    operator("aes")
    fault = patient.wait_for_fault(lambda fault: fault.tests)
    assert (fault.tests, fault.level) == (1, "accelerator")
    assert fault.last_test.startswith("PROGRAM_FAILED")
    patient.repair()
    # This one has not failed there, and waits for the far slot all the same.
    waiting_ids.append(patient.door.open("aes"))
    # Others go on there.
    view = patient.door.open_ready(size_bytes=len(DATA))
    assert view["slot_host_name"] == "near"
    client = patient.door.attach(view)
    with pytest.raises(exception.SlotNotTested) as caught:
        operator("aes")
    assert caught.value.code == "SLOT_IN_USE"
    assert client.run(DATA) == DATA
    doors.let_go([client])
    patient.door.wait_state(view["request_id"], "CLOSED")
    assert [patient.state(one) for one in waiting_ids] == ["QUEUED"] * 3
    # It is served from where it does not fail.
    doors.let_go(held)
    for request_id in waiting_ids:
        view = patient.door.wait_state(request_id, "READY")
        assert view["slot_host_name"] == "far"
        patient.cancel(request_id)
    operator("aes")
    patient.wait_until_all_is_well()
    held = patient.hold_far()
    view = patient.door.open_ready("aes")
    assert view["slot_host_name"] == "near"
    patient.cancel(view["request_id"])
    doors.let_go(held)


def test_a_slot_in_use_that_does_not_pass(patient, operator) -> None:
    patient.break_near(core_error=[0])
    operator("copy")
    fault = patient.wait_for_fault(lambda fault: True)
    assert (fault.level, fault.failures, fault.reason) == (
        "slot",
        0,
        "SELF_TEST_FAILED",
    )
    assert "does not compute" in fault.last_test
    view = patient.door.open_ready()
    assert view["slot_host_name"] == "far"
    patient.cancel(view["request_id"])
    patient.repair()
    operator("copy")
    patient.wait_until_all_is_well()
    view = patient.door.open_ready()
    assert view["slot_host_name"] == "near"
    patient.cancel(view["request_id"])


def test_an_agent_that_restarts_in_a_test(patient, operator) -> None:
    """It fails nothing; the test is made anew, if the host is not lost."""
    near = patient.near
    patient.break_near(programming_hang=[0])
    operator("sha")
    near.agent.wait_for_log("FAULT INJECTED: programming_hang")
    near.agent.kill()
    for worker in near.workers():
        worker.kill()
    patient.repair()
    near.agent.start()
    conductor = patient.cloud.conductor
    outcome = "Self-test of slot near board0 0 with sha"
    conductor.wait_for_log(outcome)
    patient.cloud.wait_ready()
    (line,) = [one for one in conductor.log().splitlines() if outcome in one]
    assert line.endswith((": none", ": passed"))
    assert not patient.faults()


def test_a_board_that_fails(hurried) -> None:
    held = hurried.hold_far()
    hurried.break_near(programming=[0, 1])
    waiting_ids = [hurried.door.open("aes") for _ in range(2)]
    fault = hurried.wait_for_fault(lambda fault: fault.tests >= 2)
    assert (fault.level, fault.failures, fault.reason) == (
        "device",
        2,
        "PROGRAM_FAILED",
    )
    assert fault.last_test.startswith("PROGRAM_FAILED")
    slots = hurried.cloud.database.inventory().slots
    assert sum(slot.faulty for slot in slots) == 2
    assert [hurried.state(one) for one in waiting_ids] == ["QUEUED"] * 2
    doors.let_go(held)
    for request_id in waiting_ids:
        view = hurried.door.wait_state(request_id, "READY")
        assert view["slot_host_name"] == "far"
        hurried.cancel(request_id)
    assert hurried.faults()
    hurried.repair()
    hurried.wait_until_all_is_well()
    views = [hurried.door.open_ready(size_bytes=len(DATA)) for _ in range(2)]
    assert [view["slot_host_name"] for view in views] == ["near"] * 2
    for view in views:
        client = hurried.door.attach(view)
        assert client.run(DATA) == DATA
        doors.let_go([client])
