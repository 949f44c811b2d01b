#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Wrong, malformed and hostile input: a clear answer, and no trace."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import struct
from collections.abc import Iterator

import pytest

from fpgapool import client
from fpgapool.common import channel
from fpgapool.protocol import frames
from tests.functional.worker import harness as wire
from tests.harness import cases
from tests.harness import cloud as clouds
from tests.harness import door as doors
from tests.harness import footprint
from tests.harness import programs
from tests.harness import waiting

pytestmark = pytest.mark.security

CHUNK = clouds.CHUNK_BYTES
SLOTS = 2
AES_PARAMS = {"key": "00" * 16, "iv": "00" * 16}


@pytest.fixture(scope="module")
def cloud(make_cloud) -> Iterator[clouds.Cloud]:
    started = make_cloud(
        clouds.HostPlan("plain", slots=SLOTS, tls=False),
        clouds.HostPlan("secure", slots=SLOTS, tls=True),
    )
    before = footprint.used(started)
    yield started
    footprint.check_no_trace(started, before)


@pytest.fixture(params=cases.first("plain", "secure"))
def host(cloud, request: pytest.FixtureRequest) -> clouds.Host:
    return cloud.hosts[request.param]


@pytest.fixture
def _no_trace(cloud) -> Iterator[None]:
    """Afterwards the pool works as before and has nothing left over.

    At the end of the module that is checked for all tests.
    """
    before = footprint.used(cloud)
    yield
    footprint.check_no_trace(cloud, before)


# The client library.


@pytest.mark.parametrize(
    ("error", "code", "arguments"),
    [
        (
            client.RequestRejected,
            "UNKNOWN_ACCELERATOR",
            {"accelerator": "warp"},
        ),
        (client.InvalidRequest, "INVALID_REQUEST", {"accelerator": ""}),
        (client.InvalidRequest, "INVALID_SIZE", {"size_bytes": 0}),
        (client.InvalidRequest, "INVALID_SIZE", {"size_bytes": -1}),
        (client.InvalidRequest, "INVALID_SIZE", {"size_bytes": 2**70}),
        (client.InvalidRequest, "INVALID_SIZE", {"size_bytes": 1.5}),
        (client.RequestRejected, "SIZE_TOO_LARGE", {"size_bytes": 2**60}),
        (client.InvalidRequest, "INVALID_TIMEOUT", {"wait_timeout_s": 0}),
        (client.InvalidRequest, "INVALID_TIMEOUT", {"timeout_s": -1}),
        (client.InvalidRequest, "INVALID_REQUEST", {"priority": 10**9}),
        (client.InvalidRequest, "INVALID_REQUEST_ID", {"request_id": "ä b"}),
        (client.InvalidParams, "INVALID_PARAMS", {"params": {"level": 9}}),
    ],
)
def test_wrong_arguments(cloud, error, code: str, arguments) -> None:
    """Wrong arguments of acc_open are named, each by its code."""
    arguments = {
        "accelerator": "copy",
        "size_bytes": 1,
        "front_door": cloud.hosts["plain"].socket_path(),
        **arguments,
    }
    with pytest.raises(error) as caught:
        client.acc_open(**arguments)
    assert caught.value.code == code


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"key": b"k" * 15, "iv": b"i" * 16},
        {"key": b"k" * 16, "iv": b"i" * 17},
        {"key": "no hexadecimal digits", "iv": b"i" * 16},
        {"key": 7, "iv": b"i" * 16},
        {"key": b"k" * 16, "iv": b"i" * 16, "mode": "ecb"},
    ],
)
def test_wrong_params(host, params, verify: bool) -> None:
    """Wrong parameters and keys are refused, by the worker if need be."""
    with pytest.raises(client.InvalidParams) as caught:
        client.acc_open(
            "aes",
            1,
            params=params,
            front_door=host.socket_path(),
            verify=verify,
        )
    assert caught.value.code == "INVALID_PARAMS"
    # A message may end in a log, and these are keys.
    assert "kkkk" not in str(caught.value)
    assert "6b6b" not in str(caught.value)


