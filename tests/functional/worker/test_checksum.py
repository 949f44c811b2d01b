# SPDX-License-Identifier: Apache-2.0

"""Checksums of a real worker process, frame by frame."""

import random
import zlib

import pytest

from fpgapool.protocol import frames
from tests.functional.worker import harness
from tests.harness import wire

DATA = random.Random(11).randbytes(10_000)
FEATURES = ["checksum"]


class Client(harness.Client):
    """Keeps what CHECKSUM frames say."""

    def __init__(self, channel) -> None:
        super().__init__(channel)
        self.announced: list[wire.Frame] = []
        self.order: list[int] = []

    def take(self) -> frames.FrameHeader:
        header, payload = self.recv()
        self.order.append(header.type)
        if header.type == frames.CHECKSUM:
            self.announced.append(wire.Frame(header, payload))
        if header.type == frames.ACK:
            self.acked_input_bytes = header.offset_bytes
        if header.type == frames.OUTPUT:
            if header.flags & frames.SHM:
                start = header.aux * harness.CHUNK_BYTES
                end = start + header.payload_length_bytes
                payload = self.buffers[1][start:end]
            self.output += payload
            self.finished = bool(header.flags & frames.END)
        return header

    def sums(self) -> frames.Checksums:
        return frames.Checksums.decode(self.announced[-1].payload)


def sums_of(data: bytes, output: bytes) -> frames.Checksums:
    return frames.Checksums(
        len(data), len(output), zlib.crc32(data), zlib.crc32(output)
    )


def connect(worker, prepared, **members) -> Client:
    client = Client.local(worker)
    try:
        return client.hello(prepared, **{"features": FEATURES, **members})
    except harness.ErrorFrame:
        client.close()
        raise


@pytest.mark.parametrize("transport", ["stream", "shm"])
def test_they_come_before_each_acknowledgement(worker, agent, transport):
    client = connect(worker, agent.prepare(), transport=transport)
    assert client.opened["features"] == FEATURES
    for end in range(1000, 5000, 1000):
        client.run(DATA[end - 1000 : end])
        assert client.sums() == sums_of(DATA[:end], DATA[:end])
        header = client.announced[-1].header
        assert header.offset_bytes == end
        assert client.order[-2:] == [frames.CHECKSUM, frames.ACK]
    client.run(b"", frames.END)
    assert client.finished
    assert client.sums() == sums_of(DATA[:4000], DATA[:4000])
    assert client.close_session()["code"] == "OK"
    client.close()


def test_none_unless_asked_for(worker, agent):
    client = Client.local(worker).hello(
        agent.prepare(), features=["gzip", "checksums"]
    )
    assert client.opened["features"] == []
    client.run(DATA)
    assert frames.CHECKSUM not in client.order
    client.close()


@pytest.mark.parametrize("features", [FEATURES, []])
def test_resuming_counts_once(worker, agent, features):
    prepared = agent.prepare()
    first = connect(worker, prepared)
    first.run(DATA[:3000])
    # Processed, and sent to a client that does not take it.
    first.send_input(DATA[3000:5000])
    while first.recv()[0].type != frames.ACK:
        pass
    first.close()
    # What a later HELLO says of features changes nothing.
    second = connect(
        worker,
        prepared,
        features=features,
        resume_secret=first.opened["resume_secret"],
        input_offset=3000,
        output_offset=3000,
    )
    assert second.opened["features"] == FEATURES
    second.resume_from(first)
    while second.take().type != frames.ACK:
        pass
    assert second.output == DATA[:5000]
    assert second.sums() == sums_of(DATA[:5000], DATA[:5000])
    second.input_bytes = 5000
    second.run(DATA[5000:])
    assert second.sums() == sums_of(DATA, DATA)
    second.close()


def test_a_driver_without_them(start):
    worker = start(driver="tests.functional.worker.broken_driver:BrokenDriver")
    agent = worker.connect()
    client = connect(worker, agent.prepare())
    assert client.opened["features"] == []
    assert client.run(DATA) == DATA
    assert frames.CHECKSUM not in client.order
    client.close()
    agent.close()


def complain(client, code: str) -> None:
    client.send_json(
        frames.ERROR, {"code": code, "message": "see\nhere", "offset": 0}
    )


@pytest.mark.parametrize(
    ("features", "code", "recorded"),
    [
        (FEATURES, "CHECKSUM_MISMATCH", "CHECKSUM_MISMATCH"),
        (FEATURES, "SLOT_FAULTY", "CLIENT_GONE"),
        ([], "CHECKSUM_MISMATCH", "CLIENT_GONE"),
    ],
)
def test_what_the_client_complains_about(
    worker, agent, features, code, recorded
):
    client = connect(worker, agent.prepare(), features=features)
    client.run(DATA)
    complain(client, code)
    with pytest.raises(harness.ErrorFrame) as caught:
        client.recv_to_the_end()
    assert caught.value.code == recorded
    result = agent.wait_result()
    assert (result["state"], result["code"]) == ("FAILED", recorded)
    assert "see" not in result["message"]
    assert recorded in worker.log()
    assert "see" not in worker.log()
    client.close()
    # The slot is as good as before.
    client = connect(worker, agent.prepare(2))
    assert client.run(DATA) == DATA
    client.close()


def test_a_complaint_that_makes_no_sense(worker, agent):
    client = connect(worker, agent.prepare())
    client.channel.send(
        frames.FrameHeader(frames.ERROR, payload_length_bytes=2).pack(), b"[]"
    )
    with pytest.raises(harness.ErrorFrame) as caught:
        client.recv_to_the_end()
    assert caught.value.code == "PROTOCOL_ERROR"
    assert agent.wait_result()["code"] == "PROTOCOL_ERROR"
    client.close()


def test_checksums_from_a_client_are_skipped(worker, agent):
    client = connect(worker, agent.prepare())
    header = frames.FrameHeader(frames.CHECKSUM, payload_length_bytes=3)
    client.channel.send(header.pack(), b"abc")
    assert client.run(DATA) == DATA
    client.close()
