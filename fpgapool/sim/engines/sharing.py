# SPDX-License-Identifier: Apache-2.0

"""Max-min fair rates of flows that come and go.

All rates together are max-min fair: progressive filling over all resources at
once, with equal weights and a cap for each flow. A feasible allocation is
max-min fair if and only if every flow is at its cap, or uses a full resource
on which no other flow is faster (Bertsekas and Gallager, Data Networks,
section 6.5). So after a change, only flows without such a bottleneck need new
rates. They are filled again while the others keep their rates. Flows that lose
their bottleneck because of this join them, until every flow has one.
"""

from __future__ import annotations

import math
import typing

from fpgapool.sim.engines import compiling
from fpgapool.sim.engines import heaps
from fpgapool.sim.engines import instants

#: Maximum number of resources that one flow uses, unless a network has room
#: for more.
USES = 5
#: Relative difference of rates that is only a rounding error.
_EPSILON = 1e-12
_OWN_CAP = -1

# Places in Network.counts.
_CHANGED = 0  # flows whose rate is no longer valid
_DIRTY = 1  # resources that a flow has left
_FILLED = 2  # flows that get new rates
_TOUCHED = 3  # resources that these use
_SHIFT = 4  # of a flow's number, to that of its first use
_COUNTS = 5


class Network(typing.NamedTuple):
    """Flows and resources, each with a number; each field is a vector.

    The uses of flow f have numbers in [f << shift, (f + 1) << shift).

    :ivar head: first use of each resource; -1: it has no use.
    :ivar level: while filling: the rate at which a resource is full.
    :ivar room: while filling: bytes/s that are still free.
    :ivar weight: while filling: bytes/s per unit of growing rate.
    :ivar growing: while filling: number of its flows that still grow.
    :ivar cost: bytes on the resource per byte of the flow.
    :ivar following: the resource's next use; -1: none.
    :ivar fresh: a flow's new rate in bytes/s.
    :ivar bottleneck: the resource that limits a flow; -1: its own cap.
    :ivar left: remaining bytes at the time ``since``.
    :ivar end: when the flow will end at this rate, in seconds.
    :ivar due: when it counts as done, which is just before its end.
    """

    counts: list[int]
    capacity: list[float]
    head: list[int]
    level: list[float]
    room: list[float]
    weight: list[float]
    growing: list[int]
    level_order: list[int]
    level_place: list[int]
    dirty: list[int]
    is_dirty: list[int]
    touched: list[int]
    is_touched: list[int]
    resource: list[int]
    cost: list[float]
    following: list[int]
    preceding: list[int]
    use_count: list[int]
    cap: list[float]
    rate: list[float]
    fresh: list[float]
    bottleneck: list[int]
    total: list[float]
    left: list[float]
    since: list[float]
    end: list[float]
    due: list[float]
    due_order: list[int]
    due_place: list[int]
    cap_order: list[int]
    cap_place: list[int]
    changed: list[int]
    is_changed: list[int]
    filled: list[int]
    is_filled: list[int]
    found: list[int]


# The vectors with an entry per resource or per use; most others have one per
# flow.
_OF_RESOURCES = (
    *("head", "level", "room", "weight", "growing", "level_place"),
    *("dirty", "is_dirty", "touched", "is_touched"),
)
_OF_USES = ("resource", "cost", "following", "preceding")


def make_network(
    capacities_bytes_per_s: typing.Sequence[float],
    flow_count: int,
    uses: int = USES,
) -> Network:
    """Make a network without flows.

    :param capacities_bytes_per_s: capacity of each resource, above 0.
    :param uses: maximum number of resources that one flow uses.
    """
    resources = len(capacities_bytes_per_s)
    # A shift is faster than a division by a number that varies.
    shift = (uses - 1).bit_length()
    lengths = {
        **dict.fromkeys(_OF_RESOURCES, resources),
        **dict.fromkeys(_OF_USES, flow_count << shift),
        "counts": _COUNTS,
        "level_order": resources + 1,
        "due_order": flow_count + 1,
        "cap_order": flow_count + 1,
    }
    vectors: dict[str, typing.Any] = {
        name: [0.0 if kind == list[float] else 0]
        * lengths.get(name, flow_count)
        for name, kind in typing.get_type_hints(Network).items()
    }
    vectors["capacity"] = list(map(float, capacities_bytes_per_s))
    vectors["head"] = [-1] * resources
    vectors["counts"][_SHIFT] = shift
    return Network(**vectors)


