# SPDX-License-Identifier: Apache-2.0

"""A Placement in memory, which is asked as an adapter of keystoneauth is."""

from __future__ import annotations

import dataclasses
import json
import typing
import urllib.parse
from collections.abc import Callable
from collections.abc import Mapping

from keystoneauth1 import exceptions

Document = dict[str, typing.Any]

#: What doc/source/install/nova.rst tells operators to write into flavors.
NEAR = {"trait:CUSTOM_FPGAPOOL_AES": "required"}
RESERVED = {"resources:CUSTOM_FPGAPOOL_SLOT": "1"}
RESERVED_NEAR = {
    "resources1:CUSTOM_FPGAPOOL_SLOT": "1",
    "trait1:CUSTOM_FPGAPOOL_AES": "required",
}


class Answer:
    """What a request gets."""

    def __init__(self, status_code: int, document: object = None) -> None:
        self.status_code = status_code
        self.text = "" if document is None else json.dumps(document)

    def json(self) -> typing.Any:
        """Return the body.

        :raises ValueError: if it is no JSON.
        """
        return json.loads(self.text)


def refusal(status_code: int, code: str, detail: str = "no") -> Answer:
    """Return an answer that says no."""
    return Answer(
        status_code,
        {"errors": [{"status": status_code, "code": code, "detail": detail}]},
    )


def _has_free(provider: Provider, resources: str) -> bool:
    name, _, count = resources.partition(":")
    used = sum(own.get(name, 0) for own in provider.allocations.values())
    one = provider.inventories.get(name)
    if one is None or int(count) > one["max_unit"]:
        return False
    return bool(one["total"] - one["reserved"] - used >= int(count))


@dataclasses.dataclass
class Provider:
    """A resource provider.

    :ivar allocations: by consumer and resource class.
    """

    uuid: str
    name: str
    parent_uuid: str | None = None
    generation: int = 0
    traits: set[str] = dataclasses.field(default_factory=set)
    inventories: dict[str, Document] = dataclasses.field(default_factory=dict)
    allocations: dict[str, dict[str, int]] = dataclasses.field(
        default_factory=dict
    )


