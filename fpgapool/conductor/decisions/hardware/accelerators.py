# SPDX-License-Identifier: Apache-2.0

"""Applies changes of the library, and passes them to the core."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping

from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import pool as pools
from fpgapool.conductor.decisions.hardware import bitstreams
from fpgapool.conductor.decisions.hardware import registry
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import opening
from fpgapool.core import events
from fpgapool.core import model
from fpgapool.db import api as db_api
from fpgapool.objects import bitstream
from fpgapool.vocabulary import platforms


class Accelerators:
    """Keeps the library of accelerators up to date."""

    def __init__(self, pool: pools.Pool) -> None:
        self._pool = pool

    @property
    def handled(self) -> Mapping[type, pools.Handler]:
        """The handlers of inputs."""
        return {
            inputs.Library: lambda item: self.load(item.records),
            inputs.ChangeBitstream: self._change_bitstream,
        }

    def load(self, records: Iterable[db_api.AcceleratorRecord]) -> None:
        """Replace the accelerators that need no bitstream file."""
        self._pool.catalogue.set_accelerators(records)
        self.tell()

    def _change_bitstream(self, item: inputs.ChangeBitstream) -> None:
        pool, catalogue = self._pool, self._pool.catalogue
        if pool.database_failing:
            pool.outbox.send(
                effects.EarlyAnswer(item.future, opening.not_recordable())
            )
            return
        before, refusal = catalogue.library, None
        try:
            row = catalogue.apply(item.change, self._surroundings(item.change))
        except admission.Rejected as error:
            row, refusal = None, error
        if row is not None:
            pool.outbox.write(row)
        if catalogue.library is not before:
            self.tell()
        # A refusal also waits for the commit: the row that caused it may not
        # be recorded yet, and the client will look for it.
        pool.outbox.send(effects.Answer(item.future, refusal))

    def _surroundings(
        self, change: bitstream.BitstreamChange
    ) -> bitstreams.Surroundings:
        pool = self._pool
        quota = pool.quotas.of(pool.catalogue.project_of(change))
        return bitstreams.Surroundings(
            now=pool.now,
            limits=bitstreams.Limits(
                count=pool.settings.max_bitstreams_per_project,
                total_bytes=quota.bitstream_bytes,
            ),
            capacities=pool.registry.capacities(),
            running={
                hold.bitstream_id
                for hold in pool.holds.values()
                if hold.bitstream_id is not None
            },
        )

    def see_slots(self) -> None:
        """Update which slots fit an accelerator, after a host's report."""
        pool = self._pool
        if pool.catalogue.set_builtins(pool.registry.builtins()):
            self.tell()

    def tell(self) -> None:
        """Send the core the accelerators of the library."""
        self._update_outdated()
        self._pool.tell(
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
                    for profile in self._pool.profiles.values()
                )
            )
        )
        self._pool.tell_power_caps()

    def _update_outdated(self) -> None:
        """Update which slots hold outdated bitstreams; tell the core."""
        pool = self._pool
        changed: dict[str, registry.HostEntry] = {}
        for slot in pool.registry.slots.values():
            outdated = pool.catalogue.is_outdated(
                slot.programmed, slot.bitstream_id, slot.shape
            )
            if outdated != slot.outdated:
                slot.outdated = outdated
                changed[slot.host.uuid] = slot.host
        pool.tell(*(events.HostUp(h.spec()) for h in changed.values() if h.up))
