# SPDX-License-Identifier: Apache-2.0

"""Placement: resource providers, inventories, traits and allocations."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import Self

from oslo_config import cfg

from fpgapool.clients import adapters
from fpgapool.common import exception
from fpgapool.conf import placement as options

#: Nested providers exist since 1.14, fully reserved inventories since 1.26; no
#: newer features are used.
MICROVERSION = "1.36"

_CONCURRENT_UPDATE = "placement.concurrent_update"
_INVENTORY_IN_USE = "placement.inventory.inuse"
_PROVIDER_IN_USE = "placement.resource_provider.inuse"

# Maximum number of attempts to make a change that conflicts with others.
_MAX_ATTEMPTS = 5

# Statuses that all other requests of this user would get, too.
_USELESS = frozenset({401, 403, 406})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A resource provider.

    :ivar generation: changes when its inventories or traits change or an
        allocation is made, but not when an allocation ends.
    """

    uuid: str
    name: str
    generation: int
    root_uuid: str
    parent_uuid: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """A provider's inventory of a resource class.

    :ivar reserved: the amount that is not available for allocation.
    """

    total: int
    reserved: int = 0

    def document(self) -> dict[str, Any]:
        return {
            "total": self.total,
            "reserved": self.reserved,
            "min_unit": 1,
            "max_unit": self.total,
            "step_size": 1,
            "allocation_ratio": 1.0,
        }


