# SPDX-License-Identifier: Apache-2.0

"""Base classes of the resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from typing import Self
from typing import TypeVar

from keystoneauth1 import adapter
from openstack import resource
from openstack import utils

from fpgapool.vocabulary import fields

#: The newest version of the API that the resources know.
MICROVERSION = "1.0"


class Resource(resource.Resource):
    """A resource of the pool."""

    _max_microversion = MICROVERSION


_TYPES: dict[fields.Kind, dict[str, Any]] = {
    fields.COUNT: {"type": int},
    fields.NUMBER: {"type": float},
    fields.SECONDS: {"type": float},
    fields.FLAG: {"type": bool},
    fields.NAMES: {"type": list},
    fields.CODES: {"type": list, "list_type": dict},
}

_R = TypeVar("_R", bound=type[Resource])


def described(members: fields.Fields) -> Callable[[_R], _R]:
    """Return a decorator that gives a resource its described members.

    They are those that the API shows, and those of requests.
    """

    def decorate(cls: _R) -> _R:
        for field in (*members.shown, *members.options):
            # Every resource has these already.
            if field.shown not in ("id", "name"):
                name = field.shown or field.name
                types = _TYPES.get(field.kind, {})
                setattr(cls, field.name, resource.Body(name, **types))
        return cls

    return decorate


class Administered(Resource):
    """A device or host, which operators enable, drain and disable."""

    #: The operators' setting: ``enabled``, ``draining`` or ``disabled``.
    admin_state = resource.Body("admin_state")
    admin_reason = resource.Body("admin_reason")
    #: When the pool takes its slots from the remaining sessions.
    drain_deadline_at = resource.Body("drain_deadline_at")
    #: Number of sessions that have its slots.
    sessions = resource.Body("sessions", type=int)

    def administer(self, session: adapter.Adapter, **wish: Any) -> Self:
        """Enable, drain or disable it.

        :param session: the proxy.
        :param wish: ``state`` and perhaps ``reason``, ``drain_deadline_s``.
        :returns: the changed resource.
        """
        response = session.patch(
            utils.urljoin(self.base_path, self.id),
            json=wish,
            microversion=self._get_microversion(session),
        )
        self._translate_response(response)
        return self


def query(*filters: str, **renamed: Any) -> resource.QueryParameters:
    """Return the query parameters of a list.

    :param filters: filters, besides page and order.
    :param renamed: filters with another name here than in the API.
    """
    return resource.QueryParameters(
        "sort_key", "sort_dir", *filters, **renamed
    )
