# SPDX-License-Identifier: Apache-2.0

"""Frames, read as both ends of a data connection read them."""

from __future__ import annotations

import socket
import threading
import typing
from collections.abc import Iterable
from collections.abc import Iterator

from fpgapool.common.channels import channel as channels
from fpgapool.protocol import frames


class Frame(typing.NamedTuple):
    """A complete frame.

    :ivar payload: the bytes that followed it on the connection.
    """

    header: frames.FrameHeader
    payload: bytes


def read(
    data: bytes | Iterable[bytes], max_data_bytes: int = frames.MAX_DATA_BYTES
) -> list[Frame]:
    """Read all complete frames of a connection.

    :param data: what comes, at once or in pieces.
    :param max_data_bytes: the longest piece of data.
    :raises frames.ProtocolError: for what is no frame.
    """
    return list(iterate(data, max_data_bytes))


def iterate(
    data: bytes | Iterable[bytes], max_data_bytes: int = frames.MAX_DATA_BYTES
) -> Iterator[Frame]:
    """Do the same frame by frame."""
    pieces = [data] if isinstance(data, bytes) else data
    near, far = socket.socketpair()
    writer = threading.Thread(target=_write, args=(far, pieces))
    writer.start()
    channel = channels.PlainChannel(near)
    scratch = bytearray(frames.HEADER_BYTES)
    try:
        while True:
            header = channels.recv_header(
                channel, scratch, max_data_bytes=max_data_bytes
            )
            payload = channels.recv_payload(channel, header)
            yield Frame(header, bytes(payload))
    except channels.ChannelClosed:
        return
    finally:
        # Wakes the writer, should nothing more be read.
        channel.close()
        writer.join()


def _write(sock: socket.socket, pieces: Iterable[bytes]) -> None:
    with sock:
        for piece in pieces:
            try:
                sock.sendall(piece)
            except OSError:
                return
