# SPDX-License-Identifier: Apache-2.0

"""Exceptions with stable codes; messages may change, codes do not."""

from typing import Any

from fpgapool.vocabulary import codes


class FpgapoolException(Exception):
    """Base of all errors that fpgapool raises deliberately.

    A subclass sets ``code`` (from :mod:`fpgapool.vocabulary.codes`) and
    ``msg_fmt``, whose named fields are the constructor's keywords.

    :param code: overrides the class's code, to pass on another component's.
    """

    code = codes.INTERNAL_ERROR
    msg_fmt = "An unknown error occurred."

    def __init__(
        self,
        message: str | None = None,
        *,
        code: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.kwargs = kwargs
        if code is not None:
            self.code = code
            # RPC recreates the exception from kwargs in the other process.
            self.kwargs = {**kwargs, "code": code}
        if message is None:
            message = self.msg_fmt.format(**kwargs)
        super().__init__(message)

    @property
    def message(self) -> str:
        """The text for users, without the code."""
        return str(self.args[0])


class ConfigurationError(FpgapoolException):
    code = codes.INVALID_CONFIGURATION
    msg_fmt = "Invalid configuration: {reason}"

    @property
    def reason(self) -> str:
        """What is invalid, for those who see the code, too."""
        return str(self.kwargs.get("reason", self.message))


class DatabaseError(FpgapoolException):
    """The database rejected a change; a retry would not help."""

    code = codes.DATABASE_ERROR
    msg_fmt = "The database refused the operation: {reason}"


class DatabaseUnavailable(DatabaseError):
    """The database is unreachable or busy; a retry may help."""

    code = codes.DATABASE_UNAVAILABLE
    msg_fmt = "The database is not available: {reason}"


class DatabaseSchemaMismatch(DatabaseError):
    """The database does not have the tables that this version needs."""

    code = codes.DATABASE_SCHEMA_MISMATCH
    msg_fmt = (
        "The database schema does not match this version ({reason}); run"
        " 'fpgapool-manage db sync'"
    )


class NotLeader(FpgapoolException):
    code = codes.NOT_LEADER
    msg_fmt = "This conductor is not the leader: {reason}"


class MessageRefused(FpgapoolException):
    """A message between services lacks a valid signature or sender."""

    code = codes.MESSAGE_REFUSED
    msg_fmt = (
        "The message was rejected: {reason}; check [messages] in the"
        " configuration of sender and receiver."
    )


class MessageStale(MessageRefused):
    """A call was stamped for another receiver, or came too late.

    ``kwargs`` also has ``now_s``, the receiver's time, and ``proof``, its
    signature.
    """

    code = codes.MESSAGE_STALE
    msg_fmt = "The message came too late, or is not for {receiver}."


class Overloaded(FpgapoolException):
    """The conductor is overloaded and did nothing; a retry will help."""

    # Clients retry automatically when they receive this code.
    code = codes.RATE_LIMITED
    msg_fmt = "The conductor is overloaded; try again later: {reason}"


class DryRunUnsupported(FpgapoolException):
    """The scheduler's state cannot be copied for a dry run."""

    code = codes.DRY_RUN_UNSUPPORTED
    msg_fmt = "Dry runs are not available: {reason}"


class HostNotFound(FpgapoolException):
    code = codes.HOST_NOT_FOUND
    msg_fmt = "Host {host_uuid} was not found."


class DeviceNotFound(FpgapoolException):
    code = codes.DEVICE_NOT_FOUND
    msg_fmt = "Device {device} of host {host_uuid} was not found."


class FewerThanReserved(FpgapoolException):
    """Fewer slots would be reservable than are already reserved."""

    code = codes.FEWER_THAN_RESERVED
    msg_fmt = (
        "{reserved} slots of device {device} are reserved; delete the "
        "instances that reserve them first."
    )


class SlotNotFound(FpgapoolException):
    code = codes.SLOT_NOT_FOUND
    msg_fmt = (
        "Slot {slot} of device {device} of host {host_uuid} was not found."
    )


class SlotNotTested(FpgapoolException):
    """A slot cannot be tested now; the error code says why."""

    code = codes.SLOT_NOT_TESTABLE
    msg_fmt = "The slot cannot be tested: {reason}"


class SessionNotFound(FpgapoolException):
    code = codes.SESSION_NOT_FOUND
    msg_fmt = "Session {session_id} was not found."


class KeystoneUnavailable(FpgapoolException):
    """Keystone is unreachable; a retry may help."""

    code = codes.KEYSTONE_UNAVAILABLE
    msg_fmt = "Keystone is not available: {reason}"


class QuotasInKeystone(FpgapoolException):
    """This service cannot set limits, because Keystone manages them."""

    code = codes.QUOTAS_IN_KEYSTONE
    msg_fmt = (
        "Limits are managed in Keystone; set them with 'openstack limit "
        "set' and 'openstack registered limit set'"
    )


class InvalidBudget(FpgapoolException):
    """A budget makes no sense."""

    code = codes.INVALID_BUDGET
    msg_fmt = "The budget is invalid: {reason}"


class ReservationRefused(FpgapoolException):
    """This reservation is not possible; the code says why."""

    code = codes.INVALID_RESERVATION
    msg_fmt = "The reservation is not possible: {reason}"


class ReservationNotFound(FpgapoolException):
    """The reservation does not exist."""

    code = codes.RESERVATION_NOT_FOUND
    msg_fmt = "Reservation {reservation_id} was not found."


class BitstreamRefused(FpgapoolException):
    """This change to a bitstream is not allowed; the code says why."""

    code = codes.BITSTREAM_REFUSED
    msg_fmt = "The bitstream cannot be changed: {reason}"


class GroupRefused(FpgapoolException):
    """This change to a group is not allowed; the code says why."""

    code = codes.GROUP_NOT_FOUND
    msg_fmt = "The group cannot be changed: {reason}"


class InstanceNotFound(FpgapoolException):
    """The instance does not exist or has been deleted."""

    code = codes.INSTANCE_NOT_FOUND
    msg_fmt = "Instance {instance_id} was not found."


class NovaUnavailable(FpgapoolException):
    """Nova is unreachable or sent an invalid response."""

    code = codes.NOVA_UNAVAILABLE
    msg_fmt = "Nova is not available: {reason}"


class PlacementUnavailable(FpgapoolException):
    """Placement is unreachable or sent an invalid response."""

    code = codes.PLACEMENT_UNAVAILABLE
    msg_fmt = "Placement is not available: {reason}"


class PlacementRefused(PlacementUnavailable):
    """Placement rejected this request; others may succeed."""

    code = codes.PLACEMENT_REFUSED
    msg_fmt = "Placement rejected the request: {reason}"


class StoreUnavailable(FpgapoolException):
    """The bitstream store is unavailable; a retry may help."""

    code = codes.STORE_UNAVAILABLE
    msg_fmt = "The bitstream store is not available: {reason}"


class StoreFailed(FpgapoolException):
    """The bitstream store rejected a request or has lost a file."""

    code = codes.STORE_FAILED
    msg_fmt = "The bitstream store has failed: {reason}"


class InvalidRequest(FpgapoolException):
    code = codes.INVALID_REQUEST
    msg_fmt = "{reason}"
