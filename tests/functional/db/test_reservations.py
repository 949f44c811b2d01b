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

"""Reserved slots outlive the conductor and the database server."""

import concurrent.futures
import uuid

import pytest

from fpgapool import objects
from fpgapool import strategies
from fpgapool.conductor import admission
from fpgapool.conductor import engine
from fpgapool.conductor import inputs
from fpgapool.core import state as core_state
from fpgapool.db import api
from fpgapool.db import migration
from fpgapool.objects import identity
from fpgapool.objects import states

HOST = str(uuid.UUID(int=1))
DEVICE = identity.device_id(HOST, "board0")
VM = str(uuid.UUID(int=77))


@pytest.fixture(scope="session")
def mariadb(own_mariadb):
    """Give the server that tests here harm."""
    return own_mariadb


class Conductor:
    """An engine that leads, and writes what it wants at once."""

    def __init__(self, database: api.Database) -> None:
        self.database = database
        lease = database.read_lease()
        self.epoch = database.take_lease("c", lease).epoch
        self.engine = engine.Engine(
            core_state.PoolState(
                strategies.fifo({"slot_choice": "index"}, 0),
                first_generation=self.epoch << 32,
            ),
            admission.Limits(),
            database.load(),
            "fifo",
        )
        self._write(self.engine.start(1000.0))

    def feed(self, *batch: inputs.Input) -> None:
        self._write(self.engine.process(batch, 1000.0))

    def _write(self, wanted: engine.effects.Effects) -> None:
        self.database.commit(self.epoch, wanted.changes)

    def report(self, sequence: int) -> None:
        """Let the host's agent report three idle slots."""
        slots = tuple(
            objects.SlotReport(
                device="board0", slot=n, shape="x", state=states.SLOT_IDLE
            )
            for n in range(3)
        )
        device = objects.DeviceReport(
            name="board0", model="test", dma_bytes_per_s=1e9, slots=slots
        )
        self.feed(
            inputs.Report(
                objects.AgentReport(
                    host_uuid=HOST,
                    host_name="h",
                    agent_boot_id="1-1",
                    sequence=sequence,
                    nic_bytes_per_s=1e9,
                    devices=(device,),
                    driver="test",
                )
            )
        )

    def open(self, name: str) -> str:
        """Open a session; return its state."""
        self.feed(
            inputs.Open(
                objects.OpenRequest(
                    request_id=name,
                    project_id="p",
                    user_id="u",
                    host_uuid=HOST,
                    accelerator="copy",
                    claimed_bytes=1000,
                    expires_at=2000.0,
                )
            )
        )
        view = self.engine.find("p", name)
        assert view is not None
        return view.state


def _prepare(database: api.Database) -> None:
    """Reserve two of three slots, one of them for an instance."""
    database.upsert_accelerators(
        [
            api.AcceleratorRecord(
                name="copy",
                profile=objects.AcceleratorProfile(
                    name="copy",
                    peak_bytes_per_s=1e9,
                    return_ratio=1.0,
                    stateless=False,
                    core="copy",
                ).to_primitive()["data"],
            )
        ]
    )
    first = Conductor(database)
    first.report(1)
    future: concurrent.futures.Future[object] = concurrent.futures.Future()
    first.feed(
        inputs.SetReservable(
            host_uuid=HOST, device="board0", slots=2, future=future
        ),
        inputs.Reservations({DEVICE: {VM: 1}}),
    )


@pytest.mark.dialect
def test_what_is_reserved_is_taken_over(database: api.Database) -> None:
    _prepare(database)
    found = database.inventory()
    assert found.devices[0].reservable_slots == 2
    assert [slot.reserved_for for slot in found.slots] == [None, None, VM]
    assert found.reservations == [
        api.ReservationRecord(device_id=1, instances={VM: 1})
    ]
    assert found.projects == {}
    second = Conductor(database)
    second.feed(inputs.Reservations({}))
    found = database.inventory()
    assert found.reservations[0].instances == {}
    second.report(2)
    found = database.inventory()
    assert [slot.reserved_for for slot in found.slots] == [None] * 3


def test_whose_instances_they_are(database: api.Database) -> None:
    _prepare(database)
    epoch = database.take_lease("d", database.read_lease()).epoch
    database.commit(
        epoch,
        api.Changes.of(
            api.InstanceRecord(
                id=number,
                instance_id=instance_id,
                project_id=f"p{number}",
                token_nonce="n",
                token_hash="h",
                created_at=1.0,
            )
            for number, instance_id in enumerate((VM, "another"), 1)
        ),
    )
    assert database.inventory().projects == {VM: "p1"}


def test_no_restart_gives_them_away(database_url: str, mariadb) -> None:
    database = api.Database(database_url)
    migration.sync(database.engine)
    _prepare(database)
    mariadb.kill()
    mariadb.start()
    second = Conductor(database)
    # Before Nova has said anything again.
    assert second.open("a") == states.QUEUED
    second.report(2)
    # The first slot is free for all; the second is kept, since the
    # accelerator is stateful, and the third is reserved.
    assert second.open("b") == states.QUEUED
    view = second.engine.find("p", "a")
    assert view is not None
    assert view.state == states.PREPARING
    assert second.engine.reservable_slots(DEVICE) == 2
    database.close()
