# SPDX-License-Identifier: Apache-2.0

"""What Placement should have of the pool."""

import dataclasses
import uuid

import pytest

from fpgapool.clients import placement as placement_client
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.outside import placement_plan
from fpgapool.core import model
from tests.unit.conductor import world

HOST = "00000001-0000-4000-8000-000000000000"
OTHER_HOST = "00000002-0000-4000-8000-000000000000"
POOL = "default"
OWN = frozenset({placement_plan.OWNED, placement_plan.pool_trait(POOL)})
AES = "CUSTOM_FPGAPOOL_AES"
FFT = "CUSTOM_FPGAPOOL_FFT"


def profile(name: str, *shapes: str, **members):
    return dataclasses.replace(
        world.PROFILE, name=name, shapes=shapes, **members
    )


def make_pool(
    *shapes: str, host_uuid: str = HOST, up: bool = True
) -> registry.Registry:
    """Return a pool with one board."""
    pool = registry.Registry()
    host = pool._add_host(
        registry.HostEntry(
            id=1, uuid=host_uuid, name="a", up=up, boot_id="b" if up else ""
        )
    )
    board = pool._add_device(
        registry.DeviceEntry(id=1, name="fpga0", host=host)
    )
    for number, shape in enumerate(shapes):
        pool._add_slot(
            registry.SlotEntry(
                id=number + 1, number=number, shape=shape, device=board
            )
        )
    return pool


def wanted(pool: registry.Registry, *profiles, reservable=0, **options):
    return placement_plan.wanted(
        pool,
        {one.name: one for one in profiles},
        lambda device_id: reservable,
        **options,
    )


def only_device(found: placement_plan.Wanted) -> placement_plan.Device:
    (device,) = found.devices()
    return device


# -- what the pool has -------------------------------------------------------


def test_a_device_has_traits_for_what_its_slots_can_run():
    pool = make_pool("small", "medium")
    found = wanted(
        pool,
        profile("aes", "medium", "large"),
        profile("fft", "large"),
        profile("any-Thing.2"),
        reservable=1,
    )
    device = only_device(found)
    assert device == placement_plan.Device(
        id=str(uuid.uuid5(uuid.UUID(HOST), "fpga0")),
        name="fpga0",
        traits=frozenset({AES, "CUSTOM_FPGAPOOL_ANY_THING_2"}),
        usable_slots=2,
        reservable_slots=1,
    )
    assert found.hosts.keys() == {HOST}


def test_what_tenants_have_brought_is_not_told():
    found = wanted(
        make_pool("medium"),
        profile("own@p1", projects=("p1",)),
        profile("shared@p1", projects=("p1", "p2")),
        profile("secret", projects=("p1",)),
        profile("aes"),
    )
    assert only_device(found).traits == {AES}


@pytest.mark.parametrize("name", ["owned", "Owned", "pool_default", "pool.x"])
def test_names_that_mean_something_else_have_no_trait(name):
    assert placement_plan.accelerator_trait(name) is None
    found = wanted(make_pool("medium"), profile(name), profile("pool"))
    assert only_device(found).traits == {"CUSTOM_FPGAPOOL_POOL"}


def test_traits_are_such_as_placement_takes():
    trait = placement_plan.accelerator_trait("é ß.-" + "x" * 300)
    assert trait.startswith("CUSTOM_FPGAPOOL__")
    assert len(trait) == 255
    assert set(trait) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


def test_an_accelerator_that_a_host_is_not_used_for_has_no_trait_there():
    pool = make_pool("medium")
    profiles = {one.name: one for one in (profile("aes"), profile("fft"))}
    both = {AES, "CUSTOM_FPGAPOOL_FFT"}
    for off, traits in (
        ({HOST: frozenset({("fft", "")})}, {AES}),
        ({HOST: frozenset({("fft", "medium")})}, {AES}),
        ({HOST: frozenset({("fft", "large")})}, both),
        ({"another": frozenset({("fft", "medium")})}, both),
    ):
        found = placement_plan.wanted(
            pool, profiles, lambda _: 0, off_hosts=off
        )
        assert only_device(found).traits == traits


def _fault_of_device(pool):
    pool.devices[1].healthy = False


def _fault_of_slot(pool):
    pool.slots[1].faulty = True


def _unusable_slot(pool):
    pool.slots[1].usable = False


