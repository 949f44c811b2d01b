# SPDX-License-Identifier: Apache-2.0

"""Calls about hardware, quotas, instances and the library."""

from __future__ import annotations

import dataclasses
from typing import Any

from fpgapool import objects
from fpgapool.common import exception
from fpgapool.conductor.calls import base
from fpgapool.conductor.calls import checks
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import limits
from fpgapool.conductor.decisions.hardware import administration
from fpgapool.conductor.decisions.hardware import reservations
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import instances
from fpgapool.conductor.decisions.requests import quotas
from fpgapool.objects import bitstream


class OperatorCalls(base.Calls):
    """Changes hardware, quotas, instances and the library."""

    @base.call
    def admit_instance(
        self, ctxt: Any, entry: Any, lost_hash: Any = ""
    ) -> dict[str, Any]:
        """Admit an instance; return its entry as it is now."""
        parsed = checks.checked(objects.InstanceEntry.from_primitive, entry)
        limits.argument(instances.ENTRY, vars(parsed), "entry")
        known = self._database.get_instance(parsed.instance_id)
        if known is not None and known.deleted_at is not None:
            # A second row with this ID would make all later commits fail.
            raise exception.InstanceNotFound(instance_id=known.instance_id)
        with self._places.take():
            self._offer(inputs.AdmitInstance(parsed, str(lost_hash)))
            return self._instance(parsed.instance_id).to_primitive()

    @base.call
    def revoke_instance_token(self, ctxt: Any, instance_id: str) -> None:
        """Revoke an instance's token permanently."""
        with self._places.take():
            self._offer(inputs.RevokeInstance(instance_id))
            self._instance(instance_id)

    def _instance(self, instance_id: str) -> objects.InstanceEntry:
        found = self._ask(
            lambda asked: asked.pool.instances.live.get(instance_id)
        )
        if found is None:
            raise exception.InstanceNotFound(instance_id=instance_id[:80])
        return instances.entry_of(found)

    @base.call
    def change_bitstream(self, ctxt: Any, change: Any) -> None:
        """Change the library; answers when the change is durable."""
        parsed = checks.checked(bitstream.change_from_primitive, change)
        try:
            self._change(inputs.ChangeBitstream(self._signed(parsed)))
        except admission.Rejected as error:
            raise exception.BitstreamRefused(
                str(error), code=error.code
            ) from error

    def _signed(
        self, change: bitstream.BitstreamChange
    ) -> bitstream.BitstreamChange:
        """Verify the signature, and add its key's name to the change."""
        if self._signer is None or not isinstance(
            change, objects.UploadBitstream | objects.DecideBitstream
        ):
            return change
        if isinstance(change, objects.DecideBitstream) and not change.approve:
            return change
        record = self._database.get_bitstream(change.bitstream_id)
        if record is None:
            # The library will report the error.
            return dataclasses.replace(change, signed_by="")
        checksum = (
            change.checksum_sha256
            if isinstance(change, objects.UploadBitstream)
            else record.checksum_sha256
        )
        signed_by = self._signer(record.signature, checksum, record.format)
        return dataclasses.replace(change, signed_by=signed_by)

    @base.call
    def administer(
        self,
        ctxt: Any,
        host_uuid: Any,
        device: Any,
        state: Any,
        reason: Any,
        drain_within_s: Any,
    ) -> None:
        """Enable, drain or disable hardware; answers when this is durable."""
        self._change(
            administration.checked(
                host_uuid=host_uuid,
                device=device,
                state=state,
                reason=reason,
                drain_within_s=drain_within_s,
            )
        )

    @base.call
    def set_reservable_slots(
        self, ctxt: Any, host_uuid: Any, device: Any, slots: Any
    ) -> None:
        """Set how many slots can be reserved; answers when this is durable."""
        wanted = {"host_uuid": host_uuid, "device": device, "slots": slots}
        shape = reservations.REQUEST
        self._change(
            inputs.SetReservable(**limits.argument(shape, wanted, ""))
        )

    @base.call
    def test_slot(
        self,
        ctxt: Any,
        host_uuid: str,
        device: str,
        slot: int,
        accelerator: str,
    ) -> None:
        """Order a test of a slot; answers when the test has been ordered."""
        self._change(
            inputs.TestNow(
                host_uuid=host_uuid,
                device=device,
                slot=slot,
                accelerator=accelerator,
            )
        )

    @base.call
    def get_quota(
        self, ctxt: Any, project_id: Any = None
    ) -> dict[str, dict[str, Any]]:
        """Return a project's effective limits, or the defaults."""
        if project_id is not None:
            checks.check_project(project_id)
        return quotas.document(
            self._ask(lambda asked: asked.pool.quotas.of(project_id))
        )

    @base.call
    def get_share(
        self, ctxt: Any, project_id: Any, session_id: str
    ) -> dict[str, Any]:
        """Return a project's share."""
        checks.check_project(project_id)
        # With thousands of projects it takes long, so that it has to share
        # the time of dry runs.
        with self._places.take(), self._dry_runs.turn(project_id) as count:

            def counted(asked: Any) -> dict[str, Any]:
                with count():
                    found: dict[str, Any] = asked.share(project_id, session_id)
                    return found

            return self._ask(counted, durable=False)

    @base.call
    def set_quota(self, ctxt: Any, project_id: Any, limits: Any) -> None:
        """Set a project's limits; answers when the change is durable."""
        checks.check_project(project_id)
        with checks.invalid():
            checked = quotas.check_limits(limits)
        if not self._ask(lambda asked: asked.pool.quotas.kept_here):
            raise exception.QuotasInKeystone()
        with self._places.take():
            self._offer(inputs.SetQuota(project_id, checked))
            # This query is answered once the new limits are durable.
            self._ask(lambda asked: None)