def test_use_after_close(host) -> None:
    """A closed session says so, to every further use."""
    session = client.acc_open("copy", 8, front_door=host.socket_path())
    client.acc_close(session)
    for use in (
        lambda: client.acc_run(session, 1),
        lambda: client.acc_close(session),
        session.finish,
    ):
        with pytest.raises(client.SessionClosed) as caught:
            use()
        assert caught.value.code == "SESSION_CLOSED"


def test_wrong_lengths_of_a_run(host) -> None:
    """A wrong length is refused and the session goes on."""
    with client.acc_open("copy", 8, front_door=host.socket_path()) as session:
        for length in (0, -1, len(session.pin) + 1, 2**70):
            with pytest.raises(client.InvalidRequest) as caught:
                client.acc_run(session, length)
            assert caught.value.code == "INVALID_SIZE"
        session.pin[:4] = b"data"
        assert client.acc_run(session, 4) == b"data"


@pytest.mark.usefixtures("_no_trace")
def test_missing_input(host, rng, tmp_path) -> None:
    """A file that is shorter than it said leaves no output."""
    source = tmp_path / "in"
    source.write_bytes(rng.randbytes(CHUNK))
    with pytest.raises(client.InvalidRequest) as caught:
        client.run_file(
            "copy",
            source,
            tmp_path / "out",
            size_bytes=3 * CHUNK,
            front_door=host.socket_path(),
        )
    assert caught.value.code == "SIZE_MISMATCH"
    assert [one.name for one in tmp_path.iterdir()] == ["in"]


# The front door, without the library's checks.


@pytest.mark.parametrize(
    ("code", "members"),
    [
        ("UNKNOWN_ACCELERATOR", {"accelerator": "warp"}),
        ("UNKNOWN_ACCELERATOR", {"accelerator": ""}),
        ("UNKNOWN_ACCELERATOR", {"accelerator": "../copy"}),
        ("UNKNOWN_ACCELERATOR", {"accelerator": None}),
        ("UNKNOWN_ACCELERATOR", {"accelerator": ["copy"]}),
        ("UNKNOWN_ACCELERATOR", {"accelerator": "x" * 30_000}),
        ("INVALID_SIZE", {"size_bytes": 0}),
        ("INVALID_SIZE", {"size_bytes": -1}),
        ("INVALID_SIZE", {"size_bytes": 2**63}),
        ("INVALID_SIZE", {"size_bytes": 2**70}),
        ("INVALID_SIZE", {"size_bytes": 1.5}),
        ("INVALID_SIZE", {"size_bytes": "1"}),
        ("INVALID_SIZE", {"size_bytes": True}),
        ("INVALID_SIZE", {"size_bytes": None}),
        ("SIZE_TOO_LARGE", {"size_bytes": 2**60}),
        ("INVALID_TIMEOUT", {"wait_timeout_s": 0}),
        ("INVALID_TIMEOUT", {"wait_timeout_s": -1}),
        ("INVALID_TIMEOUT", {"wait_timeout_s": "1"}),
        ("INVALID_TIMEOUT", {"connect_timeout_s": 1e300}),
        ("INVALID_TIMEOUT", {"resume_grace_s": -1}),
        ("INVALID_REQUEST", {"priority": 2**70}),
        ("INVALID_REQUEST", {"priority": "high"}),
        ("INVALID_REQUEST_ID", {"request_id": ""}),
        ("INVALID_REQUEST_ID", {"request_id": "x" * 65}),
        ("INVALID_REQUEST_ID", {"request_id": "a b"}),
        ("INVALID_REQUEST_ID", {"request_id": "new\nline"}),
        ("INVALID_REQUEST_ID", {"request_id": 7}),
        ("INVALID_REQUEST_ID", {"request_id": None}),
    ],
)
def test_wrong_opens(cloud, code: str, members) -> None:
    """The front door and the conductor check what they are asked for."""
    with cloud.hosts["plain"].door() as door:
        assert door.refusal(**members) == code


