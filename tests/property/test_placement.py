# SPDX-License-Identifier: Apache-2.0

"""What Placement has becomes what the pool has, whatever there was before,
and whatever interrupts it; nothing of others is touched."""

import copy
import uuid

import hypothesis
import hypothesis.strategies as st
from hypothesis import stateful

from fpgapool.clients import placement as placement_client
from fpgapool.common import exception
from fpgapool.conductor.outside import placement_plan
from fpgapool.conductor.outside import placement_sync
from tests.harness import placement as fake
from tests.property import fuzzing

HOSTS = tuple(f"{number:08x}-0000-4000-8000-000000000000" for number in (1, 2))
NAMES = ("fpga0", "fpga1", "fpga2")
ACCELERATORS = ("aes", "fft", "sha")
POOL = "default"
OWN = {placement_plan.OWNED, placement_plan.pool_trait(POOL)}
OTHERS = {placement_plan.OWNED, placement_plan.pool_trait("other")}
FOREIGN = "HW_NIC_SMARTNIC"

_devices = st.builds(
    lambda name, accelerators, slots, reservable: (
        name,
        frozenset(
            map(
                placement_plan.accelerator_trait, accelerators if slots else ()
            )
        ),
        slots,
        reservable,
    ),
    st.sampled_from(NAMES),
    st.sets(st.sampled_from(ACCELERATORS)),
    st.integers(0, 3),
    st.integers(0, 3),
)


def device_of(
    host: str, name, traits, slots, reservable
) -> placement_plan.Device:
    return placement_plan.Device(
        id=str(uuid.uuid5(uuid.UUID(host), name)),
        name=name,
        traits=traits,
        usable_slots=slots,
        reservable_slots=reservable,
    )


