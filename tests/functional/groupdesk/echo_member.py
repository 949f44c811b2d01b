# SPDX-License-Identifier: Apache-2.0

"""A member of a group that echoes: ``echo_member.py SOCKET SLOT GENERATION``.

The input says what else it does: ``die`` ends the process, ``sleep X`` takes X
seconds, ``fail`` fails, ``count`` returns the number of tasks since the last
CLEAR, ``params`` returns the parameters. Tasks with references go through a
worker's own runner, with the accelerator ``copy``.
"""

from __future__ import annotations

import os
import select
import sys
import time

from fpgapool.accelerators import base as accelerators
from fpgapool.accelerators import copy
from fpgapool.agent.worker import tasks
from fpgapool.agent.worker.data import blocks
from fpgapool.common.channels import channel as channels
from fpgapool.common.channels import rings
from fpgapool.drivers import base
from fpgapool.protocol import frames
from fpgapool.protocol import messages
from fpgapool.protocol import records

CACHE_BYTES = 1_000_000


class Driver:
    """Has one accelerator, which copies."""

    def expect(self, device: str, slot: int, traffic: base.Traffic) -> None:
        return

    def open(self, device: str, slot: int, params: object) -> base.Core:
        return copy.CopyCore({})

    def clear_task(self, device: str, slot: int) -> None:
        return


def _runner() -> tasks.Runner:
    return tasks.Runner(
        Driver(),  # type: ignore[arg-type]
        "board0",
        0,
        accelerators.load_profile("copy"),
        base.Traffic(),
        blocks.BlockCache(CACHE_BYTES),
    )


def main(path: str, slot: int, generation: int) -> None:
    """Serve the desk until it, or the connection, ends."""
    sock = channels.PlainChannel(channels.connect_unix(path))
    who = {"device": "board0", "slot": slot, "generation": generation}
    # An agent says so before it passes the connection on.
    sock.send(messages.encode(who))
    fds = sock.recv_exact_with_fds(memoryview(bytearray(1)), rings.CHANNEL_FDS)
    channel = rings.Channel.attach(fds)
    detail = frames.encode_json(who)
    channel.put(records.header(records.READY, 0, len(detail)), detail)
    poller = select.poll()
    poller.register(channel.fileno(), select.POLLIN)
    poller.register(sock.fileno(), select.POLLIN)
    served = 0
    runner = _runner()
    while True:
        record = channel.get()
        if record is None:
            ready = poller.poll() if channel.arm() else []
            channel.disarm()
            if any(fd == sock.fileno() for fd, _ in ready):
                return
            continue
        task = records.split(record)
        if bytes(task.rest[:32]) == b"forget %d" % slot:
            pass
        elif task.kind == records.TASK:
            served += 1
            channel.put(*_work(task, served))
        elif task.kind == records.BLOCKS_TASK:
            result = runner.run(task, CACHE_BYTES)
            channel.put(
                records.header(
                    result.kind, task.task_id, len(result.detail), 1
                ),
                result.detail,
                result.output,
            )
        elif task.kind == records.SCOPE:
            names = (bytes(one).decode() for one in task[3:])
            runner.use_blocks(*names)
        elif task.kind == records.CLEAR:
            served = 0
            runner.clear(bytes(task.middle).decode())
            channel.put(records.header(records.CLEARED))
        elif task.kind == records.STOP:
            channel.put(records.header(records.LEFT))
            return
        channel.free()


def _work(task: records.Record, served: int) -> tuple[rings.Buffer, ...]:
    words = bytes(task.rest[:32]).split()
    output: rings.Buffer = task.rest
    match words:
        case [b"die", *_]:
            os._exit(1)
        case [b"sleep", seconds, *_]:
            time.sleep(float(seconds))
        case [b"count"]:
            output = str(served).encode()
        case [b"params"]:
            output = task.middle
        case [b"fail"]:
            detail = frames.encode_json(
                {"code": "CORE_FAILED", "message": "x"}
            )
            return (
                records.header(records.FAILED, task.task_id, len(detail), 1),
                detail,
            )
    return records.header(records.DONE, task.task_id, 0, 1_000_000), output


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
