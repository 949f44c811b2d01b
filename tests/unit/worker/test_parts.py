# SPDX-License-Identifier: Apache-2.0

"""Memory, secrets and settings of a worker."""

import collections
import dataclasses
import gc
import hashlib
import json
import os
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.agent.child import settings as child_settings
from fpgapool.agent.worker import hello
from fpgapool.agent.worker import settings
from fpgapool.agent.worker import state
from fpgapool.agent.worker.data import memory
from fpgapool.common.channels import buffers
from fpgapool.protocol import frames
from tests.harness import mapping
from tests.unit.worker import machine_steps

BLOCK_BYTES = 40
OUT_BYTES = 100
NO_BYTES = memoryview(b"")


@given(
    st.lists(
        st.tuples(st.integers(0, BLOCK_BYTES), st.integers(0, BLOCK_BYTES))
    )
)
def test_blocks_hand_out_disjoint_ranges(steps):
    blocks = memory.Ranges(BLOCK_BYTES, OUT_BYTES)
    held = collections.deque()
    for wanted, kept in steps:
        if wanted == 0:
            if held:
                blocks.release()
                held.popleft()
            continue
        start = blocks.reserve(wanted)
        if start is None:
            assert sum(end - begin for begin, end in held) + wanted > OUT_BYTES
            continue
        assert 0 <= start <= blocks.capacity_bytes - wanted
        assert all(
            start + wanted <= begin or end <= start for begin, end in held
        )
        kept = min(kept, wanted)
        blocks.shrink(start, kept)
        if kept:
            held.append((start, start + kept))
        assert len(blocks) == len(held)
    blocks.clear()
    assert len(blocks) == 0
    assert blocks.reserve(BLOCK_BYTES) is not None


@given(
    st.lists(st.integers(1, BLOCK_BYTES)),
    st.integers(0, 50),
    st.lists(st.integers(1, BLOCK_BYTES), max_size=50),
)
def test_what_was_dropped_was_never_out(kept, released, dropped):
    blocks, same = (memory.Ranges(BLOCK_BYTES, OUT_BYTES) for _ in range(2))
    for wanted in kept:
        assert blocks.reserve(wanted) == same.reserve(wanted)
    before = len(blocks)
    count = sum(blocks.reserve(wanted) is not None for wanted in dropped)
    for _ in range(count):
        blocks.drop()
    assert len(blocks) == before
    for _ in range(min(released, before)):
        blocks.release()
        same.release()
    for wanted in [*dropped, *kept]:
        assert blocks.reserve(wanted) == same.reserve(wanted)


def test_blocks_stay_low():
    blocks = memory.Ranges(BLOCK_BYTES, OUT_BYTES)
    blocks.reserve(BLOCK_BYTES)
    starts = set()
    for _ in range(20):
        starts.add(blocks.reserve(BLOCK_BYTES))
        blocks.release()
    assert starts == {0, BLOCK_BYTES}


@pytest.mark.parametrize("length_bytes", [0, 1, 3 << 20])
def test_blank_memory(length_bytes):
    blank = buffers.blank(length_bytes)
    assert bytes(blank) == bytes(length_bytes)
    blank[:] = b"x" * length_bytes
    assert bytes(blank) == b"x" * length_bytes


def test_private_output_comes_in_chunks():
    private = memory.PrivateMemory(4096, 8192, 10_000)
    room = private.take_output(10_000, NO_BYTES)
    room[:9000] = bytes(range(250)) * 36
    pieces = private.keep_output(9000)
    assert [len(piece.data) for piece in pieces] == [4096, 4096, 808]
    assert [piece.flags for piece in pieces] == [0, 0, frames.TASK_END]
    joined = b"".join(piece.data for piece in pieces)
    assert joined == bytes(range(250)) * 36
    for piece in pieces:
        private.release_output(piece)
    assert private.take_output(0, NO_BYTES) is not None
    assert private.keep_output(0) == []