@pytest.mark.parametrize(
    ("code", "operation", "members"),
    [
        ("UNKNOWN_OPERATION", "drop_tables", {}),
        ("UNKNOWN_OPERATION", "_cancel", {}),
        ("UNKNOWN_OPERATION", ["open"], {}),
        ("UNKNOWN_OPERATION", None, {}),
        ("INVALID_REQUEST", "hello", {"version": 99}),
        ("UNKNOWN_ACCELERATOR", "accelerator", {"name": "warp"}),
        ("UNKNOWN_ACCELERATOR", "accelerator", {}),
        ("SESSION_NOT_FOUND", "get", {}),
        ("SESSION_NOT_FOUND", "get", {"session_id": 7}),
        ("SESSION_NOT_FOUND", "get", {"session_id": "no-such-session"}),
        ("SESSION_NOT_FOUND", "get", {"session_id": "' OR 1=1 --"}),
        ("SESSION_NOT_FOUND", "connect", {"generation": 1}),
        (
            "INVALID_REQUEST",
            "connect",
            {"session_id": "no-such-session", "generation": "1"},
        ),
        (
            "SESSION_NOT_FOUND",
            "connect",
            {"session_id": "no-such-session", "generation": 1},
        ),
        ("INVALID_REQUEST_ID", "cancel", {}),
    ],
)
def test_wrong_operations(cloud, code: str, operation, members) -> None:
    """Every operation answers nonsense by a code."""
    with cloud.hosts["plain"].door() as door:
        with pytest.raises(doors.Refused) as caught:
            door.request(operation, **members)
        assert caught.value.code == code
        # The connection is as good as before.
        door.request("hello", version=1)


@pytest.mark.usefixtures("_no_trace")
def test_sessions_of_another_project(host) -> None:
    """A project can neither see, nor end, nor use another one's session."""
    with host.door() as door, host.door(clouds.OTHER_PROJECT) as stranger:
        view = door.open_ready()
        named = {"session_id": view["session_id"]}
        for operation, members in (
            ("get", named),
            ("connect", {**named, "generation": view["generation"]}),
        ):
            with pytest.raises(doors.Refused) as caught:
                stranger.request(operation, **members)
            assert caught.value.code == "SESSION_NOT_FOUND"
        stranger.request("cancel", **named)
        stranger.request("cancel", request_id=view["request_id"])
        # Serves the stranger; the cancellations came before.
        doors.let_go(doors.hold_slots(stranger, 1))
        doors.let_go([door.attach(view)])


def messages_of_nonsense(rng: random.Random) -> Iterator[bytes]:
    """Bytes that are no messages, or none that make sense."""
    yield b""
    yield b"\x00"
    yield struct.pack(">I", 0)
    yield struct.pack(">I", 2**32 - 1)
    yield struct.pack(">I", 64 * 1024 + 1) + b"x" * 1000
    yield struct.pack(">I", 100) + b'{"id": 1'
    for payload in (
        b"no JSON",
        b"[1, 2]",
        b'"text"',
        b"null",
        b"1e999",
        b"\xff\xfe",
        b'{"id": 1, "op": "open", "size_bytes": NaN}',
        b"[" * 60_000,
        b'{"a":' * 10_000,
        json.dumps({"id": {}, "op": {}}).encode(),
    ):
        yield struct.pack(">I", len(payload)) + payload
    yield b"GET / HTTP/1.1\r\n\r\n"
    for _ in range(20):
        yield rng.randbytes(rng.randrange(1, 2000))


