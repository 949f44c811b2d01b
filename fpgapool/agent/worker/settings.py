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

    :ivar state_dir: directory of the host's pool state.
    :ivar driver_settings: settings of the driver, besides ``state_dir``.
    :ivar chunk_bytes: longest piece of input or output in one frame.
    :ivar window_chunks: chunks that may be on their way in one direction.
    :ivar send_timeout_s: how long a client may take to accept a frame before
        its connection counts as lost.
    :ivar clear_timeout_s: how long a session's core may take to stop when
        the session ends; after that the process ends with it.
    :ivar made_for: identifies its configuration; agents replace a worker that
        they would have started with another value.
    """

    worker_id: str
    device: str
    slot: int = settings.number(0, 4095)
    state_dir: str
    driver: str
    driver_settings: dict[str, typing.Any] = dataclasses.field(
        default_factory=dict
    )
    chunk_bytes: int = settings.number(
        _MIN_CHUNK_BYTES, frames.MAX_DATA_BYTES, default=4 * 1024 * 1024
    )
    # A client delays the acknowledgement of up to a quarter of the window, and
    # a whole chunk needs room besides: a window of one chunk would stall.
    window_chunks: int = settings.number(2, 1024, default=8)
    send_timeout_s: float = 60.0
    clear_timeout_s: float = 10.0
    made_for: str = settings.checked(shapes.text(), default="")

    @property
    def log_name(self) -> str:
        return self.worker_id

    @property
    def window_bytes(self) -> int:
        """Bytes that may be unacknowledged in one direction."""
        return self.chunk_bytes * self.window_chunks


parse = functools.partial(settings.parse, WorkerSettings)
