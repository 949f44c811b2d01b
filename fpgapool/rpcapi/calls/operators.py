# SPDX-License-Identifier: Apache-2.0

# The bodies of declared methods are empty.
# mypy: disable-error-code="empty-body"

"""Calls of operators, and of their tools."""

from fpgapool import objects
from fpgapool.objects import bitstream
from fpgapool.objects import finding as findings
from fpgapool.rpcapi import declared


class OperatorCalls(declared.Sender):
    """See :class:`fpgapool.rpcapi.conductor.ConductorAPI`."""

    @declared.sent_by("_call")
    def change_bitstream(self, change: bitstream.BitstreamChange) -> None:
        """Change the library (call); durable on return.

        A :class:`~fpgapool.objects.CreateBitstream` can be repeated.
        """

    @declared.sent_by("_call")
    def admit_instance(
        self, entry: objects.InstanceEntry, *, lost_hash: str = ""
    ) -> objects.InstanceEntry:
        """Admit an instance, so that it can have a token (call).

        Repeating the call updates only the name and the limit.

        :param lost_hash: hash of its current token, if that must be replaced
            because its secret is lost.
        :returns: its durable entry, which may have an older token.
        """

    @declared.sent_by("_call")
    def revoke_instance_token(self, instance_id: str) -> None:
        """Revoke an instance's token permanently (call); durable on return."""

    @declared.sent_by("_call")
    def audit(self) -> list[findings.Finding]:
        """Return the current inconsistencies of the pool (call).

        Those that a second audit also finds are real, not just changes in
        progress.
        """

    @declared.sent_by("_call")
    def repair(self, finding: findings.Finding) -> bool:
        """Repair an inconsistency that an audit has found (call)."""

    @declared.sent_by("_call")
    def administer(
        self,
        host_uuid: str,
        device: str | None,
        state: str,
        *,
        reason: str = "",
        drain_within_s: float | None = None,
    ) -> None:
        """Enable, drain or disable a device or host (call).

        Durable on return; replaces the previous state.

        :param device: its name; None: the whole host.
        :param reason: empty: hardware that stays out of use, or stays enabled,
            keeps its reason.
        :param drain_within_s: how long current sessions may keep draining
            slots; None: no limit.
        """

    @declared.sent_by("_call")
    def set_reservable_slots(
        self, host_uuid: str, device: str, slots: int
    ) -> None:
        """Set how many slots instances can reserve (call); durable on return.

        :raises FewerThanReserved: if more slots are already reserved.
        :raises InvalidRequest: if the device has fewer slots.
        """

    @declared.sent_by("_call")
    def test_slot(
        self, host_uuid: str, device: str, slot: int, accelerator: str = ""
    ) -> None:
        """Order a test of a slot, whether it is in service or not (call).

        If the test fails, the slot is taken out of service.

        :param accelerator: the accelerator to use; empty: any.
        :raises SlotNotTested: if it cannot be tested now; the code says why.
        """