def test_output_in_place_outlives_input_that_is_dropped():
    in_place = memory.InPlaceMemory(4096, 8192)
    views = [in_place.take_input(0, 4096) for _ in range(4)]
    for number, view in enumerate(views):
        view[:] = bytes([number]) * 4096
    pieces = []
    for view in views[:2]:
        assert in_place.take_output(4096, view) is view
        pieces += in_place.keep_output(4096)
        in_place.return_input()
    assert in_place.take_output(4096, views[2]) is None
    in_place.clear_input()
    for _ in range(2):
        in_place.take_input(0, 4096)[:] = bytes(4096)
    assert [bytes(piece.data) for piece in pieces] == [
        bytes([number]) * 4096 for number in range(2)
    ]
    in_place.release_output(pieces[0])
    room = in_place.take_output(4096, views[2])
    assert room is views[2]


@given(st.randoms(use_true_random=False))
def test_memory_in_place_suffices(random):
    """Whatever credits allow has room, and no piece touches another one."""
    in_place = memory.InPlaceMemory(16, 64)
    received, kept = [], []
    for count in range(200):
        match random.choice(["take", "take", "process", "release", "drop"]):
            case "take":
                length = random.randint(1, 16)
                if sum(map(len, received)) + length <= 64:
                    view = in_place.take_input(0, length)
                    view[:] = bytes([count]) * length
                    received.append(view)
            case "process" if received:
                view = received[0]
                if in_place.take_output(len(view), view) is not None:
                    kept += in_place.keep_output(len(view))
                    received.remove(view)
                else:
                    assert sum(len(piece.data) for piece in kept) > 48
            case "release" if kept:
                in_place.release_output(kept.pop(0))
            case "drop" if random.random() < 0.1:
                in_place.clear_input()
                received = []
        for view in [*received, *(piece.data for piece in kept)]:
            assert len(set(view)) == 1


@pytest.fixture
def shared():
    made = memory.SharedMemory(4096, 3, 5 * 4096)
    yield made
    made.close()


def test_shared_output_runs_out_and_comes_back(shared):
    pieces = []
    for number in range(3):
        room = shared.take_output(10, NO_BYTES)
        room[:5] = b"%05d" % number
        pieces += shared.keep_output(5)
    assert [piece.number for piece in pieces] == [0, 1, 2]
    assert shared.take_output(1, NO_BYTES) is None
    shared.release_output(pieces[0])
    assert shared.take_output(1, NO_BYTES) is not None
    assert shared.keep_output(0) == []
    assert os.pread(shared.fds[1], 5, 4096) == b"00001"


def test_shared_output_of_more_buffers_than_there_are(shared):
    room = shared.take_output(5 * 4096, NO_BYTES)
    data = bytes(range(250)) * 72
    room[: len(data)] = data
    pieces = shared.keep_output(len(data))
    assert [shared.place_output(piece) for piece in pieces[:4]] == [
        True,
        True,
        True,
        False,
    ]
    # The rest comes before any other output.
    shared.release_output(pieces[0])
    assert shared.take_output(1, NO_BYTES) is None
    assert shared.place_output(pieces[3])
    shared.release_output(pieces[1])
    assert shared.place_output(pieces[4])
    assert [piece.number for piece in pieces] == [0, 1, 2, 0, 1]
    end = pieces[2:]
    assert b"".join(piece.data for piece in end) == data[2 * 4096 :]
    assert os.pread(shared.fds[1], 4096, 0) == data[3 * 4096 : 4 * 4096]
    shared.release_output(pieces[2])
    assert shared.take_output(1, NO_BYTES) is not None


def test_shared_memory_has_several_rooms(shared):
    rooms = [shared.take_output(10, NO_BYTES) for _ in range(2)]
    for number, room in enumerate(rooms):
        room[:5] = b"%05d" % number
    # The oldest one comes first.
    for number in range(2):
        (piece,) = shared.keep_output(5)
        assert (piece.number, piece.data) == (number, b"%05d" % number)
    shared.release_output(piece)
    assert shared.take_output(5000, NO_BYTES) is not None
    # Two of them would share the memory from which buffers are filled.
    assert shared.take_output(5000, NO_BYTES) is None


