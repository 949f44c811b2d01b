# SPDX-License-Identifier: Apache-2.0

"""The metrics that an agent counts and exposes to Prometheus."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable
from collections.abc import Mapping

from oslo_config import cfg

from fpgapool import objects
from fpgapool.agent.slots import orders
from fpgapool.agent.slots import slot as slots
from fpgapool.common.monitoring import metrics
from fpgapool.common.monitoring import tallies
from fpgapool.vocabulary import states

# Names of the block counters that a worker reports.
_BLOCKS = ("hits", "misses", "evicted")


#: Shows whether the other metrics are available.
ALWAYS = metrics.table(
    """
gauge fpgapool_agent_state_known{host} = known
    1 if the agent answered this scrape in time; otherwise 0, and the metrics
    of slots and devices are absent.
"""
)
#: Metrics of :class:`Counts`.
EVENTS = metrics.table(
    """
counter fpgapool_agent_input_bytes_total{host,device} = input_bytes
    Bytes that sessions and tasks have sent through a device's DMA.
counter fpgapool_agent_output_bytes_total{host,device} = output_bytes
    Bytes that sessions and tasks have received through a device's DMA.
counter fpgapool_agent_block_hits_total{host,device} = blocks.hits
    Blocks that programs referred to and that the slot's worker had in its
    cache.
counter fpgapool_agent_block_misses_total{host,device} = blocks.misses
    Blocks that programs had to send because they were not cached.
counter fpgapool_agent_block_evictions_total{host,device} = blocks.evicted
    Blocks that were removed from caches to make room for others.
gauge fpgapool_agent_block_kept_bytes{host,device} = kept_bytes
    Total size in bytes of the blocks that workers have cached for programs.
counter fpgapool_agent_programmings_total{host,device} = programmings
    Times that a slot was prepared by programming it.
counter fpgapool_agent_reuses_total{host,device} = reuses
    Times that a slot was prepared without programming, because it already
    contained the accelerator.
counter fpgapool_agent_programming_failures_total{host,device,code} = failures
    Times that preparing a slot failed, by code. PROGRAM_FAILED means that the
    board could not be programmed.
histogram fpgapool_agent_prepare_seconds{host} = prepare_s
    Time that it took to prepare a slot for a session.
counter fpgapool_agent_results_total{host,state,code} = results
    Sessions that have ended in slots of this host, by state and code.
histogram fpgapool_agent_rpc_seconds{host,method} = rpc.durations
    Time until the broker accepted a message to the conductor or, for a call,
    until the conductor answered.
counter fpgapool_agent_rpc_failures_total{host,method} = rpc.failures
    Messages to the conductor that the broker did not accept, and calls that
    were not answered.
"""
)
#: Metrics of the network device.
NIC = metrics.table(
    """
gauge fpgapool_agent_nic_limit_bytes_per_second{host} = bytes_per_s
    Rate of the network device in each direction.
counter fpgapool_agent_nic_receive_bytes_total{host} = rx_bytes
    Bytes that the network device has received.
counter fpgapool_agent_nic_transmit_bytes_total{host} = tx_bytes
    Bytes that the network device has sent.
"""
)
#: Metrics of a running agent.
AGENT = metrics.table(
    """
counter fpgapool_agent_casts_dropped_total{host} = dropped
    Messages to the conductor that were dropped because too many were waiting.
counter fpgapool_agent_workers_started_total{host,device} = workers.started
    Worker processes that the agent has started.
counter fpgapool_agent_workers_ended_total{host,device,how} = workers.ended
    Worker processes that have ended: left to be replaced by a new one, killed
    by the agent, killed by the kernel for lack of memory (out_of_memory), or
    died.
counter fpgapool_agent_orders_refused_total{host,reason} = table.refusals
    Orders from conductors that the agent refused, by the part that was
    invalid.
gauge fpgapool_agent_isolation_problems{host} = problems
    Things that keep workers and desks from being isolated; the agent's log
    and the message of its service name them.
"""
)
#: Metrics of the bitstream cache.
CACHE = metrics.table(
    """
