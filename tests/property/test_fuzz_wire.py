# SPDX-License-Identifier: Apache-2.0

"""The data plane's readers, fed with nonsense.

They defend two promises. A client that sends what the protocol does not
allow loses its connection with a reason, and nothing else notices. A worker
that lies makes its client fail with an error of the library's own. Neither
has the other take more memory than a frame of the agreed size needs.
"""

from __future__ import annotations

import contextlib
import functools
import json
import pathlib
import socket
import tempfile
import threading
import tracemalloc
from collections.abc import Iterable
from collections.abc import Iterator

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.agent.worker import hello
from fpgapool.client import cancel
from fpgapool.client import errors
from fpgapool.client.doors import view
from fpgapool.client.links import connection
from fpgapool.client.sessions import flow
from fpgapool.common.channels import channel
from fpgapool.protocol import blocks
from fpgapool.protocol import frames
from fpgapool.protocol import messages
from fpgapool.vocabulary import states
from tests.harness import wire
from tests.property import fuzzing
from tests.property import nonsense
from tests.property import slots

SMALL_BYTES = 256
SIZES = st.lists(st.integers(0, 100), max_size=4)
#: What a client may take when a worker announces far more.
ENOUGH_BYTES = 8 * 1024 * 1024

# -- decoders ----------------------------------------------------------------

FRAMES = [
    frames.encode_frame(frames.FrameHeader(frames.HELLO), {"secret": "s"}),
    frames.pack_header(frames.INPUT, 0, 0, 1, 0, 5) + b"hello",
    frames.pack_header(frames.INPUT, frames.SHM, 0, 1, 5, 5, 2),
    frames.pack_header(frames.ACK, offset_bytes=5),
    frames.pack_header(200, payload_length_bytes=3) + b"new",
    frames.error_frame("CODE", "why"),
    frames.pack_header(frames.CLOSE),
    frames.pack_header(frames.MISS, task_id=1),
    frames.pack_header(frames.RETURN),
]
MESSAGES = [
    messages.encode(messages.request(1, "hello", version=1)),
    messages.encode(messages.reply(1, session=None)),
    messages.encode(messages.notification("session", session={})),
]


def _read_frames(pieces: Iterable[bytes]) -> tuple[list[wire.Frame], str]:
    found = []
    try:
        for frame in wire.iterate(pieces, SMALL_BYTES):
            found.append(frame)
    except frames.ProtocolError as exc:
        return found, exc.code
    return found, ""


@fuzzing.examples(200)
@given(st.binary(max_size=200) | fuzzing.streams(FRAMES), SIZES)
def test_frames(data: bytes, sizes: list[int]) -> None:
    """Any bytes are frames or a ProtocolError, and memory is bounded."""
    found = _read_frames([data])
    assert found == _read_frames(fuzzing.cut_up(data, sizes))
    most = max(SMALL_BYTES, frames.MAX_JSON_BYTES)
    assert all(len(frame.payload) <= most for frame in found[0])


@fuzzing.examples(200)
@given(st.binary(max_size=200) | fuzzing.streams(MESSAGES), SIZES)
def test_messages(data: bytes, sizes: list[int]) -> None:
    """The same of the messages of the front door and the agents."""
    most = messages.LENGTH_BYTES + messages.MAX_MESSAGE_BYTES
    results = []
    for pieces in ([data], fuzzing.cut_up(data, sizes)):
        decoder = messages.MessageDecoder()
        found: list[object] = []
        error = None
        try:
            for piece in pieces:
                found += decoder.feed(piece)
                assert len(decoder._buffer) < most
        except frames.ProtocolError as exc:
            # What came before it in the same piece is lost with it.
            error = exc.code
        results.append((found, error))
    (at_once, first), (bit_by_bit, second) = results
    assert first == second
    assert first is not None or at_once == bit_by_bit


