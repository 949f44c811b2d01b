# SPDX-License-Identifier: Apache-2.0

"""Payloads of an agent's report: its whole slot table."""

import dataclasses
import typing

from fpgapool.objects import base
from fpgapool.objects import session


@dataclasses.dataclass(frozen=True, kw_only=True)
class SlotReport(base.Payload):
    """One slot as its agent sees it.

    :param state: a ``SLOT_…`` name of :mod:`fpgapool.vocabulary.states`.
    :param seen_generation: the highest generation accepted since the agent
        started or found in the worker.
    :param programming_time_s: how long the slot takes to be programmed with
        another accelerator.
    :param energy_j: what the slot's share of the board's power has amounted
        to since it was given to its holder, or, if it has none, for its last
        one; None if the board does not measure it.
    :param bitstream_id: of the file that the slot is programmed with; None
        if it is none of the library's.
    :param resources: how much the slot has of what bitstreams take, by name;
        None if its driver does not say.
    :param previous_result: how the holder before the newest one has ended. A
        leader may have given the slot on, and died before it recorded that.
    """

    device: str
    slot: int
    shape: str
    programmed: str | None = None
    programming_time_s: float = 0.0
    state: str
    session_id: str | None = None
    generation: int | None = None
    seen_generation: int = 0
    input_bytes: int = 0
    output_bytes: int = 0
    last_result: session.SessionResult | None = None
    energy_j: float | None = None
    bitstream_id: str | None = None
    resources: dict[str, typing.Any] | None = None
    previous_result: session.SessionResult | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceReport(base.Payload):
    """One board as its agent sees it."""

    name: str
    model: str
    dma_bytes_per_s: float
    healthy: bool = True
    message: str = ""
    slots: tuple[SlotReport, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentReport(base.Payload):
    """The whole state of a host.

    :param agent_boot_id: ``"<time_ns>-<pid>"`` of the agent process.
    :param sequence: grows by one with every report of an agent process.
    :param leader_epoch: the highest epoch seen.
    :param link_message: why the data plane's share of the network card is
        not capped as it should; None if it is, or needs no cap.
    :param sent_at: wall clock of the host, by which its front door says how
        long a request is good; None if the agent does not tell.
    """

    host_uuid: str
    host_name: str
    agent_boot_id: str
    sequence: int
    leader_epoch: int = 0
    nic_bytes_per_s: float
    nic_rx_bytes: int = 0
    nic_tx_bytes: int = 0
    devices: tuple[DeviceReport, ...] = ()
    driver: str
    link_message: str | None = None
    sent_at: float | None = None
