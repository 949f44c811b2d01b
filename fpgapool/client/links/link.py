# SPDX-License-Identifier: Apache-2.0

"""Connections for data, to a session's worker or a group's desk.

Connecting to a worker or a desk works in the same way, up to HELLO and OPENED.
What follows differs: the stream of a session
(:mod:`fpgapool.client.links.connection`), or the records of a group
(:mod:`fpgapool.client.links.wires`).
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import cast

from fpgapool.client.doors import view as views
from fpgapool.common.channels import channel
from fpgapool.common.channels import tls_channel
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions

#: Time limit for one attempt; a working peer responds within milliseconds.
ATTEMPT_S = 10.0


class Refused(exceptions.CodedError):
    """The peer responded with ERROR, or lacks what this client requires."""


def fastest_first(endpoints: Iterable[Any]) -> list[views.Endpoint]:
    """Sort endpoints: shared memory first, because networks are slower."""
    return [
        views.Endpoint(*one)
        for one in sorted(
            endpoints, key=lambda one: one[0] != views.LOCAL_NETWORK
        )
    ]


def connect(
    endpoint: views.Endpoint,
    certificate_sha256: str | None,
    connect_local: Callable[[], socket.socket],
    deadline_s: float | None,
) -> channel.Channel:
    """Connect to an endpoint.

    :param certificate_sha256: hash of the peer's certificate; None without
        TLS.
    :param connect_local: connects to the peer if it is on this host.
    """
    if endpoint.network == views.LOCAL_NETWORK:
        return channel.PlainChannel(connect_local())
    sock = channel.connect_tcp(endpoint.address, endpoint.port, deadline_s)
    if certificate_sha256 is None:
        return channel.PlainChannel(sock)
    return tls_channel.TlsChannel.connect(sock, certificate_sha256, deadline_s)


def require_tls(what: str) -> Refused:
    """Return the error for a peer without TLS."""
    return Refused(
        codes.TLS_REQUIRED,
        f"{what} does not use TLS ([agent] tls is off there); no data was"
        " sent",
    )


def say_hello(
    data: channel.Channel, hello: dict[str, Any], deadline_s: float | None
) -> None:
    frame = frames.encode_frame(frames.FrameHeader(frames.HELLO), hello)
    data.send(frame, deadline_s=deadline_s)


def shake_hands(
    data: channel.Channel,
    hello: dict[str, Any],
    deadline_s: float | None,
    descriptors: int = 0,
) -> tuple[dict[str, Any], list[int]]:
    """Send HELLO and receive OPENED.

    :raises Refused: if the response is ERROR.
    """
    say_hello(data, hello, deadline_s)
    scratch = bytearray(frames.HEADER_BYTES)
    fds: list[int] = []
    with contextlib.ExitStack() as on_error:
        if descriptors:
            plain = cast(channel.PlainChannel, data)
            fds = plain.recv_exact_with_fds(
                memoryview(scratch), descriptors, deadline_s
            )
            on_error.callback(channel.close_fds, fds)
        else:
            data.recv_small_into(memoryview(scratch), deadline_s)
        header = frames.FrameHeader.unpack_from(
            scratch, max_data_bytes=frames.MAX_JSON_BYTES
        )
        document = frames.decode_json(
            channel.recv_payload(data, header, deadline_s)
        )
        if header.type == frames.ERROR:
            raise _refusal(document)
        if header.type != frames.OPENED:
            raise frames.ProtocolError(
                frames.PROTOCOL_ERROR, "the reply to HELLO is not OPENED"
            )
        on_error.pop_all()
    return document, fds


def _refusal(document: dict[str, Any]) -> Refused | channel.ChannelClosed:
    code = str(document.get("code", codes.PROTOCOL_ERROR))
    message = str(document.get("message", ""))
    if code == codes.HELLO_TIMEOUT:
        # This process was suspended; the peer still works, so try again.
        return channel.ChannelClosed(message)
    return Refused(code, message)