OPENED = {
    "features": [],
    "resume_secret": "00" * 32,
    "return_secret": "00" * 32,
    "chunk_bytes": 4096,
    "window_bytes": 8192,
    "input_offset": 0,
    "output_offset": 0,
    "stateless": True,
    "chunk_multiple_bytes": 1,
    "resume_grace_s": 1.0,
    "shm": {"buffers": 2, "buffer_bytes": 4096},
    "cache_bytes": 100,
}
VIEW = {
    "session_id": "s",
    "state": "READY",
    "generation": 1,
    "revision": 3,
    "queued_at": 1.5,
    "endpoints": [{"network": "data", "address": "127.0.0.1", "port": 9}],
    "secret": "00",
    "pending_reasons": ["NO_IDLE_SLOT"],
}
READERS = {
    "hello": (hello.parse, nonsense.HELLO),
    "opened": (connection.Opened.from_document, OPENED),
    "view": (view.SessionView.from_message, VIEW),
}


@pytest.mark.parametrize("name", READERS)
@fuzzing.examples(150)
@given(data=st.data())
def test_documents(name: str, data: st.DataObject) -> None:
    """Any JSON is understood or a ProtocolError."""
    read, right = READERS[name]
    read(right)
    text = json.dumps(data.draw(fuzzing.documents(right)))
    try:
        # As it comes from the network: Infinity is no JSON, 1e999 is.
        document = frames.decode_json(
            text.replace("Infinity", "1e999").encode()
        )
        read(document)
    except frames.ProtocolError:
        pass


# -- the worker --------------------------------------------------------------


NO_SECRET = "5" * 64
#: A HELLO that will be right.
RIGHT = {
    **nonsense.HELLO,
    "session_id": f"session-{slots.FIRST_GENERATION}",
    "generation": slots.FIRST_GENERATION,
    "secret": NO_SECRET,
    "params": {},
}


@pytest.fixture(scope="module")
def worker() -> Iterator[slots.InProcess]:
    """Give a worker that all examples share, as all sessions of a slot do."""
    with tempfile.TemporaryDirectory() as directory:
        made = slots.InProcess(pathlib.Path(directory))
        yield made
        # After all that it serves a client as ever.
        with made.session() as prepared:
            said = _named(b"".join(_session([b"well", b"then"])), prepared)
            assert _output(made.talk(said, waits=True)) == b"wellthen"
        assert made.result["state"] == "CLOSED"
        made.stop()


def _session(inputs: list[bytes], **members) -> list[bytes]:
    """Return the frames of a session without fault; see :func:`_named`."""
    return nonsense.session({**RIGHT, **members}, inputs)


def _output(answer: bytes) -> bytes:
    return nonsense.output(answer, slots.CHUNK_BYTES)


def _named(data: bytes, prepared: dict) -> bytes:
    """Put the names of a session where those of :data:`RIGHT` are.

    They have the same length. So what is random is drawn before anything
    happens.
    """
    return data.replace(
        str(slots.FIRST_GENERATION).encode(),
        str(prepared["generation"]).encode(),
    ).replace(NO_SECRET.encode(), prepared["secret"].encode())


@fuzzing.examples(150)
@given(nonsense.session_streams(RIGHT))
def test_worker_and_streams(worker: slots.InProcess, stream: bytes) -> None:
    """A damaged stream ends its connection; no byte is made up or doubled."""
    with fuzzing.no_errors_logged():
        with worker.session() as prepared:
            sent = _named(stream, prepared)
            answer = worker.talk(sent)
        given_in = nonsense.sent_input(sent, slots.CHUNK_BYTES)
        assert given_in.startswith(_output(answer))
        assert worker.result["output_bytes"] <= len(given_in)


def _referring() -> list[bytes]:
    """Return the frames of a session with references, without fault."""
    data = b"some data"
    block = blocks.Reference.of(data)
    said = functools.partial(frames.pack_header, frames.INPUT)
    named = block.encode()
    first, *_, last = _session([], features=[frames.BLOCKS_FEATURE])
    return [
        first,
        said(frames.BLOCK | frames.TASK_MORE, 0, 1, 0, len(named)) + named,
        said(0, 0, 1, 0, len(data)) + data,
        said(frames.BLOCK, 0, 2, len(data), len(named)) + named,
        said(0, 0, 3, 2 * len(data), 1) + b"x",
        last,
    ]


