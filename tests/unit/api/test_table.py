# SPDX-License-Identifier: Apache-2.0

"""The table is whole, and what is made of it is current."""

import importlib
import pathlib
import re
import runpy

import jsonschema
import openapi_spec_validator
import pytest

from fpgapool import policies
from fpgapool.api import routes
from fpgapool.api.answers import reasons
from fpgapool.api.http import microversion
from fpgapool.api.http import rights
from fpgapool.api.schemas import common
from fpgapool.vocabulary import codes

ROOT = pathlib.Path(__file__).parents[3]

#: Grows only with a new microversion.
OPERATIONS = 65

ROUTES = [
    pytest.param(route, id=f"{route.method} {route.path}")
    for route in routes.ROUTES
]


def test_nothing_is_there_twice_or_missing():
    found = {(route.method, route.path) for route in routes.ROUTES}
    assert len(found) == len(routes.ROUTES) == OPERATIONS


@pytest.mark.parametrize("route", ROUTES)
def test_a_resource_has_the_same_name_everywhere(route):
    name = route.handler.__module__.rpartition(".")[2]
    assert importlib.import_module(f"fpgapool.api.handlers.{name}").__doc__
    assert route.policy.split(":")[1] in (name, "openapi")


def test_routes_with_one_policy_have_one_default():
    defaults = {right.name: {right.rule} for right in rights.RIGHTS}
    for route in routes.ROUTES:
        defaults.setdefault(route.policy, set()).add(route.rule)
    assert [name for name, one in defaults.items() if len(one) > 1] == []


@pytest.mark.parametrize("route", ROUTES)
def test_every_operation_is_described(route):
    assert route.summary
    assert not route.summary.endswith(".")
    assert route.handler.__doc__
    for schema in (route.query, route.body or common.NO_QUERY):
        # Whatever is misspelt is refused, not ignored.
        assert schema["additionalProperties"] is False
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("route", ROUTES)
def test_every_body_has_a_schema(route):
    is_empty = route.download or route.status == 204
    assert (route.response is None) == is_empty
    if route.method in ("PUT", "PATCH"):
        sharing = route.path.endswith("/projects/{project_id}")
        assert route.upload or sharing or route.body is not None
    assert route.since in microversion.VERSIONS


def test_versions_follow_each_other():
    parsed = [microversion.Version.parse(v) for v in microversion.VERSIONS]
    assert [version.major for version in parsed] == [1] * len(parsed)
    assert [version.minor for version in parsed] == list(range(len(parsed)))


def test_every_version_has_its_history():
    text = (
        ROOT / "doc/source/reference/rest_api_version_history.rst"
    ).read_text()
    for version in microversion.VERSIONS:
        assert f"\n{version}\n---" in text


def test_openapi_document_is_valid():
    document = routes.description()
    openapi_spec_validator.validate(document)
    described = {
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
    }
    assert described == {(r.method, r.path) for r in routes.ROUTES}
    names = [
        operation["operationId"]
        for operations in document["paths"].values()
        for operation in operations.values()
    ]
    assert len(set(names)) == len(names)


def _reference() -> dict[str, str]:
    path = ROOT / "doc/source/api_reference.py"
    return runpy.run_path(str(path))["reference"](routes.ROUTES)


def test_reference_has_every_operation_twice():
    """On the page of its resource, and in the list of all."""
    pages = _reference()
    everything = pages.pop("api-ref")
    resources = "".join(pages.values())
    for route in routes.ROUTES:
        operation = f"{route.method} {route.path}"
        assert f"\n{operation}\n====" in resources
        assert f"| ``{operation}``: {route.summary}" in everything
    for name in pages:
        assert f":doc:`{name}`" in everything
        assert f"   {name}\n" in everything
    assert "api/sessions" in pages
    assert len(pages) > 10


def test_every_member_in_the_reference_has_a_meaning():
    page = "".join(_reference().values())
    assert "     - Meaning\n" in page
    assert len(re.findall(r"(?m)^     -$", page)) == 0


def test_reasons_to_wait_have_sentences():
    for code in codes.WAITING:
        assert code not in reasons.sentence(code), code


def test_documented_operations_of_policies_are_those_of_the_table():
    documented = {
        (operation["method"], operation["path"].partition("?")[0])
        for rule in policies.list_rules()
        for operation in getattr(rule, "operations", ())
    }
    assert documented == {(r.method, r.path) for r in routes.ROUTES}
