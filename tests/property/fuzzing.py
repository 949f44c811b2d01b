# SPDX-License-Identifier: Apache-2.0

"""What all tests with hostile input share: how long, and what is hostile."""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

import hypothesis
from hypothesis import strategies as st

from fpgapool.protocol import frames

# Of Hypothesis; profiles have more or fewer.
_USUAL_EXAMPLES = 100

#: Header fields by their position and length within a frame.
_FIELDS = ((0, 2), (2, 1), (3, 1), (4, 2), (6, 2), (8, 4), (12, 4), (16, 8))
_LENGTH_FIELDS = ((24, 4), (28, 4))


def limits(count: int) -> hypothesis.settings:
    """Limit a test to some examples, or to more or fewer by the profile.

    :param count: in ``make test-all``; ``make test`` plays half of them, and
        ``HYPOTHESIS_PROFILE=long`` twenty times as many.
    """
    usual = hypothesis.settings().max_examples
    return hypothesis.settings(
        max_examples=max(1, count * usual // _USUAL_EXAMPLES)
    )


def examples(count: int) -> Callable[[Any], Any]:
    """Decorate a test with :func:`limits`."""
    return limits(count)


#: What a JSON document may hold, and more: numbers that are none, texts that
#: no encoding takes, and lists where names should be.
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([-1, 2**31, 2**63, 2**64, 10**300, 1e308, -0.0, 1e999])
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["", "\0", "\ud800", "../../etc/passwd", "x" * 300]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def documents(draw: st.DrawFn, right: dict[str, Any]) -> dict[str, Any]:
    """Give a document of which some members are missing or wrong.

    :param right: a sound one; also those within it are spoilt.
    """
    spoilt = dict(right)
    for name in draw(
        st.lists(st.sampled_from(sorted(right)), max_size=3, unique=True)
    ):
        value = right[name]
        choice = draw(st.integers(0, 3))
        if choice == 0:
            del spoilt[name]
        elif choice == 1 and isinstance(value, dict) and value:
            spoilt[name] = draw(documents(value))
        elif choice == 1 and isinstance(value, list) and value:
            spoilt[name] = [
                draw(documents(one)) if isinstance(one, dict) and one else one
                for one in value
            ] * draw(st.integers(1, 2))
        else:
            spoilt[name] = draw(JUNK)
    return spoilt


@st.composite
def streams(draw: st.DrawFn, pieces: Sequence[bytes]) -> bytes:
    """Give a valid stream of frames or messages, damaged somewhere.

    :param pieces: the frames, in the right order.
    """
    kept = list(pieces)
    for _ in range(draw(st.integers(0, 2))):
        index = draw(st.integers(0, len(kept) - 1))
        other = draw(st.integers(0, len(kept) - 1))
        match draw(st.sampled_from(["double", "swap", "drop", "field"])):
            case "double":
                kept.insert(other, kept[index])
            case "swap":
                kept[index], kept[other] = kept[other], kept[index]
            case "drop" if len(kept) > 1:
                del kept[index]
            case _:
                kept[index] = draw(_with_other_field(kept[index]))
    data = bytearray(b"".join(kept))
    for _ in range(draw(st.integers(0, 2))):
        position = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(["flip", "cut", "insert", "nothing"])):
            case "flip" if data:
                data[position] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[position:]
            case "insert":
                data[position:position] = draw(st.binary(max_size=40))
    return bytes(data)


@st.composite
def _with_other_field(draw: st.DrawFn, frame: bytes) -> bytes:
    """Give a frame with another value in one field of its header."""
    start, length = draw(st.sampled_from(_FIELDS + _LENGTH_FIELDS))
    if len(frame) < frames.HEADER_BYTES:
        return frame
    top = 2 ** (8 * length) - 1
    value = draw(
        st.sampled_from([0, 1, 2, 3, 7, top // 2, top - 1, top])
        | st.integers(0, top)
    )
    value = min(value, top)
    return (
        frame[:start] + value.to_bytes(length, "big") + frame[start + length :]
    )


def cut_up(data: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    """Give bytes in pieces of these sizes, the rest in one."""
    position = 0
    for size in sizes:
        yield data[position : position + size]
        position += size
    yield data[position:]


def message(document: object) -> bytes:
    """Encode a message of the front door, be it one or not.

    :param document: anything that Python's JSON takes.
    """
    # Infinity is no JSON; what comes to the same is.
    payload = json.dumps(document).replace("Infinity", "1e999").encode()
    return struct.pack(">I", len(payload)) + payload


class _Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextmanager
def no_errors_logged(*but: str) -> Iterator[None]:
    """Nonsense is worth a warning: an error would be one of ours.

    :param but: how the messages begin that may be there.
    :raises AssertionError: if another error was logged meanwhile.
    """
    handler = _Errors()
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
    assert not [
        (record.getMessage(), record.exc_info)
        for record in handler.records
        if not record.getMessage().startswith(but)
    ]


def with_leaf(document: Any, path: tuple[Any, ...], leaf: Any) -> Any:
    """Return a document with something else in one place."""
    if not path:
        return leaf
    changed = document.copy()
    changed[path[0]] = with_leaf(document[path[0]], path[1:], leaf)
    return changed
