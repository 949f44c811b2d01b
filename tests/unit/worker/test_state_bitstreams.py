# SPDX-License-Identifier: Apache-2.0

"""The state machine of a worker, with files of bitstreams."""

import dataclasses

import pytest

from fpgapool.agent.worker import orders
from fpgapool.agent.worker import state
from fpgapool.drivers import base as drivers
from fpgapool.protocol import frames

FILE = drivers.BitstreamFile("mine@p", "/cache/ab", "ab" * 32, 100)
ORDER = state.Order(
    "s1",
    1,
    "p",
    "mine@p",
    "bitstream:b1",
    connect_timeout_s=30.0,
    resume_grace_s=10.0,
    file=FILE,
    bitstream_id="b1",
)

MESSAGE = {
    "session_id": "s1",
    "generation": 1,
    "project_id": "p",
    "accelerator": "mine@p",
    "bitstream": "bitstream:b1",
    "connect_timeout_s": 30.0,
    "resume_grace_s": 10.0,
    "local": True,
    "self_test": False,
    "bitstream_ref": {
        "bitstream_id": "b1",
        "checksum_sha256": "ab" * 32,
        "size_bytes": 100,
        "format": "binary",
        "path": "/cache/ab",
    },
}


def kinds(effects):
    return [type(effect).__name__ for effect in effects]


def fail(machine, code):
    machine.handle(state.Assign(ORDER), 1.0)
    machine.handle(state.ProgramFailed(1, "why", code), 2.0)
    machine.handle(state.Scrubbed(1, 0, 0, 9.0, None), 3.0)


def test_the_file_is_told_with_the_assignment():
    order = state.Order(**orders.order_members(MESSAGE))
    assert order == ORDER


def test_the_signature_is_told_with_the_file():
    reference = {**MESSAGE["bitstream_ref"], "signature": "c2ln"}
    members = orders.order_members({**MESSAGE, "bitstream_ref": reference})
    assert members["file"].signature == "c2ln"


def test_an_assignment_without_a_file_needs_none():
    order = state.Order(
        **orders.order_members({**MESSAGE, "bitstream_ref": None})
    )
    assert (order.file, order.bitstream_id) == (None, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"bitstream_ref": {**MESSAGE["bitstream_ref"], "path": None}},
        {"bitstream_ref": "b1"},
        {"bitstream_ref": {}},
        {"bitstream_ref": {**MESSAGE["bitstream_ref"], "size_bytes": "1"}},
    ],
)
def test_half_a_file_is_refused(changes):
    with pytest.raises(frames.ProtocolError):
        orders.order_members({**MESSAGE, **changes})


def test_what_is_in_the_slot_is_known_by_its_id(machine):
    machine.handle(state.Assign(ORDER), 1.0)
    machine.handle(state.Programmed(1, "mine@p"), 2.0)
    assert (machine.programmed, machine.bitstream_id) == ("mine@p", "b1")
    machine.handle(state.Release(1, "CLIENT_GONE"), 3.0)
    machine.handle(state.Scrubbed(1, 0, 0, 9.0, None), 4.0)
    own = dataclasses.replace(
        ORDER, generation=2, file=None, bitstream_id=None
    )
    machine.handle(state.Assign(own), 5.0)
    machine.handle(state.Programmed(2, "copy"), 6.0)
    assert (machine.programmed, machine.bitstream_id) == ("copy", None)


@pytest.mark.parametrize(
    "code",
    [
        "BITSTREAM_DAMAGED",
        "BITSTREAM_UNKNOWN",
        "BITSTREAM_UNFIT",
        "PROGRAM_FAILED",
    ],
)
def test_the_result_says_what_was_wrong(machine, code):
    fail(machine, code)
    assert machine.last_result.state == "PREPARE_FAILED"
    assert machine.last_result.code == code


@pytest.mark.parametrize(
    ("code", "left"),
    [("BITSTREAM_UNFIT", ("copy", None)), ("PROGRAM_FAILED", (None, None))],
)
def test_a_bitstream_that_is_refused_leaves_what_was_there(
    machine, code, left
):
    first = dataclasses.replace(ORDER, file=None, bitstream_id=None)
    machine.handle(state.Assign(first), 1.0)
    machine.handle(state.Programmed(1, "copy"), 2.0)
    machine.handle(state.Release(1, "CLIENT_GONE"), 3.0)
    machine.handle(state.Scrubbed(1, 0, 0, 9.0, None), 4.0)
    machine.handle(state.Assign(dataclasses.replace(ORDER, generation=2)), 5.0)
    machine.handle(state.ProgramFailed(2, "why", code), 6.0)
    machine.handle(state.Scrubbed(2, 0, 0, 9.0, None), 7.0)
    assert (machine.programmed, machine.bitstream_id) == left


def test_a_damaged_file_can_be_replaced(machine):
    fail(machine, "BITSTREAM_DAMAGED")
    effects = machine.handle(state.Assign(ORDER), 4.0)
    # If this try fails, too, only the state tells them apart.
    assert effects == [state.Changed(), state.Program(ORDER)]
    assert machine.last_result is None
    # Now it is a repeat like any other.
    assert kinds(machine.handle(state.Assign(ORDER), 5.0)) == ["Changed"]
    machine.handle(state.Programmed(1, "mine@p"), 6.0)
    assert machine.state == "ready"


@pytest.mark.parametrize("code", ["BITSTREAM_UNKNOWN", "PROGRAM_FAILED"])
def test_other_failures_are_final(machine, code):
    fail(machine, code)
    assert kinds(machine.handle(state.Assign(ORDER), 4.0)) == ["Changed"]
    assert machine.state == "idle"


def test_only_a_file_can_be_replaced(machine):
    fail(machine, "BITSTREAM_DAMAGED")
    own = dataclasses.replace(ORDER, file=None, bitstream_id=None)
    assert kinds(machine.handle(state.Assign(own), 4.0)) == ["Changed"]
