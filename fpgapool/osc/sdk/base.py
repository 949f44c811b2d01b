# SPDX-License-Identifier: Apache-2.0

"""Base classes of the resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from typing import TypeVar

from openstack import proxy
from openstack import resource
from openstack import utils

from fpgapool.vocabulary import fields
from fpgapool.vocabulary import microversions


class Resource(resource.Resource):
    """A resource of the pool.

    Its attributes come from its description in :mod:`fpgapool.vocabulary`;
    the class may declare more.
    """

    _max_microversion = microversions.NEWEST


_Found = TypeVar("_Found", bound=Resource)


class Proxy(proxy.Proxy):
    """Sends requests about single resources, which openstacksdk lacks."""

    def _send(
        self,
        kind: type[Resource],
        value: str | Resource,
        method: str,
        *path: str,
        **options: Any,
    ) -> Any:
        found = self._get_resource(kind, value)
        return self.request(
            utils.urljoin(kind.base_path, found.id, *path),
            method,
            microversion=found._get_microversion(self),
            **options,
        )

    def _act(
        self,
        kind: type[_Found],
        value: str | _Found,
        method: str,
        *path: str,
        **options: Any,
    ) -> _Found:
        """Send a request about a resource, and return its new state."""
        found = self._get_resource(kind, value)
        found._translate_response(
            self._send(kind, found, method, *path, **options)
        )
        return found


_TYPES: dict[fields.Kind, dict[str, Any]] = {
    fields.COUNT: {"type": int},
    fields.INTEGER: {"type": int},
    fields.NUMBER: {"type": float},
    fields.RATE: {"type": float},
    fields.SECONDS: {"type": float},
    fields.FLAG: {"type": bool},
    fields.NAMES: {"type": list},
    fields.CODES: {"type": list, "list_type": dict},
    fields.OBJECT: {"type": dict},
    fields.OBJECTS: {"type": list, "list_type": dict},
}

_R = TypeVar("_R", bound=type[Resource])


def described(members: fields.Fields) -> Callable[[_R], _R]:
    """Return a decorator that adds the described members to a resource.

    These are the members that the API returns or that requests accept.
    """

    def decorate(cls: _R) -> _R:
        for field in (*members.shown, *members.options):
            # Every resource already has these attributes.
            if field.shown not in ("id", "name", *vars(cls)):
                name = field.shown or field.name
                types = _TYPES.get(field.kind, {})
                setattr(cls, field.name, resource.Body(name, **types))
        return cls

    return decorate


def query(*filters: str, **renamed: Any) -> resource.QueryParameters:
    """Return the query parameters of a list.

    :param renamed: filters whose names differ here, with their API names.
    """
    return resource.QueryParameters(
        "sort_key", "sort_dir", *filters, **renamed
    )
