# SPDX-License-Identifier: Apache-2.0

"""The faults: how each begins, and how it ends."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import signal
from collections.abc import Callable

from tests.chaos import crowd as crowds
from tests.chaos import faulty
from tests.chaos import pool as pools
from tests.chaos import relay as relays
from tests.harness import cloud as clouds
from tests.harness import processes
from tests.services import process

CLIENT = "client"
_CLOCK_JUMP_S = 3600.0
#: How long a fault waits for a stream to hit.
_FLOWING_LIMIT_S = 20.0
_BAD_NETWORK = faulty.Faults(doubled=0.3, delayed=0.3, lost=0.1, delay_s=1.5)


@dataclasses.dataclass(frozen=True)
class Stage:
    """What faults happen to."""

    pool: pools.Pool
    crowd: crowds.Crowd


#: Ends a fault.
Undo = Callable[[], object]
#: Begins one.
Strike = Callable[[Stage, random.Random], Undo]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of fault.

    :ivar component: what it happens to; two faults at a time never happen
        to the same one.
    :ivar test: where it is tested alone, with each state of a session.
    :ivar needs_sandbox: whether hosts must have networks and disks of their
        own.
    :ivar moves: whether a long stream, if there is one, has to go on in
        another slot.
    """

    component: str
    name: str
    strike: Strike
    test: str
    needs_sandbox: bool = False
    moves: bool = False

    @property
    def title(self) -> str:
        """Name for reports and for the command line."""
        return f"{self.component} {self.name}".replace(" ", "-")


def nothing() -> None:
    """End what has ended by itself."""


# Processes that run as services.

Choose = Callable[[Stage, random.Random], process.Service]


def _kill(choose: Choose) -> Strike:
    def strike(stage: Stage, rng: random.Random) -> Undo:
        chosen = choose(stage, rng)
        chosen.kill()
        return chosen.start

    return strike


def _stop(choose: Choose) -> Strike:
    def strike(stage: Stage, rng: random.Random) -> Undo:
        chosen = choose(stage, rng)
        chosen.pause()
        return chosen.resume

    return strike


def _restart(choose: Choose) -> Strike:
    def strike(stage: Stage, rng: random.Random) -> Undo:
        choose(stage, rng).restart()
        return nothing

    return strike


def _host(stage: Stage, rng: random.Random) -> clouds.Host:
    return rng.choice([h for h in stage.pool.hosts.values() if h.plan.slots])


def _agent(stage: Stage, rng: random.Random) -> processes.Daemon:
    return _host(stage, rng).agent


def _leader(stage: Stage, _rng: random.Random) -> processes.Daemon:
    return stage.pool.leader()


def _standby(stage: Stage, rng: random.Random) -> processes.Daemon:
    leader = stage.pool.leader()
    return rng.choice([c for c in stage.pool.conductors if c is not leader])


def _api(stage: Stage, _rng: random.Random) -> process.Service:
    return stage.pool.api


def _rabbitmq(stage: Stage, _rng: random.Random) -> process.Service:
    return stage.pool.rabbitmq


def _mariadb(stage: Stage, _rng: random.Random) -> process.Service:
    return stage.pool.mariadb


# Workers and clients.


def _worker(number: signal.Signals) -> Strike:
    def strike(stage: Stage, rng: random.Random) -> Undo:
        # Who is frozen is killed by the agent; nobody need wake it.
        host = _host(stage, rng)
        flowing = stage.crowd.wait_flowing(_FLOWING_LIMIT_S)
        if flowing is not None:
            host = stage.pool.host_called(flowing.host)
        workers = host.workers()
        rng.shuffle(workers)
        # What is on its way to the first one has to be sent again.
        workers.sort(
            key=lambda one: flowing is None or one.slot != flowing.slot
        )
        for worker in workers[:2]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, number)
        return nothing

    return strike


def _kill_desks(stage: Stage, rng: random.Random) -> Undo:
    hosts = [host for host in stage.pool.hosts.values() if host.desks()]
    for desk in rng.choice(hosts).desks() if hosts else []:
        with contextlib.suppress(ProcessLookupError):
            desk.kill()
    return nothing


def _kill_member(stage: Stage, rng: random.Random) -> Undo:
    name = rng.choice([*stage.pool.groups])
    for member in stage.pool.show_group(name)["members"][:1]:
        host = stage.pool.hosts[member["host_name"]]
        with contextlib.suppress(ProcessLookupError):
            host.worker(member["slot"]).kill()
    return nothing


def _kill_client(stage: Stage, rng: random.Random) -> Undo:
    program = rng.choice(stage.crowd.programs)
    program.kill()
    return program.start


def _restart_client(stage: Stage, rng: random.Random) -> Undo:
    program = rng.choice(stage.crowd.programs)
    program.stop()
    program.start()
    return nothing


