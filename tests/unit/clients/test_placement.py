# SPDX-License-Identifier: Apache-2.0

"""What Placement is asked, and what becomes of its answers."""

import pytest
from keystoneauth1 import exceptions
from oslo_config import cfg

from fpgapool.clients import placement
from fpgapool.common import exception
from fpgapool.vocabulary import codes
from tests.harness import placement as fake
from tests.unit.clients import configuring

ROOT = "00000001-0000-4000-8000-000000000000"
CHILD = "c0000001-0000-4000-8000-000000000000"
TRAIT = "CUSTOM_X_AES"
SLOT = "CUSTOM_X_SLOT"


@pytest.fixture
def adapter() -> fake.Adapter:
    """Give a Placement with one compute node, which has a trait."""
    made = fake.Adapter()
    made.add(ROOT, None, "HW_CPU_X86_AVX2")
    return made


@pytest.fixture
def client(adapter: fake.Adapter) -> placement.Placement:
    return placement.Placement(adapter, timeout_s=3.0)


def _make_child(client: placement.Placement) -> None:
    client.create(CHILD, "board", ROOT)
    client.set_inventory(CHILD, SLOT, placement.Inventory(2, 1))


def test_a_child_with_an_inventory(adapter, client):
    _make_child(client)
    made = adapter.providers[CHILD]
    assert (made.name, made.parent_uuid) == ("board", ROOT)
    assert made.inventories == {
        SLOT: {
            "total": 2,
            "reserved": 1,
            "min_unit": 1,
            "max_unit": 2,
            "step_size": 1,
            "allocation_ratio": 1.0,
        }
    }
    assert client.inventory(CHILD, SLOT) == placement.Inventory(2, 1)
    assert client.inventory(ROOT, SLOT) is None
    found = client.provider(CHILD)
    assert found == placement.Provider(
        uuid=CHILD,
        name="board",
        generation=1,
        root_uuid=ROOT,
        parent_uuid=ROOT,
    )
    assert client.provider(ROOT).parent_uuid is None
    assert client.provider("c0000002") is None
    assert client.requests == len(adapter.asked)


def test_making_it_again_changes_nothing(adapter, client):
    _make_child(client)
    before = adapter.providers[CHILD].generation
    _make_child(client)
    assert adapter.providers[CHILD].generation == before


def test_what_is_called_so_elsewhere_is_no_child(adapter, client):
    other = adapter.add("00000002-0000-4000-8000-000000000000")
    client.create(CHILD, "board", other.uuid)
    with pytest.raises(exception.PlacementRefused) as caught:
        client.create(CHILD, "board", ROOT)
    assert caught.value.code == codes.PLACEMENT_REFUSED
    with pytest.raises(exception.PlacementRefused):
        client.create("c0000003", "board", ROOT)


def test_other_traits_and_inventories_stay(adapter, client):
    adapter.add_class("VCPU")
    root = adapter.providers[ROOT]
    root.inventories["VCPU"] = placement.Inventory(8).document()
    client.change_traits(ROOT, {TRAIT, "CUSTOM_X_FFT"}, ())
    client.set_inventory(ROOT, SLOT, placement.Inventory(1))
    client.change_traits(ROOT, (), {TRAIT, "CUSTOM_NEVER"})
    client.set_inventory(ROOT, SLOT, None)
    assert root.traits == {"HW_CPU_X86_AVX2", "CUSTOM_X_FFT"}
    assert root.inventories.keys() == {"VCPU"}
    assert client.traits("CUSTOM_X_") == ["CUSTOM_X_FFT"]
    (found,) = client.providers("CUSTOM_X_FFT")
    assert found.uuid == ROOT


def test_whoever_comes_first_wins_and_the_others_try_again(adapter, client):
    def interfere(method: str, path: str) -> None:
        if method == "PUT" and path.endswith("/traits"):
            adapter.before = lambda *_: None
            root.traits |= spare.traits
            root.generation += 1

    root = adapter.providers[ROOT]
    spare = adapter.add("00000002", None, "CUSTOM_OTHER")
    adapter.before = interfere
    client.change_traits(ROOT, {TRAIT}, ())
    assert root.traits == {"HW_CPU_X86_AVX2", "CUSTOM_OTHER", TRAIT}
    assert client.conflicts == 1


def test_it_is_not_tried_for_ever(adapter, client):
    def interfere(method: str, path: str) -> None:
        if method == "PUT":
            adapter.providers[ROOT].generation += 1

    adapter.before = interfere
    with pytest.raises(exception.PlacementRefused, match="5 conflicts"):
        client.change_traits(ROOT, {TRAIT}, ())
    assert client.conflicts == 5