@compiling.in_place
def network_of(wholes: typing.Any, numbers: typing.Any) -> Network:
    """Return a network whose vectors are rows of matrices.

    :param wholes: its vectors of whole numbers, as :func:`.compiling.matrices`
        makes them.
    """
    return Network(
        wholes[0],
        numbers[0],
        wholes[1],
        numbers[1],
        numbers[2],
        numbers[3],
        wholes[2],
        wholes[3],
        wholes[4],
        wholes[5],
        wholes[6],
        wholes[7],
        wholes[8],
        wholes[9],
        numbers[4],
        wholes[10],
        wholes[11],
        wholes[12],
        numbers[5],
        numbers[6],
        numbers[7],
        wholes[13],
        numbers[8],
        numbers[9],
        numbers[10],
        numbers[11],
        numbers[12],
        wholes[14],
        wholes[15],
        wholes[16],
        wholes[17],
        wholes[18],
        wholes[19],
        wholes[20],
        wholes[21],
        wholes[22],
    )


# -- flows come and go -----------------------------------------------------


@compiling.in_place
def use(net: Network, flow: int, resource: int, cost: float) -> None:
    """Register one more resource for a flow that is about to start.

    :param cost: bytes on the resource per byte of the flow, above 0.
    """
    number = (flow << net.counts[_SHIFT]) + net.use_count[flow]
    net.use_count[flow] += 1
    net.resource[number] = resource
    net.cost[number] = cost


@compiling.in_place
def start(
    net: Network, flow: int, cap: float, total: float, now: float
) -> None:
    """Start a flow with known uses; it has no rate until `settle`."""
    net.cap[flow] = cap
    net.total[flow] = net.left[flow] = total
    net.since[flow] = now
    net.rate[flow] = 0.0
    first_use = flow << net.counts[_SHIFT]
    for number in range(first_use, first_use + net.use_count[flow]):
        resource = net.resource[number]
        first = net.head[resource]
        net.following[number] = first
        net.preceding[number] = -1
        if first >= 0:
            net.preceding[first] = number
        net.head[resource] = number
    _change(net, flow)


@compiling.in_place
def _change(net: Network, flow: int) -> None:
    if not net.is_changed[flow]:
        net.is_changed[flow] = 1
        net.changed[net.counts[_CHANGED]] = flow
        net.counts[_CHANGED] += 1


@compiling.in_place
def stop(net: Network, flow: int) -> None:
    """End a flow; the others keep their old rates until `settle`."""
    first_use = flow << net.counts[_SHIFT]
    for number in range(first_use, first_use + net.use_count[flow]):
        resource = net.resource[number]
        before, after = net.preceding[number], net.following[number]
        if before >= 0:
            net.following[before] = after
        else:
            net.head[resource] = after
        if after >= 0:
            net.preceding[after] = before
        if not net.is_dirty[resource]:
            net.is_dirty[resource] = 1
            net.dirty[net.counts[_DIRTY]] = resource
            net.counts[_DIRTY] += 1
    net.use_count[flow] = 0
    net.rate[flow] = 0.0
    heaps.remove(net.due, net.due_order, net.due_place, flow)


@compiling.in_place
def left_bytes(net: Network, flow: int, now: float) -> float:
    """Return the bytes of a flow that are left at a time."""
    passed_s = now - net.since[flow]
    return max(net.left[flow] - net.rate[flow] * passed_s, 0.0)


