# SPDX-License-Identifier: Apache-2.0

"""What can go wrong in a world, and what operators do meanwhile."""

from __future__ import annotations

import functools
from collections.abc import Callable

from fpgapool.common import exception
from fpgapool.core import model
from fpgapool.rpcapi import conductor as conductor_rpcapi
from fpgapool.vocabulary import states
from tests.world import driver
from tests.world import kernel as kernels
from tests.world import pool as pools
from tests.world import schedule as schedules

#: Begins a fault; returns what undoes it.
_Begin = Callable[[pools.Pool, schedules.Fault], Callable[[], None]]

#: How often an operator asks for a test of each slot of a board.
_TEST_TRIES = 10

#: How often it is looked whether something is at work.
_LOOK_S = 0.05

FAULTS: dict[str, _Begin] = {}
#: Those that only worlds with groups have.
GROUP_FAULTS: dict[str, _Begin] = {}


def _fault(begin: _Begin) -> _Begin:
    FAULTS[_name(begin)] = begin
    return begin


def _group_fault(begin: _Begin) -> _Begin:
    GROUP_FAULTS[_name(begin)] = begin
    return begin


def _name(begin: _Begin) -> str:
    return begin.__name__.strip("_").replace("_", "-")


def _nothing() -> None:
    """Nothing to undo."""


def _conductor(pool: pools.Pool, fault: schedules.Fault) -> pools.Daemon:
    """Mostly the one that leads: a stand-by's faults change little."""
    leader = pool.leader()
    if leader is not None and fault.target % 3:
        return leader
    return pool.conductors[fault.target % len(pool.conductors)]


def _agent(pool: pools.Pool, fault: schedules.Fault) -> pools.Agent:
    return pool.agents[fault.target % len(pool.agents)]


def _boarded(pool: pools.Pool, fault: schedules.Fault) -> pools.Agent:
    boards = [agent for agent in pool.agents if agent.board.slots]
    return boards[fault.target % len(boards)]


def _awaited(pool: pools.Pool) -> list[pools.Agent]:
    """Return the agents with a slot that waits for its client."""
    leader = pool.leader()
    if leader is None:
        return []
    hosts = {
        hold.slot.device.host.uuid
        for hold in leader.engine.pool.holds.values()
        if hold.phase is model.Phase.READY
    }
    return [agent for agent in pool.agents if agent.uuid in hosts]


def _either(pool: pools.Pool, fault: schedules.Fault) -> pools.Daemon:
    if fault.extent < 0.5:
        return _conductor(pool, fault)
    return _agent(pool, fault)


def _worker(
    pool: pools.Pool, fault: schedules.Fault
) -> kernels.Process | None:
    """Return one that is at work, if there is one."""
    agent = _boarded(pool, fault)
    workers = agent.busy_workers() or agent.workers()
    if not workers:
        return None
    return workers[int(fault.extent * len(workers))]


def _freeze(process: kernels.Process | None) -> Callable[[], None]:
    if process is None:
        return _nothing
    process.freeze()
    return process.thaw


@_fault
def _kill(pool: pools.Pool, fault: schedules.Fault) -> Callable[[], None]:
    daemon = _either(pool, fault)
    daemon.kill()
    return daemon.start


