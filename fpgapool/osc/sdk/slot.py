# SPDX-License-Identifier: Apache-2.0

"""Slots: reconfigurable regions of devices."""

from __future__ import annotations

from typing import Self

from keystoneauth1 import adapter
from openstack import resource
from openstack import utils

from fpgapool.osc.sdk import base


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

    number = resource.Body("number", type=int)
    device_id = resource.Body("device_id")
    device_name = resource.Body("device_name")
    host_uuid = resource.Body("host_uuid")
    host_name = resource.Body("host_name")
    #: Decides which bitstreams fit.
    shape = resource.Body("shape")
    state = resource.Body("state")
    fault_reason = resource.Body("fault_reason")
    #: Failures in a row that made it faulty, and self-tests since.
    failures = resource.Body("failures", type=int)
    self_tests = resource.Body("self_tests", type=int)
    last_self_test = resource.Body("last_self_test")
    next_self_test_at = resource.Body("next_self_test_at")
    #: Of the session that has the slot.
    accelerator = resource.Body("accelerator")
    #: Accelerator that is programmed into the slot.
    programmed = resource.Body("programmed")
    #: Session that has the slot, if it is one of your own project.
    session_id = resource.Body("session_id")
    #: Instance that has reserved the slot, if it is one of your own project.
    reserved_for = resource.Body("reserved_for")

    def test(
        self, session: adapter.Adapter, accelerator: str | None = None
    ) -> Self:
        """Start a self-test.

        :param accelerator: accelerator of the test; None: any.
        :returns: the slot, while the test runs.
        """
        wish = {} if accelerator is None else {"accelerator": accelerator}
        response = session.post(
            utils.urljoin(self.base_path, self.id, "test"),
            json={"test": wish},
            microversion=self._get_microversion(session),
        )
        self._translate_response(response)
        return self