class Placement:
    """Placement's API; not thread-safe.

    The first call connects. All methods raise PlacementUnavailable if there is
    no valid response, or its subclass PlacementRefused for a rejected request.

    :ivar conflicts: number of changes that were retried after a conflict.
    """

    def __init__(self, adapter: Any, *, timeout_s: float = 30.0) -> None:
        self.requests = 0
        self.conflicts = 0
        self._adapter = adapter
        self._timeout_s = timeout_s
        # Traits and resource classes that are known to exist.
        self._known: set[str] = set()

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self | None:
        """Return a client for the group ``[placement]`` of the configuration.

        :returns: None if the group does not configure authentication.
        :raises ConfigurationError: if the group is invalid.
        """
        options.OPTIONS.register_auth(conf)
        timeout_s = conf[options.GROUP].request_timeout_s
        adapter = adapters.load(conf, options.GROUP, timeout_s)
        if adapter is None:
            return None
        return cls(adapter, timeout_s=timeout_s)

    # -- queries -----------------------------------------------------------

    def traits(self, prefix: str) -> list[str]:
        """Return the traits with a prefix that any provider has."""
        query = {"name": f"startswith:{prefix}", "associated": "true"}
        with _sensible():
            return [str(one) for one in self._get("/traits", query)["traits"]]

    def providers(
        self, trait: str, free: Mapping[str, int] | None = None
    ) -> list[Provider]:
        """Return all providers of the cloud that have a trait.

        :param free: the free amount that they must have, by resource class.
        """
        query = {"required": trait}
        if free:
            wanted = (f"{name}:{count}" for name, count in free.items())
            query["resources"] = ",".join(wanted)
        with _sensible():
            document = self._get("/resource_providers", query)
            return [_provider(one) for one in document["resource_providers"]]

    def provider(self, uuid: str) -> Provider | None:
        """Return a provider; None if it does not exist."""
        answer = self._ask("GET", _path(uuid), accept={404})
        if answer.status_code == 404:
            return None
        with _sensible():
            return _provider(answer.json())

    def inventory(self, uuid: str, resource_class: str) -> Inventory | None:
        """Return a provider's inventory of a resource class, if any."""
        with _sensible():
            found = self._get(_path(uuid, "inventories"))["inventories"]
            one = found.get(resource_class)
            if one is None:
                return None
            return Inventory(int(one["total"]), int(one["reserved"]))

    def allocations(self, uuid: str, resource_class: str) -> dict[str, int]:
        """Return each consumer's amount of a resource class."""
        with _sensible():
            found = self._get(_path(uuid, "allocations"))["allocations"]
            return {
                str(consumer): int(one["resources"][resource_class])
                for consumer, one in found.items()
                if resource_class in one["resources"]
            }

    # -- changes -----------------------------------------------------------

    def create(self, uuid: str, name: str, parent_uuid: str) -> None:
        """Create a child provider, unless it already exists."""
        body = {
            "uuid": uuid,
            "name": name,
            "parent_provider_uuid": parent_uuid,
        }
        answer = self._ask(
            "POST", "/resource_providers", body=body, accept={409}
        )
        if answer.status_code == 409:
            found = self.provider(uuid)
            if found is None or found.parent_uuid != parent_uuid:
                raise _refusal(answer)

    def change_traits(
        self, uuid: str, add: Collection[str], remove: Collection[str]
    ) -> None:
        """Add and remove traits; keep the provider's other traits."""
        for trait in sorted(add):
            self._ensure(f"/traits/{trait}")

        def changed(document: dict[str, Any]) -> dict[str, Any]:
            before = {*document["traits"]}
            traits = (before | {*add}) - {*remove}
            if traits == before:
                return document
            return {**document, "traits": sorted(traits)}

        self._rewrite(_path(uuid, "traits"), changed)

    def set_inventory(
        self, uuid: str, resource_class: str, inventory: Inventory | None
    ) -> None:
        """Set or delete an inventory; keep the provider's others."""
        if inventory is not None:
            self._ensure(f"/resource_classes/{resource_class}")

        def changed(document: dict[str, Any]) -> dict[str, Any]:
            inventories = dict(document["inventories"])
            inventories.pop(resource_class, None)
            if inventory is not None:
                inventories[resource_class] = inventory.document()
            return {**document, "inventories": inventories}

        self._rewrite(_path(uuid, "inventories"), changed)

    def delete(self, uuid: str) -> None:
        """Delete a provider, if it exists."""
        self._ask("DELETE", _path(uuid), accept={404})

    def _ensure(self, path: str) -> None:
        """Create a trait or resource class, unless it exists."""
        if path not in self._known:
            self._ask("PUT", path)
            self._known.add(path)

    def _rewrite(
        self, path: str, changed: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> None:
        """Replace a document that contains the provider's generation."""
        for _ in range(_MAX_ATTEMPTS):
            with _sensible():
                before = self._get(path)
                after = changed(before)
            if after == before:
                return
            answer = self._ask("PUT", path, body=after, accept={400, 409})
            if answer.status_code < 400:
                return
            if _code(answer) != _CONCURRENT_UPDATE:
                # An unused trait may have been deleted in the meantime.
                self._known.clear()
                raise _refusal(answer)
            self.conflicts += 1
        raise exception.PlacementRefused(
            reason=f"{path}: {_MAX_ATTEMPTS} conflicts with other changes"
        )

    def _get(
        self, path: str, query: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        found = self._ask("GET", path, query=query).json()
        if not isinstance(found, dict):
            raise ValueError(f"{path} is not an object")
        return found

    def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        accept: Collection[int] = (),
    ) -> Any:
        from keystoneauth1 import exceptions

        arguments = {"params": query} if query else {}
        if body is not None:
            arguments["json"] = body
        self.requests += 1
        try:
            answer = self._adapter.request(
                path,
                method,
                microversion=MICROVERSION,
                timeout=self._timeout_s,
                raise_exc=False,
                **arguments,
            )
        # If the cafile is unreadable, the error is a plain OSError.
        except (exceptions.ClientException, OSError) as error:
            raise exception.PlacementUnavailable(
                reason=f"{type(error).__name__}: {error}"
            ) from error
        status = answer.status_code
        if status < 400 or status in accept:
            return answer
        if status in _USELESS or status >= 500:
            raise exception.PlacementUnavailable(
                reason=f"{method} {path}: {_detail(answer)}"
            )
        raise _refusal(answer)


@contextlib.contextmanager
def _sensible() -> Iterator[None]:
    """Translate the errors that an invalid response causes."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise exception.PlacementUnavailable(
            reason=f"invalid response: {error!r:.200}"
        ) from error


def _path(uuid: str, what: str | None = None) -> str:
    path = f"/resource_providers/{uuid}"
    return path if what is None else f"{path}/{what}"


def _provider(document: Mapping[str, Any]) -> Provider:
    parent = document["parent_provider_uuid"]
    return Provider(
        uuid=str(document["uuid"]),
        name=str(document["name"]),
        generation=int(document["generation"]),
        root_uuid=str(document["root_provider_uuid"]),
        parent_uuid=None if parent is None else str(parent),
    )


def _error(answer: Any) -> Mapping[str, Any]:
    """Return Placement's error; empty if it cannot be read."""
    try:
        found = answer.json()["errors"][0]
    except (LookupError, TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _code(answer: Any) -> str:
    return str(_error(answer).get("code", ""))


def _detail(answer: Any) -> str:
    detail = " ".join(str(_error(answer).get("detail", "")).split())
    return f"HTTP {answer.status_code} {detail}"[:400].rstrip()


def _refusal(answer: Any) -> exception.PlacementUnavailable:
    if _code(answer) in (_INVENTORY_IN_USE, _PROVIDER_IN_USE):
        return exception.PlacementRefused(
            reason="the provider still has allocations"
        )
    return exception.PlacementRefused(reason=_detail(answer))