@pytest.mark.usefixtures("_no_trace")
def test_nonsense_at_the_front_door(cloud, rng) -> None:
    """Whoever sends nonsense is hung up on, or answered by an error."""
    host = cloud.hosts["plain"]
    with host.door() as witness:
        view = witness.open_ready()
        for data in messages_of_nonsense(rng):
            with host.door() as door, contextlib.suppress(ConnectionError):
                door.send_bytes(data)
                door.end_input()
                for message in door.read_to_end():
                    assert not message["ok"]
        # Nobody else has noticed.
        doors.let_go([witness.attach(view)])


@pytest.mark.usefixtures("_no_trace")
def test_client_that_does_not_read(cloud) -> None:
    """A client that asks for ever and never reads is hung up on."""
    host = cloud.hosts["plain"]
    request = json.dumps({"id": 1, "op": "accelerators"}).encode()
    block = (struct.pack(">I", len(request)) + request) * 100

    def ask_for_ever() -> None:
        with host.door() as door:
            while True:
                door.send_bytes(block)

    with pytest.raises(ConnectionError):
        ask_for_ever()


# The data port.


@pytest.mark.usefixtures("_no_trace")
def test_wrong_secrets(host) -> None:
    """Only the secret of the session opens it, and only once."""
    with host.door() as door, host.door(clouds.OTHER_PROJECT) as other_door:
        view, other = door.open_ready(), other_door.open_ready()
        wrong = [
            {"secret": "00" * 32},
            {"secret": ""},
            {"secret": view["secret"][:-1]},
            {"secret": view["secret"].upper() + "0"},
            {"secret": "\udcff"},
            # Of another session, under either name.
            {"secret": other["secret"]},
            {
                "secret": other["secret"],
                "session_id": other["session_id"],
                "generation": other["generation"],
            },
            {"session_id": other["session_id"]},
            {"generation": view["generation"] + 1},
            {"generation": view["generation"] - 1},
            {"resume_secret": view["secret"]},
            {"resume_secret": "00" * 32},
        ]
        for members in wrong:
            refused = doors.refusal_of(
                doors.connect_remote(view), view, **members
            )
            assert refused == "UNAUTHORIZED", members
        with contextlib.closing(door.attach(view)) as rightful:
            # The secret has been used: also while its session is alive.
            used = doors.refusal_of(doors.connect_remote(view), view)
            assert used == "UNAUTHORIZED"
            assert rightful.run(b"data") == b"data"
            rightful.close_session()
        late = doors.refusal_of(doors.connect_remote(view), view)
        assert late == "UNAUTHORIZED"
        doors.let_go([other_door.attach(other)])


def test_wrong_certificate(cloud) -> None:
    """A client does not talk to a worker with another certificate."""
    with cloud.hosts["secure"].door() as door:
        view = door.open_ready()
        with pytest.raises(channel.PinMismatch):
            doors.connect_remote({**view, "certificate_sha256": "00" * 32})
        doors.let_go([doors.connect_remote(view).hello(view)])


def frame(kind: int, payload: bytes = b"", **fields: int) -> bytes:
    """Return a frame of any kind, right or wrong."""
    values = {
        "magic": frames.MAGIC,
        "version": frames.VERSION,
        "flags": 0,
        "reserved": 0,
        "stream_id": 0,
        "task_id": 0,
        "offset": 0,
        "length": len(payload),
        "aux": 0,
        **fields,
    }
    header = struct.pack(
        ">HBBHHIIQII",
        values["magic"],
        values["version"],
        kind,
        values["flags"],
        values["reserved"],
        values["stream_id"],
        values["task_id"],
        values["offset"],
        values["length"],
        values["aux"],
    )
    return header + payload