def test_worker_and_right_references(worker: slots.InProcess) -> None:
    with worker.session() as prepared:
        said = _named(b"".join(_referring()), prepared)
        answer = worker.talk(said, waits=True)
    assert _output(answer) == b"some datasome datax"


@fuzzing.examples(150)
@given(fuzzing.streams(_referring()))
def test_worker_and_references(worker: slots.InProcess, stream: bytes) -> None:
    """No reference gives anything but the data that has come for it."""
    with fuzzing.no_errors_logged():
        with worker.session() as prepared:
            answer = worker.talk(_named(stream, prepared))
        given_in = 2 * nonsense.sent_input(stream, slots.CHUNK_BYTES)
        assert {*_output(answer)} <= {*given_in}
        assert worker.agent.status()["blocks"]["kept_bytes"] == 0


@fuzzing.examples(120)
@given(fuzzing.documents(RIGHT))
def test_worker_and_hellos(worker: slots.InProcess, document: dict) -> None:
    """Whatever a HELLO says, the worker answers and goes on."""
    payload = json.dumps(document).replace("Infinity", "1e999").encode()
    with fuzzing.no_errors_logged(), worker.session() as prepared:
        payload = _named(payload, prepared)
        header = frames.pack_header(
            frames.HELLO, payload_length_bytes=len(payload)
        )
        rest = b"".join(_session([b"x"])[1:])
        answer = worker.talk(header + payload + rest)
        first = wire.read(answer, slots.CHUNK_BYTES)[0]
        assert first.header.type in (frames.OPENED, frames.ERROR)


NO_RETURN_SECRET = "9" * 64
#: The HELLO of a second connection.
SECOND = {
    "session_id": RIGHT["session_id"],
    "generation": RIGHT["generation"],
    "transport": "stream",
    "return_secret": NO_RETURN_SECRET,
}


def _is_right(document: dict) -> bool:
    """Tell whether a worker takes it for the HELLO of its client."""
    try:
        said = hello.parse(document)
    except frames.ProtocolError:
        return False
    return all(
        getattr(said, name) == SECOND[name]
        for name in ("session_id", "generation", "return_secret")
    )


def _opened(sock: socket.socket) -> dict:
    """Receive the answer to a HELLO."""
    link = channel.PlainChannel(sock)
    header = channel.recv_header(
        link, bytearray(frames.HEADER_BYTES), max_data_bytes=slots.CHUNK_BYTES
    )
    assert header.type == frames.OPENED
    return frames.decode_json(channel.recv_payload(link, header))


@fuzzing.examples(120)
@given(
    fuzzing.documents(SECOND), st.binary(max_size=40) | fuzzing.streams(FRAMES)
)
def test_worker_and_second_connections(
    worker: slots.InProcess, document: dict, rest: bytes
) -> None:
    """Who is not the client gets no output, and its session goes on."""
    hypothesis.assume(not _is_right(document))
    payload = json.dumps(document).replace("Infinity", "1e999").encode()
    with fuzzing.no_errors_logged(), worker.session() as prepared:
        first, *others = _session([b"data"], features=[frames.RETURN_FEATURE])
        with channel.connect_unix(worker.settings.data_socket) as sock:
            sock.settimeout(slots.TIMEOUT_S)
            sock.sendall(_named(first, prepared))
            secret = _opened(sock)["return_secret"]
            payload = _named(payload, prepared).replace(
                NO_RETURN_SECRET.encode(), secret.encode()
            )
            header = frames.pack_header(
                frames.HELLO, payload_length_bytes=len(payload)
            )
            for frame in wire.read(worker.talk(header + payload + rest)):
                assert frame.header.type == frames.ERROR
            sock.sendall(b"".join(others))
            received = b"".join(iter(lambda: sock.recv(65536), b""))
    assert _output(received) == b"data"