counter fpgapool_agent_bitstream_hits_total{host} = hits
    Times that a bitstream was needed and already cached on the host.
counter fpgapool_agent_bitstream_misses_total{host} = misses
    Times that a bitstream was needed and had to be fetched.
counter fpgapool_agent_bitstream_failures_total{host} = failures
    Times that a bitstream was needed and could not be fetched.
counter fpgapool_agent_bitstream_damaged_total{host} = damaged
    Cached bitstreams that were removed because they were damaged or missing.
counter fpgapool_agent_bitstream_evictions_total{host} = evictions
    Cached bitstreams that were removed to make room for others.
counter fpgapool_agent_bitstream_fetched_bytes_total{host} = fetched_bytes
    Bytes of bitstreams that were fetched from the library.
gauge fpgapool_agent_bitstream_stored_bytes{host} = stored_bytes
    Total size in bytes of the bitstreams cached on the host.
"""
)
#: Metrics reported for each device.
DEVICES = metrics.table(
    """
gauge fpgapool_agent_slots{host,device,state} = states
    Slots of a device, by state.
gauge fpgapool_agent_device_healthy{host,device} = healthy
    1 if the driver reports that a device is healthy, otherwise 0.
gauge fpgapool_agent_dma_limit_bytes_per_second{host,device} = dma_bytes_per_s
    Maximum rate of a device's DMA in each direction.
"""
)
#: Metrics of a group's desk.
GROUPS = metrics.table(
    """
gauge fpgapool_agent_group_members{host,group} = members
    Slots of this host that serve a group.
gauge fpgapool_agent_group_clients{host,group} = clients
    Clients of a group that are connected to its desk here.
gauge fpgapool_agent_group_waiting_tasks{host,group} = waiting
    Tasks that are waiting in the queues of a group's desk.
gauge fpgapool_agent_group_running_tasks{host,group} = running
    Tasks of a group that are running in slots of this host.
counter fpgapool_agent_group_tasks_total{host,group} = tasks
    Tasks of a group that have ended in slots of this host.
counter fpgapool_agent_group_busy_seconds_total{host,group} = busy_s
    Time for which tasks and locks of a group have occupied slots of this host.
