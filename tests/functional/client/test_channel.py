# SPDX-License-Identifier: Apache-2.0

"""Byte channels over real sockets."""

import concurrent.futures
import contextlib
import random
import socket

import pytest

from fpgapool.agent.child import certificate
from fpgapool.common.channels import channel
from fpgapool.common.channels import tls_channel
from fpgapool.protocol import frames

TIMEOUT_S = 60
# More than any buffer on the way.
LONG_BYTES = 20 * 2**20


@contextlib.contextmanager
def _closing(*channels):
    yield channels
    for each in channels:
        each.close()


def _plain_pair():
    return tuple(map(channel.PlainChannel, socket.socketpair()))


def _tls_pair():
    made = certificate.Certificate()
    here, there = socket.socketpair()
    with concurrent.futures.ThreadPoolExecutor() as threads:
        server = threads.submit(
            tls_channel.TlsChannel.accept, there, made.context()
        )
        client = tls_channel.TlsChannel.connect(here, made.sha256())
        return client, server.result(TIMEOUT_S)


@pytest.fixture(params=[_plain_pair, _tls_pair])
def pair(request):
    with _closing(*request.param()) as made:
        yield made


def _frame(payload):
    header = frames.FrameHeader(
        frames.INPUT, payload_length_bytes=len(payload)
    )
    return header.pack(), payload


def _recv_payload(one, deadline_s=None):
    header = channel.recv_header(
        one, bytearray(frames.HEADER_BYTES), deadline_s=deadline_s
    )
    return bytes(channel.recv_payload(one, header, deadline_s))


def _send_all(one, payloads, deadline_s):
    for payload in payloads:
        one.send(*_frame(payload), deadline_s=deadline_s)


def _recv_all(one, count, deadline_s):
    return [_recv_payload(one, deadline_s) for _ in range(count)]


@pytest.mark.parametrize("timeout_s", [None, TIMEOUT_S])
def test_both_directions_at_once(pair, timeout_s):
    chooser = random.Random(1)
    deadline_s = channel.deadline_after(timeout_s)
    sizes = [0, 1, 16384, 16385, 2**18 - 32, 2**18, LONG_BYTES]
    sizes += [chooser.randrange(100_000) for _ in range(100)]
    payloads = []
    for _ in pair:
        chooser.shuffle(sizes)
        payloads.append([chooser.randbytes(size) for size in sizes])
    with concurrent.futures.ThreadPoolExecutor() as threads:
        sent = [
            threads.submit(_send_all, one, each, deadline_s)
            for one, each in zip(pair, payloads, strict=True)
        ]
        received = [
            threads.submit(_recv_all, one, len(sizes), deadline_s)
            for one in pair
        ]
        for each in sent:
            each.result(TIMEOUT_S)
        assert received[0].result(TIMEOUT_S) == payloads[1]
        assert received[1].result(TIMEOUT_S) == payloads[0]


def test_sends_of_threads_do_not_mix(pair):
    here, there = pair
    payloads = [bytes([number]) * 50_000 for number in range(4)]
    with concurrent.futures.ThreadPoolExecutor() as threads:
        for payload in payloads:
            threads.submit(_send_all, here, [payload] * 20, None)
        received = _recv_all(there, 80, channel.deadline_after(TIMEOUT_S))
    assert sorted(received) == sorted(payloads * 20)


def test_what_came_with_a_header_is_kept(pair):
    here, there = pair
    here.send(*_frame(b"first"), *_frame(b"second"), b"the rest")
    assert _recv_payload(there) == b"first"
    assert _recv_payload(there) == b"second"
    place = bytearray(100)
    received_bytes = there.recv_some_into(memoryview(place))
    assert place[:received_bytes] == b"the rest"


def test_end_of_the_stream(pair):
    here, there = pair
    here.send(*_frame(b"last"))
    here.close()
    assert _recv_payload(there) == b"last"
    with pytest.raises(channel.ChannelClosed):
        _recv_payload(there)


def test_deadlines(pair):
    here, _there = pair
    with pytest.raises(channel.DeadlineExceeded):
        _recv_payload(here, channel.deadline_after(0.01))
    with pytest.raises(channel.DeadlineExceeded):
        here.send(bytes(LONG_BYTES), deadline_s=channel.deadline_after(0.01))


def test_shutdown_wakes_a_receiver(pair):
    here, _there = pair
    with concurrent.futures.ThreadPoolExecutor() as threads:
        waiting = threads.submit(_recv_payload, here)
        here.shutdown()
        with pytest.raises(channel.ChannelClosed):
            waiting.result(TIMEOUT_S)


def test_another_certificate_than_promised():
    here, there = socket.socketpair()
    with there, concurrent.futures.ThreadPoolExecutor() as threads:
        server = threads.submit(
            tls_channel.TlsChannel.accept,
            there,
            certificate.Certificate().context(),
        )
        with pytest.raises(tls_channel.PinMismatch):
            tls_channel.TlsChannel.connect(here, "00" * 32)
        # It may still have had something to say.
        with contextlib.suppress(channel.ChannelClosed):
            server.result(TIMEOUT_S).close()


def test_records_that_were_changed_on_their_way():
    with _closing(*_tls_pair()) as (here, there):
        # Not encrypted with the key of the connection.
        here.sock.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        with pytest.raises(channel.ChannelClosed):
            _recv_payload(there)


def test_no_tls_at_all():
    here, there = socket.socketpair()
    with here:
        here.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(channel.ChannelClosed):
            tls_channel.TlsChannel.accept(
                there, certificate.Certificate().context()
            )
