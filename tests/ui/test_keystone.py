# SPDX-License-Identifier: Apache-2.0

"""Signing in to the live page through a real Keystone of another origin."""

from __future__ import annotations

import typing
from collections.abc import Callable
from collections.abc import Iterator

import pytest

from fpgapool.vocabulary import codes
from tests.harness import cloud as clouds
from tests.integration import server
from tests.services import mariadb as mariadb_service
from tests.services import openstack
from tests.services import process
from tests.services import rabbitmq as rabbitmq_service
from tests.services import stack as stacks
from tests.ui import browser


class Place(typing.NamedTuple):
    """An API and its Keystone."""

    api: server.Server
    url: str
    accounts: openstack.Accounts
    personas: openstack.Personas


@pytest.fixture(scope="module")
def place(
    service_workspace: process.Workspace,
    rabbitmq: rabbitmq_service.RabbitMQ,
    mariadb: mariadb_service.MariaDB,
) -> Iterator[Place]:
    """Give the API of a pool; Keystone allows its origin."""
    stack = stacks.Stack(service_workspace, rabbitmq, mariadb)
    with clouds.Cloud(
        service_workspace,
        rabbitmq.transport_url(rabbitmq.create_vhost()),
        mariadb.database_url(mariadb.create_database()),
        [clouds.HostPlan("board", slots=2)],
    ) as cloud:
        api = server.Server(cloud, service_workspace, stack.keystone)
        stack.keystone.allow_origin(f"http://{api.address}")
        stack.keystone.start()
        stack.accounts.create_fpgapool()
        personas = stack.accounts.create_personas("page")
        api.start()
        url = f"http://{api.address}"
        yield Place(api, url, stack.accounts, personas)
        api.kill()


def test_application_credential(
    place: Place, open_page: Callable[[str], browser.Page]
) -> None:
    member = place.personas.member
    credential = place.accounts.create_application_credential(
        member, "live-page", "member"
    )
    page = open_page(place.url)
    page.fill("credential", {"id": credential.id, "secret": "wrong"})
    page.wait(lambda: "KEYSTONE_401" in page.text("#problem"), "it is refused")
    page.fill("credential", {"id": credential.id, "secret": credential.secret})
    page.wait_live()
    page.wait_tiles(idle=2)
    name = f"{member.name}, project {member.project.name}"
    assert page.text("#user") == name
    assert page.views() == [
        *("Pool", "Sessions", "Groups", "Library", "Usage", "Events"),
    ]
    source = page.run("return document.documentElement.outerHTML")
    assert credential.secret not in source
    # The sign-in outlives a reload, but not signing out.
    page.driver.refresh()
    page.wait_live()
    assert page.text("#user") == name
    (cookie,) = page.cdp("Network.getCookies")["cookies"]
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert page.run("return document.cookie") == ""
    page.one("#sign-out").click()
    page.wait(
        lambda: not page.cdp("Network.getCookies")["cookies"],
        "the cookie is gone",
    )
    page.driver.refresh()
    page.wait(lambda: page.found(".forms form"), "the form")


def test_password(
    place: Place, open_page: Callable[[str], browser.Page]
) -> None:
    """An operator's; signing in again is needed when the user is gone."""
    admin = place.personas.admin
    page = open_page(place.url)
    page.fill(
        "password",
        {
            "user": admin.name,
            "password": admin.password,
            "project": admin.project.name,
        },
    )
    page.wait_live()
    assert page.views()[-1] == "Operations"
    page.go("Operations")
    page.wait(lambda: page.found("main table.bare"), "the tables")
    assert page.text("#problem") == ""


def test_reader_is_refused(
    place: Place, open_page: Callable[[str], browser.Page]
) -> None:
    """The page shows the API's code, and the session stays."""
    token = place.accounts.token(place.personas.member).text
    session = place.api.open(token).session
    reader = place.personas.reader
    page = open_page(place.url)
    page.fill(
        "password",
        {
            "user": reader.name,
            "password": reader.password,
            "project": reader.project.name,
        },
    )
    page.wait_live()
    page.go("Sessions")
    (row,) = page.wait_rows("Running", lambda rows: rows)
    assert row["Request"] == session["request_id"]
    page.one("main button.danger").click()
    page.one("#question-yes").click()
    page.wait(lambda: codes.FORBIDDEN in page.text("main"), "the code")
    assert len(page.rows("Running")) == 1
    assert place.api.close(session["id"], token) == 204
    page.wait_rows("Running", lambda rows: not rows)


def test_token_that_is_refused(
    place: Place, open_page: Callable[[str], browser.Page]
) -> None:
    """The page asks for another one, and says why."""
    stranger = place.accounts.create_user(
        "page-gone", place.personas.stranger.project, "member"
    )
    page = open_page(place.url)
    page.fill(
        "password",
        {
            "user": stranger.name,
            "password": stranger.password,
            "project": stranger.project.name,
        },
    )
    page.wait_live()
    page.run(
        """
        const send = window.fetch;
        window.fetch = (url, options) => {
          options.headers["X-Auth-Token"] = "revoked";
          return send(url, options);
        };
        """
    )
    page.wait(lambda: page.found(".forms form"), "the form")
    assert page.text("#problem").startswith("UNAUTHORIZED")


def test_other_origin_is_not_allowed(
    place: Place, open_page: Callable[[str], browser.Page]
) -> None:
    """Keystone's configuration decides; the page names the option."""
    page = open_page(place.url.replace("127.0.0.1", "localhost"))
    page.fill("credential", {"id": "x", "secret": "y"})
    page.wait(
        lambda: "allowed_origin" in page.text("#problem"),
        "the page names the option",
    )
    assert page.text("#problem").startswith("NO_ANSWER")
    # The browser says that Keystone does not allow it.
    assert all("CORS" in one for one in page.complaints())
