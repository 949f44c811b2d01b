# SPDX-License-Identifier: Apache-2.0

"""Runs a daemon of the pool in a world with faults.

``python -m tests.chaos.faulty MODULE ARGUMENTS`` runs the module's ``main``.
The file that the variable ``FPGAPOOL_TESTS_FAULTS`` names says what is wrong
at the moment, see :class:`Faults`; without it nothing is. At SIGUSR1 the
daemon collects its garbage: broken connections of py-amqp are cycles, whose
sockets Python may keep for minutes, and are no leak.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib
import json
import os
import pathlib
import random
import signal
import sys
import threading
import time
import typing

VARIABLE = "FPGAPOOL_TESTS_FAULTS"
COLLECT = signal.SIGUSR1
_READ_INTERVAL_S = 0.2


@dataclasses.dataclass(frozen=True)
class Faults:
    """What is wrong.

    :ivar doubled: probability that a message is sent twice.
    :ivar delayed: … that one is sent late, and so after others.
    :ivar lost: … that one that nobody awaits an answer to is not sent.
    :ivar clock_s: how much the wall clock is wrong.
    :ivar seed: of chance; every daemon has its own by its directory's name.
    """

    doubled: float = 0.0
    delayed: float = 0.0
    lost: float = 0.0
    delay_s: float = 0.0
    clock_s: float = 0.0
    seed: int = 0

    def write(self, path: pathlib.Path) -> None:
        """Put them in force."""
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(dataclasses.asdict(self)))
        fresh.replace(path)


class Surroundings:
    """Knows what is wrong now.

    :ivar rng: chance, from the beginning whenever something else is wrong.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._read_s = float("-inf")
        self._put_in_force(Faults())

    @property
    def faults(self) -> Faults:
        """What is wrong."""
        now_s = time.monotonic()
        if now_s - self._read_s > _READ_INTERVAL_S:
            self._read_s = now_s
            faults = self._read()
            if faults != self._faults:
                self._put_in_force(faults)
        return self._faults

    def _read(self) -> Faults:
        try:
            return Faults(**json.loads(self._path.read_text()))
        except FileNotFoundError:
            return Faults()

    def _put_in_force(self, faults: Faults) -> None:
        self._faults = faults
        self.rng = random.Random(f"{faults.seed} {self._path.parent.name}")


class Client:
    """An RPC client on a bad network."""

    def __init__(self, client: typing.Any, world: Surroundings) -> None:
        self._client = client
        self._world = world

    def prepare(self, **options: typing.Any) -> Client:
        """Return one for another target."""
        return Client(self._client.prepare(**options), self._world)

    def cast(self, ctxt: object, method: str, **kwargs: object) -> None:
        """Send a message as often as chance says, now or later."""
        faults = self._world.faults
        if self._world.rng.random() < faults.lost:
            return
        for _ in range(1 + (self._world.rng.random() < faults.doubled)):
            if self._world.rng.random() < faults.delayed:
                self._cast_late(faults.delay_s, ctxt, method, kwargs)
            else:
                self._client.cast(ctxt, method, **kwargs)

    def call(self, ctxt: object, method: str, **kwargs: object) -> object:
        """Send a question once or twice, now or later."""
        faults = self._world.faults
        if self._world.rng.random() < faults.doubled:
            self._cast_late(faults.delay_s, ctxt, method, kwargs)
        if self._world.rng.random() < faults.delayed:
            threading.Event().wait(self._world.rng.uniform(0, faults.delay_s))
        return self._client.call(ctxt, method, **kwargs)

    def _cast_late(
        self,
        delay_s: float,
        ctxt: object,
        method: str,
        kwargs: dict[str, object],
    ) -> None:
        timer = threading.Timer(
            self._world.rng.uniform(0, delay_s),
            self._try_to_cast,
            (ctxt, method, kwargs),
        )
        timer.daemon = True
        timer.start()

    def _try_to_cast(
        self, ctxt: object, method: str, kwargs: dict[str, object]
    ) -> None:
        import oslo_messaging

        try:
            self._client.cast(ctxt, method, **kwargs)
        except (OSError, oslo_messaging.MessagingException):
            # Lost on its way; whoever sent it thinks that it has arrived.
            return


def main() -> int:
    """Run what the command line names."""
    signal.signal(COLLECT, lambda *_: gc.collect())
    world = Surroundings(pathlib.Path(os.environ[VARIABLE]))
    right_time = time.time
    # Before anything else is imported: defaults of arguments remember it.
    time.time = lambda: right_time() + world.faults.clock_s

    import oslo_messaging

    right_client = oslo_messaging.get_rpc_client

    def get_rpc_client(*args: object, **options: object) -> Client:
        return Client(right_client(*args, **options), world)

    oslo_messaging.get_rpc_client = get_rpc_client
    module = sys.argv.pop(1)
    return int(importlib.import_module(module).main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