def test_shared_input_is_where_the_client_writes(shared):
    os.pwrite(shared.fds[0], b"hello", 2 * 4096)
    assert shared.take_input(2, 5) == b"hello"


def _mapped() -> set[str]:
    """Tell where in memory shared buffers are."""
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[0] for line in lines if "fpgapool-input" in line}


@pytest.fixture
def mapped():
    """Tell what was mapped since; other tests may have left something."""
    gc.collect()
    before = _mapped()
    return lambda: _mapped() - before


def test_closed_buffers_are_unmapped(mapped):
    made = memory.SharedMemory(4096, 3)
    made.take_input(0, 5)
    assert mapped()
    made.close()
    assert not mapped()


def test_closing_tells_of_a_piece_that_is_still_held(
    mapped, monkeypatch, caplog
):
    monkeypatch.setattr(memory, "CLOSE_S", 0.0)
    made = memory.SharedMemory(4096, 3)
    held = made.take_input(0, 5)
    made.close()
    assert "still mapped" in caplog.text
    assert mapped()
    held.release()
    assert not mapped()


@pytest.mark.security
def test_a_client_keeps_no_memory_past_its_session():
    client = mapping.ClientEnd()
    assert client.worker_end.close() is None
    assert client.is_empty


@pytest.mark.security
def test_what_a_client_may_be_reading_is_emptied_later():
    client = mapping.ClientEnd()
    fds = client.leave()
    assert client.is_whole
    assert client.worker_end.fds == []
    buffers.discard(fds)
    assert client.is_empty


def test_a_client_goes_on_elsewhere_with_what_it_has():
    client = mapping.ClientEnd()
    assert client.worker_end.close(memory.Remains.LEFT) is None
    assert client.is_whole


ORDER = state.Order("s", 7, "p", "copy", "builtin:copy", 1.0, 1.0)


def parse_hello(**members):
    return hello.parse({"session_id": "s", "generation": 7, **members})


class TestKeyring:
    def test_first_secret_works_once(self):
        keyring = hello.Keyring(ORDER)
        secret = keyring.mint()
        assert len(bytes.fromhex(secret)) == 32
        assert keyring.admit(parse_hello(secret=secret)) is True
        with pytest.raises(hello.Unauthorized):
            keyring.admit(parse_hello(secret=secret))

    def test_a_clients_own_secret_works_once(self):
        digest = hashlib.sha256(b"own").hexdigest()
        order = dataclasses.replace(ORDER, secret_sha256=digest)
        keyring = hello.Keyring(order)
        for wrong in (digest, "", "other"):
            with pytest.raises(hello.Unauthorized):
                keyring.admit(parse_hello(secret=wrong))
        assert keyring.admit(parse_hello(secret="own")) is True
        with pytest.raises(hello.Unauthorized):
            keyring.admit(parse_hello(secret="own"))

    def test_no_first_secret_after_opening(self):
        keyring = hello.Keyring(ORDER)
        keyring.admit(parse_hello(secret=keyring.mint()))
        with pytest.raises(hello.Unauthorized):
            keyring.admit(parse_hello(secret=keyring.mint()))

    def test_few_forerunners_work(self):
        keyring = hello.Keyring(ORDER)
        secrets = [keyring.mint() for _ in range(5)]
        with pytest.raises(hello.Unauthorized):
            keyring.admit(parse_hello(secret=secrets[0]))
        assert keyring.admit(parse_hello(secret=secrets[1]))

    def test_resume_secret_is_replaced(self):
        keyring = hello.Keyring(ORDER)
        keyring.admit(parse_hello(secret=keyring.mint()))
        old = keyring.mint_resume()
        assert keyring.admit(parse_hello(resume_secret=old)) is False
        new = keyring.mint_resume()
        # The OPENED with the new one may be lost.
        assert keyring.admit(parse_hello(resume_secret=old)) is False
        keyring.confirm_resume()
        with pytest.raises(hello.Unauthorized):
            keyring.admit(parse_hello(resume_secret=old))
        assert keyring.admit(parse_hello(resume_secret=new)) is False

    def test_kinds_are_not_mixed_up(self):
        keyring = hello.Keyring(ORDER)
        first = keyring.mint()
        with pytest.raises(hello.Unauthorized):
            keyring.admit(parse_hello(resume_secret=first))
        keyring.admit(parse_hello(secret=first))
        with pytest.raises(hello.Unauthorized):
            keyring.admit(parse_hello(secret=keyring.mint_resume()))

    @pytest.mark.parametrize(
        "members", [{"session_id": "t"}, {"generation": 6}]
    )
    def test_another_session(self, members):
        keyring = hello.Keyring(ORDER)
        secret = keyring.mint()
        with pytest.raises(hello.Unauthorized):
            keyring.admit(parse_hello(secret=secret, **members))
        assert keyring.admit(parse_hello(secret=secret))


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"secret": "a", "resume_secret": "b"},
        {"secret": 1},
        {"secret": "a", "transport": "pigeon"},
        {"secret": "a", "params": []},
        {"secret": "a", "input_offset": -1},
        {"secret": "a", "output_offset": True},
        {"secret": "a", "start_input_offset": 2**64},
        {"secret": "a", "session_id": None},
        {"secret": "a", "generation": "7"},
        {"secret": "a", "features": "checksum"},
        {"secret": "a", "features": [1]},
    ],
)
def test_hello_that_is_wrong(members):
    with pytest.raises(frames.ProtocolError):
        parse_hello(**members)


