# SPDX-License-Identifier: Apache-2.0

"""Which blocks stay in a memory, against a literal model; lists of tasks."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import strategies as st

from fpgapool.protocol import blocks
from fpgapool.protocol import frames

KEYS = st.integers(0, 7)


class Literal:
    """The rules, word by word: a list of blocks, the newest last."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.kept: list[tuple[int, int, bool]] = []
        self.pins: list[int] = []

    def names(self) -> list[int]:
        return [key for key, _, _ in self.kept]

    def bytes(self) -> int:
        return sum(length for _, length, _ in self.kept)

    def use(self, key: int) -> bool:
        for block in self.kept:
            if block[0] == key:
                self.kept.remove(block)
                self.kept.append(block)
                return True
        return False

    def add(self, key: int, length: int, lasting: bool) -> list[int] | None:
        if self.use(key):
            return []
        before = [*self.kept]
        gone = []
        while self.bytes() + length > self.capacity_bytes:
            free = [one for one in self.kept if one[0] not in self.pins]
            passing = [one for one in free if not one[2]]
            if not free:
                self.kept = before
                return None
            oldest = (passing or free)[0]
            self.kept.remove(oldest)
            gone.append(oldest[0])
        self.kept.append((key, length, lasting))
        return gone


STEPS = st.one_of(
    st.tuples(st.just("add"), KEYS, st.integers(1, 40), st.booleans()),
    st.tuples(st.just("use"), KEYS),
    st.tuples(st.just("pin"), KEYS),
    st.tuples(st.just("unpin"), KEYS),
    st.tuples(st.just("drop"), KEYS),
    st.tuples(st.just("drop_all"), st.integers(1, 3)),
)


@hypothesis.given(st.integers(0, 100), st.lists(STEPS, max_size=60))
def test_the_least_recently_used_blocks_go(capacity_bytes, steps):
    shelf: blocks.Shelf[int] = blocks.Shelf(capacity_bytes)
    literal = Literal(capacity_bytes)
    for name, *arguments in steps:
        if name == "add":
            assert shelf.add(*arguments) == literal.add(*arguments)
        elif name == "use":
            assert shelf.use(*arguments) == literal.use(*arguments)
        elif name == "pin":
            shelf.pin(*arguments)
            literal.pins.append(*arguments)
        elif name == "unpin":
            if arguments[0] in literal.pins:
                shelf.unpin(*arguments)
                literal.pins.remove(*arguments)
        elif name == "drop":
            shelf.drop(*arguments)
            literal.kept = [
                one for one in literal.kept if one[0] != arguments[0]
            ]
        else:
            number = arguments[0]
            gone = shelf.drop_all(lambda key, number=number: key % number)
            assert gone == [key for key in literal.names() if key % number]
            literal.kept = [one for one in literal.kept if not one[0] % number]
        assert [key for key in range(8) if key in shelf] == sorted(
            literal.names()
        )
        assert shelf.kept_bytes == literal.bytes() <= capacity_bytes
        assert len(shelf) == len(literal.kept)


def reference(data: bytes, argument: int = 0) -> blocks.Reference:
    name = bytes([argument]) * blocks.ID_BYTES
    return blocks.Reference(name, max(len(data), 1), 7, argument)


PARTS = st.lists(
    st.tuples(st.binary(min_size=1, max_size=20), st.booleans()),
    min_size=1,
    max_size=6,
).map(
    lambda drawn: [
        blocks.Part(reference(data, number), data if brought else None)
        for number, (data, brought) in enumerate(drawn)
    ]
)


@hypothesis.given(PARTS, st.booleans(), st.binary(max_size=10))
def test_a_list_of_references_is_read_as_it_was_written(
    parts, has_input, rest
):
    if not has_input:
        parts = parts[1:] or [
            parts[0]._replace(
                reference=parts[0].reference._replace(argument=9)
            )
        ]
    data = memoryview(b"".join([*blocks.encode_parts(parts), rest]))
    found, left = blocks.decode_parts(data, 20)
    assert [(one.reference, one.data) for one in found] == parts
    assert left == rest
    task = blocks.referred(data)
    assert task.blocks == [one.reference[:2] for one in parts]
    assert task.front == bytes(data[: blocks.head_bytes(len(parts))])
    assert task.input_bytes == (
        parts[0].reference.length_bytes if has_input else len(rest)
    )


@hypothesis.given(PARTS, st.data())
def test_a_damaged_list_is_refused_or_is_another_one(parts, data):
    encoded = bytearray(b"".join(blocks.encode_parts(parts)))
    cut = data.draw(st.integers(0, len(encoded)))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(encoded) - 1))
        encoded[at] = data.draw(st.integers(0, 255))
    try:
        found, rest = blocks.decode_parts(memoryview(encoded)[:cut], 20)
    except frames.ProtocolError:
        return
    assert sum(len(one.data or b"") for one in found) + len(rest) <= cut
    for one in found:
        if one.data is not None:
            assert len(one.data) == one.reference.length_bytes


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"length_bytes": 0}, frames.PROTOCOL_ERROR),
        ({"length_bytes": 101}, frames.FRAME_TOO_LARGE),
        ({"length_bytes": 2**64 - 1}, frames.FRAME_TOO_LARGE),
        ({"argument": 256}, frames.PROTOCOL_ERROR),
    ],
)
def test_references_out_of_range_are_refused(changed, code):
    encoded = reference(bytes(100))._replace(**changed).encode()
    with pytest.raises(frames.ProtocolError) as caught:
        blocks.Reference.decode(encoded, 100)
    assert caught.value.code == code
    with pytest.raises(frames.ProtocolError):
        blocks.Reference.decode(encoded[:-1], 100)


def test_what_does_not_fit_a_reference_is_not_encoded():
    for changed in (
        {"block_id": b"x"},
        {"length_bytes": -1},
        {"crc32": 2**32},
    ):
        with pytest.raises(ValueError):
            reference(b"x")._replace(**changed).encode()
