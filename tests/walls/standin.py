# SPDX-License-Identifier: Apache-2.0

"""An agent whose only part is one worker, which outlives it."""

from __future__ import annotations

import os
import pathlib
import signal

from fpgapool.agent.child import memory
from fpgapool.agent.supervision import cgroups

HOST = "host"
WORKER = "worker-board0.0"
LIMIT_BYTES = 100 * 2**20


def main() -> None:
    groups = cgroups.Cgroups(HOST)
    groups.start()
    path = groups.path(WORKER)
    assert path is not None, groups.missing()
    groups.make(WORKER, cgroups.Limits(memory_bytes=LIMIT_BYTES))
    if not pathlib.Path(path, "cgroup.procs").read_text() and not os.fork():
        memory.enter(path)
        os.setsid()
    signal.signal(signal.SIGHUP, lambda *_: None)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
