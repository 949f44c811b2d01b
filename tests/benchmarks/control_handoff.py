# SPDX-License-Identifier: Apache-2.0

"""A slot changes hands: one client closes, the next one's open returns."""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
import time
from collections.abc import Iterator
from collections.abc import Sequence

from fpgapool import client
from fpgapool.vocabulary import states
from tests.benchmarks import bare_rpc
from tests.benchmarks import crowd
from tests.benchmarks import measure
from tests.benchmarks import opener
from tests.benchmarks import servers
from tests.functional.allinone import harness
from tests.harness import cloud as clouds

TITLE = "from acc_close to the next client's acc_open, through one slot"
SERVICES = True
FLOOR = "a call"

_CLIENTS = 8
_PIECE_BYTES = 4096
_ONE_SLOT = ("--hosts=1", "--boards=1", "--slots=1", "--unlimited")
_LIMIT_S = 60


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """Measure a pool with a broker, then one without."""
    host = clouds.HostPlan("board", slots=1)
    with contextlib.ExitStack() as stack:
        cloud = stack.enter_context(servers.running_cloud(host))
        bare = stack.enter_context(bare_rpc.running(cloud.transport_url))
        doors = [
            cloud.hosts["board"].socket_path(project)
            for project in (clouds.PROJECT, clouds.OTHER_PROJECT)
        ]
        yield from _rows(plan, "RabbitMQ, MariaDB", doors, bare)
    with harness.running_pool(*_ONE_SLOT) as pool:
        yield from _rows(plan, "all in one", [pool.front_door()], None)


def _rows(
    plan: measure.Plan,
    where: str,
    doors: Sequence[str],
    bare: bare_rpc.Client | None,
) -> Iterator[measure.Row]:
    count = 4 if plan.tiny else 200
    duration_s = 0.3 if plan.tiny else 6.0
    kinds = {"same project": doors[:1]}
    if len(doors) > 1:
        kinds["another project"] = doors
    for kind, used in kinds.items():
        _hand_over(used, 0 if plan.tiny else count // 4)
        taken, calls = [], []
        for _ in range(plan.repetitions):
            if bare is not None:
                calls.append(opener.timed(bare.call, count).median())
            taken.append(_hand_over(used, count).median())
        yield measure.Row(
            name=f"close until the next open, {kind}, {where}",
            unit=opener.UNIT,
            samples=taken,
            floor=FLOOR if bare else None,
            floor_samples=calls,
        )
    use = functools.partial(_use, doors[0])
    yield measure.Row(
        name=f"sessions with 4 KiB, {_CLIENTS} clients, {where}",
        unit="1/s",
        samples=[
            crowd.act_for(use, _CLIENTS, duration_s)[0]
            for _ in range(plan.repetitions)
        ],
    )


def _use(front_door: str) -> None:
    with client.acc_open(
        "copy", _PIECE_BYTES, front_door=front_door
    ) as session:
        session.run(_PIECE_BYTES)


class _Waiter(threading.Thread):
    """A client that waits for the slot.

    :ivar opened_s: when its open returned, by the monotonic clock.
    """

    def __init__(self, front_door: str) -> None:
        super().__init__()
        self._front_door = front_door
        self._waits = threading.Event()
        self.session: client.Session | None = None
        self.opened_s = 0.0

    def run(self) -> None:
        self.session = client.acc_open(
            "copy",
            _PIECE_BYTES,
            front_door=self._front_door,
            timeout_s=_LIMIT_S,
            on_state=self._note,
        )
        self.opened_s = time.perf_counter()

    def _note(self, view: client.SessionView) -> None:
        # PREPARING: it has the slot next.
        if view.state in (states.QUEUED, states.PREPARING):
            self._waits.set()

    def wait(self) -> None:
        """Return once the session waits."""
        if not self._waits.wait(_LIMIT_S):
            raise RuntimeError("the session is not queued")


def _hand_over(doors: Sequence[str], count: int) -> opener.Times:
    """Let clients have the slot one after the other; the next one waits.

    :param doors: front doors of the clients, in turns.
    """
    turns = itertools.cycle(doors)
    holder = client.acc_open("copy", _PIECE_BYTES, front_door=next(turns))
    each = []
    with measure.stopwatch() as watch:
        for _ in range(count):
            holder.run(_PIECE_BYTES)
            waiter = _Waiter(next(turns))
            waiter.start()
            waiter.wait()
            start_s = time.perf_counter()
            holder.close()
            waiter.join()
            if waiter.session is None:
                raise RuntimeError("the next client got no slot")
            holder = waiter.session
            each.append(1e3 * (waiter.opened_s - start_s))
    holder.close()
    return opener.Times(each, watch.wall_s, watch.cpu_s)