@compiling.in_place
def extend(net: Network, flow: int, total: float, now: float) -> None:
    """Reuse an ended flow for new bytes at the same rate."""
    net.total[flow] = net.left[flow] = total
    net.since[flow] = now
    _set_end(net, flow)


@compiling.in_place
def _set_end(net: Network, flow: int) -> None:
    """Compute the end of a flow.

    A flow counts as done when at most 1e-9 of its bytes are left, or what it
    moves within one instant.
    """
    rate = net.rate[flow]
    end = net.since[flow] + net.left[flow] / rate
    net.end[flow] = end
    net.due[flow] = (
        end - 1e-9 * net.total[flow] / rate - instants.tolerance_s(end)
    )
    heaps.put(net.due, net.due_order, net.due_place, flow)


@compiling.in_place
def next_due_s(net: Network) -> float:
    """Return when the next flow counts as done; infinite: none ever does."""
    return net.due[net.due_order[1]] if net.due_order[0] else math.inf


@compiling.in_place
def collect_done(net: Network, limit_s: float) -> tuple[float, int]:
    """Find the flows that end next.

    :returns: the time at which the next flow ends, or the limit if that is the
        same instant or earlier; and how many flows end then. Their numbers are
        the first ones in ``found``.
    """
    # A flow with a later end can be due sooner, because large flows have a
    # larger tolerance.
    time_s = limit_s
    count = 0
    while net.due_order[0] and net.due[net.due_order[1]] <= time_s:
        flow = net.due_order[1]
        heaps.remove(net.due, net.due_order, net.due_place, flow)
        net.found[count] = flow
        count += 1
        if not instants.are_one(net.end[flow], limit_s):
            time_s = min(time_s, net.end[flow])
    done = 0
    for at in range(count):
        flow = net.found[at]
        heaps.put(net.due, net.due_order, net.due_place, flow)
        if net.due[flow] <= time_s:
            net.found[done] = flow
            done += 1
    return time_s, done


# -- new rates -------------------------------------------------------------


@compiling.in_place
def settle(net: Network, now: float) -> None:
    """Give new rates to all flows that need them after starts and ends."""
    _release(net)
    while net.counts[_CHANGED]:
        _join(net)
        _fill(net)
        _find_unfair(net)
    for at in range(net.counts[_FILLED]):
        flow = net.filled[at]
        net.is_filled[flow] = 0
        if net.fresh[flow] != net.rate[flow]:
            net.left[flow] -= net.rate[flow] * (now - net.since[flow])
            net.since[flow] = now
            net.rate[flow] = net.fresh[flow]
            _set_end(net, flow)
    net.counts[_FILLED] = 0


@compiling.in_place
def _release(net: Network) -> None:
    """Mark flows whose bottleneck other flows have left."""
    shift = net.counts[_SHIFT]
    for at in range(net.counts[_DIRTY]):
        resource = net.dirty[at]
        net.is_dirty[resource] = 0
        number = net.head[resource]
        while number >= 0:
            if net.bottleneck[number >> shift] == resource:
                _change(net, number >> shift)
            number = net.following[number]
    net.counts[_DIRTY] = 0


@compiling.in_place
def _join(net: Network) -> None:
    """Add flows whose rate is no longer valid to those to be filled."""
    for at in range(net.counts[_CHANGED]):
        flow = net.changed[at]
        net.is_changed[flow] = 0
        # A flow may have ended in the instant in which it started.
        if net.use_count[flow] and not net.is_filled[flow]:
            net.is_filled[flow] = 1
            net.filled[net.counts[_FILLED]] = flow
            net.counts[_FILLED] += 1
    net.counts[_CHANGED] = 0


@compiling.in_place
def _fill(net: Network) -> None:
    """Fill progressively, with the rates of the other flows fixed."""
    _touch_resources(net)
    for at in range(net.counts[_FILLED]):
        heaps.put(net.cap, net.cap_order, net.cap_place, net.filled[at])
    while net.cap_order[0]:
        flow = net.cap_order[1]
        if net.level_order[0]:
            resource = net.level_order[1]
            if net.level[resource] < net.cap[flow]:
                _fill_up(net, resource)
                continue
        _freeze(net, flow, net.cap[flow], _OWN_CAP)


