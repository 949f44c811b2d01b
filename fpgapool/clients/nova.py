# SPDX-License-Identifier: Apache-2.0

"""Nova: read instances, with their flavors and states, and compute nodes."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import itertools
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import Self
from typing import TypeVar

from oslo_config import cfg

from fpgapool.clients import adapters
from fpgapool.common import exception
from fpgapool.conf import nova as options

#: Since 2.47, servers include extra specs; since 2.53, hypervisors have UUIDs.
MICROVERSION = "2.53"

#: Migrations have UUIDs, and are paged, since 2.59.
MIGRATIONS_MICROVERSION = "2.59"

# Nova keeps migrations forever; only recent ones still hold allocations.
_MAX_MIGRATION_PAGES = 10

# State of a deleted instance; a SOFT_DELETED one can still be restored.
_DELETED = "DELETED"

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """An instance in Nova.

    :ivar hypervisor: name of its compute node's hypervisor; None if it has no
        compute node, because it is not yet scheduled or is shelved.
    :ivar extra_specs: its flavor's extra specs; None if they are not visible.
    """

    id: str
    project_id: str
    name: str = ""
    status: str = ""
    hypervisor: str | None = None
    extra_specs: Mapping[str, object] | None = None

    @property
    def deleted(self) -> bool:
        """Whether it is permanently deleted."""
        return self.status == _DELETED


@dataclasses.dataclass(frozen=True)
class Computes:
    """The compute nodes.

    :ivar by_name: UUIDs by hypervisor name, except names in several cells.
    """

    uuids: frozenset[str] = frozenset()
    by_name: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Nova:
    """Nova's API; thread-safe.

    The first call connects. Methods raise NovaUnavailable if there is no valid
    response.
    """

    def __init__(
        self,
        adapter: Any,
        *,
        timeout_s: float = 30.0,
        page_length: int = 1000,
    ) -> None:
        self._adapter = adapter
        self._timeout_s = timeout_s
        self._page_length = page_length

    @classmethod
    def from_conf(
        cls, conf: cfg.ConfigOpts, *, timeout_s: float | None = None
    ) -> Self | None:
        """Return a client for the group ``[nova]`` of the configuration.

        :param timeout_s: timeout of requests; None means the configured one.
        :returns: None if the group does not configure authentication.
        :raises ConfigurationError: if the group is invalid.
        """
        options.OPTIONS.register_auth(conf)
        group = conf[options.GROUP]
        timeout_s = timeout_s or group.request_timeout_s
        adapter = adapters.load(conf, options.GROUP, timeout_s)
        if adapter is None:
            return None
        return cls(adapter, timeout_s=timeout_s, page_length=group.page_length)

    def server(self, instance_id: str) -> Server | None:
        """Return an instance; None if it does not exist or is deleted."""
        from keystoneauth1 import exceptions

        with _translated():
            try:
                document = self._get(f"/servers/{instance_id}")
            except exceptions.NotFound:
                return None
            return _server(document["server"])

    def servers(self, changed_since: float | None = None) -> Iterator[Server]:
        """Yield the instances of all projects.

        :param changed_since: wall clock time; yield only instances that
            changed since then, including deleted ones. None means all that
            exist.
        """
        query: dict[str, Any] = {"all_tenants": "1"}
        if changed_since is not None:
            query["changes-since"] = _time(changed_since)
        yield from self._pages("/servers/detail", "servers", query, _server)

    def computes(self) -> Computes:
        found = self._pages("/os-hypervisors", "hypervisors", {}, _compute)
        uuids = collections.defaultdict(list)
        for name, uuid in found:
            uuids[name].append(uuid)
        return Computes(
            frozenset(uuid for own in uuids.values() for uuid in own),
            {name: own[0] for name, own in uuids.items() if len(own) == 1},
        )

    def has_compute(self, host_uuid: str) -> bool:
        """Return whether a compute node exists.

        A list may omit an existing node: Nova leaves out nodes whose service
        it does not find, and may then end a page too soon. If a cell is down,
        Nova does not respond.
        """
        from keystoneauth1 import exceptions

        with _translated():
            try:
                document = self._get(f"/os-hypervisors/{host_uuid}")
            except exceptions.NotFound:
                return False
            _compute(document["hypervisor"])
        return True

    def migrating(self, migration_ids: Collection[str]) -> dict[str, str]:
        """Return the instances of migrations.

        :returns: UUIDs of instances, by the UUIDs of their migrations; without
            migrations that are unknown or not in the newest ten pages.
        """
        wanted = set(migration_ids)
        found: dict[str, str] = {}
        # The newest migrations come first.
        for migration_id, instance_id in self._pages(
            "/os-migrations",
            "migrations",
            {},
            _migration,
            microversion=MIGRATIONS_MICROVERSION,
            marker_name="uuid",
            max_pages=_MAX_MIGRATION_PAGES,
        ):
            if migration_id in wanted:
                found[migration_id] = instance_id
                if len(found) == len(wanted):
                    break
        return found

    def _pages(
        self,
        path: str,
        name: str,
        query: Mapping[str, Any],
        read: Callable[[Any], _T],
        *,
        microversion: str = MICROVERSION,
        marker_name: str = "id",
        max_pages: int | None = None,
    ) -> Iterator[_T]:
        """Yield the members of all pages of a list."""
        marker: str | None = None
        numbers = itertools.count() if max_pages is None else range(max_pages)
        for _ in numbers:
            asked = {**query, "limit": self._page_length}
            if marker is not None:
                asked["marker"] = marker
            with _translated():
                document = self._get(path, asked, microversion)
                members = document[name]
                page = [read(member) for member in members]
                links = document.get(f"{name}_links", [])
                last = str(members[-1][marker_name]) if members else None
            yield from page
            is_last = not any(link.get("rel") == "next" for link in links)
            if is_last or last is None or last == marker:
                return
            marker = last

    def _get(
        self,
        path: str,
        query: Mapping[str, Any] | None = None,
        microversion: str = MICROVERSION,
    ) -> Any:
        answer = self._adapter.get(
            path,
            params=query,
            microversion=microversion,
            timeout=self._timeout_s,
        )
        return answer.json()


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    from keystoneauth1 import exceptions

    try:
        yield
    except (
        exceptions.ClientException,
        # The cafile is unreadable.
        OSError,
        # The response is not JSON, or not of the expected shape.
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise exception.NovaUnavailable(
            reason=f"{type(error).__name__}: {error}"
        ) from error


def _server(document: Mapping[str, Any]) -> Server:
    extra_specs = (document.get("flavor") or {}).get("extra_specs")
    if extra_specs is not None and not isinstance(extra_specs, dict):
        raise ValueError("extra_specs is not an object")
    return Server(
        id=str(document["id"]),
        project_id=str(document["tenant_id"]),
        name=str(document.get("name") or ""),
        status=str(document.get("status") or ""),
        hypervisor=document.get("OS-EXT-SRV-ATTR:hypervisor_hostname"),
        extra_specs=extra_specs,
    )


def _compute(document: Mapping[str, Any]) -> tuple[str, str]:
    return str(document["hypervisor_hostname"]), str(document["id"])


def _migration(document: Mapping[str, Any]) -> tuple[str, str]:
    return str(document["uuid"]), str(document["instance_uuid"])


def _time(wall_s: float) -> str:
    moment = datetime.datetime.fromtimestamp(wall_s, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