class Adapter:
    """Behaves as Placement does, as far as it is asked.

    :ivar asked: method and path of each request.
    :ivar before: called before each request, to interfere.
    """

    def __init__(self) -> None:
        self.providers: dict[str, Provider] = {}
        self.asked: list[tuple[str, str]] = []
        self.before: Callable[[str, str], object] = lambda method, path: None
        self.away = False
        self._traits: set[str] = set()
        self._classes: set[str] = set()

    # What others do.

    def add(
        self, uuid: str, parent_uuid: str | None = None, *traits: str
    ) -> Provider:
        """Make a provider."""
        self._traits |= {*traits}
        made = Provider(uuid, f"name of {uuid}", parent_uuid, 1, {*traits})
        self.providers[uuid] = made
        return made

    def allocate(
        self, uuid: str, consumer: str, resource_class: str, count: int = 1
    ) -> None:
        """Give a consumer something of a provider."""
        provider = self.providers[uuid]
        assert resource_class in provider.inventories
        provider.allocations[consumer] = {resource_class: count}
        provider.generation += 1

    def free(self, uuid: str, consumer: str) -> None:
        """Take it back; the generation does not tell."""
        del self.providers[uuid].allocations[consumer]

    def writes(self) -> list[tuple[str, str]]:
        """Return the requests that change anything."""
        return [one for one in self.asked if one[0] != "GET"]

    # What an adapter does.

    def request(
        self,
        path: str,
        method: str,
        *,
        params: Mapping[str, str] | None = None,
        json: Document | None = None,
        **options: object,
    ) -> Answer:
        """Answer a request."""
        assert options.pop("timeout")
        assert options == {
            "microversion": "1.36",
            "raise_exc": False,
        }
        if self.away:
            raise exceptions.ConnectFailure("no route")
        query = "" if not params else "?" + urllib.parse.urlencode(params)
        self.asked.append((method, path + query))
        self.before(method, path)
        kind, *rest = path.strip("/").split("/")
        body = json or {}
        if kind == "resource_providers" and rest:
            provider = self.providers.get(rest[0])
            if provider is None:
                return refusal(404, "placement.undefined_code")
            if len(rest) == 2:
                return self._part(provider, method, rest[1], body)
            if method == "DELETE":
                return self._delete(provider)
            return Answer(200, self._document(provider))
        if kind == "resource_providers":
            if method == "POST":
                return self._create(body)
            return self._having(**(params or {}))
        if method == "PUT":
            known = self._traits if kind == "traits" else self._classes
            known.add(rest[0])
            return Answer(204)
        assert (method, kind) == ("GET", "traits")
        return self._find_traits(params or {})

    def _find_traits(self, params: Mapping[str, str]) -> Answer:
        operator, _, prefix = params["name"].partition(":")
        assert operator == "startswith"
        assert params["associated"] == "true"
        used = set().union(*(p.traits for p in self.providers.values()))
        found = sorted(one for one in used if one.startswith(prefix))
        return Answer(200, {"traits": found})

    def _having(self, required: str, resources: str = "") -> Answer:
        if required not in self._traits:
            return refusal(400, "placement.query.bad_value", "No such trait")
        found = [
            self._document(provider)
            for provider in self.providers.values()
            if required in provider.traits
            and (not resources or _has_free(provider, resources))
        ]
        return Answer(200, {"resource_providers": found})

    def _document(self, provider: Provider) -> Document:
        return {
            "uuid": provider.uuid,
            "name": provider.name,
            "generation": provider.generation,
            "parent_provider_uuid": provider.parent_uuid,
            "root_provider_uuid": provider.parent_uuid or provider.uuid,
            "links": [],
        }

    def _create(self, body: Document) -> Answer:
        uuid, name = body["uuid"], body["name"]
        if body["parent_provider_uuid"] not in self.providers:
            return refusal(400, "placement.undefined_code", "no parent")
        if uuid in self.providers or any(
            one.name == name for one in self.providers.values()
        ):
            return refusal(409, "placement.duplicate_name")
        made = Provider(uuid, name, body["parent_provider_uuid"])
        self.providers[uuid] = made
        return Answer(200, self._document(made))

    def _delete(self, provider: Provider) -> Answer:
        if provider.allocations:
            return refusal(409, "placement.resource_provider.inuse")
        if any(
            one.parent_uuid == provider.uuid for one in self.providers.values()
        ):
            return refusal(
                409, "placement.resource_provider.cannot_delete_parent"
            )
        del self.providers[provider.uuid]
        return Answer(204)

    def _part(
        self, provider: Provider, method: str, part: str, body: Document
    ) -> Answer:
        generation = "resource_provider_generation"
        if method == "PUT":
            if body[generation] != provider.generation:
                return refusal(409, "placement.concurrent_update")
            wrong = getattr(self, f"_put_{part}")(provider, body[part])
            if wrong is not None:
                return wrong
            provider.generation += 1
        value = getattr(provider, part)
        if part == "traits":
            value = sorted(value)
        if part == "allocations":
            value = {name: {"resources": own} for name, own in value.items()}
        return Answer(200, {part: value, generation: provider.generation})

    def _put_traits(
        self, provider: Provider, traits: list[str]
    ) -> Answer | None:
        if not self._traits.issuperset(traits):
            return refusal(400, "placement.undefined_code", "No such trait")
        provider.traits = {*traits}
        return None

    def _put_inventories(
        self, provider: Provider, inventories: dict[str, Document]
    ) -> Answer | None:
        for name, inventory in inventories.items():
            assert name in self._classes
            assert 0 <= inventory["reserved"] <= inventory["total"]
            assert inventory["max_unit"] > 0
            assert inventory["total"] > 0
        used = {name for own in provider.allocations.values() for name in own}
        if used - inventories.keys():
            return refusal(409, "placement.inventory.inuse")
        provider.inventories = inventories
        return None

    def forget_trait(self, trait: str) -> None:
        """Delete a trait that nobody has."""
        assert not any(trait in p.traits for p in self.providers.values())
        self._traits.discard(trait)

    def add_class(self, resource_class: str) -> None:
        """Make a resource class."""
        self._classes.add(resource_class)
