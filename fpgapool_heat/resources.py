# SPDX-License-Identifier: Apache-2.0

"""What templates may name: ``OS::FPGAPool::Group`` and ``...::Quota``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from heat.common import exception
from heat.engine import attributes
from heat.engine import constraints
from heat.engine import properties
from heat.engine import resource
from openstack import exceptions

from fpgapool.osc.sdk import fpgapool_service
from fpgapool.osc.sdk import proxy as proxies
from fpgapool.vocabulary import accounting
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import group as description
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import states

_Schema = properties.Schema

_TYPES = {
    fields.NAME: _Schema.STRING,
    fields.INTEGER: _Schema.INTEGER,
    fields.FLAG: _Schema.BOOLEAN,
    fields.NAMES: _Schema.LIST,
    fields.SECONDS: _Schema.NUMBER,
}
_OPTIONS = {option.name: option for option in description.GROUP.options}
#: Both follow the size unless the template says them.
_BOUNDS = ("min_size", "max_size")


def _limits(option: fields.Option) -> list[constraints.Constraint]:
    if option.name == "name":
        return [constraints.AllowedPattern(rules.GROUP_NAME)]
    if "enum" in option.limits:
        return [constraints.AllowedValues(option.limits["enum"])]
    return [constraints.Range(min=0)] if option.kind is fields.INTEGER else []


class PoolError(exception.Error):
    """The API refused what it was asked; the text ends with its code."""


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Raise :class:`PoolError` instead of the SDK's errors."""
    try:
        yield
    except exceptions.HttpException as error:
        found = proxies.api_error(error.response)
        if found is None:
            raise
        text = f"{found['detail']} ({found['code']})"
        raise PoolError(text) from error


class _Resource(resource.Resource):
    def _pool(self) -> proxies.Proxy:
        # Not the default client: Heat would ask for Neutron's endpoint.
        return fpgapool_service.proxy_of(self.client("openstack"))

    def _given(self) -> dict[str, Any]:
        """Return what the template says."""
        return {
            name: value
            for name, value in self.properties.items()
            if value is not None
        }


class Group(_Resource):
    """Slots of the pool with one accelerator that programs share."""

    physical_resource_name_limit = 64

    properties_schema = {
        "accelerator": _Schema(
            _Schema.STRING,
            "Name of the accelerator. A change replaces the group.",
            required=True,
        ),
        **{
            name: _Schema(
                _TYPES[option.kind],
                option.help[:1].upper() + option.help[1:] + ".",
                required=name == "size",
                update_allowed=not option.fixed,
                constraints=_limits(option),
            )
            for name, option in _OPTIONS.items()
        },
    }
    attributes_schema = {
        "name": attributes.Schema("The group's name."),
        "state": attributes.Schema("The group's state."),
        "size": attributes.Schema("Number of slots that it is to hold."),
    }

    def handle_create(self) -> None:
        body = {"name": self.physical_resource_name(), **self._given()}
        with _explained():
            made = self._pool().create_group(**body)
        self.resource_id_set(made.id)

    def check_create_complete(self, _unused: object) -> bool:
        """Tell whether it has the slots that it needs at least."""
        state = self._state()
        if state == states.GROUP_FAILED:
            raise exception.ResourceInError(
                resource_status=state,
                status_reason=str(self._show_resource()["reason"]),
            )
        if state in (states.GROUP_DRAINING, states.GROUP_DELETED):
            raise exception.ResourceInError(
                resource_status=state, status_reason="somebody deleted it"
            )
        return state in (states.GROUP_ACTIVE, states.GROUP_RESIZING)

    def handle_update(
        self, json_snippet: Any, tmpl_diff: Any, prop_diff: Mapping[str, Any]
    ) -> None:
        wanted = json_snippet.properties(self.properties_schema, self.context)
        body = {
            name: self._default(name) if value is None else value
            for name, value in prop_diff.items()
        }
        if body.keys() & {"size", *_BOUNDS}:
            for name in _BOUNDS:
                value = wanted[name]
                body[name] = wanted["size"] if value is None else value
        if body:
            with _explained():
                self._pool().update_group(self.resource_id, **body)

    def _default(self, name: str) -> Any:
        if name == "name":
            return self.physical_resource_name()
        return _OPTIONS[name].default

    def check_update_complete(self, unused: object) -> bool:
        """Tell whether it has the slots that it needs at least."""
        return self.check_create_complete(unused)

    def handle_delete(self) -> None:
        if self.resource_id is not None:
            with _explained():
                self._pool().delete_group(self.resource_id)

    def check_delete_complete(self, _unused: object) -> bool:
        """Tell whether its last slot is free."""
        if self.resource_id is None:
            return True
        try:
            return self._state() == states.GROUP_DELETED
        except exceptions.NotFoundException:
            return True

    def _state(self) -> str:
        return self._pool().get_group(self.resource_id).state

    def _show_resource(self) -> dict[str, Any]:
        return self._pool().get_group(self.resource_id).to_dict()

    def _resolve_attribute(self, name: str) -> Any:
        if self.resource_id is None:
            return None
        return self._show_resource()[name]


class Quota(_Resource):
    """Limits of a project; those that are not named stay as they are."""

    properties_schema = {
        "project": _Schema(
            _Schema.STRING,
            "ID of the project. A change replaces the quota.",
            required=True,
            constraints=[constraints.AllowedPattern(rules.PROJECT_ID.pattern)],
        ),
        **{
            name: _Schema(
                _Schema.INTEGER,
                f"{meaning} -1 means unlimited.",
                update_allowed=True,
                constraints=[
                    constraints.Range(
                        accounting.UNLIMITED, accounting.MAX_LIMIT
                    )
                ],
            )
            for name, meaning in accounting.QUOTAS.items()
        },
    }

    def _set(self, project: str, limits: Mapping[str, int | None]) -> None:
        with _explained():
            self._pool().set_quota(project, **limits)

    def handle_create(self) -> None:
        limits = self._given()
        project = limits.pop("project")
        self._set(project, limits)
        self.resource_id_set(project)

    def handle_update(
        self, json_snippet: Any, tmpl_diff: Any, prop_diff: Mapping[str, Any]
    ) -> None:
        # What the template no longer names has the default again.
        if prop_diff:
            self._set(self.resource_id, prop_diff)

    def handle_delete(self) -> None:
        if self.resource_id is not None:
            given = self._given().keys() & accounting.QUOTAS.keys()
            self._set(self.resource_id, dict.fromkeys(given))


def resource_mapping() -> dict[str, type[resource.Resource]]:
    """Return the classes by the names that templates have for them."""
    return {"OS::FPGAPool::Group": Group, "OS::FPGAPool::Quota": Quota}
