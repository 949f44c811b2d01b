# SPDX-License-Identifier: Apache-2.0

"""Every operation has a rule, and it is enforced."""

import pytest
from oslo_policy import policy as oslo_policy

from fpgapool import policies
from fpgapool.api import call as calls
from fpgapool.api import policy
from fpgapool.api import routes
from fpgapool.api.http import errors
from fpgapool.api.http import microversion
from fpgapool.api.http import rights
from fpgapool.common.messaging import context
from fpgapool.vocabulary import codes
from tests.unit.api import fakes

PERSONAS = {
    "reader": "reader",
    "member": "member,reader",
    "manager": "manager,member,reader",
    "service": "service",
    "agent": "fpgapool:agent",
    "nova": "fpgapool:vendordata,service",
    "admin": "admin,manager,member,reader",
    "instance": "fpgapool:instance",
}

#: Who may do it: in one's own project, and in another one.
_READERS = ("reader member manager admin", "admin")
_MEMBERS = ("member manager admin", "admin")
_ANY = ("reader member manager service nova admin", "service nova admin")
_OPERATORS = ("service nova admin", "service nova admin")
#: An instance is restricted to its own sessions beyond that.
_AND_INSTANCES = ("reader member manager admin instance", "admin")
_USERS = ("member manager admin instance", "")

EXPECTED = {
    "fpgapool:accelerators:list": (f"{_ANY[0]} instance", _ANY[1]),
    "fpgapool:accelerators:get": (f"{_ANY[0]} instance", _ANY[1]),
    "fpgapool:bitstreams:list": _READERS,
    "fpgapool:bitstreams:list:all_projects": ("admin", "admin"),
    "fpgapool:bitstreams:get": _READERS,
    "fpgapool:bitstreams:all_projects": ("agent admin", "agent admin"),
    "fpgapool:bitstreams:create": ("member manager admin", ""),
    "fpgapool:bitstreams:upload": _MEMBERS,
    "fpgapool:bitstreams:download": (
        "reader member manager agent admin",
        "agent admin",
    ),
    "fpgapool:bitstreams:update": _MEMBERS,
    "fpgapool:bitstreams:publish": ("admin", "admin"),
    "fpgapool:bitstreams:share": _MEMBERS,
    "fpgapool:bitstreams:approve": ("admin", "admin"),
    "fpgapool:bitstreams:reject": ("admin", "admin"),
    "fpgapool:bitstreams:delete": _MEMBERS,
    "fpgapool:devices:list": _OPERATORS,
    "fpgapool:devices:get": _OPERATORS,
    "fpgapool:groups:list": _AND_INSTANCES,
    "fpgapool:groups:list:all_projects": ("admin", "admin"),
    "fpgapool:groups:get": _AND_INSTANCES,
    "fpgapool:groups:all_projects": ("admin", "admin"),
    "fpgapool:groups:create": ("member manager admin", ""),
    "fpgapool:groups:update": _MEMBERS,
    "fpgapool:groups:share": ("admin", "admin"),
    "fpgapool:groups:goal": _MEMBERS,
    "fpgapool:groups:delete": _MEMBERS,
    "fpgapool:groups:clients:list": _AND_INSTANCES,
    "fpgapool:groups:clients:get": _AND_INSTANCES,
    "fpgapool:groups:clients:attach": _USERS,
    "fpgapool:groups:clients:revoke": (
        f"{_MEMBERS[0]} instance",
        _MEMBERS[1],
    ),
    "fpgapool:hosts:list": _OPERATORS,
    "fpgapool:hosts:get": _OPERATORS,
    "fpgapool:hosts:identify": _OPERATORS,
    "fpgapool:slots:list": _OPERATORS,
    "fpgapool:slots:get": _OPERATORS,
    "fpgapool:slots:test": ("admin", "admin"),
    "fpgapool:pool:get": _ANY,
    "fpgapool:pool:hosts": _OPERATORS,
    "fpgapool:quotas:get": _READERS,
    "fpgapool:quotas:defaults": _READERS,
    "fpgapool:quotas:update": ("admin", "admin"),
    "fpgapool:quotas:delete": ("admin", "admin"),
    "fpgapool:budgets:list": _READERS,
    "fpgapool:budgets:list:all_projects": ("admin", "admin"),
    "fpgapool:budgets:get": _READERS,
    "fpgapool:budgets:update": ("admin", "admin"),
    "fpgapool:budgets:delete": ("admin", "admin"),
    "fpgapool:reservations:list": _READERS,
    "fpgapool:reservations:list:all_projects": ("admin", "admin"),
    "fpgapool:reservations:get": _READERS,
    "fpgapool:reservations:all_projects": ("admin", "admin"),
    "fpgapool:reservations:create": _MEMBERS,
    "fpgapool:reservations:update": _MEMBERS,
    "fpgapool:reservations:delete": _MEMBERS,
    "fpgapool:shares:get": _READERS,
    "fpgapool:usage:list": _READERS,
    "fpgapool:usage:list:all_projects": ("admin", "admin"),
    "fpgapool:services:list": _OPERATORS,
    "fpgapool:devices:change": ("admin", "admin"),
    "fpgapool:hosts:change": ("admin", "admin"),
    "fpgapool:pool:snapshot": _OPERATORS,
    "fpgapool:instances:list": _READERS,
    "fpgapool:instances:list:all_projects": ("admin", "admin"),
    "fpgapool:instances:all_projects": ("admin", "admin"),
    "fpgapool:instances:revoke_token": _MEMBERS,
    "fpgapool:vendordata:create": ("nova", "nova"),
    "fpgapool:sessions:list": _AND_INSTANCES,
    "fpgapool:sessions:list:all_projects": ("admin", "admin"),
    "fpgapool:sessions:get": _AND_INSTANCES,
    "fpgapool:sessions:all_projects": ("admin", "admin"),
    "fpgapool:sessions:create": _USERS,
    "fpgapool:sessions:delete": (f"{_MEMBERS[0]} instance", _MEMBERS[1]),
    "fpgapool:sessions:connect": _USERS,
}