def test_a_trait_that_has_been_deleted_is_made_again(adapter, client):
    client.change_traits(ROOT, {TRAIT}, ())
    client.change_traits(ROOT, (), {TRAIT})
    adapter.forget_trait(TRAIT)
    with pytest.raises(exception.PlacementRefused, match="No such trait"):
        client.change_traits(ROOT, {TRAIT}, ())
    client.change_traits(ROOT, {TRAIT}, ())
    assert TRAIT in adapter.providers[ROOT].traits


def test_what_is_in_use_stays(adapter, client):
    _make_child(client)
    adapter.allocate(CHILD, "vm", SLOT)
    adapter.add_class("VGPU")
    assert client.allocations(CHILD, SLOT) == {"vm": 1}
    assert client.allocations(CHILD, "VGPU") == {}
    for change in (
        lambda: client.set_inventory(CHILD, SLOT, None),
        lambda: client.delete(CHILD),
    ):
        with pytest.raises(exception.PlacementRefused, match="still has"):
            change()
    adapter.free(CHILD, "vm")
    client.set_inventory(CHILD, SLOT, None)
    client.delete(CHILD)
    client.delete(CHILD)
    assert adapter.providers.keys() == {ROOT}


ASKING = {
    "traits": lambda one: one.traits("X"),
    "providers": lambda one: one.providers("X"),
    "provider": lambda one: one.provider(CHILD),
    "inventory": lambda one: one.inventory(CHILD, SLOT),
    "allocations": lambda one: one.allocations(CHILD, SLOT),
    "change_traits": lambda one: one.change_traits(CHILD, (), {"X"}),
    "set_inventory": lambda one: one.set_inventory(CHILD, SLOT, None),
}


class Canned:
    """Gives always the same answer."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def request(self, *_: object, **__: object) -> object:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def _text(text: str) -> fake.Answer:
    answer = fake.Answer(200)
    answer.text = text
    return answer


AWAY = {
    "no connection": exceptions.ConnectFailure("no route"),
    "too slow": exceptions.ConnectTimeout("slow"),
    "no cafile": OSError("no such cafile"),
    "not in the catalog": exceptions.EndpointNotFound(),
    "Keystone refuses": exceptions.Unauthorized(),
    "no token": fake.Answer(401),
    "no rights": fake.refusal(403, "placement.undefined_code"),
    "too old": fake.refusal(406, "placement.undefined_code"),
    "broken": _text("<html>"),
    "a list": fake.Answer(200, []),
    "nothing": fake.Answer(200, {}),
    "of another kind": fake.Answer(
        200,
        {
            "traits": None,
            "resource_providers": [{"uuid": CHILD}],
            "inventories": {SLOT: {"total": "many"}},
            "allocations": {"vm": {}},
        },
    ),
    "an error of its own": fake.Answer(500),
    "an error of a proxy": _text("<html>Bad gateway"),
}
AWAY["an error of a proxy"].status_code = 502


@pytest.mark.parametrize("answer", AWAY.values(), ids=AWAY.keys())
@pytest.mark.parametrize("ask", ASKING.values(), ids=ASKING.keys())
def test_whatever_makes_no_sense_means_that_it_is_away(answer, ask):
    harmless = answer is AWAY["of another kind"] and ask in (
        # It is not looked at what others have.
        ASKING["set_inventory"],
    )
    asked = placement.Placement(Canned(answer))
    if harmless:
        ask(asked)
        return
    with pytest.raises(exception.PlacementUnavailable) as caught:
        ask(asked)
    assert caught.value.code == codes.PLACEMENT_UNAVAILABLE


def test_a_refusal_is_told_in_its_words():
    asked = placement.Placement(
        Canned(fake.refusal(400, "placement.undefined_code", "bad\n  query"))
    )
    with pytest.raises(exception.PlacementRefused, match="HTTP 400 bad query"):
        asked.providers("X")
    asked = placement.Placement(Canned(fake.Answer(404, ["?"])))
    with pytest.raises(exception.PlacementRefused, match=r"HTTP 404$"):
        asked.traits("X")


@pytest.mark.parametrize("name", ["", "Pool", "a-b", "a" * 65, "é"])
def test_a_pool_name_fits_into_a_trait(tmp_path, name):
    conf = configuring.configured(tmp_path, "placement", pool_name=name)
    with pytest.raises(cfg.ConfigFileValueError):
        _ = conf.placement.pool_name