def first_frames_of_nonsense(rng: random.Random) -> Iterator[bytes]:
    """Bytes with which no client begins."""
    hello = b'{"session_id": "x", "generation": 1, "secret": "00"}'
    yield b""
    yield b"F"
    yield frame(frames.HELLO, hello)[:31]
    yield frame(frames.HELLO, hello)[:-1]
    yield frame(frames.HELLO, hello, magic=0)
    yield frame(frames.HELLO, hello, version=2)
    yield frame(frames.HELLO, hello, reserved=1)
    yield frame(frames.HELLO, hello, flags=frames.SHM)
    yield frame(frames.HELLO, hello, stream_id=1)
    yield frame(frames.HELLO, hello, length=2**32 - 1)
    yield frame(frames.HELLO, hello, length=64 * 1024 + 1)
    yield frame(frames.HELLO)
    yield frame(frames.HELLO, b"no JSON")
    yield frame(frames.HELLO, b"[]")
    yield frame(frames.HELLO, b"\xff\xfe")
    yield frame(frames.HELLO, b"[" * 60_000)
    yield frame(frames.HELLO, b"{}")
    yield frame(frames.HELLO, b'{"session_id": 1, "generation": "x"}')
    yield frame(frames.HELLO, hello.replace(b"1,", b"-1,"))
    yield frame(frames.HELLO, hello.replace(b"1,", b"1e999,"))
    yield frame(frames.HELLO, hello.replace(b"}", b', "transport": "shm"}'))
    yield frame(frames.HELLO, hello.replace(b"}", b', "params": []}'))
    yield frame(frames.INPUT, b"data")
    yield frame(frames.INPUT, length=2**32 - 1)
    yield frame(frames.CLOSE)
    yield frame(frames.OPENED, b"{}")
    yield frame(99, b"data")
    yield frame(200, b"data")
    yield b"GET / HTTP/1.1\r\n\r\n"
    for _ in range(20):
        yield rng.randbytes(rng.randrange(1, 2000))


@contextlib.contextmanager
def raw_connection(
    view: dict, *, encrypted: bool
) -> Iterator[channel.Channel]:
    """Connect to a worker's data port."""
    sock = channel.connect_tcp(*doors.data_endpoint(view))
    data = (
        channel.TlsChannel.connect(sock, view["certificate_sha256"])
        if encrypted
        else channel.PlainChannel(sock)
    )
    with contextlib.closing(data):
        yield data


def read_to_end(data: channel.Channel) -> bytes:
    """Return what the other side sends until it hangs up."""
    received = bytearray()
    buffer = memoryview(bytearray(65536))
    with contextlib.suppress(ConnectionError):
        while True:
            count = data.recv_some_into(
                buffer, channel.deadline_after(waiting.LIMIT_S)
            )
            received += buffer[:count]
    return bytes(received)


@pytest.mark.long
@pytest.mark.usefixtures("_no_trace")
def test_nonsense_at_the_data_port(host, rng) -> None:
    """Whoever begins with nonsense is hung up on with a reason."""
    with host.door() as door:
        view = door.open_ready()
        encrypted = host.plan.tls
        with contextlib.ExitStack() as stack:
            connections = []
            for data in first_frames_of_nonsense(rng):
                connection = stack.enter_context(
                    raw_connection(view, encrypted=encrypted)
                )
                with contextlib.suppress(ConnectionError):
                    connection.send(data)
                connections.append(connection)
            # Some of them are only recognised by their silence.
            for connection in connections:
                answer = read_to_end(connection)
                if answer:
                    header = frames.FrameHeader.unpack_from(answer)
                    assert header.type == frames.ERROR
        doors.let_go([doors.connect_remote(view).hello(view)])


@pytest.mark.usefixtures("_no_trace")
def test_nonsense_instead_of_tls(cloud, rng) -> None:
    """Who does not speak TLS is hung up on without a word in clear."""
    with cloud.hosts["secure"].door() as door:
        view = door.open_ready()
        hello = json.dumps(
            {
                "session_id": view["session_id"],
                "generation": view["generation"],
                "secret": view["secret"],
            }
        ).encode()
        for data in (
            frame(frames.HELLO, hello),
            b"\x16\x03\x01\xff\xff" + rng.randbytes(100),
            *(rng.randbytes(rng.randrange(100, 2000)) for _ in range(10)),
        ):
            with raw_connection(view, encrypted=False) as connection:
                with contextlib.suppress(ConnectionError):
                    connection.send(data)
                assert b"resume_secret" not in read_to_end(connection)
        doors.let_go([doors.connect_remote(view).hello(view)])


