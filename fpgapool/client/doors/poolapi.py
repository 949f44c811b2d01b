# SPDX-License-Identifier: Apache-2.0

"""How programs name the pool's REST API and its credentials.

Most programs use the front door of their host, so the modules that talk to
the API are imported when a program first names it.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import Self
from typing import TypeVar

from fpgapool.client import cancel as cancelling
from fpgapool.client import errors
from fpgapool.client import shown
from fpgapool.client.doors import door as doors
from fpgapool.common.channels import waits
from fpgapool.vocabulary import codes

if typing.TYPE_CHECKING:
    from fpgapool.client.doors import instance

SERVICE_TYPE = "fpgapool"

_T = TypeVar("_T")


class PoolApi(shown.Shown):
    """The pool's REST API, for the ``front_door`` of :func:`acc_open`.

    :param adapter: a ``keystoneauth1.adapter.Adapter`` for the service, with
        the API's endpoint and the credentials.
    :param renew: called with the API's message if the API rejects the
        credentials; returns an API with other credentials, or raises.
    """

    def __init__(
        self, adapter: Any, renew: Callable[[str], PoolApi] | None = None
    ) -> None:
        self._adapter = adapter
        self._renew = renew

    def _facts(self) -> Mapping[str, object]:
        # For another endpoint the adapter would have to ask Keystone.
        url = getattr(self._adapter, "endpoint_override", None)
        if not isinstance(url, str):
            return {"url": "of Keystone's catalog"}
        import urllib.parse

        parts = urllib.parse.urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        return {"url": urllib.parse.urlunsplit(parts._replace(netloc=host))}

    @classmethod
    def of_instance(
        cls,
        credentials: instance.Credentials,
        renew: Callable[[str], PoolApi] | None = None,
    ) -> Self:
        """Use an instance's token; this needs only the standard library.

        :param renew: called if the token is no longer valid.
        """
        from fpgapool.client.doors import instance

        adapter = instance.TokenAdapter(credentials, SERVICE_TYPE)
        return cls(adapter, renew)

    @classmethod
    def from_cloud(cls, name: str | None = None) -> Self:
        """Find the API as the ``openstack`` command does.

        Passwords and application credentials both work.

        :param name: name of a cloud in ``clouds.yaml``; None to use
            ``OS_CLOUD`` or the other environment variables ``OS_…``.
        :raises errors.InvalidRequest: if the cloud is unknown, or a required
            library is not installed.
        """
        try:
            import openstack.config
            import openstack.exceptions
            from keystoneauth1 import adapter
            from keystoneauth1 import exceptions as auth_exceptions
        except ImportError as exc:
            raise _not_installed(exc) from exc
        from fpgapool.client.doors import instance

        try:
            region = openstack.config.get_cloud_region(cloud=name)
            override = region.get_endpoint(SERVICE_TYPE)
            if override is not None:
                override = instance.versioned(override)
            return cls(
                adapter.Adapter(
                    region.get_session(),
                    service_type=SERVICE_TYPE,
                    version="1",
                    interface=region.get_interface(SERVICE_TYPE),
                    region_name=region.get_region_name(SERVICE_TYPE),
                    endpoint_override=override,
                )
            )
        except (
            openstack.exceptions.SDKException,
            auth_exceptions.ClientException,
        ) as exc:
            raise errors.invalid(f"cloud {name or ''}: {exc}") from exc

    @classmethod
    def at(cls, url: str) -> Self:
        """Use an API without Keystone, such as that of the all-in-one pool.

        :param url: the API's URL, such as ``http://127.0.0.1:8080``; it may
            end with the version, ``/v1``.
        :raises errors.InvalidRequest: if it is not a URL, or a required
            library is not installed.
        """
        from fpgapool.client.doors import instance

        endpoint = instance.versioned(url)
        try:
            from keystoneauth1 import adapter
            from keystoneauth1 import noauth
            from keystoneauth1 import session
        except ImportError as exc:
            raise _not_installed(exc) from exc
        return cls(
            adapter.Adapter(
                session.Session(auth=noauth.NoAuth(endpoint=endpoint)),
                service_type=SERVICE_TYPE,
                endpoint_override=endpoint,
            )
        )

    def enter(
        self,
        cancel: cancelling.CancelToken,
        deadline_s: float | None = None,
        origin: doors.Origin | None = None,
        *,
        require_tls: bool = False,
    ) -> doors.Door:
        """Connect.

        :raises: as :class:`apidoor.ApiDoor`.
        """
        from fpgapool.client.doors import apidoor

        return self._admitted(
            lambda adapter: apidoor.ApiDoor(
                adapter,
                cancel,
                deadline_s,
                origin,
                require_tls=require_tls,
            )
        )

    def _admitted(self, enter: Callable[[Any], _T]) -> _T:
        """Enter; if the API rejects the credentials, retry with others."""
        try:
            return enter(self._adapter)
        except errors.RequestRejected as exc:
            if exc.code != codes.UNAUTHORIZED or self._renew is None:
                raise
            renew = functools.partial(self._renew, exc.message)
            other = waits.offload(renew)
        return other._admitted(enter)


def _not_installed(exc: ImportError) -> errors.InvalidRequest:
    return errors.invalid(
        "the pool's API requires openstacksdk: pip install 'fpgapool[client]'"
        f" ({exc})"
    )
