# SPDX-License-Identifier: Apache-2.0

"""The methods of the pool's API."""

from __future__ import annotations

from collections.abc import Generator
from collections.abc import Iterator
from typing import IO
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
from fpgapool.vocabulary import microversions


class Proxy(_group.GroupProxy):
    """The pool's REST API.

    Errors of the API are raised as ``openstack.exceptions``, with their text
    and code.

    Besides the filters that they name, lists take ``sort_key`` and
    ``sort_dir`` (one or several), ``limit`` (the length of a page) and
    ``marker``.
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
        """Return the data by which Nova places instances."""
        return self._get(_pool.Snapshot, requires_id=False)

    def accelerators(
        self, **query: Any
    ) -> Generator[_accelerator.Accelerator, None, None]:
        """Return the accelerators of the library."""
        return self._list(_accelerator.Accelerator, **query)

    def get_accelerator(self, name: str) -> _accelerator.Accelerator:
        """Return an accelerator."""
        return self._get(_accelerator.Accelerator, name)

    def bitstreams(
        self, **query: Any
    ) -> Generator[_bitstream.Bitstream, None, None]:
        """Return the bitstreams that your own project may see.

        :param query: ``accelerator``, ``name``, ``state``, ``visibility``,
            ``shape``, ``all_projects``, ``project_id``.
        """
        return self._list(_bitstream.Bitstream, **query)

    def get_bitstream(self, bitstream_id: str) -> _bitstream.Bitstream:
        """Return a bitstream."""
        return self._get(_bitstream.Bitstream, bitstream_id)

    def create_bitstream(self, **attributes: Any) -> _bitstream.Bitstream:
        """Create a bitstream; upload its file afterwards.

        :param attributes: ``accelerator`` and perhaps ``name``,
            ``description``, ``version``, ``format``, ``visibility``,
            ``shapes``, ``profile``, ``properties``, ``checksum_sha256``,
            ``signature``.
        """
        return self._create(_bitstream.Bitstream, **attributes)

    def update_bitstream(
        self, bitstream: str | _bitstream.Bitstream, **attributes: Any
    ) -> _bitstream.Bitstream:
        """Change the metadata of a bitstream.

        :param bitstream: its identifier, or itself.
        :param attributes: ``name``, ``description``, ``visibility``.
        """
        return self._update(_bitstream.Bitstream, bitstream, **attributes)

    def upload_bitstream(
        self, bitstream: str | _bitstream.Bitstream, file: IO[bytes]
    ) -> _bitstream.Bitstream:
        """Send a bitstream's file.

        :param bitstream: its identifier, or itself.
        :param file: open, seekable.
        """
        found = self._get_resource(_bitstream.Bitstream, bitstream)
        return found.upload(self, file)

    def download_bitstream(
        self, bitstream: str | _bitstream.Bitstream
    ) -> Iterator[bytes]:
        """Yield the parts of a bitstream's file; its checksum is verified."""
        found = self._get_resource(_bitstream.Bitstream, bitstream)
        return found.download(self)

    def approve_bitstream(
        self,
        bitstream: str | _bitstream.Bitstream,
        *,
        force: bool = False,
        reason: str = "",
    ) -> _bitstream.Bitstream:
        """Approve a bitstream, so that slots may run it.

        :param bitstream: its identifier, or itself.
        :param force: approve it even if the pool has no slot that fits.
        :param reason: reason of the approval.
        """
        found = self._get_resource(_bitstream.Bitstream, bitstream)
        return found.approve(self, force=force, reason=reason)

    def reject_bitstream(
        self, bitstream: str | _bitstream.Bitstream, reason: str
    ) -> _bitstream.Bitstream:
        """Reject a bitstream, so that no slot runs it.

        :param bitstream: its identifier, or itself.
        :param reason: reason of the rejection.
        """
        found = self._get_resource(_bitstream.Bitstream, bitstream)
        return found.reject(self, reason)

    def share_bitstream(
        self, bitstream: str | _bitstream.Bitstream, project_id: str
    ) -> _bitstream.Bitstream:
        """Let another project use a bitstream."""
        found = self._get_resource(_bitstream.Bitstream, bitstream)
        return found.share(self, project_id)

    def unshare_bitstream(
        self, bitstream: str | _bitstream.Bitstream, project_id: str
    ) -> None:
        """Stop sharing a bitstream with another project."""
        found = self._get_resource(_bitstream.Bitstream, bitstream)
        found.unshare(self, project_id)

    def delete_bitstream(
        self,
        bitstream: str | _bitstream.Bitstream,
        ignore_missing: bool = True,
    ) -> None:
        """Delete a bitstream and its file.

        :param bitstream: its identifier, or itself.
        :param ignore_missing: do not raise an error if it does not exist.
        """
        self._delete(
            _bitstream.Bitstream, bitstream, ignore_missing=ignore_missing
        )

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
        self, device: str | _device.Device, **wish: Any
    ) -> _device.Device:
        """Enable, drain or disable a device, or set its reservable slots.

        :param device: its identifier, or itself.
        :param wish: ``state`` (``enabled``, ``draining`` or ``disabled``) and
            perhaps ``reason`` and ``drain_deadline_s``; or
            ``reservable_slots``; or both.
        """
        return self._get_resource(_device.Device, device).administer(
            self, **wish
        )

    def administer_host(
        self, host: str | _host.Host, **wish: Any
    ) -> _host.Host:
        """Enable, drain or disable a host with all its devices.

        :param host: its UUID, or itself.
        :param wish: see :meth:`administer_device`.
        """
        return self._get_resource(_host.Host, host).administer(self, **wish)

    def instances(
        self, **query: Any
    ) -> Generator[_instance.Instance, None, None]:
        """Return the instances that have, or had, a token, newest first.

        :param query: ``project_id``, ``all_projects``.
        """
        return self._list(_instance.Instance, **query)

    def revoke_instance_token(self, instance_id: str) -> None:
        """Revoke the token of an instance, for good.

        :param instance_id: its id in Nova.
        """
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

        :param slot: its identifier, or itself.
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

        :param project_id: its id.
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

    def sessions(
        self, **query: Any
    ) -> Generator[_session.Session, None, None]:
        """Return sessions, newest first.

        :param query: ``state``, one or several, ``accelerator``,
            ``request_id``, ``host_uuid``, ``all_projects``, ``project_id``.
        """
        return self._list(_session.Session, **query)

    def create_session(self, **attributes: Any) -> _session.Session:
        """Open a session; it is in the database, and perhaps not READY yet.

        :param attributes: ``accelerator``, ``claimed_bytes`` and perhaps
            ``request_id`` and options of
            :mod:`fpgapool.vocabulary.session`.
        """
        return self._create(_session.Session, **attributes)

    def dry_run_session(self, **attributes: Any) -> dict[str, Any]:
        """Return what would become of a session, without opening it.

        :param attributes: as for :meth:`create_session`.
        :returns: the ``state`` that it would have, ``reasons`` with ``code``
            and ``message``, and ``expected_wait_s``.
        """
        response = self.post(
            _session.Session.base_path,
            params={"dry_run": "true"},
            json={"session": attributes},
            microversion=microversions.NEWEST,
        )
        found: dict[str, Any] = response.json()["dry_run"]
        return found

    def get_session(
        self,
        session_id: str,
        wait_s: float | None = None,
        revision: int | None = None,
    ) -> _session.Session:
        """Return a session, now or when it has changed.

        :param session_id: its identifier.
        :param wait_s: how long to wait for a change; the service has a limit
            of its own, and does not wait if too many requests wait. Then
            ``retry_after_s`` of the answer says when to ask again.
        :param revision: the known revision.
        """
        query: dict[str, Any] = {"wait_s": wait_s, "revision": revision}
        return self._get_resource(_session.Session, session_id).fetch(
            self, **{k: v for k, v in query.items() if v is not None}
        )

    def close_session(
        self, session: str | _session.Session, ignore_missing: bool = True
    ) -> None:
        """Cancel a waiting session, or close a running one.

        :param session: its identifier, or itself.
        :param ignore_missing: do not raise an error if it does not exist.
        """
        self._delete(_session.Session, session, ignore_missing=ignore_missing)

    def reopen_session(
        self, session: str | _session.Session, generation: int
    ) -> _session.Session:
        """Request another slot for a session that has lost its slot.

        :param session: its identifier, or itself.
        :param generation: that of the lost slot.
        """
        found = self._get_resource(_session.Session, session)
        return found.reopen(self, generation)

    def renew_session_secret(
        self, session: str | _session.Session
    ) -> _session.Session:
        """Request a new secret for a READY session."""
        return self._get_resource(_session.Session, session).renew_secret(self)


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
