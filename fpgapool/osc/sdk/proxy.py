# SPDX-License-Identifier: Apache-2.0

"""The methods of the pool's API."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from openstack import exceptions

from fpgapool.osc.sdk import accounting
from fpgapool.osc.sdk import group
from fpgapool.osc.sdk import inventory
from fpgapool.osc.sdk import library
from fpgapool.osc.sdk import reservation
from fpgapool.osc.sdk import session


class Proxy(
    library.LibraryProxy,
    group.GroupProxy,
    reservation.ReservationProxy,
    session.SessionProxy,
):
    """The pool's REST API.

    API errors become ``openstack.exceptions`` with their text and code.

    Methods take a resource or its identifier. In addition to their own
    filters, lists take ``sort_key`` and ``sort_dir`` (one or several),
    ``limit`` (the page length) and ``marker``. With ``ignore_missing``,
    deleting something that does not exist is not an error.
    """

    def request(self, url: str, method: str, *args: Any, **kwargs: Any) -> Any:
        """Send a request; see :meth:`openstack.proxy.Proxy.request`."""
        if "sessions" in url or "clients" in url:
            # Logging the body would reveal a secret.
            kwargs.setdefault("log", False)
        response = super().request(url, method, *args, **kwargs)
        self.log.debug("%s %s: %s", method, url, response.status_code)
        error = api_error(response)
        if error is not None:
            exceptions.raise_from_response(
                response, error_message=f"{error['detail']} ({error['code']})"
            )
        return response

    def get_pool(self) -> inventory.Pool:
        """Return the pool's summary."""
        return self._get(inventory.Pool, requires_id=False)

    def pool_hosts(
        self, **query: Any
    ) -> Generator[inventory.PoolHost, None, None]:
        """Return the hosts with their devices and slots.

        :param query: ``name_part``, ``slot_state``.
        """
        return self._list(inventory.PoolHost, **query)

    def get_pool_snapshot(self) -> inventory.Snapshot:
        """Return the data that Nova's scheduler uses."""
        return self._get(inventory.Snapshot, requires_id=False)

    def hosts(self, **query: Any) -> Generator[inventory.Host, None, None]:
        """Return the hosts.

        :param query: ``name``, ``is_up``.
        """
        return self._list(inventory.Host, **query)

    def get_host(self, uuid: str) -> inventory.Host:
        return self._get(inventory.Host, uuid)

    def devices(self, **query: Any) -> Generator[inventory.Device, None, None]:
        """Return the devices.

        :param query: ``host_uuid``, ``state``.
        """
        return self._list(inventory.Device, **query)

    def get_device(self, device_id: str) -> inventory.Device:
        return self._get(inventory.Device, device_id)

    def administer_device(
        self, device: str | inventory.Device, **change: Any
    ) -> inventory.Device:
        """Enable, drain or disable a device, or set its reservable slots.

        :param change: ``state`` (``enabled``, ``draining`` or ``disabled``)
            and optionally ``reason`` and ``drain_deadline_s``; or
            ``reservable_slots``; or both.
        """
        return self._act(inventory.Device, device, "PATCH", json=change)

    def administer_host(
        self, host: str | inventory.Host, **change: Any
    ) -> inventory.Host:
        """Enable, drain or disable a host with all its devices."""
        return self._act(inventory.Host, host, "PATCH", json=change)

    def instances(
        self, **query: Any
    ) -> Generator[inventory.Instance, None, None]:
        """Return the instances that have, or had, a token, newest first.

        :param query: ``project_id``, ``all_projects``.
        """
        return self._list(inventory.Instance, **query)

    def revoke_instance_token(self, instance_id: str) -> None:
        """Permanently revoke the token of an instance."""
        self._send(inventory.Instance, instance_id, "DELETE", "token")

    def slots(self, **query: Any) -> Generator[inventory.Slot, None, None]:
        """Return the slots.

        :param query: ``host_uuid``, ``device_id``, ``accelerator``,
            ``state``.
        """
        return self._list(inventory.Slot, **query)

    def get_slot(self, slot_id: str) -> inventory.Slot:
        return self._get(inventory.Slot, slot_id)

    def test_slot(
        self, slot: str | inventory.Slot, accelerator: str | None = None
    ) -> inventory.Slot:
        """Start a self-test of a slot, whether it is faulty or not.

        The service refuses a slot that has a session.

        :param accelerator: accelerator to test with; None means any.
        """
        test = {} if accelerator is None else {"accelerator": accelerator}
        return self._act(
            inventory.Slot, slot, "POST", "test", json={"test": test}
        )

    def services(
        self, **query: Any
    ) -> Generator[inventory.Service, None, None]:
        """Return conductors, agents and processes of the API.

        :param query: ``binary``, ``is_up``.
        """
        return self._list(inventory.Service, **query)

    def get_quota(self, project_id: str | None = None) -> accounting.Quota:
        """Return the limits and usage of a project.

        :param project_id: None means your own project.
        """
        if project_id is None:
            return self._get(accounting.Quota, requires_id=False)
        return self._get(accounting.Quota, project_id)

    def get_default_quota(self) -> accounting.Quota:
        return self._get(
            accounting.Quota,
            requires_id=False,
            base_path=f"{accounting.Quota.base_path}/defaults",
        )

    def set_quota(
        self, project_id: str, **limits: int | None
    ) -> accounting.Quota:
        """Set limits of a project.

        :param limits: new limits by resource; others do not change. -1 means
            unlimited, None means the default.
        """
        return self._act(
            accounting.Quota, project_id, "PUT", json={"quota": limits}
        )

    def delete_quota(self, project_id: str) -> None:
        """Reset all limits of a project to the defaults."""
        self._delete(accounting.Quota, project_id, ignore_missing=False)

    def budgets(
        self, **query: Any
    ) -> Generator[accounting.Budget, None, None]:
        """Return the budgets of projects.

        :param query: ``project_id``, ``all_projects``.
        """
        return self._list(accounting.Budget, **query)

    def get_budget(self, project_id: str) -> accounting.Budget:
        """Return a project's budget, and what is left of it."""
        return self._get(accounting.Budget, project_id)

    def set_budget(self, project_id: str, **budget: Any) -> accounting.Budget:
        """Set a project's budget.

        :param budget: ``slot_s``, ``bytes``, ``energy_j``, ``period``,
            ``action`` and ``carry_over``; what is omitted has its default.
        """
        return self._act(
            accounting.Budget, project_id, "PUT", json={"budget": budget}
        )

    def delete_budget(self, project_id: str) -> None:
        """Delete a project's budget, so that the default applies."""
        self._delete(accounting.Budget, project_id, ignore_missing=False)

    def get_share(self, **query: Any) -> accounting.Share:
        """Return a project's share.

        :param query: ``project_id``, if it is not your own; ``session_id``, a
            session that waits: what is before it.
        """
        return accounting.Share().fetch(self, requires_id=False, **query)

    def usage(self, **query: Any) -> Generator[accounting.Usage, None, None]:
        """Return the usage of projects, by day, project and accelerator.

        :param query: ``project_id``, ``all_projects``, ``accelerator``,
            ``start``, ``end`` and ``group_by``: one of ``day``, ``project``
            and ``accelerator``.
        """
        return self._list(accounting.Usage, **query)


def api_error(response: Any) -> dict[str, Any] | None:
    """Return the API error in a response.

    :param response: an HTTP response, or None.
    :returns: ``code``, ``detail`` and ``request_id``; None for other errors.
    """
    # Compare with None, because an error response is falsy.
    if response is None or response.status_code < 400:
        return None
    try:
        error = response.json()["errors"][0]
        return {
            name: str(error[name]) for name in ("code", "detail", "request_id")
        }
    except (ValueError, LookupError, TypeError):
        # The error is not from the API but, for example, from an HTTP proxy.
        return None
