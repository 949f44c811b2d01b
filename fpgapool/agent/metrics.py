# SPDX-License-Identifier: Apache-2.0

"""The metrics that an agent counts and exposes to Prometheus."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterable
from collections.abc import Mapping

from oslo_config import cfg

from fpgapool import objects
from fpgapool.agent.bitstreams import cache
from fpgapool.agent.host import monitor
from fpgapool.agent.slots import orders
from fpgapool.agent.slots import slot as slots
from fpgapool.agent.supervision import desks
from fpgapool.common.monitoring import metrics
from fpgapool.common.monitoring import tallies
from fpgapool.vocabulary import states

_HOST = ("host",)
_DEVICE = ("host", "device")
_GROUP = ("host", "group")

_gauge = functools.partial(metrics.Definition, kind=metrics.GAUGE)
_counter = functools.partial(metrics.Definition, kind=metrics.COUNTER)
_histogram = functools.partial(metrics.Definition, kind=metrics.HISTOGRAM)

STATE_KNOWN = _gauge(
    "fpgapool_agent_state_known",
    help="1 if the agent has answered this scrape in time; slots and devices"
    " are absent otherwise.",
    labels=_HOST,
)
SLOTS = _gauge(
    "fpgapool_agent_slots",
    help="Slots of a device by state.",
    labels=(*_DEVICE, "state"),
)
DEVICE_HEALTHY = _gauge(
    "fpgapool_agent_device_healthy",
    help="1 if the driver says that a device is healthy.",
    labels=_DEVICE,
)
DMA_LIMIT = _gauge(
    "fpgapool_agent_dma_limit_bytes_per_second",
    help="What a device's DMA can move in each direction.",
    labels=_DEVICE,
)
INPUT = _counter(
    "fpgapool_agent_input_bytes_total",
    help="Bytes that sessions have sent through a device's DMA.",
    labels=_DEVICE,
)
OUTPUT = _counter(
    "fpgapool_agent_output_bytes_total",
    help="Bytes that sessions have got back through a device's DMA.",
    labels=_DEVICE,
)
BLOCK_HITS = _counter(
    "fpgapool_agent_block_hits_total",
    help="Blocks that programs referred to and the slot's worker had.",
    labels=_DEVICE,
)
BLOCK_MISSES = _counter(
    "fpgapool_agent_block_misses_total",
    help="Blocks that programs referred to and had to send.",
    labels=_DEVICE,
)
BLOCK_EVICTIONS = _counter(
    "fpgapool_agent_block_evictions_total",
    help="Blocks that were removed to make room for others.",
    labels=_DEVICE,
)
BLOCK_KEPT = _gauge(
    "fpgapool_agent_block_kept_bytes",
    help="Bytes of blocks that workers keep for programs.",
    labels=_DEVICE,
)
NIC_LIMIT = _gauge(
    "fpgapool_agent_nic_limit_bytes_per_second",
    help="What the network device can move in each direction.",
    labels=_HOST,
)
NIC_RECEIVED = _counter(
    "fpgapool_agent_nic_receive_bytes_total",
    help="Bytes that the network device has received.",
    labels=_HOST,
)
NIC_SENT = _counter(
    "fpgapool_agent_nic_transmit_bytes_total",
    help="Bytes that the network device has sent.",
    labels=_HOST,
)
PROGRAMMINGS = _counter(
    "fpgapool_agent_programmings_total",
    help="Slots that were made ready by putting an accelerator into them.",
    labels=_DEVICE,
)
REUSES = _counter(
    "fpgapool_agent_reuses_total",
    help="Slots that were made ready and had the accelerator already.",
    labels=_DEVICE,
)
FAILURES = _counter(
    "fpgapool_agent_programming_failures_total",
    help="Slots that could not be made ready, by code; PROGRAM_FAILED is the"
    " board's.",
    labels=(*_DEVICE, "code"),
)
PREPARE = _histogram(
    "fpgapool_agent_prepare_seconds",
    help="Time to make a slot ready for a session.",
    labels=_HOST,
)
GROUP_MEMBERS = _gauge(
    "fpgapool_agent_group_members",
    help="Slots of this host that serve a group.",
    labels=_GROUP,
)
GROUP_CLIENTS = _gauge(
    "fpgapool_agent_group_clients",
    help="Clients of a group that are connected to its desk here.",
    labels=_GROUP,
)
GROUP_WAITING = _gauge(
    "fpgapool_agent_group_waiting_tasks",
    help="Tasks that wait in the queues of a group's desk.",
    labels=_GROUP,
)
GROUP_RUNNING = _gauge(
    "fpgapool_agent_group_running_tasks",
    help="Tasks of a group that run in slots of this host.",
    labels=_GROUP,
)
GROUP_TASKS = _counter(
    "fpgapool_agent_group_tasks_total",
    help="Tasks of a group that have ended in slots of this host.",
    labels=_GROUP,
)
GROUP_BUSY = _counter(
    "fpgapool_agent_group_busy_seconds_total",
    help="Time for which these tasks, and locks, had slots.",
    labels=_GROUP,
)
RESULTS = _counter(
    "fpgapool_agent_results_total",
    help="Sessions that ended in a slot of this host, by state and code.",
    labels=("host", "state", "code"),
)
STARTED = _counter(
    "fpgapool_agent_workers_started_total",
    help="Worker processes that were started.",
    labels=_DEVICE,
)
WORKERS_ENDED = _counter(
    "fpgapool_agent_workers_ended_total",
    help="Worker processes that ended: left to make room for a fresh one,"
    " killed by the agent, or died.",
    labels=(*_DEVICE, "how"),
)
REFUSALS = _counter(
    "fpgapool_agent_orders_refused_total",
    help="Orders of conductors that were refused, by what was wrong in them.",
    labels=("host", "reason"),
)
DROPPED = _counter(
    "fpgapool_agent_casts_dropped_total",
    help="Messages to the conductor dropped because too many waited.",
    labels=_HOST,
)
RPC = _histogram(
    "fpgapool_agent_rpc_seconds",
    help="Time to hand a message for the conductor to the broker, or to be"
    " answered.",
    labels=("host", "method"),
)
RPC_FAILURES = _counter(
    "fpgapool_agent_rpc_failures_total",
    help="Messages for the conductor that the broker did not take, or that"
    " were not answered.",
    labels=("host", "method"),
)
CACHE_HITS = _counter(
    "fpgapool_agent_bitstream_hits_total",
    help="Bitstreams that were needed and on the host already.",
    labels=_HOST,
)
CACHE_MISSES = _counter(
    "fpgapool_agent_bitstream_misses_total",
    help="Bitstreams that were needed and had to be fetched.",
    labels=_HOST,
)
CACHE_FAILURES = _counter(
    "fpgapool_agent_bitstream_failures_total",
    help="Bitstreams that were needed and could not be had.",
    labels=_HOST,
)
CACHE_DAMAGED = _counter(
    "fpgapool_agent_bitstream_damaged_total",
    help="Bitstreams that had been fetched and were not what they were then.",
    labels=_HOST,
)
CACHE_EVICTIONS = _counter(
    "fpgapool_agent_bitstream_evictions_total",
    help="Bitstreams that were removed from the host to make room.",
    labels=_HOST,
)
CACHE_FETCHED = _counter(
    "fpgapool_agent_bitstream_fetched_bytes_total",
    help="Bytes of bitstreams that have come from the library.",
    labels=_HOST,
)
CACHE_STORED = _gauge(
    "fpgapool_agent_bitstream_stored_bytes",
    help="Bytes of bitstreams on the host.",
    labels=_HOST,
)

DEFINITIONS = (
    STATE_KNOWN,
    SLOTS,
    DEVICE_HEALTHY,
    DMA_LIMIT,
    INPUT,
    OUTPUT,
    BLOCK_HITS,
    BLOCK_MISSES,
    BLOCK_EVICTIONS,
    BLOCK_KEPT,
    NIC_LIMIT,
    NIC_RECEIVED,
    NIC_SENT,
    PROGRAMMINGS,
    REUSES,
    FAILURES,
    PREPARE,
    GROUP_MEMBERS,
    GROUP_CLIENTS,
    GROUP_WAITING,
    GROUP_RUNNING,
    GROUP_TASKS,
    GROUP_BUSY,
    RESULTS,
    STARTED,
    WORKERS_ENDED,
    REFUSALS,
    DROPPED,
    RPC,
    RPC_FAILURES,
    CACHE_HITS,
    CACHE_MISSES,
    CACHE_FAILURES,
    CACHE_DAMAGED,
    CACHE_EVICTIONS,
    CACHE_FETCHED,
    CACHE_STORED,
)

# Names of a worker's figures.
_BLOCKS = {
    "hits": BLOCK_HITS,
    "misses": BLOCK_MISSES,
    "evicted": BLOCK_EVICTIONS,
}


@dataclasses.dataclass(slots=True)
class _Slot:
    """The known state of a slot, for detecting changes.

    :ivar result_of: generation of the last result that was counted.
    :ivar generation: the generation of these bytes.
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
    """Counts of events in the slots of a host; the loop's thread counts.

    Events that an earlier agent saw of a worker are not counted again.

    :ivar rpc: counts of messages to the conductor; any thread counts.
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
        """A worker has reported its status.

        :param key: its slot.
        :param status: the status.
        """
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
            # A new worker counts anew.
            counted = more if more >= 0 else blocks.get(name, 0)
            self.blocks[name][key[0]] += counted
        slot.blocks = blocks

    def kept_bytes(self) -> collections.Counter[str]:
        """Return the bytes of blocks that workers keep now, by device."""
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
        """A worker is told to make its slot ready.

        :param key: its slot.
        :param generation: of the assignment.
        :param accelerator: the accelerator to prepare.
        :param now: monotonic clock in seconds.
        :param bitstream_id: of its file; None if it has none.
        """
        slot = self._slots[key]
        slot.preparing = generation
        slot.reuses = slot.programmed == (accelerator, bitstream_id)
        slot.asked_at_s = now

    def count_prepared(
        self, key: orders.Key, generation: int, now: float
    ) -> None:
        """A slot is ready; see :meth:`count_assign`."""
        slot = self._slots[key]
        if slot.preparing != generation:
            # It was ready before and has only got a new secret.
            return
        slot.preparing = None
        self.prepare_s.observe(now - slot.asked_at_s)
        counter = self.reuses if slot.reuses else self.programmings
        counter[key[0]] += 1

    def count_result(
        self, key: orders.Key, result: objects.SessionResult | None
    ) -> None:
        """Count the result of a slot's last holder, once.

        :param key: the slot.
        :param result: None if there is no result.
        """
        slot = self._slots[key]
        if result is None or result.generation <= slot.result_of:
            return
        slot.result_of = result.generation
        code = tallies.known(result.code)
        self.results[result.state, code] += 1
        if result.state == states.PREPARE_FAILED:
            slot.preparing = None
            self.failures[key[0], code] += 1


def endpoint(
    conf: cfg.ConfigOpts, fills: Iterable[metrics.Fill]
) -> metrics.Endpoint:
    """Return the server for the metrics of one or more agents.

    :param conf: the configuration.
    :param fills: the agents' methods that fill a page.
    """
    return metrics.Endpoint(conf, "agent_port", DEFINITIONS, *fills)


class Writer:
    """Writes the metrics of one agent to a page.

    :param host: its host's name.
    :param page: the page.
    """

    def __init__(self, host: str, page: metrics.Page) -> None:
        self._host = host
        self._page = page

    def put(
        self, definition: metrics.Definition, value: float, *labels: str
    ) -> None:
        """Put a value; see :meth:`metrics.Page.put`."""
        self._page.put(definition.name, value, self._host, *labels)

    def put_all(
        self,
        definition: metrics.Definition,
        counter: collections.Counter[str]
        | collections.Counter[tuple[str, str]],
    ) -> None:
        """Put all values of a counter, by their labels."""
        for key, value in list(counter.items()):
            labels = (key,) if isinstance(key, str) else key
            self.put(definition, value, *labels)

    def put_counts(self, counts: Counts) -> None:
        """Put the counts of events."""
        self.put_all(INPUT, counts.input_bytes)
        self.put_all(OUTPUT, counts.output_bytes)
        for name, definition in _BLOCKS.items():
            self.put_all(definition, counts.blocks[name])
        self.put_all(BLOCK_KEPT, counts.kept_bytes())
        self.put_all(PROGRAMMINGS, counts.programmings)
        self.put_all(REUSES, counts.reuses)
        self.put_all(FAILURES, counts.failures)
        self.put_all(RESULTS, counts.results)
        self._page.put_histogram(PREPARE.name, counts.prepare_s, self._host)
        self._page.put_timings(
            RPC.name, RPC_FAILURES.name, counts.rpc, self._host
        )

    def put_cache(self, counts: cache.Counts) -> None:
        """Put the state of the bitstream cache."""
        self.put(CACHE_HITS, counts.hits)
        self.put(CACHE_MISSES, counts.misses)
        self.put(CACHE_FAILURES, counts.failures)
        self.put(CACHE_DAMAGED, counts.damaged)
        self.put(CACHE_EVICTIONS, counts.evictions)
        self.put(CACHE_FETCHED, counts.fetched_bytes)
        self.put(CACHE_STORED, counts.stored_bytes)

    def put_nic(self, reading: monitor.NicReading) -> None:
        """Put the state of the network device."""
        self.put(NIC_LIMIT, reading.bytes_per_s)
        self.put(NIC_RECEIVED, reading.rx_bytes)
        self.put(NIC_SENT, reading.tx_bytes)

    def put_groups(self, figures: Iterable[desks.Figures]) -> None:
        """Put the state and the counts of desks."""
        for one in figures:
            group = one.group_id
            self.put(GROUP_MEMBERS, one.members, group)
            self.put(GROUP_CLIENTS, one.clients, group)
            self.put(GROUP_WAITING, one.waiting, group)
            self.put(GROUP_RUNNING, one.running, group)
            self.put(GROUP_TASKS, one.tasks, group)
            self.put(GROUP_BUSY, one.busy_s, group)

    def put_devices(self, reports: Iterable[objects.DeviceReport]) -> None:
        """Put the state of devices and slots."""
        for device in reports:
            self.put(DEVICE_HEALTHY, device.healthy, device.name)
            self.put(DMA_LIMIT, device.dma_bytes_per_s, device.name)
            found = collections.Counter(slot.state for slot in device.slots)
            for state in sorted(states.SLOT_STATES):
                self.put(SLOTS, found[state], device.name, state)
