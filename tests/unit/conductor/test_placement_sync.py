# SPDX-License-Identifier: Apache-2.0

"""The thread that tells Placement of devices, one look after the other."""

import dataclasses
import logging

import pytest

from fpgapool.clients import nova
from fpgapool.clients import placement as placement_client
from fpgapool.common import exception
from fpgapool.conductor import counts as conductor_counts
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.outside import placement_plan
from fpgapool.conductor.outside import placement_sync
from tests.harness import placement as fake

HOST = "00000001-0000-4000-8000-000000000000"
OTHER_HOST = "00000002-0000-4000-8000-000000000000"
AES = frozenset({"CUSTOM_FPGAPOOL_AES"})
DEVICE = placement_plan.Device(
    id="d1", name="fpga0", traits=AES, usable_slots=2, reservable_slots=1
)


class Nova:
    """Knows servers and migrations."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.moves: dict[str, str] = {}
        self.asked: list[str] = []
        self.away = False

    def server(self, instance_id: str) -> nova.Server | None:
        self.asked.append(instance_id)
        if self.away:
            raise exception.NovaUnavailable(reason="it is away")
        return self._server(instance_id) if instance_id in self.known else None

    def servers(self):
        self.asked.append("all")
        return [self._server(one) for one in self.known]

    def migrating(self, migration_ids):
        self.asked.append("migrations")
        return {
            one: self.moves[one] for one in migration_ids & self.moves.keys()
        }

    def _server(self, instance_id: str) -> nova.Server:
        return nova.Server(id=instance_id, project_id="p")


class Cloud:
    """A pool, a Placement and a Nova, and the thread between them."""

    def __init__(
        self, *, with_nova: bool = True, hearing_s: float = 0
    ) -> None:
        self.now = 1000.0
        self.adapter = fake.Adapter()
        self.adapter.add(HOST)
        self.nova = Nova()
        self.counts = conductor_counts.Counts()
        self.want = placement_plan.Wanted(hosts={HOST: (DEVICE,)})
        self.put: list[inputs.Input] = []
        self.early: list[bool] = []
        self.placing = self.start(with_nova=with_nova, hearing_s=hearing_s)

    def start(
        self, *, with_nova: bool = True, hearing_s: float = 0
    ) -> placement_sync.Placing:
        def wanted(is_early: bool) -> placement_plan.Wanted:
            self.early.append(is_early)
            return self.want

        return placement_sync.Placing(
            placement_client.Placement(self.adapter),
            self.nova if with_nova else None,
            pool_name="default",
            wanted=wanted,
            put=self.put.append,
            on_failure=pytest.fail,
            sync_interval_s=60,
            allocation_interval_s=5,
            hearing_s=hearing_s,
            counts=self.counts,
            clock=lambda: self.now,
        )

    def look(self, after_s: float = 1.0) -> list[tuple[str, str]]:
        """Look once; :returns: what Placement was asked."""
        self.now += after_s
        self.adapter.asked.clear()
        self.placing.look()
        return list(self.adapter.asked)

    def allocate(self, consumer: str, count: int = 1) -> None:
        self.adapter.allocate("d1", consumer, placement_plan.SLOT, count)

    def change(self, **members) -> None:
        device = dataclasses.replace(DEVICE, **members)
        self.want = placement_plan.Wanted(hosts={HOST: (device,)})

    @property
    def reserved(self):
        return self.put[-1].by_device

    @property
    def child(self) -> fake.Provider:
        return self.adapter.providers["d1"]


@pytest.fixture
def world() -> Cloud:
    """Give a pool with a device that Placement knows."""
    made = Cloud()
    made.look()
    return made


def test_a_device_appears(world):
    assert world.child.parent_uuid == HOST
    assert world.child.traits > AES
    assert world.child.inventories[placement_plan.SLOT]["total"] == 1
    assert world.adapter.providers[HOST].traits == AES
    # What the database holds of reservations is replaced at once.
    assert world.put == [inputs.Reservations({})]
    assert world.counts.placement_syncs == 1
    assert world.counts.placement_requests == len(world.adapter.asked)


def test_nothing_is_asked_until_something_is_due(world):
    world.look(after_s=5)
    assert not world.look(after_s=4.9)
    assert world.look(after_s=0.1)
    assert len(world.put) == 1


def test_a_change_of_the_pool_is_written_at_once(world):
    world.change(traits=frozenset(), usable_slots=0)
    world.look()
    assert world.child.inventories[placement_plan.SLOT]["reserved"] == 1
    assert not world.adapter.providers[HOST].traits
    world.change()
    world.look()
    assert world.child.inventories[placement_plan.SLOT]["reserved"] == 0
    assert world.adapter.providers[HOST].traits == AES


def test_what_others_change_is_mended_at_the_next_comparison(world):
    world.child.traits -= AES
    world.child.generation += 1
    del world.child.inventories[placement_plan.SLOT]
    world.look(after_s=59)
    assert not world.child.traits >= AES
    world.look(after_s=1)
    assert world.child.traits > AES
    assert world.child.inventories[placement_plan.SLOT]["total"] == 1


def test_an_idle_round_reads_only_lists(world):
    world.look(after_s=60)
    asked = world.look(after_s=60)
    (first, *rest) = [path for _, path in asked]
    assert first.startswith("/traits?")
    assert [path.partition("=")[0] for path in rest] == [
        "/resource_providers?required"
    ] * 3
    assert world.adapter.writes() == []
    # Between comparisons there is one list only.
    assert len(world.look(after_s=5)) == 1


def test_who_has_reserved_is_told(world):
    world.nova.known.add("vm")
    world.allocate("vm")
    world.look(after_s=5)
    assert world.reserved == {"d1": {"vm": 1}}
    assert world.nova.asked == ["vm"]
    # The end of an allocation does not change the generation.
    world.look(after_s=5)
    world.adapter.free("d1", "vm")
    world.look(after_s=5)
    assert world.reserved == {}
    assert world.nova.asked == ["vm"]
    assert len(world.put) == 3


def test_many_reservations_are_looked_at_by_few_requests(world):
    others = [
        placement_plan.Device(
            id=f"e{number}",
            name=f"e{number}",
            reservable_slots=2,
            usable_slots=2,
        )
        for number in range(9)
    ]
    world.want = placement_plan.Wanted(hosts={HOST: (DEVICE, *others)})
    world.look()
    for one in others:
        world.adapter.allocate(one.id, f"vm of {one.id}", placement_plan.SLOT)
    world.adapter.allocate("e0", "another vm", placement_plan.SLOT)
    world.allocate("vm")
    world.look(after_s=5)
    assert len(world.reserved) == 10
    # Both slots of e0 are taken, and the one of the first device; of the
    # others one each.
    asked = world.look(after_s=5)
    assert [path.partition("resources=")[2] for _, path in asked] == [
        "",
        "CUSTOM_FPGAPOOL_SLOT%3A1",
        "CUSTOM_FPGAPOOL_SLOT%3A2",
    ]
    for uuid, consumer in (("e0", "another vm"), ("e5", "vm of e5")):
        world.adapter.free(uuid, consumer)
        assert len(world.look(after_s=5)) == 4
    assert world.reserved["e0"] == {"vm of e0": 1}
    assert "e5" not in world.reserved
    # Of a device that is out of order nothing is free.
    world.want = placement_plan.Wanted(
        hosts={HOST: (DEVICE, dataclasses.replace(others[1], usable_slots=0))}
    )
    world.look()
    world.look(after_s=5)
    world.adapter.free("e1", "vm of e1")
    world.look(after_s=5)
    assert "e1" not in world.reserved


def test_a_migration_stands_for_its_instance(world):
    world.nova.known.add("vm")
    world.nova.moves["move"] = "vm"
    world.change(reservable_slots=2)
    world.look()
    world.allocate("move")
    world.look(after_s=5)
    assert world.reserved == {"d1": {"vm": 1}}
    assert world.nova.asked == ["move", "migrations"]
    # It changes its size on the spot.
    world.allocate("vm")
    world.look(after_s=5)
    assert world.reserved == {"d1": {"vm": 2}}


def test_a_stranger_keeps_what_it_has_and_is_asked_for_now_and_then(world):
    world.allocate("it")
    world.look(after_s=5)
    assert world.reserved == {"d1": {"it": 1}}
    world.look(after_s=5)
    assert world.nova.asked == ["it", "migrations"]
    world.nova.moves["it"] = "vm"
    world.look(after_s=60)
    assert world.reserved == {"d1": {"vm": 1}}


def test_many_newcomers_are_asked_for_together(world):
    many = [f"vm{number}" for number in range(30)]
    world.nova.known |= {*many}
    for one in many:
        world.allocate(one)
    world.look(after_s=5)
    assert world.reserved == {"d1": dict.fromkeys(many, 1)}
    assert world.nova.asked == ["all"]


def test_without_nova_every_consumer_is_an_instance():
    world = Cloud(with_nova=False)
    world.look()
    world.allocate("vm")
    world.look(after_s=5)
    assert world.reserved == {"d1": {"vm": 1}}


def test_placement_may_be_away(world, caplog):
    caplog.set_level(logging.INFO)
    world.allocate("vm")
    world.nova.known.add("vm")
    world.look(after_s=5)
    before = list(world.put)
    world.adapter.away = True
    world.change(traits=frozenset(), usable_slots=0)
    for _ in range(20):
        world.look()
    assert world.put == before
    assert 2 <= world.counts.placement_failures <= 5
    assert caplog.text.count("Cannot update devices in Placement") == 1
    world.adapter.away = False
    world.look(after_s=5)
    assert not world.adapter.providers[HOST].traits
    assert "Placement is available again" in caplog.text
    assert world.put == before


def test_nova_may_be_away(world):
    world.nova.away = True
    world.nova.known.add("vm")
    world.allocate("vm")
    world.look(after_s=5)
    # Whose it is cannot be told: nothing is said.
    assert len(world.put) == 1
    assert world.counts.placement_failures == 1
    world.nova.away = False
    world.look(after_s=5)
    assert world.reserved == {"d1": {"vm": 1}}


def test_devices_are_kept_up_while_nova_is_away(world, caplog):
    caplog.set_level(logging.INFO)
    world.nova.away = True
    world.allocate("vm")
    for _ in range(3):
        world.look(after_s=5)
    told = "Cannot query Nova about reservations"
    assert caplog.text.count(told) == 1
    assert "Cannot update devices" not in caplog.text
    # Sooner than Nova is asked again.
    world.change(traits=frozenset())
    world.look()
    assert not world.adapter.providers[HOST].traits
    world.nova.away = False
    world.look(after_s=5)
    assert "Nova can be queried about reservations again" in caplog.text
    world.nova.away = True
    world.allocate("another")
    world.look(after_s=5)
    assert caplog.text.count(told) == 2


def test_a_file_that_is_not_there_does_not_end_the_thread(world, caplog):
    def cannot_be_read(method: str, path: str) -> None:
        raise OSError("no CA bundle, invalid path: /etc/ssl/gone.pem")

    world.adapter.before = cannot_be_read
    world.look(after_s=60)
    assert world.counts.placement_failures == 1
    assert "gone.pem" in caplog.text


def test_without_its_traits_a_provider_keeps_its_reservations(world):
    world.nova.known.add("vm")
    world.allocate("vm")
    world.look(after_s=5)
    world.put.clear()
    world.child.traits.clear()
    world.child.generation += 1
    for _ in range(13):
        world.look(after_s=5)
    assert world.put == []
    assert world.child.traits > AES
    assert world.child.inventories[placement_plan.SLOT]["total"] == 1
    # Nor does one that is in no list have any longer what has ended.
    world.child.traits.clear()
    world.child.generation += 1
    world.adapter.free("d1", "vm")
    world.look(after_s=5)
    assert world.reserved == {}


def test_with_its_provider_a_reservation_ends(world):
    world.allocate("vm")
    world.look(after_s=5)
    del world.adapter.providers["d1"]
    world.look(after_s=5)
    assert world.reserved == {}


def test_a_conductor_that_is_busy_is_asked_again(world, caplog):
    def busy(is_early: bool) -> placement_plan.Wanted:
        raise TimeoutError

    caplog.set_level(logging.INFO)
    world.placing._wanted = busy
    assert not world.look(after_s=60)
    assert "is busy" in caplog.text


def test_one_refusal_does_not_keep_others_from_their_due(world, caplog):
    world.adapter.add(OTHER_HOST)
    world.adapter.add("00000003").name = f"fpgapool_{OTHER_HOST}_fpga1"
    second = placement_plan.Device(id="d2", name="fpga1", traits=AES)
    third = placement_plan.Device(id="d3", name="fpga2", traits=AES)
    world.want = placement_plan.Wanted(
        hosts={HOST: (DEVICE,), OTHER_HOST: (second, third)}
    )
    for _ in range(3):
        world.look(after_s=5)
    assert "d2" not in world.adapter.providers
    assert world.adapter.providers["d3"].traits > AES
    assert caplog.text.count("uuid='d2'") == 1
    # Its name is free now.
    del world.adapter.providers["00000003"]
    world.look(after_s=5)
    assert world.adapter.providers["d2"].traits > AES


def test_a_compute_node_may_come_later(world, caplog):
    second = placement_plan.Device(id="d2", name="fpga0", traits=AES)
    world.want = placement_plan.Wanted(
        hosts={HOST: (DEVICE,), OTHER_HOST: (second,)}
    )
    for _ in range(3):
        world.look(after_s=60)
    assert caplog.text.count(f"compute node {OTHER_HOST} has no") == 1
    world.adapter.add(OTHER_HOST)
    world.look(after_s=60)
    assert world.adapter.providers["d2"].parent_uuid == OTHER_HOST


def test_the_next_leader_changes_nothing(world):
    world.allocate("vm")
    world.nova.known.add("vm")
    world.placing = world.start()
    world.put.clear()
    world.look()
    assert world.adapter.writes() == []
    assert world.put == [inputs.Reservations({"d1": {"vm": 1}})]


def test_a_leader_of_the_past_writes_nothing_and_says_nothing(world):
    world.allocate("vm")
    world.change(usable_slots=0)
    world.placing.stop()
    world.look()
    assert world.adapter.writes() == []
    assert len(world.put) == 1


def test_hosts_may_be_heard_for_some_time():
    world = Cloud(hearing_s=10)
    world.look(after_s=9)
    world.look(after_s=2)
    assert world.early == [True, False]


def test_what_a_device_that_is_gone_has_is_not_told(world):
    world.nova.known.add("vm")
    world.allocate("vm")
    world.look(after_s=5)
    world.want = placement_plan.Wanted(hosts={HOST: ()})
    world.look()
    assert world.reserved == {}
    assert world.child.inventories[placement_plan.SLOT]["reserved"] == 1
    world.adapter.free("d1", "vm")
    world.look(after_s=60)
    assert world.adapter.providers.keys() == {HOST}


def test_what_is_removed_is_told(world, caplog):
    world.want = placement_plan.Wanted(hosts={HOST: ()})
    for _ in range(3):
        world.look(after_s=60)
    assert caplog.text.count("deleted provider d1") == 1


def test_all_that_a_pool_has_can_be_removed(world):
    world.adapter.add(
        "d9",
        OTHER_HOST,
        placement_plan.OWNED,
        placement_plan.pool_trait("other"),
    )
    client = placement_client.Placement(world.adapter)
    assert placement_sync.clean(client, "nobody") == (0, 0)
    assert placement_sync.clean(client, "default") == (1, 0)
    assert world.adapter.providers.keys() == {HOST, "d9"}
    assert not world.adapter.providers[HOST].traits


def test_what_instances_have_stays(world):
    world.allocate("vm")
    client = placement_client.Placement(world.adapter)
    for _ in range(2):
        assert placement_sync.clean(client, "default") == (0, 1)
    assert world.child.inventories[placement_plan.SLOT]["reserved"] == 1
    world.adapter.free("d1", "vm")
    assert placement_sync.clean(client, "default") == (1, 0)


def test_a_refusal_does_not_keep_the_rest_from_being_removed(world, caplog):
    """An instance may come while providers are removed."""
    second = dataclasses.replace(DEVICE, id="d2", name="fpga1")
    world.want = placement_plan.Wanted(hosts={HOST: (DEVICE, second)})
    world.look()

    def come(method: str, path: str) -> None:
        if (method, path) == ("DELETE", "/resource_providers/d1"):
            world.allocate("vm")

    world.adapter.before = come
    client = placement_client.Placement(world.adapter)
    assert placement_sync.clean(client, "default") == (1, 1)
    assert world.adapter.providers.keys() == {HOST, "d1"}
    assert "uuid='d1'" in caplog.text