"""
)
DEFINITIONS = (
    *ALWAYS,
    *DEVICES,
    *EVENTS,
    *NIC,
    *GROUPS,
    *AGENT,
    *CACHE,
)


@dataclasses.dataclass(slots=True)
class _Slot:
    """A slot's last known state, to detect changes.

    :ivar result_of: generation of the last counted result.
    """

    known: bool = False
    programmed: tuple[str | None, str | None] = (None, None)
    result_of: int = -1
    generation: int = -1
    input_bytes: int = 0
    output_bytes: int = 0
    preparing: int | None = None
    reuses: bool = False
    asked_at_s: float = 0.0
    blocks: Mapping[str, int] = dataclasses.field(default_factory=dict)


class Counts:
    """Counts of events in a host's slots; only the loop's thread updates it.

    Events that an earlier agent has counted are not counted again.

    :ivar rpc: timings of messages to the conductor; any thread may add to
        them.
    """

    def __init__(self) -> None:
        self._slots: collections.defaultdict[orders.Key, _Slot] = (
            collections.defaultdict(_Slot)
        )
        self.input_bytes = collections.Counter[str]()
        self.output_bytes = collections.Counter[str]()
        self.blocks = {name: collections.Counter[str]() for name in _BLOCKS}
        self.programmings = collections.Counter[str]()
        self.reuses = collections.Counter[str]()
        self.failures = collections.Counter[tuple[str, str]]()
        self.results = collections.Counter[tuple[str, str]]()
        self.prepare_s = tallies.Histogram(tallies.LONG_S)
        self.rpc = tallies.Timings()

    def count_status(
        self, key: orders.Key, status: slots.WorkerStatus
    ) -> None:
        slot = self._slots[key]
        slot.programmed = (status.programmed, status.bitstream_id)
        result = status.last_result
        if not slot.known:
            slot.known = True
            slot.result_of = -1 if result is None else result.generation
            self._set_bytes(slot, status)
            slot.blocks = status.blocks
            return
        self._count_blocks(key, status.blocks)
        if result is not None:
            self._advance(key, result.generation, result)
        if status.generation is not None:
            self._advance(key, status.generation, status)

    def _count_blocks(
        self, key: orders.Key, blocks: Mapping[str, int]
    ) -> None:
        slot = self._slots[key]
        for name in _BLOCKS:
            more = blocks.get(name, 0) - slot.blocks.get(name, 0)
            # A new worker counts from 0.
            counted = more if more >= 0 else blocks.get(name, 0)
            self.blocks[name][key[0]] += counted
        slot.blocks = blocks

    def kept_bytes(self) -> collections.Counter[str]:
        """Return the bytes of blocks that workers have cached, by device."""
        kept = collections.Counter[str]()
        for key, slot in list(self._slots.items()):
            kept[key[0]] += slot.blocks.get("kept_bytes", 0)
        return kept

    @staticmethod
    def _set_bytes(slot: _Slot, status: slots.WorkerStatus) -> None:
        if status.generation is not None:
            slot.generation = status.generation
            slot.input_bytes = status.input_bytes
            slot.output_bytes = status.output_bytes
        elif status.last_result is not None:
            slot.generation = status.last_result.generation
            slot.input_bytes = status.last_result.input_bytes
            slot.output_bytes = status.last_result.output_bytes

    def _advance(
        self,
        key: orders.Key,
        generation: int,
        moved: slots.WorkerStatus | objects.SessionResult,
    ) -> None:
        slot = self._slots[key]
        if generation < slot.generation:
            return
        if generation > slot.generation:
            slot.generation = generation
            slot.input_bytes = slot.output_bytes = 0
        device = key[0]
        more_input = moved.input_bytes - slot.input_bytes
        more_output = moved.output_bytes - slot.output_bytes
        if more_input > 0:
            self.input_bytes[device] += more_input
            slot.input_bytes = moved.input_bytes
        if more_output > 0:
            self.output_bytes[device] += more_output
            slot.output_bytes = moved.output_bytes

    def count_assign(
        self,
        key: orders.Key,
        generation: int,
        accelerator: str,
        now: float,
        bitstream_id: str | None = None,
    ) -> None:
        """Count an order that makes a worker prepare its slot.

        :param now: time by the monotonic clock, in seconds.
        :param bitstream_id: id of the accelerator's bitstream; None without a
            file.
        """
        slot = self._slots[key]
        slot.preparing = generation
        slot.reuses = slot.programmed == (accelerator, bitstream_id)
        slot.asked_at_s = now

    def count_prepared(
        self, key: orders.Key, generation: int, now: float
    ) -> None:
        """Count a slot as ready; see :meth:`count_assign`."""
        slot = self._slots[key]
        if slot.preparing != generation:
            # The slot was already ready; only its secret is new.
            return
        slot.preparing = None
        self.prepare_s.observe(now - slot.asked_at_s)
        counter = self.reuses if slot.reuses else self.programmings
        counter[key[0]] += 1

    def count_result(
        self, key: orders.Key, result: objects.SessionResult | None
    ) -> bool:
        """Count the result of a slot's last holder; whether it is new."""
        slot = self._slots[key]
        if result is None or result.generation <= slot.result_of:
            return False
        slot.result_of = result.generation
        code = tallies.known(result.code)
        self.results[result.state, code] += 1
        if result.state == states.PREPARE_FAILED:
            slot.preparing = None
            self.failures[key[0], code] += 1
        return True


def endpoint(
    conf: cfg.ConfigOpts, fills: Iterable[metrics.Fill]
) -> metrics.Endpoint:
    """Return the server for one or more agents' metrics."""
    return metrics.Endpoint(conf, "agent_port", DEFINITIONS, *fills)


def fill_devices(
    page: metrics.Page, host: str, reports: Iterable[objects.DeviceReport]
) -> None:
    for device in reports:
        found = collections.Counter(slot.state for slot in device.slots)
        by_state = {one: found[one] for one in sorted(states.SLOT_STATES)}
        page.fill(DEVICES, device, host, device.name, states=by_state)
