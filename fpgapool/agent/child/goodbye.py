# SPDX-License-Identifier: Apache-2.0

"""Closes connections without losing data that was sent.

A TCP connection that is closed with unread bytes may lose data that it sent.
"""

from __future__ import annotations

from fpgapool.agent.child import crew
from fpgapool.common.channels import channel as channels
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes

#: How long a closing connection is still read.
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
    """Send a client the reason for the end of its connection, and close it
    without data loss.

    Another thread must be reading the connection; see :func:`drop_rest`.

    :param code: stable code; ``OK`` if the client already knows.
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


def drop_rest(channel: channels.Channel) -> None:
    """Read a connection until another thread or the client ends it."""
    buffer = memoryview(bytearray(_DROP_BYTES))
    try:
        while True:
            channel.recv_some_into(buffer)
    except (channels.ChannelClosed, channels.DeadlineExceeded):
        return
