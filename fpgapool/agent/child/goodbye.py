# SPDX-License-Identifier: Apache-2.0

"""Ends connections so that all data sent before arrives.

A TCP connection that is closed with unread bytes may lose data that it sent.
"""

from __future__ import annotations

import time
import typing

from fpgapool.agent.child import crew
from fpgapool.agent.worker.data import processing
from fpgapool.common.channels import channel as channels
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes

#: How long an ending connection is still read.
LINGER_S = 1.0
_LINGERING = crew.Later(LINGER_S, "linger")

_DROP_BYTES = 64 * 1024


def say(
    channel: channels.Channel,
    code: str,
    message: str,
    offset_bytes: int = 0,
    checkpoint: bytes = b"",
) -> None:
    """Tell a client why its connection ends, and end it without data loss.

    Another thread must be reading the connection; see :func:`drop_rest`.

    :param channel: of the client.
    :param code: stable code; ``OK`` if the client already knows.
    :param message: explanation for people.
    :param offset_bytes: input offset reached so far.
    :param checkpoint: a frame to send before.
    """
    try:
        if code != codes.OK:
            channel.send(
                checkpoint + frames.error_frame(code, message, offset_bytes),
                deadline_s=channels.deadline_after(LINGER_S),
            )
        channel.end_sending()
    except OSError:
        channel.shutdown()
        return
    _LINGERING.call(channel.shutdown)


def closed_frame(
    input_bytes: int, output_bytes: int, started_s: float
) -> bytes:
    """Encode the last frame of a session that its client has closed.

    :param started_s: when it began, monotonic clock.
    """
    return frames.encode_frame(
        frames.FrameHeader(frames.CLOSED),
        {
            "code": codes.OK,
            "input_bytes": input_bytes,
            "output_bytes": output_bytes,
            "run_s": time.monotonic() - started_s,
        },
    )


def drop_rest(channel: channels.Channel) -> None:
    """Read a connection until another thread or the client ends it."""
    buffer = memoryview(bytearray(_DROP_BYTES))
    try:
        while True:
            channel.recv_some_into(buffer)
    except (channels.ChannelClosed, channels.DeadlineExceeded):
        return


def given_up(
    document: dict[str, typing.Any], checksummed: bool, offset_bytes: int
) -> processing.Failure:
    """Say why a client ended its session with ERROR.

    The log leaves out the client's own text: it could contain anything.

    :param document: of the frame.
    :param checksummed: whether the session has checksums.
    :param offset_bytes: input offset in the frame.
    """
    if checksummed and document.get("code") == codes.CHECKSUM_MISMATCH:
        return processing.Failure(
            codes.CHECKSUM_MISMATCH,
            "the client found another checksum than the board, behind input "
            f"offset {offset_bytes}",
        )
    return processing.Failure(codes.CLIENT_GONE, "the client gave up")