def _lost_host(pool):
    pool.hosts[HOST].up = False


def _drain_of_device(pool):
    pool.devices[1].admin = registry.Administration(
        state=model.AdminState.DRAINING
    )


def _disabled_host(pool):
    pool.hosts[HOST].admin = registry.Administration(
        state=model.AdminState.DISABLED
    )


@pytest.mark.parametrize(
    "break_",
    [
        _fault_of_device,
        _fault_of_slot,
        _unusable_slot,
        _lost_host,
        _drain_of_device,
        _disabled_host,
    ],
)
def test_what_cannot_be_used_runs_nothing(break_):
    pool = make_pool("medium")
    break_(pool)
    found = wanted(pool, profile("aes"), reservable=1)
    device = only_device(found)
    assert (device.traits, device.usable_slots) == (frozenset(), 0)
    assert device.reservable_slots == 1
    assert not found.unheard


def test_a_host_that_has_not_been_heard_may_still_be():
    pool = make_pool("medium", up=False)
    assert wanted(pool, is_early=True).unheard == {HOST}
    assert not wanted(pool, is_early=False).unheard
    # One that has gone silent since is lost.
    pool.hosts[HOST].boot_id = "b"
    assert not wanted(pool, is_early=True).unheard


def test_a_host_that_nova_cannot_know_is_left_out():
    assert not wanted(make_pool("medium", host_uuid="my-host")).hosts


def test_hosts_are_called_as_placement_calls_them():
    pool = make_pool("medium", host_uuid=HOST.replace("-", "").upper())
    assert wanted(pool).hosts.keys() == {HOST}


# -- what is to be done ------------------------------------------------------

DEVICE = placement_plan.Device(
    id="d1", name="fpga0", traits=frozenset({AES}), usable_slots=2
)


def provider(id_: str, root: str | None = None) -> placement_client.Provider:
    return placement_client.Provider(
        uuid=id_,
        name=id_,
        generation=1,
        root_uuid=root or id_,
        parent_uuid=root,
    )


def present(
    *providers: placement_client.Provider,
    traits=None,
    inventories=None,
    used=None,
) -> placement_plan.Present:
    return placement_plan.Present(
        providers={one.uuid: one for one in providers},
        traits={id_: frozenset(own) for id_, own in (traits or {}).items()},
        inventories={
            id_: placement_client.Inventory(*one)
            for id_, one in (inventories or {}).items()
        },
        used=used or {},
    )


def plan(
    have: placement_plan.Present, *devices: placement_plan.Device, **members
):
    hosts = {HOST: devices} if devices else {}
    want = placement_plan.Wanted(**{"hosts": hosts, **members})
    return placement_plan.plan(want, have, POOL)


def inventory(total: int, reserved: int = 0):
    return placement_plan.SetInventory(
        "d1", placement_client.Inventory(total, reserved)
    )


#: The one device as it should be, without slots that can be reserved.
SETTLED = {"d1": {*OWN, AES}, HOST: {AES}}


def test_a_new_device_gets_its_provider_before_the_compute_node_its_traits():
    found = plan(
        present(provider(HOST)),
        dataclasses.replace(DEVICE, reservable_slots=1),
    )
    assert found == placement_plan.Plan(
        (
            placement_plan.Create("d1", f"fpgapool_{HOST}_fpga0", HOST),
            placement_plan.ChangeTraits("d1", OWN | {AES}, frozenset()),
            inventory(1),
            placement_plan.ChangeTraits(HOST, frozenset({AES}), frozenset()),
        )
    )


def test_nothing_is_done_where_all_is_well():
    have = present(provider(HOST), provider("d1", HOST), traits=SETTLED)
    assert plan(have, DEVICE) == placement_plan.Plan(())


def test_a_compute_node_that_is_not_there_is_waited_for():
    found = plan(present(), DEVICE)
    assert found == placement_plan.Plan((), missing=frozenset({HOST}))
    # Whether a host without boards is there does not matter.
    want = placement_plan.Wanted(hosts={HOST: ()})
    assert placement_plan.plan(want, present(), POOL) == placement_plan.Plan(
        ()
    )