@fuzzing.examples(120)
@given(st.binary(max_size=100), fuzzing.streams(FRAMES))
def test_worker_and_strangers(
    worker: slots.InProcess, first: bytes, rest: bytes
) -> None:
    """Who has no secret gets no word but why, and disturbs nobody."""
    with fuzzing.no_errors_logged(), worker.session():
        for frame in wire.read(worker.talk(first + rest)):
            assert frame.header.type == frames.ERROR
        assert worker.agent.status()["state"] == "ready"


@pytest.mark.parametrize(
    "start",
    [
        {"start_input_offset": 2**64 - 1},
        {"start_input_offset": 2**64 - 4, "start_output_offset": 2**64 - 4},
        {"start_output_offset": 2**63 + 1},
    ],
)
def test_offsets_at_their_end(worker: slots.InProcess, start: dict) -> None:
    """A session cannot start where there are no offsets for what follows.

    It would fail with an error of ours, or hang.
    """
    with fuzzing.no_errors_logged(), worker.session() as prepared:
        sent = b"".join(_session([b"123", b"456"], **start))
        answer = worker.talk(_named(sent, prepared))
        (refusal,) = wire.read(answer)
        assert refusal.header.type == frames.ERROR
        said = frames.decode_json(refusal.payload)
        assert said["code"] == frames.PROTOCOL_ERROR


def test_offsets_that_are_just_possible(worker: slots.InProcess) -> None:
    """From the last allowed start on, a session works as any other."""
    start = hello.MAX_START_OFFSET
    with fuzzing.no_errors_logged():
        with worker.session() as prepared:
            sent = _session(
                [b"123", b"456"],
                start_input_offset=start,
                start_output_offset=start,
            )
            said = _named(b"".join(sent), prepared)
            answer = worker.talk(said, waits=True)
        assert _output(answer) == b"123456"
        assert worker.result["state"] == "CLOSED"


ASSIGN = {
    "op": "assign",
    "id": 1,
    "session_id": "s",
    "generation": 1,
    "project_id": "project",
    "accelerator": "copy",
    "bitstream": "builtin:copy",
    "connect_timeout_s": 30.0,
    "resume_grace_s": 30.0,
    "local": True,
    "self_test": False,
    "origin_host_uuid": "h",
    "idle_timeout_s": 5.0,
    "max_hold_s": 5.0,
    "bitstream_ref": {
        "path": "/nowhere",
        "bitstream_id": "b",
        "checksum_sha256": "00" * 32,
        "size_bytes": 1,
        "format": "json",
    },
}
COMMANDS = [
    ASSIGN,
    {"op": "release", "id": 2, "generation": 1, "reason": "R"},
    {"op": "reissue_secret", "id": 3, "generation": 1},
    {"op": "status", "id": 4},
    {"op": "desk", "id": 5, "generation": 1, "connected": True},
]


ODD = [{"op": "status", "id": number} for number in (1e999, [[]], 10**300)]


def _harmless(command: dict) -> bool:
    """Whether the worker can go on as before if it obeys."""
    if command.get("op") == "exit":
        return False
    generation = command.get("generation", 0)
    # What is newer than all before would be obeyed, and have to be freed.
    return (
        not isinstance(generation, int) or generation < slots.FIRST_GENERATION
    )


@fuzzing.examples(150)
@given(
    st.lists(
        st.sampled_from(ODD)
        | st.sampled_from(COMMANDS)
        .flatmap(fuzzing.documents)
        .filter(_harmless),
        min_size=1,
        max_size=3,
    ),
    st.data(),
)
def test_worker_and_agents(
    worker: slots.InProcess, commands: list[dict], data: st.DataObject
) -> None:
    """Nonsense at the control socket ends its connection, no worker."""
    sent = data.draw(
        fuzzing.streams([fuzzing.message(one) for one in commands])
    )
    worker.agent.close()
    with fuzzing.no_errors_logged():
        with channel.connect_unix(worker.settings.control_socket) as sock:
            sock.settimeout(slots.TIMEOUT_S)
            sock.sendall(sent)
            sock.shutdown(socket.SHUT_WR)
            try:
                while sock.recv(65536):
                    pass
            except ConnectionResetError:
                pass
        worker.connect()
        assert worker.agent.status()["state"] in states.SLOT_MOVES


