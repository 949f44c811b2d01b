#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What can be asked of the pool."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from openstack import exceptions
from openstack import proxy

from fpgapool.osc.sdk import accelerator as _accelerator
from fpgapool.osc.sdk import device as _device
from fpgapool.osc.sdk import host as _host
from fpgapool.osc.sdk import pool as _pool
from fpgapool.osc.sdk import service as _service
from fpgapool.osc.sdk import session as _session
from fpgapool.osc.sdk import slot as _slot


class Proxy(proxy.Proxy):
    """The pool's REST API.

    What the API refuses is raised as one of ``openstack.exceptions``, with
    the text and the code that it gave.

    Lists take ``sort_key``, ``sort_dir``, ``limit``, which is the length of a
    page, and ``marker``, besides the filters that they name.
    """

    def request(self, url: str, method: str, *args: Any, **kwargs: Any) -> Any:
        """Send a request; see :meth:`openstack.proxy.Proxy.request`."""
        if "sessions" in url:
            # The log of a session's body would have its secret.
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
        """Return the pool at a glance."""
        return self._get(_pool.Pool, requires_id=False)

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

    def slots(self, **query: Any) -> Generator[_slot.Slot, None, None]:
        """Return the slots.

        :param query: ``host_uuid``, ``device_id``, ``accelerator``,
            ``state``.
        """
        return self._list(_slot.Slot, **query)

    def get_slot(self, slot_id: str) -> _slot.Slot:
        """Return a slot."""
        return self._get(_slot.Slot, slot_id)

    def services(
        self, **query: Any
    ) -> Generator[_service.Service, None, None]:
        """Return the conductor that leads, and the agents.

        :param query: ``binary``, ``is_up``.
        """
        return self._list(_service.Service, **query)

    def sessions(
        self, **query: Any
    ) -> Generator[_session.Session, None, None]:
        """Return sessions, newest first.

        :param query: ``state``, one or several, ``accelerator``,
            ``request_id``, ``host_uuid``, ``all_projects``, ``project_id``.
        """
        return self._list(_session.Session, **query)

    def create_session(self, **attributes: Any) -> _session.Session:
        """Open a session; it is recorded, and perhaps not READY yet.

        :param attributes: ``accelerator``, ``claimed_bytes`` and perhaps
            ``request_id``, ``priority``, ``wait_timeout_s``,
            ``connect_timeout_s``, ``resume_grace_s``.
        """
        return self._create(_session.Session, **attributes)

    def get_session(
        self,
        session_id: str,
        wait_s: float | None = None,
        revision: int | None = None,
    ) -> _session.Session:
        """Return a session, now or when it has changed.

        :param session_id: its identifier.
        :param wait_s: how long to wait for a change; the service has a limit
            of its own, and does not wait if too many others do. Then
            ``retry_after_s`` of the answer says when to ask again.
        :param revision: the one that is known.
        """
        query: dict[str, Any] = {"wait_s": wait_s, "revision": revision}
        return self._get_resource(_session.Session, session_id).fetch(
            self, **{k: v for k, v in query.items() if v is not None}
        )

    def close_session(
        self, session: str | _session.Session, ignore_missing: bool = True
    ) -> None:
        """Cancel a session that waits, or close one that runs.

        :param session: its identifier, or itself.
        :param ignore_missing: whether it is no error if there is none.
        """
        self._delete(_session.Session, session, ignore_missing=ignore_missing)

    def reopen_session(
        self, session: str | _session.Session, generation: int
    ) -> _session.Session:
        """Have another slot given to a session that has lost its one.

        :param session: its identifier, or itself.
        :param generation: that of the slot that is lost.
        """
        found = self._get_resource(_session.Session, session)
        return found.reopen(self, generation)

    def renew_session_secret(
        self, session: str | _session.Session
    ) -> _session.Session:
        """Have the secret of a READY session minted anew.

        :param session: its identifier, or itself.
        """
        return self._get_resource(_session.Session, session).renew_secret(self)


def api_error(response: Any) -> dict[str, Any] | None:
    """Return the error that an answer of the API tells of.

    :param response: of HTTP, or None.
    :returns: with ``code``, ``detail`` and ``request_id``; None if the answer
        is none of the API's errors.
    """
    # A response that is an error is false.
    if response is None or response.status_code < 400:
        return None
    try:
        error = response.json()["errors"][0]
        return {
            name: str(error[name]) for name in ("code", "detail", "request_id")
        }
    except (ValueError, LookupError, TypeError):
        # A proxy on the way has its own ones.
        return None
