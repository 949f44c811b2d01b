# SPDX-License-Identifier: Apache-2.0

"""The settings of a worker process."""

from __future__ import annotations

import dataclasses
import functools
import typing

from fpgapool.agent.child import settings
from fpgapool.protocol import frames
from fpgapool.vocabulary import shapes

_MIN_CHUNK_BYTES = 4096


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings(settings.ChildSettings):
    """The settings of a worker.

    :ivar state_dir: directory with the pool's state on this host.
    :ivar own_dir: directory where the agent places the slot's bitstream.
    :ivar driver_settings: settings of the driver in addition to ``state_dir``.
    :ivar chunk_bytes: maximum size of a piece of input or output in a frame.
    :ivar window_chunks: maximum number of chunks in flight in one direction.
    :ivar send_timeout_s: time in which a client must accept a frame before its
        connection is considered lost.
    :ivar clear_timeout_s: time in which a session's core must stop when the
        session ends; after that, the process exits.
    :ivar made_for: digest of the configuration; an agent replaces a worker
        whose digest is outdated.
    """

    worker_id: str
    device: str
    slot: int = settings.number(0, 4095)
    state_dir: str
    own_dir: str = ""
    driver: str
    driver_settings: dict[str, typing.Any] = dataclasses.field(
        default_factory=dict
    )
    chunk_bytes: int = settings.number(
        _MIN_CHUNK_BYTES, frames.MAX_DATA_BYTES, default=4 * 1024 * 1024
    )
    # A client may delay the acknowledgement of a quarter of the window, and
    # there must also be room for a whole chunk. So with a window of one chunk,
    # sessions would stall.
    window_chunks: int = settings.number(2, 1024, default=8)
    send_timeout_s: float = 60.0
    clear_timeout_s: float = 10.0
    made_for: str = settings.checked(shapes.text(), default="")

    @property
    def log_name(self) -> str:
        return self.worker_id

    @property
    def window_bytes(self) -> int:
        """Number of bytes that may be unacknowledged in one direction."""
        return self.chunk_bytes * self.window_chunks


parse = functools.partial(settings.parse, WorkerSettings)
