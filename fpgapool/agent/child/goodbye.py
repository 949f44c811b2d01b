# SPDX-License-Identifier: Apache-2.0

"""Closes connections without losing data that was already sent.

If a TCP connection is closed while received bytes are unread, the kernel
resets it, and data in flight to the other end may be lost.
"""

from __future__ import annotations

from fpgapool.agent.child import crew
from fpgapool.common.channels import channel as channels
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes

#: How long a connection is still read before it is closed.
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
    """Tell a client why its connection ends, and close it without data loss.

    Another thread must be reading the connection; see :func:`drop_rest`.

    :param code: error code; ``OK`` if the client needs no reason.
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
