# SPDX-License-Identifier: Apache-2.0

"""An accelerator whose stages take a known time: its core, and its link."""

from __future__ import annotations

import collections.abc
import contextlib
import os
import pathlib
import socket
import time
import typing

from fpgapool import client
from fpgapool.accelerators import base

NAME = "stages"
_PROFILE = f"""
name: {NAME}
description: For benchmarks
peak_bytes_per_s: 1.0e+12
return_ratio: 1
stateless: true
shapes: []
params_schema:
  type: object
core: {__name__}:StagesCore
chunk_multiple_bytes: 1
"""

#: Linux's number; Python has no name for it.
_SO_MAX_PACING_RATE = 47
#: More than a worker has.
_MOST_FDS = 128


def write_profile(directory: pathlib.Path) -> None:
    """Let processes know it that have this directory of profiles."""
    (directory / f"{NAME}.yaml").write_text(_PROFILE)


class StagesCore(base.Core):
    """Has output as long as its input.

    Parameters: ``piece_s``, which it takes for a piece, without the processor;
    ``into_bytes``: output for a piece of one byte; ``is_sink``: there is no
    output; ``link_bytes_per_s``: what this process sends through TCP, at most.
    """

    def __init__(
        self, params: collections.abc.Mapping[str, typing.Any]
    ) -> None:
        self._piece_s = params.get("piece_s", 0.0)
        self._into_bytes = params.get("into_bytes", 1)
        self._is_sink = params.get("is_sink", False)
        self._link_bytes_per_s = params.get("link_bytes_per_s", 0)

    def max_output_bytes(self, input_bytes: int) -> int:
        if self._is_sink or not input_bytes:
            return 0
        return self._into_bytes if input_bytes == 1 else input_bytes

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        if self._link_bytes_per_s:
            # The client has connected by now.
            _limit_all(self._link_bytes_per_s)
            self._link_bytes_per_s = 0
        time.sleep(self._piece_s)
        return self.max_output_bytes(len(chunk_in))


class Link(client.CancelToken):
    """Limits what sessions send through TCP.

    :param bytes_per_s: most of a session.
    """

    def __init__(self, bytes_per_s: int) -> None:
        super().__init__()
        self._bytes_per_s = bytes_per_s

    def attach(self, attached: typing.Any) -> None:
        super().attach(attached)
        sock = getattr(attached, "sock", None)
        if sock is not None and sock.family == socket.AF_INET:
            _limit(sock, self._bytes_per_s)


def _limit_all(bytes_per_s: int) -> None:
    for fd in range(3, _MOST_FDS):
        # Some are no sockets, and some are closed.
        with contextlib.suppress(OSError):
            with socket.socket(fileno=os.dup(fd)) as sock:
                if sock.family == socket.AF_INET:
                    _limit(sock, bytes_per_s)


def _limit(sock: socket.socket, bytes_per_s: int) -> None:
    sock.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, bytes_per_s)
