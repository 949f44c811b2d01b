# SPDX-License-Identifier: Apache-2.0

"""Floor of a group: records through rings, by a relay, to echoing workers.

Each part is a process of its own, which the command line of this module
starts: ``relay``, ``echo`` or ``client``, with the numbers of the descriptors
of its channels.
"""

from __future__ import annotations

import collections
import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from collections.abc import Sequence

from fpgapool.common.channels import rings
from fpgapool.protocol import records

#: Tasks of a client that are on their way at once.
WINDOW_TASKS = 256

_FDS = rings.CHANNEL_FDS

Ends = tuple[list[int], list[int]]


class Parts:
    """Processes, and channels between them."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self.pids: list[int] = []

    def __enter__(self) -> Parts:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def channel(self) -> Ends:
        """Make a channel, for two processes.

        :returns: the descriptors of both ends.
        """
        made = rings.Channel.create(records.RING_BYTES)
        self._stack.callback(made.close)
        incoming, outgoing, bell, peers_bell = made.fds
        return made.fds, [outgoing, incoming, peers_bell, bell]

    def start(self, part: str, *arguments: object) -> subprocess.Popen[bytes]:
        """Start a part.

        :param arguments: lists are descriptors that it gets.
        """
        fds = [
            fd for each in arguments if isinstance(each, list) for fd in each
        ]
        words = [
            ",".join(map(str, each)) if isinstance(each, list) else str(each)
            for each in arguments
        ]
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, part, *words],
            pass_fds=fds,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._stack.callback(_end, process)
        self.pids.append(process.pid)
        return process

    def echo(self) -> list[int]:
        """Start a worker that echoes, and return the other end."""
        near, far = self.channel()
        self.start("echo", far)
        return near

    def relay(
        self, clients: int, workers: Sequence[list[int]]
    ) -> list[list[int]]:
        """Start a relay between clients and workers.

        :param workers: its ends of their channels.
        :returns: the clients' ends of theirs.
        """
        pairs = [self.channel() for _ in range(clients)]
        self.start(
            "relay",
            [fd for _, far in pairs for fd in far],
            [fd for near in workers for fd in near],
        )
        return [near for near, _ in pairs]

    def client(self, end: list[int], length_bytes: int) -> Client:
        """Start a client that keeps its window full."""
        return Client(self.start("client", end, length_bytes))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


class Client:
    """A client in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        assert process.stdout is not None
        process.stdout.readline()

    def begin(self, count: int) -> None:
        """Let it run so many tasks."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"%d\n" % count)
        self._process.stdin.flush()

    def wait(self) -> None:
        """Return when it has run them."""
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError("a client has failed")


def open_channel(end: list[int]) -> rings.Channel:
    """Open one end of a channel in this process."""
    return rings.Channel.attach([os.dup(fd) for fd in end])


def run(channel: rings.Channel, data: bytes) -> bytes:
    """Run a task and return its output."""
    channel.put(records.header(records.TASK, 1), data)
    while (record := channel.get()) is None:
        channel.wait()
    output = bytes(record)[records.HEADER_BYTES :]
    channel.free()
    return output


def rate(clients: Sequence[Client], count: int) -> float:
    """Return the tasks per second of all clients together."""
    started_s = time.perf_counter()
    for client in clients:
        client.begin(count)
    for client in clients:
        client.wait()
    return len(clients) * count / (time.perf_counter() - started_s)


# What runs in the processes.


def _channels(text: str) -> list[rings.Channel]:
    fds = [int(word) for word in text.split(",")]
    return [
        rings.Channel.attach(fds[start : start + _FDS])
        for start in range(0, len(fds), _FDS)
    ]


def _echo(channel: rings.Channel) -> None:
    while True:
        record = channel.get()
        if record is None:
            channel.wait()
            continue
        channel.put(record.view())
        channel.free()


def _client(channel: rings.Channel, length_bytes: int) -> None:
    data = bytes(length_bytes)
    tell()
    for line in sys.stdin:
        count = int(line)
        sent = received = 0
        while received < count:
            while sent < min(count, received + WINDOW_TASKS):
                channel.put(records.header(records.TASK, sent), data)
                sent += 1
            if channel.get() is None:
                channel.wait()
                continue
            while channel.get() is not None:
                channel.free()
                received += 1
        tell()


def tell() -> None:
    """Say that a client is done, as :meth:`Client.wait` expects."""
    sys.stdout.write("\n")
    sys.stdout.flush()


def _relay(clients: list[rings.Channel], workers: list[rings.Channel]) -> None:
    everyone = {channel.fileno(): channel for channel in clients + workers}
    poller = select.poll()
    for fd in everyone:
        poller.register(fd, select.POLLIN)
    free = collections.deque(workers)
    served: dict[rings.Channel, rings.Channel] = {}
    while True:
        if _move(clients, free, served):
            continue
        if all(channel.arm() for channel in _awaited(clients, free, served)):
            for fd, _ in poller.poll():
                everyone[fd].disarm()


def _awaited(
    clients: list[rings.Channel],
    free: collections.deque[rings.Channel],
    served: dict[rings.Channel, rings.Channel],
) -> Iterator[rings.Channel]:
    yield from served
    if free:
        yield from clients


def _move(
    clients: list[rings.Channel],
    free: collections.deque[rings.Channel],
    served: dict[rings.Channel, rings.Channel],
) -> bool:
    moved = False
    for worker in list(served):
        record = worker.get()
        if record is not None:
            served.pop(worker).put(record.view())
            worker.free()
            free.append(worker)
            moved = True
    for client in clients:
        if not free:
            break
        record = client.get()
        if record is not None:
            worker = free.popleft()
            worker.put(record.view())
            client.free()
            served[worker] = client
            moved = True
    return moved


def _main(part: str, *arguments: str) -> None:
    match part:
        case "echo":
            _echo(*_channels(arguments[0]))
        case "client":
            _client(*_channels(arguments[0]), int(arguments[1]))
        case "relay":
            _relay(*map(_channels, arguments))


if __name__ == "__main__":
    _main(*sys.argv[1:])
