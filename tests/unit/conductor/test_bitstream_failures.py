# SPDX-License-Identifier: Apache-2.0

"""What the engine does when a bitstream gets into no slot."""

import pytest

from fpgapool import objects
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.unit.conductor import world


def fail(pool: world.Conductor, code: str) -> None:
    pool.deliver_all()
    pool.end(states.PREPARE_FAILED, code)


@pytest.mark.parametrize("code", sorted(codes.BITSTREAM_FAULTS))
def test_a_session_gets_three_slots_and_the_slot_stays(single, code):
    request_id = single.open()
    for _ in range(2):
        fail(single, code)
        assert single.view(request_id).state == states.PREPARING
    fail(single, code)
    view = single.view(request_id)
    assert (view.state, view.reason) == (states.FAILED, code)
    assert view.message.startswith("3 slots could not be prepared")
    (slot,) = single.memory.registry.slots.values()
    assert not slot.faulty
    assert slot.usable
    # The next one has its own three tries.
    other = single.open()
    fail(single, code)
    assert single.view(other).state == states.PREPARING
    single.deliver_all()
    answer = single.agents["a"].prepared(0)
    assert answer is not None
    single.feed(answer)
    assert single.view(other).state == states.READY


def test_the_owner_hears_that_no_trusted_key_has_signed(single):
    request_id = single.open()
    for _ in range(3):
        fail(single, codes.BITSTREAM_UNTRUSTED)
    message = single.view(request_id).message
    assert "the bitstream is not signed with a key that" in message


def test_nine_sessions_do_not_take_a_slot_out(single):
    for _ in range(3):
        request_id = single.open()
        for _ in range(3):
            fail(single, codes.BITSTREAM_UNAVAILABLE)
        assert single.view(request_id).state == states.FAILED
    assert single.memory.registry.slots[1].usable
    assert single.rows["slots"][1].faulty is False


def test_capacities_are_what_all_slots_of_a_shape_have():
    known = registry.Registry()
    host = registry.HostEntry(id=1, uuid="u", name="a")
    device = registry.DeviceEntry(id=1, name="board0", host=host)
    for number, (shape, resources) in enumerate(
        (
            ("small", {"lut": 10, "dsp": 4}),
            ("small", {"lut": 8}),
            ("large", {"lut": 100}),
            ("other", None),
        )
    ):
        known.slots[number] = registry.SlotEntry(
            id=number,
            number=number,
            shape=shape,
            device=device,
            resources=resources,
        )
    assert known.capacities() == {
        "small": {"lut": 8, "dsp": 4},
        "large": {"lut": 100},
        "other": {},
    }


def test_a_slot_with_an_older_bitstream_has_to_be_programmed_again():
    device = registry.DeviceEntry(
        id=1,
        name="board0",
        host=registry.HostEntry(id=1, uuid="u", name="a"),
    )
    slot = registry.SlotEntry(
        id=1,
        number=0,
        shape="small",
        device=device,
        programmed="mine@p",
        bitstream_id="old",
    )
    assert slot.programmed_now == "mine@p"
    slot.outdated = True
    assert slot.programmed_now is None


def test_the_core_hears_which_slots_are_out_of_date(single):
    single.report("a")
    (slot,) = single.memory.registry.slots.values()
    core = single.memory.core
    agent = single.agents["a"]
    agent.slots[0].programmed = "aes"
    single.feed(agent.report())
    assert not slot.outdated
    # As if the library had a file for it since.
    chosen = objects.BitstreamRef(
        bitstream_id="new", checksum_sha256="ab" * 32, size_bytes=1
    )
    single.memory.catalogue.library.choose = lambda key, shape: chosen
    single.engine._accelerators._update_outdated()
    single.feed()
    assert slot.outdated
    assert core._slots.slots[slot.id].programmed is None
    del single.memory.catalogue.library.choose
    single.feed(agent.report())
    assert not slot.outdated