@_fault
def _kill_between(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    """Die between two effects of a step."""
    daemon = _either(pool, fault)
    if daemon.process is not None:
        daemon.process.fuse = 1 + int(fault.extent * 997) % 60

    def undo() -> None:
        if daemon.process is not None:
            daemon.process.fuse = None
        daemon.start()

    return undo


@_fault
def _restart(pool: pools.Pool, fault: schedules.Fault) -> Callable[[], None]:
    daemon = _either(pool, fault)
    daemon.stop()
    return functools.partial(_start_again, pool, daemon)


def _start_again(pool: pools.Pool, daemon: pools.Daemon) -> None:
    if daemon.runs:
        pool.kernel.at(0.5, functools.partial(_start_again, pool, daemon))
    else:
        daemon.start()


@_fault
def _stop(pool: pools.Pool, fault: schedules.Fault) -> Callable[[], None]:
    """Stand still, and go on as if nothing had been."""
    return _freeze(_either(pool, fault).process)


@_fault
def _usurpation(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    """The leader stands still until another one leads, and goes on."""
    leader = pool.leader()
    if leader is None:
        return _nothing
    thaw = _freeze(leader.process)

    def wait() -> None:
        other = pool.leader()
        if other is leader or other is None:
            pool.kernel.at(0.5, wait)
        else:
            pool.kernel.at(fault.extent, thaw)

    pool.kernel.at(0.5, wait)
    return _nothing


@_fault
def _mute(pool: pools.Pool, fault: schedules.Fault) -> Callable[[], None]:
    """Reach the broker no more, and be reached."""
    return _put(pool.broker.mute, _either(pool, fault))


@_fault
def _deaf(pool: pools.Pool, fault: schedules.Fault) -> Callable[[], None]:
    """Reach the broker, and not be reached."""
    undo = _put(pool.broker.deaf, _either(pool, fault))

    def hear() -> None:
        undo()
        pool.broker.recover()

    return hear


def _put(pids: set[int], daemon: pools.Daemon) -> Callable[[], None]:
    if daemon.process is None:
        return _nothing
    pid = daemon.process.pid
    pids.add(pid)
    return lambda: pids.discard(pid)


@_fault
def _without_database(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    return _put(pool.database.cut, _conductor(pool, fault))


@_fault
def _database_away(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    pool.database.away = True

    def undo() -> None:
        pool.database.away = False

    return undo


@_fault
def _database_unsteady(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    database = pool.database
    before = database.fails_before, database.fails_after
    database.fails_before = database.fails_after = 0.1 + 0.3 * fault.extent

    def undo() -> None:
        database.fails_before, database.fails_after = before

    return undo


@_fault
def _broker_down(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    pool.broker.down = True
    return pool.broker.recover


@_fault
def _storm(pool: pools.Pool, fault: schedules.Fault) -> Callable[[], None]:
    """Messages lost, doubled, late and out of order."""
    weather = pool.broker.weather
    before = weather.lost, weather.doubled, weather.late
    weather.lost = 0.2 * fault.extent
    weather.doubled, weather.late = 0.2, 0.3

    def undo() -> None:
        weather.lost, weather.doubled, weather.late = before

    return undo


@_fault
def _clock(pool: pools.Pool, fault: schedules.Fault) -> Callable[[], None]:
    daemon = _either(pool, fault)
    wrong_s = (-3600.0, -30.0, -3.0, 3.0, 30.0, 3600.0)
    daemon.set_clock(wrong_s[int(fault.extent * 6) % 6])
    return lambda: daemon.set_clock(0.0)


@_fault
def _worker_kill(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    worker = _worker(pool, fault)
    if worker is not None:
        worker.kill()
    return _nothing


@_fault
def _worker_stop(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    return _freeze(_worker(pool, fault))


@_fault
def _host_lost(pool: pools.Pool, fault: schedules.Fault) -> Callable[[], None]:
    """A host loses its power; its programs, too."""
    agent = _boarded(pool, fault)
    for pid, host in list(pool.system.hosts.items()):
        if host == agent.host:
            pool.system.processes[pid].kill()
    pool.lost.append((agent.host, pool.kernel.now_s))
    return agent.start


@_fault
def _network_cut(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    """A host's data network is cut, in one direction or both."""
    host = _boarded(pool, fault).host

    def cut(origin: str | None, target: str | None) -> bool:
        out = origin == host and target != host
        into = target == host and origin != host
        if fault.extent < 0.3:
            return out
        return into if fault.extent < 0.6 else out or into

    pool.system.cuts.append(cut)
    pool.system.break_connections(
        lambda one, other: (one == host) != (other == host)
    )

    def undo() -> None:
        if cut in pool.system.cuts:
            pool.system.cuts.remove(cut)

    return undo


@_fault
def _connections_dropped(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    pool.system.break_connections(lambda _one, _other: True)
    return _nothing


def _client(
    pool: pools.Pool, fault: schedules.Fault
) -> kernels.Process | None:
    # A schedule that is being shortened may have none.
    if not pool.clients:
        return None
    return pool.clients[fault.target % len(pool.clients)]


@_fault
def _client_kill(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    process = _client(pool, fault)
    if process is not None:
        process.kill()
    return _nothing


@_fault
def _client_stop(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    return _freeze(_client(pool, fault))


# What operators do, and boards.


@_fault
def _drain(pool: pools.Pool, fault: schedules.Fault) -> Callable[[], None]:
    # Where a client is awaited, if there is such a host: that lasts for so
    # short that chance alone would rarely meet it.
    awaited = _awaited(pool)
    agent = (
        awaited[fault.target % len(awaited)]
        if awaited
        else _boarded(pool, fault)
    )
    device = driver.BOARD if fault.extent < 0.7 else None
    within_s = None if fault.extent < 0.2 else 4.0 * fault.extent
    pool.operate(
        lambda conductor: conductor.administer(
            agent.uuid,
            device,
            "draining",
            reason="world",
            drain_within_s=within_s,
        )
    )
    return functools.partial(_enable, pool, agent)


def _enable(pool: pools.Pool, agent: pools.Agent) -> None:
    for device in (driver.BOARD, None):
        pool.insist(
            lambda conductor, device=device: conductor.administer(
                agent.uuid, device, "enabled"
            )
        )


@_fault
def _quota(pool: pools.Pool, fault: schedules.Fault) -> Callable[[], None]:
    project = schedules.PROJECTS[fault.target % len(schedules.PROJECTS)]

    def limit(sessions: int | None) -> None:
        pool.insist(
            lambda conductor: conductor.set_quota(
                project, {"sessions": sessions}
            )
        )

    limit(1 + int(fault.extent * 3))
    return lambda: limit(None)


@_fault
def _reserve(pool: pools.Pool, fault: schedules.Fault) -> Callable[[], None]:
    agent = _boarded(pool, fault)

    def reservable(count: int) -> None:
        pool.insist(
            lambda conductor: conductor.set_reservable_slots(
                agent.uuid, driver.BOARD, count
            )
        )

    reservable(1)
    pool.reserve(agent, 1)

    def undo() -> None:
        pool.reserve(agent, 0)
        reservable(0)

    return undo


@_fault
def _test(pool: pools.Pool, fault: schedules.Fault) -> Callable[[], None]:
    """An operator has a slot tested as soon as one is free."""
    agent = _boarded(pool, fault)

    def ask(conductor: conductor_rpcapi.ConductorAPI) -> None:
        for number in range(_TEST_TRIES * agent.board.slots):
            try:
                conductor.test_slot(
                    agent.uuid, driver.BOARD, number % agent.board.slots
                )
                return
            except exception.SlotNotTested:
                pool.kernel.sleep(0.2)

    pool.operate(ask)
    return _nothing


@_fault
def _board_fault(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    board = _boarded(pool, fault).board
    board.fault = "too hot"

    def undo() -> None:
        board.fault = None

    return undo


@_fault
def _slot_broken(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    """A slot cannot be programmed."""
    board = _boarded(pool, fault).board
    slot = int(fault.extent * board.slots)
    board.broken.add(slot)
    return lambda: board.broken.discard(slot)


@_fault
def _programming_slow(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    board = _boarded(pool, fault).board
    before, board.programming_s = board.programming_s, 12.0 * fault.extent

    def undo() -> None:
        board.programming_s = before

    return undo


@_fault
def _database_clock(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    """The database's clock is set, and who starts after that leads next."""
    leader = pool.leader()
    if leader is None:
        return _nothing
    pool.database.clock_s = 7200.0 if fault.extent < 0.7 else -7200.0
    for conductor in pool.conductors:
        if conductor is not leader:
            conductor.kill()
            conductor.start()
    # They have asked what time it is by then.
    pool.kernel.at(1.0, leader.kill)
    # The clock stays as it is, until it is set again.
    return lambda: pool.kernel.at(1.5, leader.start)


# Of groups.


def _chosen(
    processes: list[kernels.Process], fault: schedules.Fault
) -> kernels.Process | None:
    alive = [one for one in processes if one.alive]
    return alive[fault.target % len(alive)] if alive else None


def _members(pool: pools.Pool) -> list[kernels.Process]:
    """Return the workers that have a slot of a group."""
    return [
        process
        for process, worker in pool.workers.items()
        if worker._machine.order is not None and worker._machine.order.group_id
    ]


def die_at_work(
    pool: pools.Pool,
    fault: schedules.Fault,
    at_work: Callable[[], list[kernels.Process]],
    tries: int = 200,
) -> Callable[[], None]:
    """Have one die, at once or between two effects, when it is at work."""
    process = _chosen(at_work(), fault)
    if process is None:
        if tries:
            again = functools.partial(
                die_at_work, pool, fault, at_work, tries - 1
            )
            pool.kernel.at(_LOOK_S, again)
    elif fault.extent < 0.5:
        process.kill()
    else:
        process.fuse = 1 + int(fault.extent * 997) % 20
    return _nothing


@_group_fault
def _desk_kill(pool: pools.Pool, fault: schedules.Fault) -> Callable[[], None]:
    def at_work() -> list[kernels.Process]:
        return [
            process
            for process, desk in pool.desks.items()
            if any(one.task for one in desk._queues.members.all.values())
        ]

    return die_at_work(pool, fault, at_work)


@_group_fault
def _desk_stop(pool: pools.Pool, fault: schedules.Fault) -> Callable[[], None]:
    return _freeze(_chosen(list(pool.desks), fault))


@_group_fault
def _member_kill(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    def at_work() -> list[kernels.Process]:
        return [
            process
            for process in _members(pool)
            if (runner := pool.workers[process]._member._runner) is not None
            and runner.is_running
        ]

    return die_at_work(pool, fault, at_work)


@_group_fault
def _member_stop(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    return _freeze(_chosen(_members(pool), fault))


@_group_fault
def _unjoined_kill(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    """A worker dies while the desk that it belongs to is away."""

    def at_work() -> list[kernels.Process]:
        return [
            process
            for process in _members(pool)
            if pool.workers[process]._machine.state == states.SLOT_READY
        ]

    return die_at_work(pool, fault, at_work)


@_group_fault
def _guest_kill(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    return die_at_work(pool, fault, lambda: pool.guests)


@_group_fault
def _guest_stop(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    return _freeze(_chosen(pool.guests, fault))


@_group_fault
def _leader_kill(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    """The leader dies while slots change groups, if there is one."""
    leader = pool.leader()
    if leader is None:
        return _nothing
    leader.kill()
    return leader.start


@_group_fault
def _agent_kill(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    """An agent dies; the desks and members of its host go on."""
    agent = _boarded(pool, fault)
    agent.kill()
    return agent.start


@_group_fault
def _group_quota(
    pool: pools.Pool, fault: schedules.Fault
) -> Callable[[], None]:
    project = schedules.PROJECTS[fault.target % len(schedules.PROJECTS)]

    def limit(slots: int | None) -> None:
        pool.insist(
            lambda conductor: conductor.set_quota(
                project, {"group_slots": slots}
            )
        )

    limit(int(fault.extent * 5))
    return lambda: limit(None)
