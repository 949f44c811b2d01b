# SPDX-License-Identifier: Apache-2.0

"""Applies changes to the library, and passes them to the core."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from oslo_log import log as logging

from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import parts
from fpgapool.conductor.decisions.assignments import holds
from fpgapool.conductor.decisions.hardware import bitstreams
from fpgapool.conductor.decisions.hardware import power_caps
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import quotas
from fpgapool.core import events
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.objects import bitstream
from fpgapool.vocabulary import platforms

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(eq=False, repr=False)
class Accelerators(parts.Room):
    """Keeps the library of accelerators up to date."""

    _registry: registry.Registry
    _catalogue: bitstreams.Catalogue
    _quotas: quotas.QuotaBook
    _holds: holds.Holds
    _power_caps: model.PowerCaps = dataclasses.field(
        default_factory=model.PowerCaps, init=False
    )

    @parts.handles(inputs.Library)
    def _library_changed(self, item: inputs.Library) -> None:
        self.load(item.records)

    def load(self, records: Iterable[db_api.AcceleratorRecord]) -> None:
        """Replace the accelerators that do not need a bitstream file."""
        self._catalogue.set_accelerators(records)
        self.tell_core()

    @parts.handles(inputs.ChangeBitstream)
    def _change_bitstream(self, item: inputs.ChangeBitstream) -> None:
        self._answer_change(item.future, lambda: self._apply(item.change))

    def _apply(self, change: bitstream.BitstreamChange) -> None:
        before = self._catalogue.library
        row = self._catalogue.apply(change, self._surroundings(change))
        if row is not None:
            self._outbox.write(row)
        if self._catalogue.library is not before:
            self.tell_core()

    def _surroundings(
        self, change: bitstream.BitstreamChange
    ) -> bitstreams.LibraryContext:
        quota = self._quotas.of(self._catalogue.project_of(change))
        return bitstreams.LibraryContext(
            now=self._clock.now,
            max_count=self._settings.max_bitstreams_per_project,
            max_bytes=quota.bitstream_bytes,
            capacities=self._registry.capacities(),
            running={
                hold.bitstream_id
                for hold in self._holds.values()
                if hold.bitstream_id is not None
            },
        )

    def see_slots(self) -> None:
        """After a host's report, update which slots each accelerator fits."""
        if self._catalogue.set_builtins(self._registry.builtins()):
            self.tell_core()

    def tell_core(self) -> None:
        """Send the library's accelerators to the core."""
        self._update_outdated()
        self._link.tell(
            events.AcceleratorsChanged(
                tuple(
                    model.Accelerator(
                        name=profile.name,
                        peak_bytes_per_s=profile.peak_bytes_per_s,
                        return_ratio=profile.return_ratio,
                        stateless=profile.moves,
                        shapes=frozenset(profile.shapes),
                        peaks_bytes_per_s=platforms.peaks(profile.platforms),
                    )
                    for profile in self._catalogue.profiles.values()
                )
            )
        )
        self.tell_power_caps()

    def tell_power_caps(self) -> None:
        """Send the caps on the power of slots to the core, if they changed."""
        caps = power_caps.caps(
            self._settings, self._registry, self._catalogue.profiles.values()
        )
        if caps != self._power_caps:
            self._power_caps = caps
            if caps.is_set:
                for line in power_caps.doubts(caps, self._registry):
                    LOG.warning("%s", line)
            self._link.tell(events.PowerCapsChanged(caps))

    def _update_outdated(self) -> None:
        """Update which slots have outdated bitstreams; notify the core."""
        changed: dict[str, registry.HostEntry] = {}
        for slot in self._registry.slots.values():
            outdated = self._catalogue.is_outdated(
                slot.programmed, slot.bitstream_id, slot.shape
            )
            if outdated != slot.outdated:
                slot.outdated = outdated
                changed[slot.host.uuid] = slot.host
        self._link.tell(
            *(events.HostUp(h.spec()) for h in changed.values() if h.up)
        )
