# SPDX-License-Identifier: Apache-2.0

"""What clients of a group and its desk read, fed with nonsense."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.agent.child import settings as child_settings
from fpgapool.agent.groupdesk import orders
from fpgapool.agent.groupdesk import settings
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.protocol import records
from tests.harness import wire
from tests.property import fuzzing

CHUNK_BYTES = 16
MAX_BYTES = 100


def _task(number: int, data: bytes) -> bytes:
    return records.header(records.TASK, number, 2) + b"{}" + data


TASKS = [
    bytes(piece)
    for record in (
        _task(1, b"x" * 40),
        records.header(groups.LOCK, 2),
        _task(3, b""),
        records.header(groups.UNLOCK, 2),
        records.header(records.BLOCKS_TASK, 4) + b"x" * 40,
    )
    for piece in groups.task_frames(record, CHUNK_BYTES)
]
RESULTS = [
    bytes(piece)
    for record in (
        records.header(records.DONE, 1) + b"x" * 40,
        records.header(groups.LOCKED, 2),
        records.header(records.FAILED, 3, 2) + b"{}",
        records.header(groups.MEMBERS, 0, 2) + b"{}",
        records.header(records.MISS, 4, 2) + b"{}",
    )
    for piece in groups.result_frames(record, CHUNK_BYTES)
]


@pytest.mark.parametrize(
    ("make", "frames_sent"),
    [(groups.TaskReader, TASKS), (groups.ResultReader, RESULTS)],
    ids=["tasks", "results"],
)
@fuzzing.examples(200)
@given(data=st.data())
def test_readers(make, frames_sent, data: st.DataObject) -> None:
    """Any stream is records of bounded length, or a ProtocolError."""
    stream = data.draw(st.binary(max_size=200) | fuzzing.streams(frames_sent))
    reader = make(MAX_BYTES)
    try:
        for frame in wire.iterate([stream], CHUNK_BYTES):
            record = reader.feed(frame.header, frame.payload)
            if record is None:
                continue
            parts = records.split(record)
            most = max(MAX_BYTES, frames.MAX_JSON_BYTES)
            assert len(parts.middle) + len(parts.rest) <= most
    except frames.ProtocolError:
        pass


RIGHT = {
    "hello": groups.Hello("g", "c", "s", groups.SHM, 10, "app").document(),
    "opened": groups.Opened(10, 100, 16, 1.5, 50).document(),
    "members": groups.MemberList(
        3, (groups.Host("h", 2, (("data", "::1", 5),), "00"),)
    ).document(),
    "admit": {
        "op": "admit",
        "clients": [
            {"client_id": "c", "project_id": "p", "secret_sha256": "0" * 64}
        ],
    },
    "keep": {"op": "keep", "revision": 3},
    "counts": {"op": "counts", "after": "c"},
    "want": {
        "op": "members",
        "members": [{"device": "d", "slot": 1, "generation": 2}],
        "surplus": 1,
    },
}
PARSERS = {
    "hello": groups.Hello.parse,
    "opened": groups.Opened.parse,
    "members": groups.MemberList.parse,
}


@pytest.mark.parametrize("name", RIGHT)
@fuzzing.examples(150)
@given(data=st.data())
def test_documents(name: str, data: st.DataObject) -> None:
    """Any JSON is understood or a ProtocolError."""
    read = PARSERS.get(name, orders.parse)
    read(RIGHT[name])
    text = json.dumps(data.draw(fuzzing.documents(RIGHT[name])))
    try:
        read(frames.decode_json(text.replace("Infinity", "1e999").encode()))
    except frames.ProtocolError:
        pass


SETTINGS = {
    "group_id": "g",
    "slots": [["d", 0], ["d", 1]],
    "control_socket": "/c",
    "data_socket": "/d",
    "member_socket": "/m",
    "data_ports": "0",
    "arbitration": "time",
    "window_tasks": 5,
    "resume_grace_s": 1.5,
}


@fuzzing.examples(150)
@given(fuzzing.documents(SETTINGS))
def test_settings(document: dict) -> None:
    """Any settings are understood, or wrong."""
    assert settings.parse(json.dumps(SETTINGS)).data_ports == (0, 0)
    try:
        settings.parse(json.dumps(document))
    except child_settings.InvalidSettings:
        pass
