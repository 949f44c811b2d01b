# SPDX-License-Identifier: Apache-2.0

"""Error messages: what failed, and what to do."""

from __future__ import annotations

from openstack import exceptions

from fpgapool.osc.sdk import fpgapool_service
from fpgapool.osc.sdk import proxy

#: Commands that show what an error is about, by its code.
_COMMANDS = {
    "ACCELERATOR_NOT_FOUND": "accelerator list",
    "DEVICE_NOT_FOUND": "device list",
    "GROUP_NOT_FOUND": "group list",
    "HOST_NOT_FOUND": "host list",
    "QUOTA_EXCEEDED": "quota show",
    "SESSION_NOT_FOUND": "session list --all",
    "SLOT_NOT_FOUND": "slot list",
    "TOO_MANY_RESERVATIONS": "reservation list",
    "UNKNOWN_ACCELERATOR": "accelerator list",
}

#: What the same request meets again, until something ends or is raised; the
#: text of BUDGET_EXHAUSTED says when the budget refills.
_NOT_SOON = {"BUDGET_EXHAUSTED", "QUOTA_EXCEEDED", "TOO_MANY_RESERVATIONS"}


def of_error(error: Exception) -> str:
    if isinstance(error, exceptions.ServiceDisabledException):
        return (
            "the cloud has no usable service"
            f" {fpgapool_service.SERVICE_TYPE!r} ({error}); to list its"
            " services, run 'openstack catalog list'"
        )
    if isinstance(error, exceptions.HttpException):
        return _of_answer(error)
    return str(error)


def _of_answer(error: exceptions.HttpException) -> str:
    found = proxy.api_error(error.response)
    if found is None or error.response is None:
        return str(error)
    code = found["code"]
    text = found["detail"]
    if code in _COMMANDS:
        text += f"; see 'openstack fpga {_COMMANDS[code]}'"
    elif error.response.status_code >= 500:
        text += f"; search the service's log for {found['request_id']}"
    if code not in _NOT_SOON and error.response.status_code in (429, 503):
        after_s = error.response.headers.get("Retry-After", "a few")
        text += f"; try again in {after_s} s"
    return f"{text} ({code})"
