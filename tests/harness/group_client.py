# SPDX-License-Identifier: Apache-2.0

"""A program that streams tasks through a group, and checks each result.

Run as ``python -m tests.harness.group_client SETTINGS``, with the JSON of
:class:`Settings`. It says ``ready`` when each thread has had a result, streams
until its standard input ends, and then tells in a line of JSON what became of
its tasks: see :class:`Outcome`. The group's accelerator is that of
:mod:`tests.harness.stamps`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import random
import sys
import threading
import traceback
import typing

from fpgapool import client
from fpgapool.vocabulary import codes
from tests.harness import stamps

#: Longer than all that faults cost.
PATIENCE_S = 240.0
WINDOW_TASKS = 8
_LOCKED_TASKS = 5

#: How long tasks take, in ms.
_TIMES_MS = (0, 0, 1, 1, 2, 3, 5, 8)
_LARGEST_EXPONENT = 14.0
#: Of tasks that a desk does not keep.
_LONG_BYTES = 150_000
_LONG_SHARE = 0.01


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the program is told.

    :ivar stamps_path: of the file that gets the stamps of all results.
    """

    url: str
    token: str
    group: str
    seed: int
    stamps_path: str
    threads: int = 2
    locks: int = 0


@dataclasses.dataclass
class Outcome:
    """What became of the tasks.

    :ivar ended: results, each time one comes.
    :ivar locks: how many were held to their end.
    """

    sent: int = 0
    ended: int = 0
    locks: int = 0
    problems: list[str] = dataclasses.field(default_factory=list)


def api(url: str, token: str) -> client.PoolApi:
    """Return an API that knows projects by their tokens alone."""
    from keystoneauth1 import adapter
    from keystoneauth1 import session
    from keystoneauth1 import token_endpoint

    endpoint = f"{url}/v1"
    return client.PoolApi(
        adapter.Adapter(
            session.Session(auth=token_endpoint.Token(endpoint, token)),
            service_type="fpgapool",
            endpoint_override=endpoint,
        )
    )


class Program:
    """The program."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._outcome = Outcome()
        self._started = threading.Barrier(settings.threads + 1)
        self._stamps_fd = os.open(
            settings.stamps_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND
        )

    def run(self) -> None:
        """Stream until standard input ends."""
        threading.excepthook = self._raised
        threads = [
            threading.Thread(target=self._client, args=(number,))
            for number in range(self._settings.threads)
        ]
        for thread in threads:
            thread.start()
        with contextlib.suppress(threading.BrokenBarrierError):
            self._started.wait(PATIENCE_S)
        say("ready")
        sys.stdin.read()
        self._stopping.set()
        for thread in threads:
            thread.join()
        say(json.dumps(dataclasses.asdict(self._outcome)))

    def _raised(self, hooked: threading.ExceptHookArgs) -> None:
        self._problem("".join(traceback.format_exception(hooked.exc_value)))

    def _problem(self, text: str) -> None:
        with self._lock:
            self._outcome.problems.append(text)

    def _client(self, number: int) -> None:
        settings = self._settings
        rng = random.Random(f"{settings.seed} {number}")
        opened = client.group_open(
            settings.group,
            front_door=api(settings.url, settings.token),
            window_tasks=WINDOW_TASKS,
            timeout_s=PATIENCE_S,
        )
        try:
            self._run(opened, rng)
            self._started.wait(PATIENCE_S)
            if number < settings.locks:
                self._use_locks(opened, rng)
            else:
                self._stream(opened, rng)
        finally:
            opened.close(timeout_s=PATIENCE_S)

    def _stream(self, opened: client.Group, rng: random.Random) -> None:
        room = threading.Semaphore(WINDOW_TASKS)
        while not self._stopping.is_set():
            if not room.acquire(timeout=PATIENCE_S):
                self._problem("no result comes any more")
                return
            data = _data(rng)
            self._count(sent=1)
            future = opened.submit(data)
            future.add_done_callback(
                functools.partial(self._ended, data, room)
            )

    def _ended(
        self, data: bytes, room: threading.Semaphore, future: typing.Any
    ) -> None:
        error = future.exception()
        if error is not None:
            self._count(ended=1)
            self._problem(f"a task has failed: {error}")
        else:
            self._check(data, future.result())
        room.release()

    def _run(self, opened: client.Group, rng: random.Random) -> stamps.Stamp:
        data = _data(rng)
        output = opened.run(data, timeout_s=PATIENCE_S)
        # Not before: a task may be lost with its lock.
        self._count(sent=1)
        return self._check(data, output)

    def _use_locks(self, opened: client.Group, rng: random.Random) -> None:
        """Within a lock one core has all tasks, unless the lock is lost."""
        while not self._stopping.is_set():
            try:
                with opened.lock(timeout_s=PATIENCE_S):
                    counts = [
                        self._run(opened, rng).count
                        for _ in range(_LOCKED_TASKS)
                    ]
            except client.TaskFailed as error:
                if error.code not in (codes.LOCK_LOST, codes.LOCK_LIMIT):
                    raise
                self._stopping.wait(0.02)
                continue
            self._count(locks=1)
            first = counts[0]
            if counts != list(range(first, first + _LOCKED_TASKS)):
                self._problem(f"tasks of a lock were counted as {counts}")

    def _count(self, **members: int) -> None:
        with self._lock:
            for name, count in members.items():
                setattr(
                    self._outcome, name, getattr(self._outcome, name) + count
                )

    def _check(self, data: bytes, output: bytes) -> stamps.Stamp:
        self._count(ended=1)
        stamp, changed = stamps.read(output)
        if changed != data.translate(stamps.CHANGED):
            self._problem(f"a wrong result: {stamp}")
        os.write(self._stamps_fd, stamps.LAYOUT.pack(*stamp))
        return stamp


def _data(rng: random.Random) -> bytes:
    size_bytes = int(2 ** rng.uniform(0.0, _LARGEST_EXPONENT))
    if rng.random() < _LONG_SHARE:
        size_bytes = _LONG_BYTES
    return bytes([rng.choice(_TIMES_MS)]) + rng.randbytes(size_bytes)


def say(line: str) -> None:
    """Tell the outside."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    Program(Settings(**json.loads(sys.argv[1]))).run()
