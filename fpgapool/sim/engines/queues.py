# SPDX-License-Identifier: Apache-2.0

"""Tasks of groups, their queues, and the slots that run them.

A task is never preempted. On each host, a client has as many queues as the
host has slots; a task joins the shortest queue or, of equally short ones, the
lowest. A queue is sequential: its head requests a member of the group and
runs, and then the next head requests one. Heads are served in the order of
their requests, by the lowest idle member first.

At any one time, tasks end first, the lowest slot first. Then programmed slots
join, then batches arrive, the lowest client first, and then idle members take
heads.
"""

from __future__ import annotations

import itertools
import math
import typing

from fpgapool.sim.engines import compiling
from fpgapool.sim.engines import instants

#: Finish time of a batch that has not ended.
NOT_ENDED = -1.0
REFUSED = -2.0

# States of a slot.
IDLE = 0  # a member without a task
BUSY = 1  # a member with a task
PROGRAMMING = 2  # under way to a group
FREE = 3  # in no group
STATES = 4

# Places in Tasks.times.
NOW = 0
#: Work that a slot would have done so far if never idle; all busy slots work
#: at the same pace, which is 1 unless the link is full.
_WORK = 1
_LINK = 2  # maximum tasks/s of all slots together

# Places in Tasks.sizes.
NEXT_BATCH = 0
_GROUPS = 1
_CLIENTS = 2
_HOSTS = 3
_ASKS = 4  # number of requests by heads so far

#: Lets a window accept a batch that is too large only by a rounding error.
_ROUNDING = 1 + 1e-12


class Tasks(typing.NamedTuple):
    """The whole state; each field is a vector.

    Tasks are numbered in the order of their batches. A *place* is a host and a
    group; a *side* is a host and a client.

    :ivar member: a slot's group, or the group that it is being programmed for;
        -1: none.
    :ivar since: time of a slot's last entry in an account.
    :ivar end: end of a slot's task, on the scale of work; infinite: none.
    :ivar ready: end of a slot's programming; infinite: none.
    :ivar running: the queue of a slot's task.
    :ivar spent: seconds of each slot in each state.
    :ivar leaving: number of a group's members that leave as soon as a task
        ends.
    :ivar due: number of a group's tasks that end before `advance` returns; -1:
        any.
    :ivar first_client: first client of each group, then the number of all
        clients.
    :ivar busy: slot-seconds with tasks of each group.
    :ivar programming: slot-seconds of programming for each group.
    :ivar asking: number of heads that are requesting a member at each place.
    :ivar task_s: time of each client's tasks on one slot.
    :ivar window_s: maximum unfinished work of each client.
    :ivar arrived: number of a client's accepted tasks; the next fields count
        tasks likewise.
    :ivar refused: number of a client's batches that found no room.
    :ivar taken: slot-seconds of a client's ended tasks.
    :ivar first_queue: first queue of each side, then the number of all queues.
    :ivar head: first task of each queue, which may be running; -1: none.
    :ivar asked: number of the head's request; infinite: it is running, or
        there is none.
    :ivar left: number of each batch's unfinished tasks.
    :ivar finish: finish time of each batch, or `NOT_ENDED`, or `REFUSED`.
    :ivar following: the task after each task in its queue; -1: none.
    """

    times: list[float]
    sizes: list[int]
    host: list[int]
    member: list[int]
    state: list[int]
    since: list[float]
    began: list[float]
    end: list[float]
    ready: list[float]
    running: list[int]
    spent: list[float]
    leaving: list[int]
    due: list[int]
    first_client: list[int]
    busy: list[float]
    programming: list[float]
    members: list[int]
    asking: list[int]
    group: list[int]
    task_s: list[float]
    window_s: list[float]
    arrived: list[int]
    ended: list[int]
    waiting: list[int]
    dropped: list[int]
    refused: list[int]
    taken: list[float]
    unfinished: list[int]
    first_queue: list[int]
    owner: list[int]
    head: list[int]
    tail: list[int]
    length: list[int]
    asked: list[float]
    arrival: list[float]
    client: list[int]
    batch_tasks: list[int]
    first_task: list[int]
    left: list[int]
    finish: list[float]
    batch: list[int]
    following: list[int]


class Client(typing.NamedTuple):
    """A program that sends batches to a group.

    :ivar task_s: time of each of its tasks on one slot.
    :ivar window_s: maximum unfinished work in slot-seconds; a batch that would
        exceed it is refused.
    :ivar arrivals_s: arrival times of its batches, in order.
    """

    group: int
    task_s: float
    batch_tasks: int
    window_s: float
    arrivals_s: typing.Sequence[float]


