# SPDX-License-Identifier: Apache-2.0

"""Channels over real socket pairs."""

import contextlib
import datetime
import hashlib
import os
import random
import socket
import ssl
import threading
import time
from concurrent import futures

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fpgapool.common.channels import channel
from fpgapool.common.channels import tls_channel
from fpgapool.protocol import frames
from tests.harness import listener as listeners

LARGE_BYTES = 3_000_000


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Server context and the SHA-256 of its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding
    path = tmp_path_factory.mktemp("tls") / "pem"
    path.write_bytes(
        key.private_bytes(
            encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    digest = hashlib.sha256(made.public_bytes(encoding.DER)).hexdigest()
    return context, digest


def _tls_pair(certificate, left, right):
    context, digest = certificate
    accepted = []
    thread = threading.Thread(
        target=lambda: accepted.append(
            tls_channel.TlsChannel.accept(left, context)
        )
    )
    thread.start()
    connected = tls_channel.TlsChannel.connect(right, digest)
    thread.join()
    return accepted[0], connected


@pytest.fixture(params=["plain", "tls"])
def pair(request, certificate):
    """Two connected channels."""
    left, right = socket.socketpair()
    if request.param == "plain":
        ends = channel.PlainChannel(left), channel.PlainChannel(right)
    else:
        ends = _tls_pair(certificate, left, right)
    yield ends
    for end in ends:
        end.close()


def _receive(end, length_bytes, deadline_s=None):
    buffer = memoryview(bytearray(length_bytes))
    end.recv_exact_into(buffer, deadline_s)
    return bytes(buffer)


def _send_much(end, **options):
    for _ in range(100):
        end.send(bytes(LARGE_BYTES), **options)


@pytest.mark.parametrize("deadline_s", [None, 1e12])
def test_large_data_in_both_directions_at_once(pair, deadline_s):
    data = random.Random(1).randbytes(LARGE_BYTES)
    threads = [
        threading.Thread(
            target=end.send,
            args=(data[:7], b"", data[7:]),
            kwargs={"deadline_s": deadline_s},
        )
        for end in pair
    ]
    for thread in threads:
        thread.start()
    received = []
    readers = [
        threading.Thread(
            target=lambda end=end: received.append(
                _receive(end, LARGE_BYTES, deadline_s)
            )
        )
        for end in pair
    ]
    for thread in readers:
        thread.start()
    for thread in threads + readers:
        thread.join()
    assert received == [data, data]


def test_a_long_piece_is_encrypted_in_parts(certificate, monkeypatch):
    """The other direction, which needs the same lock, comes in between."""
    left, right = _tls_pair(certificate, *socket.socketpair())
    sent = []
    monkeypatch.setattr(
        left, "_send_raw", lambda part, deadline_s: sent.append(len(part))
    )
    left.send(bytes(LARGE_BYTES))
    assert sum(sent) > LARGE_BYTES
    assert max(sent) < 80_000
    for end in (left, right):
        end.close()


def test_senders_do_not_mix(pair):
    left, right = pair
    threads = [
        threading.Thread(
            target=left.send,
            args=(bytes([number]) * 100_000, bytes([number]) * 100_000),
        )
        for number in range(6)
    ]
    for thread in threads:
        thread.start()
    blocks = [_receive(right, 200_000) for _ in threads]
    for thread in threads:
        thread.join()
    assert sorted(blocks) == [bytes([n]) * 200_000 for n in range(6)]


def test_shutdown_wakes_a_reader(pair):
    left, _ = pair
    started = threading.Event()
    failures = []

    def read():
        started.set()
        try:
            _receive(left, 1)
        except channel.ChannelClosed as exc:
            failures.append(exc)

    thread = threading.Thread(target=read)
    thread.start()
    started.wait()
    left.shutdown()
    thread.join()
    assert len(failures) == 1


def test_shutdown_wakes_a_writer(pair):
    left, right = pair
    failures = []

    def write():
        try:
            while True:
                left.send(bytes(LARGE_BYTES))
        except channel.ChannelClosed as exc:
            failures.append(exc)

    thread = threading.Thread(target=write)
    thread.start()
    _receive(right, 1)
    left.shutdown()
    thread.join()
    assert len(failures) == 1


def test_peer_that_goes_away(pair):
    left, right = pair
    right.send(b"abc")
    right.close()
    with pytest.raises(channel.ChannelClosed):
        _receive(left, 4)
    with pytest.raises(channel.ChannelClosed):
        _send_much(left)


def test_deadlines(pair):
    left, _ = pair
    with pytest.raises(channel.DeadlineExceeded):
        _receive(left, 1, time.monotonic() + 0.02)
    with pytest.raises(channel.DeadlineExceeded):
        _send_much(left, deadline_s=channel.deadline_after(0.02))


def test_closed_channel(pair):
    left, _ = pair
    left.close()
    left.close()
    for deadline_s in (None, time.monotonic() + 9):
        with pytest.raises(channel.ChannelClosed):
            _receive(left, 1, deadline_s)


def test_frames_over_a_channel(pair):
    left, right = pair
    header = frames.FrameHeader(frames.INPUT, payload_length_bytes=3)
    left.send(header.pack(), memoryview(b"abc"))
    left.send(frames.FrameHeader(frames.ACK).pack())
    scratch = bytearray(frames.HEADER_BYTES)
    assert channel.recv_header(right, scratch) == header
    assert channel.recv_payload(right, header) == b"abc"
    last = channel.recv_header(right, scratch)
    assert last.type == frames.ACK
    assert channel.recv_payload(right, last) == b""


def test_limit_of_data_is_the_callers(pair):
    left, right = pair
    left.send(frames.FrameHeader(frames.INPUT, payload_length_bytes=9).pack())
    with pytest.raises(frames.ProtocolError):
        channel.recv_header(right, bytearray(32), max_data_bytes=8)


def test_wrong_certificate(certificate):
    context, digest = certificate
    left, right = socket.socketpair()

    def accept():
        with contextlib.suppress(channel.ChannelClosed):
            _receive(tls_channel.TlsChannel.accept(left, context), 1)

    thread = threading.Thread(target=accept)
    thread.start()
    wrong = digest[:-1] + ("0" if digest[-1] != "0" else "1")
    with pytest.raises(tls_channel.PinMismatch):
        tls_channel.TlsChannel.connect(right, wrong)
    assert right.fileno() == -1
    thread.join()
    left.close()


def test_handshake_with_something_else(certificate):
    left, right = socket.socketpair()
    with left:
        left.sendall(b"SSH-2.0-no\r\n" * 100)
        with pytest.raises(channel.ChannelClosed):
            tls_channel.TlsChannel.connect(right, certificate[1])


def test_handshake_deadline(certificate):
    left, right = socket.socketpair()
    with left, pytest.raises(channel.DeadlineExceeded):
        tls_channel.TlsChannel.connect(
            right, certificate[1], channel.deadline_after(0.02)
        )


@pytest.fixture
def unix_pair():
    """Two connected plain channels."""
    left, right = socket.socketpair()
    ends = channel.PlainChannel(left), channel.PlainChannel(right)
    yield ends
    for end in ends:
        end.close()


def test_descriptors_travel_with_bytes(unix_pair):
    left, right = unix_pair
    reading, writing = os.pipe()
    left.send_with_fds(b"abcdef", [reading, writing])
    buffer = bytearray(6)
    fds = right.recv_exact_with_fds(memoryview(buffer), 2)
    assert buffer == b"abcdef"
    os.write(fds[1], b"x")
    assert os.read(reading, 1) == b"x"
    assert not os.get_inheritable(fds[0])
    channel.close_fds([*fds, reading, writing, 10**6])


def test_unexpected_descriptors_are_closed(unix_pair):
    left, right = unix_pair
    before = len(os.listdir("/proc/self/fd"))
    left.send_with_fds(b"abc", [0, 0, 0, 0, 0])
    with pytest.raises(channel.ChannelClosed):
        right.recv_exact_with_fds(memoryview(bytearray(3)), 1)
    assert len(os.listdir("/proc/self/fd")) == before


def test_large_message_with_descriptor(unix_pair):
    left, right = unix_pair
    data = random.Random(2).randbytes(LARGE_BYTES)
    thread = threading.Thread(target=left.send_with_fds, args=(data, [0]))
    thread.start()
    buffer = bytearray(LARGE_BYTES)
    channel.close_fds(right.recv_exact_with_fds(memoryview(buffer), 1))
    thread.join()
    assert buffer == data


def test_connecting(tmp_path):
    path = tmp_path / "socket"
    with pytest.raises(channel.ChannelClosed):
        channel.connect_unix(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        channel.connect_unix(path, channel.deadline_after(9)).close()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        sock = channel.connect_tcp("127.0.0.1", port)
        with sock:
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        with pytest.raises(channel.DeadlineExceeded):
            channel.connect_tcp("127.0.0.1", port, time.monotonic() - 1)
    with pytest.raises(channel.ChannelClosed):
        channel.connect_tcp("127.0.0.1", port)


@pytest.fixture
def full_backlog(tmp_path):
    """Give a listener that has no room for anybody."""
    with listeners.listening(str(tmp_path / "full")) as listener:
        listener.fill()
        yield listener


def test_a_deadline_that_has_passed_is_not_for_ever(full_backlog):
    connecting = futures.Future()

    def connect():
        try:
            channel.connect_unix(full_backlog.path, time.monotonic() - 1)
        except channel.DeadlineExceeded as error:
            connecting.set_result(error)

    threading.Thread(target=connect, daemon=True).start()
    assert connecting.result(30)


def test_a_full_backlog_is_waited_for(full_backlog):
    def pause(_seconds):
        full_backlog.accept()

    deadline_s = channel.deadline_after(300)
    channel.connect_unix(full_backlog.path, deadline_s, pause).close()


def test_a_full_backlog_is_tried_less_and_less(full_backlog):
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 9:
            full_backlog.accept()

    channel.connect_unix(full_backlog.path, None, pause).close()
    assert sum(pauses[:4]) < 1
    assert pauses == sorted(pauses)
    assert pauses[-2:] == [1.0, 1.0]


def test_waiting_for_a_full_backlog_can_be_given_up(full_backlog):
    def pause(_seconds):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        channel.connect_unix(full_backlog.path, None, pause)
