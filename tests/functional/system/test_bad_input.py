# SPDX-License-Identifier: Apache-2.0

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
from fpgapool.common.channels import channel
from fpgapool.common.channels import tls_channel
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


# The front door, without the library's checks.


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


@contextlib.contextmanager
def raw_connection(
    view: dict, *, encrypted: bool
) -> Iterator[channel.Channel]:
    """Connect to a worker's data port."""
    sock = channel.connect_tcp(*doors.data_endpoint(view))
    data = (
        tls_channel.TlsChannel.connect(sock, view["certificate_sha256"])
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
            wire.frame(frames.HELLO, hello),
            b"\x16\x03\x01\xff\xff" + rng.randbytes(100),
            *(rng.randbytes(rng.randrange(100, 2000)) for _ in range(10)),
        ):
            with raw_connection(view, encrypted=False) as connection:
                with contextlib.suppress(ConnectionError):
                    connection.send(data)
                assert b"resume_secret" not in read_to_end(connection)
        doors.let_go([doors.connect_remote(view).hello(view)])


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
        wire.frame(frames.HELLO, json.dumps(hello).encode()),
        wire.frame(frames.INPUT, b"data"),
        wire.frame(frames.ACK, offset_bytes=4),
        wire.frame(frames.PING),
        wire.frame(200, b"of a later version"),
        wire.frame(frames.CLOSE),
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
