# SPDX-License-Identifier: Apache-2.0

"""What a person is told of errors."""

from __future__ import annotations

import pytest
from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions

from fpgapool.osc.sdk import proxy
from fpgapool.osc.v1 import device
from fpgapool.osc.v1 import messages
from fpgapool.vocabulary import codes
from tests.unit.osc import fakes


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            fakes.refusal(404, "DEVICE_NOT_FOUND", "there is no device 'x'"),
            "there is no device 'x'; see 'openstack fpga device list'"
            " (DEVICE_NOT_FOUND)",
        ),
        (
            fakes.refusal(429, "BUDGET_EXHAUSTED", "it refills in May", "2"),
            "it refills in May (BUDGET_EXHAUSTED)",
        ),
        (
            fakes.refusal(429, "QUOTA_EXCEEDED", "it is used up", "30"),
            "it is used up; see 'openstack fpga quota show' (QUOTA_EXCEEDED)",
        ),
        (
            fakes.refusal(503, "TOO_MANY_RESERVATIONS", "it has 9", "2"),
            "it has 9; see 'openstack fpga reservation list'"
            " (TOO_MANY_RESERVATIONS)",
        ),
        (
            fakes.refusal(409, "QUOTAS_IN_KEYSTONE", "see Keystone"),
            "see Keystone (QUOTAS_IN_KEYSTONE)",
        ),
        (
            fakes.refusal(429, "RATE_LIMITED", "too often", "30"),
            "too often; try again in 30 s (RATE_LIMITED)",
        ),
        (
            fakes.refusal(503, "QUEUE_FULL", "the queue is full"),
            "the queue is full; search the service's log for req-7; try again"
            " in a few s (QUEUE_FULL)",
        ),
        (
            fakes.refusal(500, "INTERNAL_ERROR", "an error"),
            "an error; search the service's log for req-7 (INTERNAL_ERROR)",
        ),
    ],
)
def test_refusal(error: sdk_exceptions.HttpException, text: str) -> None:
    assert messages.of_error(error) == text


def test_another_servers_error() -> None:
    """That of a proxy on the way is told as it is."""
    error = fakes.refusal(502)
    assert messages.of_error(error) == str(error)
    assert proxy.api_error(fakes.answer(502)) is None
    assert proxy.api_error(fakes.answer(200)) is None
    assert proxy.api_error(None) is None


def test_cloud_without_a_pool() -> None:
    error = sdk_exceptions.ServiceDisabledException("no endpoint")
    text = messages.of_error(error)
    assert "'openstack catalog list'" in text
    assert "no endpoint" in text


def test_codes_are_those_of_the_service() -> None:
    named = {*messages._COMMANDS, *messages._NOT_SOON}
    assert all(getattr(codes, code) == code for code in named)
    assert {one for one in codes.STATUSES if one.startswith("QUOTA_")} <= named


def test_commands_fail_with_the_message() -> None:
    app = fakes.App()
    app.client.get_device.side_effect = sdk_exceptions.SDKException("why")
    with pytest.raises(exceptions.CommandError, match=r"^why$"):
        app.run(device.ShowDevice, fakes.SESSION_ID)


def test_lists_fail_with_the_message() -> None:
    """Also when it happens on a later page."""
    app = fakes.App()

    def broken() -> object:
        yield from ()
        raise sdk_exceptions.SDKException("why")

    app.client.devices.side_effect = broken
    with pytest.raises(exceptions.CommandError, match=r"^why$"):
        app.run(device.ListDevices)