@pytest.mark.usefixtures("_no_trace")
def test_crowd_of_silent_strangers(host) -> None:
    """Connections that say nothing do not keep a client out for long."""
    with host.door() as door:
        view = door.open_ready()
        endpoint = doors.data_endpoint(view)
        with contextlib.ExitStack() as stack:
            for _ in range(100):
                stack.enter_context(socket.create_connection(endpoint))

            # By the front door the worker is reached as ever, or as soon
            # as the strangers' time is over.
            def attached() -> wire.Client:
                return door.attach(view)

            doors.let_go([waiting.wait_until(attached, "a client gets in")])


def misbehaviours() -> Iterator[tuple[str, bytes]]:
    """What an accepted client must not send, and how it is answered."""
    yield "BAD_OFFSET", frame(frames.INPUT, b"data", offset=5)
    yield "BAD_OFFSET", frame(frames.INPUT, b"data", offset=2**64 - 1)
    yield (
        "FRAME_TOO_LARGE",
        frame(frames.INPUT, length=CHUNK + 1),
    )
    yield "FRAME_TOO_LARGE", frame(frames.INPUT, length=2**32 - 1)
    yield "PROTOCOL_ERROR", frame(99)
    yield "PROTOCOL_ERROR", frame(frames.INPUT, b"data", magic=0)
    yield "PROTOCOL_ERROR", frame(frames.HELLO, b"{}")
    yield "PROTOCOL_ERROR", frame(frames.OUTPUT, b"data")
    yield (
        "PROTOCOL_ERROR",
        frame(frames.INPUT, flags=frames.SHM, length=4),
    )
    yield "FRAME_TOO_LARGE", frame(frames.ACK, b"data")
    yield "BAD_OFFSET", frame(frames.ACK, offset=2**63)
    yield "STREAM_LIMIT", frame(frames.INPUT, b"data", stream_id=3)
    yield "STREAM_LIMIT", frame(frames.HELLO, b"{}", stream_id=3)


def answered_error(attached: wire.Client) -> str:
    """Return the code of the next ERROR of a worker."""
    try:
        while True:
            attached.recv()
    except wire.ErrorFrame as error:
        return str(error.code)


@pytest.mark.parametrize(("code", "data"), list(misbehaviours()))
def test_misbehaving_client(cloud, code: str, data: bytes) -> None:
    """An accepted client that breaks the protocol hurts only itself."""
    host = cloud.hosts["plain"]
    with host.door() as door:
        witness = door.attach(door.open_ready())
        view = door.open_ready(resume_grace_s=1)
        with contextlib.closing(door.attach(view)) as attached:
            attached.channel.send(data)
            assert answered_error(attached) == code
        door.request("cancel", session_id=view["session_id"])
        door.wait_state(view["request_id"], "CANCELLED", "FAILED", "EXPIRED")
        assert witness.run(b"data") == b"data"
        doors.let_go([witness])


def test_unknown_optional_frames_are_skipped(host) -> None:
    """Frames of later versions that may be skipped are."""
    with host.door() as door:
        attached = door.attach(door.open_ready())
        attached.channel.send(frame(200, b"of a later version"))
        assert attached.run(b"data") == b"data"
        doors.let_go([attached])