def test_hello_that_wants_features():
    assert parse_hello(secret="a").features == set()
    assert parse_hello(secret="a", features=None).features == set()
    wanted = parse_hello(secret="a", features=["checksum", "x", "x"])
    assert wanted.features == {"checksum", "x"}


def test_hello_hides_what_is_secret():
    shown = repr(parse_hello(secret="hush", params={"key": "hush"}))
    assert "hush" not in shown


def test_settings_have_defaults():
    found = settings.parse(
        json.dumps({**machine_steps.SETTINGS, "from_the_future": 1})
    )
    assert found.chunk_bytes == 4 * 1024 * 1024
    assert found.window_bytes == 32 * 1024 * 1024
    assert found.data_address is None


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        (0, (0, 0)),
        (5000, (5000, 5000)),
        ("49152-49999", (49152, 49999)),
        ("0", (0, 0)),
        ([1, 2], (1, 2)),
    ],
)
def test_ports(ports, expected):
    text = json.dumps({**machine_steps.SETTINGS, "data_ports": ports})
    assert settings.parse(text).data_ports == expected


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("worker_id", ""),
        ("slot", -1),
        ("slot", True),
        ("chunk_bytes", 100),
        ("window_chunks", 0),
        ("window_chunks", 1),
        ("hello_timeout_s", 0),
        ("orphan_s", float("inf")),
        ("tls", "yes"),
        ("driver_settings", []),
        ("data_address", 1),
        ("data_ports", "9-1"),
        ("data_ports", "a-b"),
        ("data_ports", "0-5"),
        ("data_ports", 70000),
        ("data_ports", [1, 2, 3]),
        ("control_socket", "/" + "x" * 107),
        ("log_level", "LOUD"),
    ],
)
def test_settings_that_are_wrong(member, value):
    with pytest.raises(child_settings.InvalidSettings) as caught:
        settings.parse(json.dumps({**machine_steps.SETTINGS, member: value}))
    assert str(caught.value).startswith(f"{member}: ")


@pytest.mark.parametrize("text", ["", "[]", "{", "1"])
def test_settings_that_are_no_object(text):
    with pytest.raises(child_settings.InvalidSettings):
        settings.parse(text)


@pytest.mark.parametrize("member", machine_steps.SETTINGS)
def test_settings_that_are_missing(member):
    document = {
        name: machine_steps.SETTINGS[name]
        for name in machine_steps.SETTINGS
        if name != member
    }
    with pytest.raises(child_settings.InvalidSettings) as caught:
        settings.parse(json.dumps(document))
    assert str(caught.value).startswith(f"{member}: ")