PUBLIC = {route.policy for route in routes.ROUTES if route.public}


@pytest.fixture(scope="module")
def enforcer():
    return policy.Enforcer(fakes.configuration())


def _operations() -> list[oslo_policy.DocumentedRuleDefault]:
    return [
        rule
        for rule in policies.list_rules()
        if isinstance(rule, oslo_policy.DocumentedRuleDefault)
    ]


def test_names_are_unique_and_the_expectations_whole():
    names = [rule.name for rule in policies.list_rules()]
    assert len(set(names)) == len(names)
    assert {rule.name for rule in _operations()} == set(EXPECTED) | PUBLIC


def test_every_route_has_a_policy_and_only_public_ones_are_open():
    rules = {rule.name: rule for rule in _operations()}
    for route in routes.ROUTES:
        is_open = rules[route.policy].check_str == rights.PUBLIC
        assert is_open == route.public, route.path


@pytest.mark.parametrize(
    "route", routes.ROUTES, ids=lambda r: f"{r.method} {r.path}"
)
def test_who_has_no_role_is_refused_everywhere(make_world, route):
    path = fakes.path_of(route)
    # Even before anybody looks at what was sent.
    answer = make_world(fakes.view()).ask(
        route.method, path, fakes.NOBODY, body=b"nonsense", check=False
    )
    if route.public:
        assert answer.status_code == 200
        return
    assert answer.status_code == 403
    (error,) = answer.json["errors"]
    assert error["code"] == codes.FORBIDDEN
    assert route.policy in error["detail"]


@pytest.mark.security
@pytest.mark.parametrize("persona", PERSONAS)
@pytest.mark.parametrize("rule", EXPECTED)
def test_personas(enforcer, rule, persona):
    caller = context.RequestContext(
        user_id="u",
        project_id="p1",
        roles=PERSONAS[persona].split(","),
        overwrite=False,
    )
    for project_id, expected in zip(("p1", "p2"), EXPECTED[rule], strict=True):
        allowed = enforcer.allows(caller, rule, {"project_id": project_id})
        assert allowed == (persona in expected.split()), project_id


@pytest.mark.parametrize("rule", EXPECTED)
def test_other_scopes_are_refused(enforcer, rule):
    for scope in ({"system_scope": "all"}, {"domain_id": "d"}):
        caller = context.RequestContext(
            user_id="u",
            roles=["admin", "member", "reader", "service"],
            overwrite=False,
            **scope,
        )
        assert not enforcer.allows(caller, rule, {"project_id": None})


@pytest.mark.security
def test_a_token_of_the_system_is_told_what_is_missing(make_world):
    """As Nova's: administrators act in a project, not on the system."""
    world = make_world()
    system = context.RequestContext(
        user_id="u", roles=["admin"], system_scope="all", overwrite=False
    )
    call = calls.Call(
        backends=world.backends,
        caller=system,
        version=microversion.OLDEST,
        base_url="",
    )
    with pytest.raises(errors.ApiError, match="not for a project") as caught:
        call.require("fpgapool:hosts:list")
    assert caught.value.code == codes.FORBIDDEN


def test_an_unknown_rule_is_an_error(enforcer):
    caller = context.RequestContext(roles=["admin"], overwrite=False)
    with pytest.raises(oslo_policy.PolicyNotRegistered):
        enforcer.allows(caller, "fpgapool:nothing", {})


def test_commands_of_oslo_policy_find_the_enforcer():
    made = policy.get_enforcer()
    assert set(EXPECTED) <= set(made.registered_rules)