@compiling.in_place
def _touch_resources(net: Network) -> None:
    for at in range(net.counts[_FILLED]):
        flow = net.filled[at]
        first_use = flow << net.counts[_SHIFT]
        for number in range(first_use, first_use + net.use_count[flow]):
            resource = net.resource[number]
            if not net.is_touched[resource]:
                net.is_touched[resource] = 1
                net.touched[net.counts[_TOUCHED]] = resource
                net.counts[_TOUCHED] += 1
                _open(net, resource)


@compiling.in_place
def _open(net: Network, resource: int) -> None:
    """Compute the room left by fixed flows, and count the growing ones."""
    shift = net.counts[_SHIFT]
    room = net.capacity[resource]
    weight = 0.0
    growing = 0
    number = net.head[resource]
    while number >= 0:
        flow = number >> shift
        if net.is_filled[flow]:
            weight += net.cost[number]
            growing += 1
        else:
            room -= net.cost[number] * net.rate[flow]
        number = net.following[number]
    net.room[resource] = room
    net.weight[resource] = weight
    net.growing[resource] = growing
    net.level[resource] = max(room, 0.0) / weight
    heaps.put(net.level, net.level_order, net.level_place, resource)


@compiling.in_place
def _fill_up(net: Network, resource: int) -> None:
    """Stop the flows that are still growing on a full resource."""
    shift = net.counts[_SHIFT]
    level = net.level[resource]
    number = net.head[resource]
    while number >= 0:
        if net.cap_place[number >> shift] > 0:
            _freeze(net, number >> shift, level, resource)
        number = net.following[number]


@compiling.in_place
def _freeze(net: Network, flow: int, rate: float, bottleneck: int) -> None:
    net.fresh[flow] = rate
    net.bottleneck[flow] = bottleneck
    heaps.remove(net.cap, net.cap_order, net.cap_place, flow)
    first_use = flow << net.counts[_SHIFT]
    for number in range(first_use, first_use + net.use_count[flow]):
        resource = net.resource[number]
        cost = net.cost[number]
        net.room[resource] -= cost * rate
        net.weight[resource] -= cost
        net.growing[resource] -= 1
        if net.growing[resource]:
            net.level[resource] = (
                max(net.room[resource], 0.0) / net.weight[resource]
            )
            heaps.put(net.level, net.level_order, net.level_place, resource)
        else:
            heaps.remove(net.level, net.level_order, net.level_place, resource)


@compiling.in_place
def _find_unfair(net: Network) -> None:
    """Mark flows that have lost their bottleneck or hold others back."""
    shift = net.counts[_SHIFT]
    for at in range(net.counts[_TOUCHED]):
        resource = net.touched[at]
        net.is_touched[resource] = 0
        load = 0.0
        fastest = 0.0
        level = math.inf
        number = net.head[resource]
        while number >= 0:
            flow = number >> shift
            rate = net.rate[flow]
            if net.is_filled[flow]:
                rate = net.fresh[flow]
                if net.bottleneck[flow] == resource:
                    level = min(level, rate)
            load += net.cost[number] * rate
            fastest = max(fastest, rate)
            number = net.following[number]
        is_full = load >= net.capacity[resource] * (1.0 - _EPSILON)
        number = net.head[resource]
        while number >= 0:
            flow = number >> shift
            if not net.is_filled[flow]:
                rate = net.rate[flow]
                if rate > level * (1.0 + _EPSILON) or (
                    net.bottleneck[flow] == resource
                    and not (is_full and rate >= fastest * (1.0 - _EPSILON))
                ):
                    _change(net, flow)
            number = net.following[number]
    net.counts[_TOUCHED] = 0
