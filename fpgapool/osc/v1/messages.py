# SPDX-License-Identifier: Apache-2.0

"""What went wrong, so that a person knows what to do."""

from __future__ import annotations

from openstack import exceptions

from fpgapool.osc.sdk import fpgapool_service
from fpgapool.osc.sdk import proxy

#: Which command lists what was not found.
_LISTS = {
    "ACCELERATOR_NOT_FOUND": "accelerator list",
    "DEVICE_NOT_FOUND": "device list",
    "HOST_NOT_FOUND": "host list",
    "SESSION_NOT_FOUND": "session list",
    "SLOT_NOT_FOUND": "slot list",
    "UNKNOWN_ACCELERATOR": "accelerator list",
}


def of_error(error: Exception) -> str:
    """Return what a person is told of an error.

    :param error: what was raised.
    """
    if isinstance(error, exceptions.ServiceDisabledException):
        return (
            f"the cloud has no service {fpgapool_service.SERVICE_TYPE!r} that"
            " can be used; 'openstack catalog list' shows which services it"
            f" has ({error})"
        )
    if isinstance(error, exceptions.HttpException):
        return _of_answer(error)
    return str(error)


def _of_answer(error: exceptions.HttpException) -> str:
    told = proxy.api_error(error.response)
    if told is None or error.response is None:
        return str(error)
    code = told["code"]
    text = told["detail"]
    if code in _LISTS:
        text += f"; 'openstack fpga {_LISTS[code]}' shows what there is"
    elif error.response.status_code >= 500:
        text += f"; the service's log says more of {told['request_id']}"
    if error.response.status_code in (429, 503):
        after_s = error.response.headers.get("Retry-After", "a few")
        text += f"; try again in {after_s} s"
    return f"{text} ({code})"
