# SPDX-License-Identifier: Apache-2.0

"""The methods of the pool's API."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from openstack import exceptions

from fpgapool.osc.sdk import accelerator as _accelerator
from fpgapool.osc.sdk import bitstream as _bitstream
from fpgapool.osc.sdk import device as _device
from fpgapool.osc.sdk import group as _group
from fpgapool.osc.sdk import host as _host
from fpgapool.osc.sdk import instance as _instance
from fpgapool.osc.sdk import pool as _pool
from fpgapool.osc.sdk import quota as _quota
from fpgapool.osc.sdk import service as _service
from fpgapool.osc.sdk import session as _session
from fpgapool.osc.sdk import slot as _slot
from fpgapool.osc.sdk import usage as _usage


class Proxy(
    _bitstream.BitstreamProxy, _group.GroupProxy, _session.SessionProxy
):
    """The pool's REST API.

    Errors of the API are raised as ``openstack.exceptions``, with their text
    and code.

    Methods take a resource, or its identifier. Besides the filters that they
    name, lists take ``sort_key`` and ``sort_dir`` (one or several), ``limit``
    (the length of a page) and ``marker``. With ``ignore_missing``, deleting
    what does not exist is no error.
    """

    def request(self, url: str, method: str, *args: Any, **kwargs: Any) -> Any:
        """Send a request; see :meth:`openstack.proxy.Proxy.request`."""
        if "sessions" in url or "clients" in url:
            # A log of the body would contain a secret.
            kwargs.setdefault("log", False)
        response = super().request(url, method, *args, **kwargs)
        self.log.debug("%s %s: %s", method, url, response.status_code)
        error = api_error(response)
        if error is not None:
            exceptions.raise_from_response(
                response, error_message=f"{error['detail']} ({error['code']})"
            )
        return response

    def get_pool(self) -> _pool.Pool:
        """Return the pool's summary."""
        return self._get(_pool.Pool, requires_id=False)

    def get_pool_snapshot(self) -> _pool.Snapshot:
        """Return the data that Nova's scheduler uses."""
        return self._get(_pool.Snapshot, requires_id=False)

    def accelerators(
        self, **query: Any
    ) -> Generator[_accelerator.Accelerator, None, None]:
        """Return the accelerators of the library."""
        return self._list(_accelerator.Accelerator, **query)

    def get_accelerator(self, name: str) -> _accelerator.Accelerator:
        """Return an accelerator."""
        return self._get(_accelerator.Accelerator, name)

    def hosts(self, **query: Any) -> Generator[_host.Host, None, None]:
        """Return the hosts.

        :param query: ``name``, ``is_up``.
        """
        return self._list(_host.Host, **query)

    def get_host(self, uuid: str) -> _host.Host:
        """Return a host."""
        return self._get(_host.Host, uuid)

    def devices(self, **query: Any) -> Generator[_device.Device, None, None]:
        """Return the devices.

        :param query: ``host_uuid``, ``state``.
        """
        return self._list(_device.Device, **query)

    def get_device(self, device_id: str) -> _device.Device:
        """Return a device."""
        return self._get(_device.Device, device_id)

    def administer_device(
        self, device: str | _device.Device, **change: Any
    ) -> _device.Device:
        """Enable, drain or disable a device, or set its reservable slots.

        :param change: ``state`` (``enabled``, ``draining`` or ``disabled``)
            and perhaps ``reason`` and ``drain_deadline_s``; or
            ``reservable_slots``; or both.
        """
        return self._get_resource(_device.Device, device).administer(
            self, **change
        )

    def administer_host(
        self, host: str | _host.Host, **change: Any
    ) -> _host.Host:
        """Enable, drain or disable a host with all its devices."""
        return self._get_resource(_host.Host, host).administer(self, **change)

    def instances(
        self, **query: Any
    ) -> Generator[_instance.Instance, None, None]:
        """Return the instances that have, or had, a token, newest first.

        :param query: ``project_id``, ``all_projects``.
        """
        return self._list(_instance.Instance, **query)

    def revoke_instance_token(self, instance_id: str) -> None:
        """Revoke the token of an instance, for good."""
        self._get_resource(_instance.Instance, instance_id).revoke_token(self)

    def slots(self, **query: Any) -> Generator[_slot.Slot, None, None]:
        """Return the slots.

        :param query: ``host_uuid``, ``device_id``, ``accelerator``,
            ``state``.
        """
        return self._list(_slot.Slot, **query)

    def get_slot(self, slot_id: str) -> _slot.Slot:
        """Return a slot."""
        return self._get(_slot.Slot, slot_id)

    def test_slot(
        self, slot: str | _slot.Slot, accelerator: str | None = None
    ) -> _slot.Slot:
        """Start a self-test of a slot, be it faulty or not.

        The service refuses a slot that has a session.

        :param accelerator: accelerator of the test; None: any.
        :returns: the slot, while the test runs.
        """
        return self._get_resource(_slot.Slot, slot).test(self, accelerator)

    def services(
        self, **query: Any
    ) -> Generator[_service.Service, None, None]:
        """Return the leading conductor and the agents.

        :param query: ``binary``, ``is_up``.
        """
        return self._list(_service.Service, **query)

    def get_quota(self, project_id: str | None = None) -> _quota.Quota:
        """Return the limits and the use of a project.

        :param project_id: None means your own project.
        """
        if project_id is None:
            return self._get(_quota.Quota, requires_id=False)
        return self._get(_quota.Quota, project_id)

    def get_default_quota(self) -> _quota.Quota:
        """Return the limits of projects without limits of their own."""
        return self._get(
            _quota.Quota,
            requires_id=False,
            base_path=f"{_quota.Quota.base_path}/defaults",
        )

    def set_quota(self, project_id: str, **limits: int | None) -> _quota.Quota:
        """Limit the use of a project.

        :param limits: by resource; missing ones stay. -1 means unlimited, None
            the default.
        """
        return self._get_resource(_quota.Quota, project_id).set_limits(
            self, limits
        )

    def delete_quota(self, project_id: str) -> None:
        """Reset all limits of a project to the defaults."""
        self._delete(_quota.Quota, project_id, ignore_missing=False)

    def usage(self, **query: Any) -> Generator[_usage.Usage, None, None]:
        """Return the usage of projects, by day, project and accelerator.

        :param query: ``project_id``, ``all_projects``, ``accelerator``,
            ``start``, ``end`` and ``group_by``: one of ``day``, ``project``
            and ``accelerator``.
        """
        return self._list(_usage.Usage, **query)


def api_error(response: Any) -> dict[str, Any] | None:
    """Return the API's error in an answer.

    :param response: of HTTP, or None.
    :returns: with ``code``, ``detail`` and ``request_id``; None if the answer
        is not an error of the API.
    """
    # An error response is false.
    if response is None or response.status_code < 400:
        return None
    try:
        error = response.json()["errors"][0]
        return {
            name: str(error[name]) for name in ("code", "detail", "request_id")
        }
    except (ValueError, LookupError, TypeError):
        # A proxy on the way has errors of its own.
        return None
