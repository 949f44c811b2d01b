# SPDX-License-Identifier: Apache-2.0

"""Stacks with groups and quotas, as the manual shows them."""

from __future__ import annotations

import functools
import typing
from collections.abc import Iterator

import pytest
import yaml

from tests.harness import waiting
from tests.heat import conftest
from tests.services import openstack

TEMPLATE = openstack.ROOT / "doc" / "examples" / "heat" / "group.yaml"


class Stack:
    """The stack of a test."""

    def __init__(self, site: conftest.Site, name: str) -> None:
        self.token = site.accounts.token(site.operator)
        self._ask = functools.partial(site.heat.ask, token=self.token)
        self._pool = functools.partial(site.api.ask, token=self.token.text)
        self._name = name
        self._path = ""

    def create(self, template: object = None, **parameters: object) -> str:
        """Create it; return how that ended."""
        self.begin(template, **parameters)
        return self.ended("CREATE")

    def begin(self, template: object = None, **parameters: object) -> None:
        """Have it created."""
        body = {"stack_name": self._name, **self._body(template, parameters)}
        made = self._ask("POST", "/stacks", body=body)["stack"]
        self._path = f"/stacks/{self._name}/{made['id']}"

    def update(self, template: object = None, **parameters: object) -> str:
        """Change it; return how that ended."""
        self._ask("PUT", self._path, body=self._body(template, parameters))
        return self.ended("UPDATE")

    def delete(self) -> str:
        """Delete it; return how that ended."""
        self._ask("DELETE", self._path)
        return self.ended("DELETE")

    @staticmethod
    def _body(template: object, parameters: object) -> dict[str, object]:
        text = TEMPLATE.read_text() if template is None else template
        return {"template": text, "parameters": parameters}

    def show(self) -> dict[str, typing.Any]:
        """Return what Heat knows of it."""
        return self._ask("GET", self._path)["stack"]

    def ended(self, action: str) -> str:
        """Wait until it has ended; return how."""

        def how() -> str:
            shown = self.show()
            status = shown["stack_status"]
            if status in (f"{action}_COMPLETE", f"{action}_FAILED"):
                return f"{status}: {shown['stack_status_reason']}"
            return ""

        return waiting.wait_until(how, lambda: str(self.show()))

    def outputs(self) -> dict[str, typing.Any]:
        """Return the values of its outputs."""
        return {
            one["output_key"]: one["output_value"]
            for one in self.show()["outputs"]
        }

    def groups(self) -> list[dict[str, typing.Any]]:
        """Return the project's groups."""
        answer = self._pool("GET", "/v1/groups")
        return answer.document["groups"]

    def quota(self, name: str) -> tuple[int, str]:
        """Return a limit of the project, and where it was set."""
        path = f"/v1/quotas/{self.token.project_id}"
        limit = self._pool("GET", path).document["quota"][name]
        return limit["limit"], limit["source"]

    def create_group(self, **members: object) -> str:
        """Create a group behind Heat's back; return its ID."""
        body = {"group": {"accelerator": "copy", **members}}
        answer = self._pool("POST", "/v1/groups", body=body)
        return answer.document["group"]["id"]

    def delete_group(self, group_id: str) -> None:
        """Delete a group behind Heat's back."""
        self._pool("DELETE", f"/v1/groups/{group_id}")


@pytest.fixture
def stack(
    site: conftest.Site, request: pytest.FixtureRequest
) -> Iterator[Stack]:
    """Give a stack that does not exist yet; afterwards nothing is left."""
    made = Stack(site, request.node.name.replace("_", "-"))
    before = made.quota("group_slots")
    yield made
    assert made.delete().startswith("DELETE_COMPLETE")
    assert made.groups() == []
    assert made.quota("group_slots") == before


def _template(**changes: object) -> dict[str, typing.Any]:
    """Return the manual's template, with other properties of the group."""
    template = yaml.safe_load(TEMPLATE.read_text())
    template["heat_template_version"] = "2018-08-31"
    template["resources"]["group"]["properties"].update(changes)
    return template


def test_a_stack_has_a_group_and_a_quota(stack: Stack) -> None:
    assert stack.create().startswith("CREATE_COMPLETE")
    (group,) = stack.groups()
    assert group["name"].startswith("test-a-stack")
    assert (group["accelerator"], group["size"]) == ("copy", 1)
    assert stack.outputs() == {"group": group["id"], "state": "ACTIVE"}
    assert stack.quota("group_slots") == (8, "project")


def test_a_group_is_resized_and_renamed(stack: Stack) -> None:
    stack.create()
    (before,) = stack.groups()
    assert stack.update(slots=conftest.SLOTS).startswith("UPDATE_COMPLETE")
    (larger,) = stack.groups()
    sizes = [larger[name] for name in ("min_size", "size", "max_size")]
    assert sizes == [conftest.SLOTS] * 3
    assert larger["id"] == before["id"]
    renamed = _template(name="renamed")
    assert stack.update(renamed, slots=1).startswith("UPDATE_COMPLETE")
    (smaller,) = stack.groups()
    assert smaller["id"] == before["id"]
    assert (smaller["name"], smaller["size"]) == ("renamed", 1)


def test_a_limit_that_is_not_named_any_more_is_the_default(
    stack: Stack,
) -> None:
    default = stack.quota("groups")
    template = _template()
    limits = template["resources"]["quota"]["properties"]
    limits["groups"] = 3
    stack.create(template)
    assert stack.quota("groups") == (3, "project")
    del limits["groups"]
    limits["group_slots"] = 9
    assert stack.update(template).startswith("UPDATE_COMPLETE")
    assert stack.quota("groups") == default
    assert stack.quota("group_slots") == (9, "project")


def test_what_the_pool_refuses_fails_with_its_code(stack: Stack) -> None:
    ended = stack.create(slots=9)
    assert ended.startswith("CREATE_FAILED")
    assert "QUOTA_EXCEEDED" in ended
    assert stack.groups() == []


def test_a_group_that_is_gone_can_be_deleted(stack: Stack) -> None:
    stack.create()
    (group,) = stack.groups()
    stack.delete_group(group["id"])
    waiting.wait_until(lambda: not stack.groups(), "the group is gone")


def test_a_group_is_awaited_until_it_has_its_slots(stack: Stack) -> None:
    other = stack.create_group(name="other", size=conftest.SLOTS)
    stack.begin()
    waiting.wait_until(lambda: len(stack.groups()) > 1, "the stack's group")
    assert stack.show()["stack_status"] == "CREATE_IN_PROGRESS"
    (waits,) = [one for one in stack.groups() if one["id"] != other]
    assert waits["state"] == "CREATING"
    stack.delete_group(other)
    assert stack.ended("CREATE").startswith("CREATE_COMPLETE")
    (group,) = stack.groups()
    assert (group["id"], group["state"]) == (waits["id"], "ACTIVE")


def test_another_accelerator_replaces_the_group(stack: Stack) -> None:
    stack.create()
    (before,) = stack.groups()
    changed = _template(accelerator="sha")
    assert stack.update(changed).startswith("UPDATE_COMPLETE")
    (after,) = stack.groups()
    assert after["id"] != before["id"]
    assert after["accelerator"] == "sha"
