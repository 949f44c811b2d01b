# SPDX-License-Identifier: Apache-2.0

"""Payloads of an agent's report: its whole slot table."""

import dataclasses
import functools
import typing

from fpgapool.objects import base
from fpgapool.objects import group
from fpgapool.objects import session


@dataclasses.dataclass(frozen=True, kw_only=True)
class SlotReport(base.Payload):
    """One slot as its agent sees it.

    :param state: a ``SLOT_…`` name of :mod:`fpgapool.vocabulary.states`.
    :param seen_generation: the highest generation accepted since the agent
        started or found in the worker.
    :param programming_time_s: how long the slot takes to be programmed with
        another accelerator.
    :param energy_j: the slot's share of the board's energy for its current
        holder or, without one, for its last; None if the board does not
        measure it.
    :param bitstream_id: of the file in the slot; None if it is not from the
        library.
    :param resources: the slot's resources for bitstreams, by name; None if
        its driver does not report them.
    :param previous_result: the result of the holder before the newest one. A
        leader may have reassigned the slot and died before it recorded that.
    :param offer: of an idle slot; None: its next client must wait until the
        slot is ready.
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
    offer: session.Offer | None = None

    def to_primitive(self) -> dict[str, typing.Any]:
        """Return its form, which is made once and must not be changed."""
        return self._form

    @functools.cached_property
    def _form(self) -> dict[str, typing.Any]:
        return super().to_primitive()


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceReport(base.Payload):
    """One board as its agent sees it.

    :param builtins: the accelerators that its slots run without a file, each
        with the supported values of restricted parameters; None: its driver or
        agent does not report them.
    """

    name: str
    model: str
    dma_bytes_per_s: float
    healthy: bool = True
    message: str = ""
    slots: tuple[SlotReport, ...]
    builtins: dict[str, typing.Any] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentReport(base.Payload):
    """The whole state of a host.

    :param agent_boot_id: ``"<time_ns>-<pid>"`` of the agent process.
    :param sequence: incremented with every report of an agent process.
    :param link_message: why the data plane's share of the network card is
        not capped as configured; None if it is, or needs no cap.
    :param sent_at: host's wall-clock time, which its front door also uses for
        the validity of requests; None if the agent does not send it.
    :param power_cap_w: what its slots may take together, in addition to idle
        boards; None: no cap.
    :param chunk_bytes: the longest piece that its workers accept; None: an
        older agent does not report it.
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
    groups: tuple[group.GroupReport, ...] = ()
    power_cap_w: float | None = None
    chunk_bytes: int | None = None
