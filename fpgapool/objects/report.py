# SPDX-License-Identifier: Apache-2.0

"""Payloads of an agent's report, which covers all its slots."""

import dataclasses
import functools
import typing

from fpgapool.objects import base
from fpgapool.objects import group
from fpgapool.objects import session


@dataclasses.dataclass(frozen=True, kw_only=True)
class SlotReport(base.Payload):
    """One slot, as reported by its agent.

    :param state: a ``SLOT_…`` name of :mod:`fpgapool.vocabulary.states`.
    :param seen_generation: the highest generation that the agent has accepted
        since its start, or found in the worker.
    :param programming_time_s: how long it takes to program the slot with
        another accelerator.
    :param energy_j: the slot's share of the energy that the board has used for
        its current holder or, if it has none, for its last one; None if the
        board does not measure energy.
    :param bitstream_id: id of the bitstream in the slot; None if it is not
        from the library.
    :param resources: the slot's resources for bitstreams, by name; None if
        its driver does not report them.
    :param previous_result: the result before ``last_result``; if that one's
        client never connected, the last one whose client had. It is needed if
        a leader reassigned the slot and died before recording that.
    :param offer: where the next client of an idle slot may connect
        immediately; None: it must wait until the slot is ready.
    :param beyond_claim: whether its session has exceeded the limit of its
        order; None: its agent does not report it.
    """

    VERSION = "1.1"

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
    beyond_claim: bool | None = base.added(1, None)

    def to_primitive(self) -> dict[str, typing.Any]:
        """Return its form, which is cached and must not be changed."""
        return self._form

    @functools.cached_property
    def _form(self) -> dict[str, typing.Any]:
        return super().to_primitive()


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceReport(base.Payload):
    """One board, as reported by its agent.

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
    """The complete state of a host.

    :param agent_boot_id: ``"<time_ns>-<pid>"`` of the agent process.
    :param sequence: incremented with every report of an agent process.
    :param link_message: why the data plane's share of the network card is not
        capped as configured; None if it is capped, or needs no cap.
    :param isolation_message: what keeps workers from being isolated; None if
        nothing does, or an older agent does not report it.
    :param sent_at: the host's wall-clock time, by which its front door also
        checks the validity of requests; None if the agent does not send it.
    :param power_cap_w: maximum power of all its slots together, not including
        that of idle boards; None: no cap.
    :param chunk_bytes: maximum length of a piece that its workers accept; None
        if an older agent does not report it.
    :param agent_version: version of fpgapool; empty if an older agent does not
        report it.
    :param sessions: the revisions that its front door knows of its sessions
        without recent news, by their ids, so that the conductor sends news
        that were lost; None: there are none.
    """

    VERSION = "1.1"

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
    sessions: dict[str, typing.Any] | None = base.added(1, None)
    isolation_message: str | None = base.added(1, None)
    agent_version: str = base.added(1, "")
