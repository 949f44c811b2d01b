# SPDX-License-Identifier: Apache-2.0

"""The command that has slots tested."""

from __future__ import annotations

from typing import Any

import pytest
from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions

from fpgapool.osc.v1 import slot
from tests.unit.osc import fakes

IDS = [f"{fakes.SESSION_ID[:-1]}{number}" for number in range(3)]


@pytest.mark.parametrize(
    ("options", "accelerator"),
    [([], None), (["--accelerator", "aes"], "aes")],
)
def test_each_is_tested(options: list[str], accelerator: str | None) -> None:
    app = fakes.App()
    assert app.run(slot.TestSlot, *IDS, *options) == 0
    assert [call.args for call in app.client.test_slot.call_args_list] == [
        (one, accelerator) for one in IDS
    ]
    assert app.stdout.getvalue().splitlines() == [
        f"slot {one}: the test has started; 'openstack fpga slot show {one}'"
        " shows its result"
        for one in IDS
    ]


def test_others_are_tested_if_one_cannot_be() -> None:
    app = fakes.App()

    def test(one: str, accelerator: Any) -> None:
        if one == IDS[1]:
            raise sdk_exceptions.SDKException("a session has it")

    app.client.test_slot.side_effect = test
    with pytest.raises(exceptions.CommandError) as caught:
        app.run(slot.TestSlot, *IDS)
    assert str(caught.value) == f"1 of 3 slots were not tested: {IDS[1]}"
    assert app.client.test_slot.call_count == len(IDS)
    assert IDS[1] not in app.stdout.getvalue()