def make_tasks(
    hosts: typing.Sequence[int],
    group_count: int,
    clients: typing.Sequence[Client],
    link_tasks_per_s: float = math.inf,
) -> Tasks:
    """Create the initial state, in which no slot belongs to a group.

    :param hosts: the host of each slot; hosts are numbered from 0.
    """
    host_count = max(hosts) + 1
    owners, first_queue = _queues(hosts, len(clients))
    order = sorted(
        (arrival_s, number)
        for number, client in enumerate(clients)
        for arrival_s in client.arrivals_s
    )
    sizes = [clients[number].batch_tasks for _, number in order]
    batch = [at for at, size in enumerate(sizes) for _ in range(size)]
    groups = [client.group for client in clients]
    slots = len(hosts)
    places = host_count * group_count
    return Tasks(
        times=[0.0, 0.0, link_tasks_per_s],
        sizes=[0, group_count, len(clients), host_count, 0],
        host=list(hosts),
        member=[-1] * slots,
        state=[FREE] * slots,
        since=[0.0] * slots,
        began=[0.0] * slots,
        end=[math.inf] * slots,
        ready=[math.inf] * slots,
        running=[-1] * slots,
        spent=[0.0] * (slots * STATES),
        leaving=[0] * group_count,
        due=[-1] * group_count,
        first_client=[
            sum(each < number for each in groups)
            for number in range(group_count + 1)
        ],
        busy=[0.0] * group_count,
        programming=[0.0] * group_count,
        members=[0] * places,
        asking=[0] * places,
        group=groups,
        task_s=[client.task_s for client in clients],
        window_s=[client.window_s for client in clients],
        arrived=[0] * len(clients),
        ended=[0] * len(clients),
        waiting=[0] * len(clients),
        dropped=[0] * len(clients),
        refused=[0] * len(clients),
        taken=[0.0] * len(clients),
        unfinished=[0] * (host_count * len(clients)),
        first_queue=first_queue,
        owner=owners,
        head=[-1] * len(owners),
        tail=[-1] * len(owners),
        length=[0] * len(owners),
        asked=[math.inf] * len(owners),
        arrival=[arrival_s for arrival_s, _ in order],
        client=[number for _, number in order],
        batch_tasks=sizes,
        first_task=[0, *itertools.accumulate(sizes)][:-1],
        left=[0] * len(order),
        finish=[NOT_ENDED] * len(order),
        batch=batch,
        following=[-1] * len(batch),
    )


def _queues(
    hosts: typing.Sequence[int], clients: int
) -> tuple[list[int], list[int]]:
    """Return the client of each queue, and the first queue of each side."""
    owners: list[int] = []
    first_queue = [0]
    for host in range(max(hosts) + 1):
        for number in range(clients):
            owners += [number] * hosts.count(host)
            first_queue.append(len(owners))
    return owners, first_queue


# -- slots -----------------------------------------------------------------


@compiling.in_place
def _account(net: Tasks, slot: int) -> None:
    passed_s = net.times[NOW] - net.since[slot]
    net.since[slot] = net.times[NOW]
    net.spent[slot * STATES + net.state[slot]] += passed_s
    if net.state[slot] == BUSY:
        net.busy[net.member[slot]] += passed_s
    elif net.state[slot] == PROGRAMMING:
        net.programming[net.member[slot]] += passed_s


@compiling.in_place
def account(net: Tasks) -> None:
    """Bring the accounts of all slots up to now."""
    for slot in range(len(net.state)):
        _account(net, slot)


@compiling.in_place
def program(net: Tasks, slot: int, group: int, ready_s: float) -> None:
    _account(net, slot)
    net.state[slot] = PROGRAMMING
    net.member[slot] = group
    net.ready[slot] = ready_s


@compiling.in_place
def free(net: Tasks, slot: int) -> None:
    """Take a slot without a task out of its group."""
    _account(net, slot)
    group = net.member[slot]
    if net.state[slot] != PROGRAMMING:
        net.members[net.host[slot] * net.sizes[_GROUPS] + group] -= 1
    net.state[slot] = FREE
    net.member[slot] = -1
    net.ready[slot] = math.inf
    if net.sizes[_HOSTS] > 1:
        _send_elsewhere(net, group)


@compiling.in_place
def _join(net: Tasks, slot: int) -> None:
    _account(net, slot)
    group = net.member[slot]
    net.state[slot] = IDLE
    net.ready[slot] = math.inf
    net.members[net.host[slot] * net.sizes[_GROUPS] + group] += 1
    if net.sizes[_HOSTS] > 1:
        _send_elsewhere(net, group)


# -- queues ----------------------------------------------------------------


