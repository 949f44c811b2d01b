# SPDX-License-Identifier: Apache-2.0

"""Slots: reconfigurable regions of devices."""

from __future__ import annotations

from typing import Self

from keystoneauth1 import adapter

from fpgapool.osc.sdk import base
from fpgapool.vocabulary import inventory


@base.described(inventory.SLOT)
class Slot(base.Resource):
    """A slot."""

    resource_key = "slot"
    resources_key = "slots"
    base_path = "/slots"
    allow_fetch = True
    allow_list = True

    _query_mapping = base.query(
        "accelerator", "state", host_uuid="host", device_id="device"
    )

    def test(
        self, session: adapter.Adapter, accelerator: str | None = None
    ) -> Self:
        """Start a self-test.

        :param accelerator: accelerator of the test; None: any.
        """
        test = {} if accelerator is None else {"accelerator": accelerator}
        return self._act(session, "POST", "test", json={"test": test})