def _stop_client(stage: Stage, rng: random.Random) -> Undo:
    program = rng.choice(stage.crowd.programs)
    program.signal(signal.SIGSTOP)
    return lambda: program.signal(signal.SIGCONT)


# Ways between processes, disks, clocks.


def _cut_host(stage: Stage, rng: random.Random) -> Undo:
    host = _host(stage, rng)
    sandbox = stage.pool.sandboxes.get(host.name)
    if sandbox is not None:
        sandbox.unplug()
        return sandbox.plug_in
    line = stage.pool.lines[host.agent.name]
    line.broker.stall()
    return line.broker.resume


def _cut_leader(way: Callable[[pools.Line], relays.Relay]) -> Strike:
    def strike(stage: Stage, _rng: random.Random) -> Undo:
        relay = way(stage.pool.lines[stage.pool.leader().name])
        relay.stall()
        return relay.resume

    return strike


def _drop_all(stage: Stage, _rng: random.Random) -> Undo:
    for line in stage.pool.lines.values():
        line.broker.drop()
        line.database.drop()
    return nothing


def _fill_disk(stage: Stage, rng: random.Random) -> Undo:
    sandbox = stage.pool.sandboxes[_host(stage, rng).name]
    sandbox.fill()
    return sandbox.make_room


def _bad_network(stage: Stage, rng: random.Random) -> Undo:
    bad = dataclasses.replace(_BAD_NETWORK, seed=rng.getrandbits(32))
    return _put_in_force(stage.pool, list(stage.pool.daemons()), bad)


def _wrong_clock(choose: Choose) -> Strike:
    def strike(stage: Stage, rng: random.Random) -> Undo:
        daemon = choose(stage, rng)
        assert isinstance(daemon, processes.Daemon)
        clock_s = rng.choice([-_CLOCK_JUMP_S, _CLOCK_JUMP_S])
        wrong = faulty.Faults(clock_s=clock_s)
        return _put_in_force(stage.pool, [daemon], wrong)

    return strike


def _put_in_force(
    pool: pools.Pool,
    daemons: list[processes.Daemon],
    wrong: faulty.Faults,
) -> Undo:
    paths = [pool.faults_path(daemon) for daemon in daemons]
    for path in paths:
        wrong.write(path)

    def undo() -> None:
        for path in paths:
            path.unlink(missing_ok=True)

    return undo


_MATRIX = "system/test_matrix_{}.py"


def _three(component: str, choose: Choose, test: str) -> list[Kind]:
    test = _MATRIX.format(test)
    return [
        Kind(component, "kill", _kill(choose), test),
        Kind(component, "stop", _stop(choose), test),
        Kind(component, "restart", _restart(choose), test),
    ]


KINDS = (
    *_three("leader", _leader, "conductor"),
    *_three("standby", _standby, "conductor"),
    *_three("agent", _agent, "agent"),
    Kind(
        *("worker", "kill", _worker(signal.SIGKILL)),
        _MATRIX.format("worker"),
        moves=True,
    ),
    Kind(
        *("worker", "stop", _worker(signal.SIGSTOP)),
        _MATRIX.format("worker"),
        moves=True,
    ),
    Kind(
        *("worker", "restart", _worker(signal.SIGTERM)),
        _MATRIX.format("worker"),
        moves=True,
    ),
    Kind("desk", "kill", _kill_desks, "agent/test_groups.py"),
    Kind("member", "kill", _kill_member, "agent/test_groups.py"),
    *_three("api", _api, "client"),
    Kind(CLIENT, "kill", _kill_client, _MATRIX.format("client")),
    Kind(CLIENT, "stop", _stop_client, _MATRIX.format("client")),
    Kind(CLIENT, "restart", _restart_client, _MATRIX.format("client")),
    *_three("RabbitMQ", _rabbitmq, "services"),
    *_three("MariaDB", _mariadb, "services"),
    Kind("host", "cut off", _cut_host, "system/test_networks.py"),
    Kind(
        *("leader", "without broker", _cut_leader(lambda line: line.broker)),
        "system/test_conductors.py",
    ),
    Kind(
        *(
            "leader",
            "without database",
            _cut_leader(lambda line: line.database),
        ),
        "system/test_conductors.py",
    ),
    Kind("network", "connections dropped", _drop_all, ""),
    Kind("network", "messages lost", _bad_network, ""),
    Kind("host", "disk full", _fill_disk, "agent/test_cache.py", True),
    Kind("leader", "clock wrong", _wrong_clock(_leader), ""),
    Kind("agent", "clock wrong", _wrong_clock(_agent), ""),
)


def named(names: list[str]) -> list[Kind]:
    """Find kinds by their titles.

    :param names: titles; none means all kinds.
    :raises ValueError: if one does not exist.
    """
    known = {kind.title: kind for kind in KINDS}
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ValueError(
            f"unknown: {', '.join(unknown)}; known are: {', '.join(known)}"
        )
    return [known[name] for name in names] or list(KINDS)