@compiling.in_place
def _choose_host(net: Tasks, client: int) -> int:
    """Return the host with the fewest unfinished tasks per member.

    Without members, the tasks wait on the first host.
    """
    hosts = net.sizes[_HOSTS]
    best = 0
    least = math.inf
    for host in range(hosts):
        members = net.members[host * net.sizes[_GROUPS] + net.group[client]]
        if members > 0:
            own = net.unfinished[host * net.sizes[_CLIENTS] + client] + 1
            if own / members < least:
                least = own / members
                best = host
    return best


@compiling.in_place
def _ask(net: Tasks, queue: int, place: int) -> None:
    """Make the head of a queue request a member."""
    net.asked[queue] = net.sizes[_ASKS]
    net.sizes[_ASKS] += 1
    net.asking[place] += 1


@compiling.in_place
def _put(net: Tasks, task: int, client: int) -> None:
    host = _choose_host(net, client) if net.sizes[_HOSTS] > 1 else 0
    side = host * net.sizes[_CLIENTS] + client
    net.unfinished[side] += 1
    queue = net.first_queue[side]
    for other in range(queue + 1, net.first_queue[side + 1]):
        if net.length[other] < net.length[queue]:
            queue = other
    net.length[queue] += 1
    net.following[task] = -1
    if net.head[queue] < 0:
        net.head[queue] = task
        _ask(net, queue, host * net.sizes[_GROUPS] + net.group[client])
    else:
        net.following[net.tail[queue]] = task
    net.tail[queue] = task


@compiling.in_place
def _send_elsewhere(net: Tasks, group: int) -> None:
    """Move waiting tasks away from hosts without members."""
    hosts, groups = net.sizes[_HOSTS], net.sizes[_GROUPS]
    members = 0
    for host in range(hosts):
        members += net.members[host * groups + group]
    if members == 0:
        return
    first, last = net.first_client[group], net.first_client[group + 1]
    for host in range(hosts):
        if net.members[host * groups + group] > 0:
            continue
        for client in range(first, last):
            side = host * net.sizes[_CLIENTS] + client
            for queue in range(
                net.first_queue[side], net.first_queue[side + 1]
            ):
                # Nothing runs here, so all tasks wait, and all heads are
                # requesting.
                task = net.head[queue]
                if task >= 0:
                    net.asking[host * groups + group] -= 1
                net.head[queue] = net.tail[queue] = -1
                net.asked[queue] = math.inf
                net.unfinished[side] -= net.length[queue]
                net.length[queue] = 0
                while task >= 0:
                    following = net.following[task]
                    _put(net, task, client)
                    task = following


@compiling.in_place
def drop(net: Tasks, group: int) -> None:
    """Drop the waiting tasks of a group; running tasks continue."""
    for host in range(net.sizes[_HOSTS]):
        place = host * net.sizes[_GROUPS] + group
        net.asking[place] = 0
        for client in range(
            net.first_client[group], net.first_client[group + 1]
        ):
            side = host * net.sizes[_CLIENTS] + client
            for queue in range(
                net.first_queue[side], net.first_queue[side + 1]
            ):
                runs = 0
                if net.length[queue] > 0 and net.asked[queue] == math.inf:
                    runs = 1
                    net.tail[queue] = net.head[queue]
                    net.following[net.head[queue]] = -1
                else:
                    net.head[queue] = net.tail[queue] = -1
                dropped = net.length[queue] - runs
                net.length[queue] = runs
                net.asked[queue] = math.inf
                net.unfinished[side] -= dropped
                net.waiting[client] -= dropped
                net.dropped[client] += dropped


@compiling.in_place
def _arrive(net: Tasks, batch: int) -> None:
    """Accept or refuse a batch."""
    client = net.client[batch]
    count = net.batch_tasks[batch]
    own = net.arrived[client] - net.ended[client] - net.dropped[client]
    own += count
    if own * net.task_s[client] > net.window_s[client] * _ROUNDING:
        net.refused[client] += 1
        net.finish[batch] = REFUSED
        return
    net.left[batch] = count
    net.arrived[client] += count
    net.waiting[client] += count
    for task in range(net.first_task[batch], net.first_task[batch] + count):
        _put(net, task, client)