@pytest.mark.parametrize(
    "members", [{"id": "x" * 65_490}, {"id": 1e999}, {"id": 10**4000}]
)
def test_worker_and_what_no_answer_can_repeat(
    worker: slots.InProcess, members: dict
) -> None:
    """An agent is hung up on, or answered; its worker goes on."""
    worker.agent.close()
    with channel.connect_unix(worker.settings.control_socket) as sock:
        sock.settimeout(slots.TIMEOUT_S)
        sock.sendall(fuzzing.message({"op": "status", **members}))
        assert sock.recv(1) in (b"", b"\0")
    worker.connect()
    assert worker.agent.status()["state"] in states.SLOT_MOVES


# -- the client --------------------------------------------------------------


class Door:
    """A front door that knows how the only session has ended."""

    def request(self, operation: str, deadline_s=None, **members) -> dict:
        assert operation == "get"
        return {"ok": True, "session": {**VIEW, "state": "FAILED"}}

    def give_up(self, **members: object) -> None:
        pass

    def close(self) -> None:
        pass


class Seeker:
    """Finds no other slot."""

    def __init__(self) -> None:
        self.token = cancel.CancelToken()
        self.door = Door()

    def reopen(self, *_: object) -> None:
        raise errors.RequestRejected("NO_OTHER", "there is no other slot")

    def worker_lost(self, *_: object) -> None:
        pass

    def worker_found(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def close(self) -> None:
        self.door.close()


class Liar:
    """A worker that says what it is told to, whatever it hears."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.scripts: list[bytes] = []
        self._back = b""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            if not self.scripts:
                sock.close()
                return
            threading.Thread(
                target=self._answer, args=(sock,), daemon=True
            ).start()

    def _answer(self, sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            script = self._back
            if b"return_secret" not in sock.recv(65536):
                # Whoever connects again is told that there is no session. It
                # is settled before the answer, after which others may come.
                script = self.scripts[0]
                self.scripts = [frames.error_frame("UNAUTHORIZED", "no")]
            sock.sendall(script)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass

    def stop(self) -> None:
        self.scripts = []
        socket.create_connection(("127.0.0.1", self.port)).close()
        self._thread.join(slots.TIMEOUT_S)
        self._listener.close()

    def run(self, script: bytes, back: bytes | None = None) -> None:
        """Have a client send eight bytes through.

        :param back: what is said by a second connection, if there is one.
        """
        self.scripts, self._back = [script], back or b""
        endpoint = {"network": "data", "address": "127.0.0.1"}
        document = {**VIEW, "endpoints": [{**endpoint, "port": self.port}]}
        seeker = Seeker()
        dialer = connection.Dialer(
            view.SessionView.from_message(document),
            seeker.door,  # type: ignore[arg-type]
            seeker.token,
            returns=back is not None,
        )
        deadline_s = channel.deadline_after(slots.TIMEOUT_S)
        dialed = dialer.open({}, deadline_s)
        made = flow.Flow(
            dialer,
            dialed,
            seeker,  # type: ignore[arg-type]
        )
        try:
            piece = made.reserve(8, filled=True, deadline_s=deadline_s)
            piece.data = piece.data[:8]
            made.send(piece, end=False, deadline_s=deadline_s)
            place = memoryview(bytearray(made.chunk_bytes))
            while not made.window.idle:
                output = made.receive(place, deadline_s)
                if output is not None:
                    assert len(output.data) <= made.chunk_bytes
            made.close(place, deadline_s)
        finally:
            made.stop()
            made.hang_up()


#: How a client may end that was lied to.
ENDS = (
    errors.FpgapoolError,
    frames.ProtocolError,
    channel.ChannelClosed,
    connection.WorkerError,
)


def _answers(opened: dict) -> list[bytes]:
    """Return what a worker says that echoes eight bytes."""
    payload = json.dumps(opened).replace("Infinity", "1e999").encode()
    return [
        frames.pack_header(frames.OPENED, payload_length_bytes=len(payload))
        + payload,
        frames.pack_header(frames.OUTPUT, frames.TASK_END, 0, 1, 0, 8)
        + b"01234567",
        frames.pack_header(frames.ACK, 0, 0, 1, 8),
        frames.pack_header(frames.PING),
        frames.encode_frame(
            frames.FrameHeader(frames.CLOSED), {"code": "OK", "run_s": 0.1}
        ),
    ]


@pytest.fixture(scope="module")
def liar() -> Iterator[Liar]:
    """Give a worker that lies; without lies it is a good one."""
    made = Liar()
    made.run(b"".join(_answers(OPENED)))
    yield made
    made.stop()


@fuzzing.examples(250)
@given(
    (st.just(OPENED) | fuzzing.documents(OPENED)).flatmap(
        lambda opened: fuzzing.streams(_answers(opened))
    )
)
def test_client_and_lying_worker(liar: Liar, stream: bytes) -> None:
    """Whatever a worker says, its client ends, with an error of its own."""
    with contextlib.suppress(*ENDS):
        liar.run(stream)


def _there_and_back(opened: dict) -> tuple[list[bytes], list[bytes]]:
    """Return the same, for a client with two connections."""
    first, *others = _answers(opened)
    return [first, frames.pack_header(frames.RETURN)], others


def test_client_and_two_connections(liar: Liar) -> None:
    there, back = _there_and_back(OPENED)
    liar.run(b"".join(there), b"".join(back))


@fuzzing.examples(150)
@given(
    (st.just(OPENED) | fuzzing.documents(OPENED)).flatmap(
        lambda opened: st.tuples(
            *map(fuzzing.streams, _there_and_back(opened))
        )
    )
)
def test_client_and_lies_by_two_connections(
    liar: Liar, streams: tuple[bytes, bytes]
) -> None:
    """The same, whichever of two connections they come by."""
    with contextlib.suppress(*ENDS):
        liar.run(*streams)


@pytest.mark.parametrize("task_id", [0, 1, 2])
def test_client_and_a_miss_of_data_that_it_sent(
    liar: Liar, task_id: int
) -> None:
    """A client that believed it would send the same for ever."""
    miss = frames.pack_header(frames.MISS, task_id=task_id)
    with pytest.raises(frames.ProtocolError):
        liar.run(_answers(OPENED)[0] + miss)


@pytest.mark.parametrize("behind_opened", [False, True])
def test_client_does_not_make_room_for_lies(
    liar: Liar, behind_opened: bool
) -> None:
    """An announced length alone costs no memory."""
    opened = _answers(OPENED)[0] if behind_opened else b""
    huge = frames.pack_header(200, payload_length_bytes=frames.MAX_DATA_BYTES)
    tracemalloc.start()
    try:
        with pytest.raises(frames.ProtocolError) as caught:
            liar.run(opened + huge + b"x")
        assert tracemalloc.get_traced_memory()[1] < ENOUGH_BYTES
    finally:
        tracemalloc.stop()
    assert caught.value.code == frames.FRAME_TOO_LARGE


@pytest.mark.parametrize("grace", [10**400, -(10**400), True, "1", None, []])
def test_graces_that_are_none(grace: object) -> None:
    """Whatever a worker says of its patience, a client can reckon with it."""
    opened = connection.Opened.from_document(
        {**OPENED, "resume_grace_s": grace}
    )
    assert 0 <= opened.resume_grace_s <= 86400


@fuzzing.examples(150)
@given(
    st.sampled_from(["127.0.0.1", "::1", ""])
    | st.text(max_size=8).map(lambda text: "\0" + text)
    | st.sampled_from(["x" * 300, "\ud800", ".." + "a" * 70, "a..b"]),
    st.sampled_from([-1, 0, 65536, 2**31, 2**64, 10**300]),
)
def test_endpoints_that_are_none(address: str, port: int) -> None:
    """A client that is told of a place that cannot be says so."""
    with pytest.raises((channel.ChannelClosed, channel.DeadlineExceeded)):
        channel.connect_tcp(
            address, port, channel.deadline_after(slots.TIMEOUT_S)
        ).close()