def test_a_host_that_has_not_been_heard_is_left_as_it_is():
    have = present(
        provider(HOST), provider("d1", HOST), traits={**SETTLED, HOST: {FFT}}
    )
    silent = placement_plan.Device(id="d1", name="fpga0")
    found = plan(have, silent, unheard=frozenset({HOST}))
    assert found == placement_plan.Plan(())


def test_the_compute_node_has_the_traits_of_all_its_devices():
    second = dataclasses.replace(DEVICE, id="d2", traits=frozenset({FFT}))
    have = present(
        provider(HOST),
        provider("d1", HOST),
        provider("d2", HOST),
        traits={
            "d1": {*OWN, AES},
            "d2": {*OWN, FFT},
            HOST: {AES, "CUSTOM_FPGAPOOL_OLD"},
        },
    )
    assert plan(have, DEVICE, second).operations == (
        placement_plan.ChangeTraits(
            HOST, frozenset({FFT}), frozenset({"CUSTOM_FPGAPOOL_OLD"})
        ),
    )


@pytest.mark.parametrize(
    ("reservable", "usable", "used", "expected"),
    [
        (2, 4, 0, (2, 0)),
        (2, 4, 2, (2, 0)),
        # Only one slot is left, or none.
        (2, 1, 0, (2, 1)),
        (2, 0, 0, (2, 2)),
        (2, 0, 1, (2, 2)),
        # The operator takes back what instances have.
        (1, 4, 2, (2, 1)),
        (0, 4, 1, (1, 1)),
    ],
)
def test_inventories(reservable, usable, used, expected):
    device = dataclasses.replace(
        DEVICE, reservable_slots=reservable, usable_slots=usable
    )
    have = present(
        provider(HOST),
        provider("d1", HOST),
        traits=SETTLED,
        inventories={"d1": (9, 0)},
        used={"d1": used},
    )
    found = plan(have, device)
    assert found.operations == (inventory(*expected),)
    assert found.kept == ({"d1"} if used > reservable else set())


def test_without_slots_to_reserve_there_is_no_inventory():
    have = present(
        provider(HOST),
        provider("d1", HOST),
        traits=SETTLED,
        inventories={"d1": (1, 0)},
    )
    assert plan(have, DEVICE).operations == (
        placement_plan.SetInventory("d1", None),
    )


def test_what_is_gone_is_deleted_after_the_traits_of_the_compute_node():
    have = present(provider(HOST), provider("d1", HOST), traits=SETTLED)
    assert plan(have).operations == (
        placement_plan.ChangeTraits(HOST, frozenset(), frozenset({AES})),
        placement_plan.Delete("d1"),
    )


def test_what_is_gone_stays_while_somebody_has_of_it():
    have = present(
        provider(HOST),
        provider("d1", HOST),
        traits=SETTLED,
        inventories={"d1": (2, 0)},
        used={"d1": 1},
    )
    found = plan(have)
    assert found.operations == (
        placement_plan.ChangeTraits(HOST, frozenset(), frozenset({AES})),
        placement_plan.ChangeTraits("d1", frozenset(), frozenset({AES})),
        inventory(1, 1),
    )
    assert found.kept == {"d1"}


OTHER_POOL = {placement_plan.OWNED, placement_plan.pool_trait("other")}


def test_another_pool_keeps_what_it_has():
    have = present(
        provider(HOST),
        provider("d1", HOST),
        provider("d9", HOST),
        provider("d8", OTHER_HOST),
        traits={
            "d1": {*OWN, AES},
            "d8": OTHER_POOL,
            "d9": {*OTHER_POOL, FFT},
            HOST: {AES, FFT},
        },
    )
    assert plan(have, DEVICE) == placement_plan.Plan(())
    ours = placement_plan.Device(
        id="d9", name="fpga9", traits=frozenset({AES})
    )
    found = plan(have, DEVICE, ours)
    assert found == placement_plan.Plan((), foreign=frozenset({"d9"}))


def test_only_children_are_ever_deleted():
    """A compute node that somebody has marked is none of the pool's."""
    have = present(provider(HOST), traits={HOST: OWN})
    assert plan(have) == placement_plan.Plan(())


@pytest.mark.parametrize("name", ["x" * 300, "böard", "a b", "\U0001f525"])
def test_strange_names_become_ids(name):
    device = placement_plan.Device(id="d1", name=name)
    assert placement_plan.provider_name(HOST, device) == f"fpgapool_{HOST}_d1"