class Cloud(stateful.RuleBasedStateMachine):
    """A Placement that pools, Nova and operators change."""

    def __init__(self) -> None:
        super().__init__()
        self.adapter = fake.Adapter()
        self.adapter.add_class("VCPU")
        self.want = placement_plan.Wanted()
        self.reader: placement_sync.Reader | None = None
        self.consumers = 0
        self.start()

    def start(self) -> None:
        self.client = placement_client.Placement(self.adapter)
        self.reader = placement_sync.Reader(self.client)

    # What others do.

    @stateful.rule(host=st.sampled_from(HOSTS))
    def compute_node_comes(self, host: str) -> None:
        if host not in self.adapter.providers:
            made = self.adapter.add(host, None, FOREIGN)
            made.inventories["VCPU"] = placement_client.Inventory(8).document()

    @stateful.rule(host=st.sampled_from(HOSTS), name=st.sampled_from(NAMES))
    def another_pool_adds_a_device(self, host: str, name: str) -> None:
        id_ = str(uuid.uuid5(uuid.UUID(host), name))
        providers = self.adapter.providers
        if host in providers and id_ not in providers:
            fft = placement_plan.accelerator_trait("fft")
            self.adapter.add(id_, host, *OTHERS, fft)
            providers[host].traits.add(fft)
            providers[host].generation += 1

    @stateful.rule(
        data=st.data(),
        trait=st.sampled_from(["COMPUTE_NODE", *OTHERS, "CUSTOM_FPGAPOOL_X"]),
    )
    def somebody_marks_a_compute_node(self, data, trait: str) -> None:
        roots = [
            p for p in self.adapter.providers.values() if not p.parent_uuid
        ]
        if roots:
            root = data.draw(st.sampled_from(roots))
            spare = self.adapter.add("spare", None, trait)
            del self.adapter.providers[spare.uuid]
            root.traits.add(trait)
            root.generation += 1

    @stateful.rule(data=st.data(), is_deleted=st.booleans())
    def somebody_meddles_with_ours(self, data, is_deleted: bool) -> None:
        ours = self.ours()
        if not ours:
            return
        child = data.draw(st.sampled_from(ours))
        if not child.allocations:
            child.inventories.clear()
            if is_deleted:
                del self.adapter.providers[child.uuid]
        child.traits -= {*map(placement_plan.accelerator_trait, ACCELERATORS)}
        child.generation += 1

    @stateful.rule(data=st.data())
    def an_instance_reserves(self, data) -> None:
        self.pool_settles()
        free = [
            child
            for child in self.ours()
            if (found := child.inventories.get(placement_plan.SLOT))
            and len(child.allocations) < found["total"] - found["reserved"]
        ]
        if free:
            child = data.draw(st.sampled_from(free))
            self.consumers += 1
            self.adapter.allocate(
                child.uuid, f"vm{self.consumers}", placement_plan.SLOT
            )

    @stateful.rule(data=st.data())
    def an_instance_goes(self, data) -> None:
        held = [
            (child.uuid, consumer)
            for child in self.ours()
            for consumer in child.allocations
        ]
        if held:
            self.adapter.free(*data.draw(st.sampled_from(held)))

    # What the pool does.

    @stateful.rule(
        hosts=st.dictionaries(
            st.sampled_from(HOSTS),
            st.lists(_devices, max_size=3, unique_by=lambda one: one[0]),
        ),
        settles=st.booleans(),
    )
    def pool_changes(self, hosts, settles: bool) -> None:
        self.want = placement_plan.Wanted(
            hosts={
                host: tuple(device_of(host, *one) for one in devices)
                for host, devices in hosts.items()
            }
        )
        if settles:
            self.pool_settles()

    @stateful.rule()
    def another_conductor_leads(self) -> None:
        self.start()

    @stateful.rule(requests=st.integers(0, 12))
    def placement_goes_away_meanwhile(self, requests: int) -> None:
        def count(*_: object) -> None:
            self.adapter.away = len(self.adapter.asked) > requests

        self.adapter.asked.clear()
        self.adapter.before = count
        try:
            self.sync()
        except exception.PlacementRefused:
            raise
        except exception.PlacementUnavailable:
            pass
        finally:
            self.adapter.away = False
            self.adapter.before = lambda *_: None
            # Its providers can be told by their traits, or have none yet.
            assert all(
                one.traits >= OWN or not one.traits
                for one in self.adapter.providers.values()
                if one.name.startswith("fpgapool_")
            )

    @stateful.rule()
    def pool_settles(self) -> None:
        before = copy.deepcopy(self.adapter.providers)
        self.sync()
        self.check_wanted()
        self.check_others(before)
        self.adapter.asked.clear()
        assert self.plan().operations == ()
        assert not self.adapter.writes()
        # Neither does one that has not seen anything before.
        self.start()
        assert self.plan().operations == ()

    # Checks.

    def ours(self) -> list[fake.Provider]:
        return [
            one
            for one in self.adapter.providers.values()
            if one.parent_uuid and one.traits >= OWN
        ]

    def plan(self) -> placement_plan.Plan:
        assert self.reader is not None
        present = self.reader.read(self.want, POOL)
        return placement_plan.plan(self.want, present, POOL)

    def sync(self) -> None:
        assert self.reader is not None
        for operation in self.plan().operations:
            placement_sync.carry_out(self.client, operation)
            self.reader.note(operation)

    def check_wanted(self) -> None:
        providers = self.adapter.providers
        ours = {one.uuid: one for one in self.ours()}
        for host, devices in self.want.hosts.items():
            for device in devices:
                if host in providers and device.id not in (
                    providers.keys() - ours.keys()
                ):
                    self.check_device(device, ours.pop(device.id))
                    assert providers[host].traits >= device.traits
        # The rest is gone, but for what somebody has of it.
        for left in ours.values():
            assert left.allocations
            inventory = left.inventories[placement_plan.SLOT]
            assert inventory["reserved"] == inventory["total"]

    def check_device(
        self, device: placement_plan.Device, child: fake.Provider
    ) -> None:
        assert child.traits == OWN | device.traits
        found = child.inventories.get(placement_plan.SLOT)
        total = found["total"] if found else 0
        reserved = found["reserved"] if found else 0
        assert total == max(device.reservable_slots, len(child.allocations))
        assert total - reserved == min(
            device.reservable_slots, device.usable_slots
        )

    def check_others(self, before: dict[str, fake.Provider]) -> None:
        after = self.adapter.providers
        for id_, old in before.items():
            if old.parent_uuid and old.traits >= OWN:
                assert not old.allocations or id_ in after
                if id_ in after:
                    assert after[id_].allocations == old.allocations
                continue
            if old.parent_uuid and not old.traits:
                # One that was being made.
                continue
            if old.parent_uuid:
                assert after[id_] == old
                assert after[old.parent_uuid].traits >= old.traits - OTHERS
                continue
            new = after[id_]
            assert new.inventories == old.inventories
            assert {t for t in new.traits if not _is_ours(t)} == {
                t for t in old.traits if not _is_ours(t)
            }
            if id_ not in self.want.hosts and not _had_device(before, id_):
                assert new == old


def _is_ours(trait: str) -> bool:
    return trait.startswith(placement_plan.PREFIX)


def _had_device(before: dict[str, fake.Provider], root: str) -> bool:
    return any(
        one.parent_uuid == root and one.traits >= OWN
        for one in before.values()
    )


TestCloud = Cloud.TestCase
TestCloud.settings = hypothesis.settings(
    fuzzing.limits(100), stateful_step_count=30
)