@pytest.mark.long
@pytest.mark.usefixtures("_no_trace")
def test_client_that_takes_no_output(cloud, rng) -> None:
    """A client that does not read blocks its own slot only, until it goes."""
    text = rng.randbytes(60 * CHUNK)
    host = cloud.hosts["plain"]
    with host.door() as door:
        view = door.open_ready(resume_grace_s=1)
        attached = doors.connect_remote(view).hello(view)
        for _ in range(clouds.WINDOW_CHUNKS):
            attached.send_input(bytes(CHUNK))
        other = programs.Transfer(host.socket_path(), text)
        other.finish()
        assert other.output == text
        attached.close()
        door.wait_state(view["request_id"], "EXPIRED", "FAILED")


# All of it at once.

NONSENSE_CONNECTIONS = 200


def spoilt(rng: random.Random, pieces: list[bytes]) -> bytes:
    """Return messages or frames of which some are doubled, cut or changed."""
    chosen = bytearray(b"".join(rng.choices(pieces, k=rng.randrange(1, 6))))
    for _ in range(rng.randrange(1, 4)):
        position = rng.randrange(len(chosen))
        match rng.randrange(4):
            case 0:
                chosen[position] ^= 1 << rng.randrange(8)
            case 1:
                chosen[position:position] = rng.randbytes(rng.randrange(40))
            case 2 if position:
                del chosen[position:]
            case _:
                chosen[position : position + 8] = b"\xff" * 8
    return bytes(chosen)


def _messages(view: dict) -> list[bytes]:
    """Return requests that make sense and ask for nothing that lasts."""
    named = {"session_id": view["session_id"], "request_id": "r"}
    requests = [
        {"op": "hello", "version": 1},
        {"op": "accelerators"},
        {"op": "pool"},
        {"op": "accelerator", "name": "aes"},
        *({"op": name, **named} for name in ("get", "connect")),
        {"op": "hello", "id": "x" * 60_000},
    ]
    payloads = [
        json.dumps({"id": number, **request}).encode()
        for number, request in enumerate(requests)
    ]
    return [struct.pack(">I", len(one)) + one for one in payloads]


def _frames(view: dict) -> list[bytes]:
    """Return frames of a session, with another secret than its own."""
    hello = {
        "session_id": view["session_id"],
        "generation": view["generation"],
        "secret": "00" * 32,
    }
    return [
        frame(frames.HELLO, json.dumps(hello).encode()),
        frame(frames.INPUT, b"data"),
        frame(frames.ACK, offset=4),
        frame(frames.PING),
        frame(200, b"of a later version"),
        frame(frames.CLOSE),
    ]


@pytest.mark.long
@pytest.mark.usefixtures("_no_trace")
def test_nonsense_beside_a_stream(cloud, rng) -> None:
    """Two hundred connections of nonsense, and no byte of a stream is wrong.

    Afterwards no process has more descriptors or threads than before.
    """
    host = cloud.hosts["plain"]
    aes = programs.Aes(rng)
    steps = 20
    text = rng.randbytes(steps * CHUNK)
    transfer = programs.Transfer(
        host.socket_path(), text, "aes", params=aes.params
    )
    transfer.run_to(CHUNK)
    with host.door() as door:
        view = door.open_ready()
        for number in range(NONSENSE_CONNECTIONS):
            if number % 2:
                with host.door() as other:
                    with contextlib.suppress(ConnectionError):
                        other.send_bytes(spoilt(rng, _messages(view)))
                        other.end_input()
                        other.read_to_end()
            else:
                with raw_connection(view, encrypted=False) as connection:
                    with contextlib.suppress(ConnectionError):
                        connection.send(spoilt(rng, _frames(view)))
                    with contextlib.suppress(OSError):
                        connection.sock.shutdown(socket.SHUT_WR)
                    assert b"resume_secret" not in read_to_end(connection)
            done = (number + 1) * steps // NONSENSE_CONNECTIONS
            transfer.run_to(max(1, done) * CHUNK)
        doors.let_go([doors.connect_remote(view).hello(view)])
    report = transfer.finish()
    assert transfer.output == aes.encrypt(text)
    assert report.reconnects == 0