@compiling.in_place
def _end_task(net: Tasks, slot: int) -> int:
    """End a slot's task; return whether `advance` must return."""
    _account(net, slot)
    queue = net.running[slot]
    client = net.owner[queue]
    group = net.group[client]
    place = net.host[slot] * net.sizes[_GROUPS] + group
    task = net.head[queue]
    net.end[slot] = math.inf
    net.running[slot] = -1
    net.state[slot] = IDLE
    net.head[queue] = net.following[task]
    net.length[queue] -= 1
    if net.head[queue] >= 0:
        _ask(net, queue, place)
    net.unfinished[net.host[slot] * net.sizes[_CLIENTS] + client] -= 1
    net.ended[client] += 1
    net.taken[client] += net.times[NOW] - net.began[slot]
    batch = net.batch[task]
    net.left[batch] -= 1
    if net.left[batch] == 0:
        net.finish[batch] = net.times[NOW]
    stops = 0
    if net.due[group] > 0:
        net.due[group] -= 1
        if net.due[group] == 0:
            stops = 1
    if net.leaving[group] > 0:
        net.leaving[group] -= 1
        free(net, slot)
        stops = 1
    return stops


@compiling.in_place
def _serve(net: Tasks) -> None:
    """Give waiting heads to idle members."""
    for slot in range(len(net.state)):
        if net.state[slot] != IDLE:
            continue
        group = net.member[slot]
        place = net.host[slot] * net.sizes[_GROUPS] + group
        if net.asking[place] == 0:
            continue
        side = net.host[slot] * net.sizes[_CLIENTS] + net.first_client[group]
        clients = net.first_client[group + 1] - net.first_client[group]
        queue = net.first_queue[side]
        for other in range(queue + 1, net.first_queue[side + clients]):
            if net.asked[other] < net.asked[queue]:
                queue = other
        _account(net, slot)
        net.asking[place] -= 1
        net.asked[queue] = math.inf
        net.running[slot] = queue
        net.state[slot] = BUSY
        net.began[slot] = net.times[NOW]
        net.waiting[net.owner[queue]] -= 1
        net.end[slot] = net.times[_WORK] + net.task_s[net.owner[queue]]


# -- time ------------------------------------------------------------------


@compiling.in_place
def _pace(net: Tasks) -> float:
    """Return the work that each busy slot does per second."""
    if net.times[_LINK] == math.inf:
        return 1.0
    tasks_per_s = 0.0
    for slot in range(len(net.state)):
        if net.state[slot] == BUSY:
            tasks_per_s += 1 / net.task_s[net.owner[net.running[slot]]]
    if tasks_per_s <= net.times[_LINK]:
        return 1.0
    return net.times[_LINK] / tasks_per_s


@compiling.in_place
def _pass(net: Tasks, time_s: float, pace: float) -> None:
    """Let time pass without events."""
    net.times[_WORK] += pace * (time_s - net.times[NOW])
    net.times[NOW] = time_s
    if net.times[_LINK] == math.inf:
        # Avoid rounding errors.
        net.times[_WORK] = time_s


@compiling.in_place
def advance(net: Tasks, limit_s: float) -> int:
    """Continue until a time, or until a group changes.

    A group changes when members leave or join, or when the tasks counted by
    ``due`` have ended. Events at the time limit itself are included.

    :param limit_s: the time; infinite: continue as long as there are events.
    :returns: 1 if a group has changed, else 0.
    """
    slots = len(net.state)
    _serve(net)
    while True:
        pace = _pace(net)
        end = math.inf
        time_s = math.inf
        for slot in range(slots):
            end = min(end, net.end[slot])
            time_s = min(time_s, net.ready[slot])
        if net.sizes[NEXT_BATCH] < len(net.arrival):
            time_s = min(time_s, net.arrival[net.sizes[NEXT_BATCH]])
        end_s = end
        if net.times[_LINK] < math.inf:
            end_s = net.times[NOW] + (end - net.times[_WORK]) / pace
        time_s = max(min(time_s, end_s), net.times[NOW])
        if time_s == math.inf or time_s > limit_s:
            if limit_s < math.inf:
                _pass(net, max(limit_s, net.times[NOW]), pace)
            return 0
        _pass(net, time_s, pace)
        if end_s <= time_s:
            net.times[_WORK] = end
        last_s = time_s + instants.tolerance_s(time_s)
        last_end = net.times[_WORK]
        if (
            net.sizes[NEXT_BATCH] < len(net.arrival)
            and net.arrival[net.sizes[NEXT_BATCH]] <= last_s
        ):
            # Tasks that end with this arrival make room for it.
            last_end += instants.tolerance_s(last_end)
        stops = 0
        for slot in range(slots):
            if net.end[slot] <= last_end:
                stops += _end_task(net, slot)
        for slot in range(slots):
            if net.ready[slot] <= time_s:
                _join(net, slot)
                stops += 1
        while (
            net.sizes[NEXT_BATCH] < len(net.arrival)
            and net.arrival[net.sizes[NEXT_BATCH]] <= last_s
        ):
            _arrive(net, net.sizes[NEXT_BATCH])
            net.sizes[NEXT_BATCH] += 1
        _serve(net)
        if stops > 0:
            return 1
