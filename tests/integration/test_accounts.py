# SPDX-License-Identifier: Apache-2.0

"""Accounts, tokens and images of a real Keystone and a real Glance."""

import hashlib
import random
from collections.abc import Iterator

import pytest
import requests

from tests.services import glance as glance_service
from tests.services import openstack

pytestmark = pytest.mark.security

IMAGE_BYTES = 3 * 1024 * 1024 + 17
LIMIT_S = 60
WEB = openstack.web_session()


def refusal(error: pytest.ExceptionInfo[openstack.RefusedError]) -> int:
    """Return the status that something was refused with."""
    return error.value.status


def test_password_gives_a_token_of_the_users_project(
    accounts: openstack.Accounts, personas: openstack.Personas
) -> None:
    token = accounts.token(personas.member)
    assert token.user_id == personas.member.id
    assert token.project_id == personas.member.project.id


def test_wrong_password_gives_none(
    accounts: openstack.Accounts, personas: openstack.Personas
) -> None:
    member = personas.member
    impostor = openstack.User(member.id, member.name, "no", member.project)
    with pytest.raises(openstack.RefusedError) as error:
        accounts.token(impostor)
    assert refusal(error) == 401


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        ("reader", {"reader"}),
        ("member", {"reader", "member"}),
        ("manager", {"reader", "member", "manager"}),
        ("stranger", {"reader", "member"}),
        ("service", {"service"}),
        ("agent", {openstack.AGENT_ROLE}),
        ("nova", {openstack.VENDORDATA_ROLE, "service"}),
        ("admin", {"reader", "member", "manager", "admin"}),
    ],
)
def test_persona_has_the_roles_of_its_name(
    accounts: openstack.Accounts,
    personas: openstack.Personas,
    name: str,
    roles: set[str],
) -> None:
    assert accounts.token(getattr(personas, name)).roles == roles


def test_personas_share_a_project_but_for_one(
    accounts: openstack.Accounts, personas: openstack.Personas
) -> None:
    first, second, third, fourth = (
        accounts.token(persona).project_id
        for persona in (
            personas.reader,
            personas.member,
            personas.manager,
            personas.stranger,
        )
    )
    assert first == second == third != fourth


@pytest.mark.long
def test_accounts_that_are_there_are_used(
    accounts: openstack.Accounts, personas: openstack.Personas
) -> None:
    assert accounts.create_personas("persona") == personas


def test_application_credential_gives_a_token_with_its_roles_only(
    accounts: openstack.Accounts, personas: openstack.Personas
) -> None:
    credential = accounts.create_application_credential(
        personas.manager, "for-reading", "reader"
    )
    token = accounts.token(credential)
    assert token.user_id == personas.manager.id
    assert token.project_id == personas.manager.project.id
    assert token.roles == {"reader"}


def test_application_credential_without_roles_has_the_users(
    accounts: openstack.Accounts, personas: openstack.Personas
) -> None:
    credential = accounts.create_application_credential(
        personas.member, "for-everything"
    )
    assert accounts.token(credential).roles == {"reader", "member"}


def test_wrong_secret_gives_no_token(
    accounts: openstack.Accounts, personas: openstack.Personas
) -> None:
    credential = accounts.create_application_credential(
        personas.member, "for-nothing"
    )
    wrong = openstack.ApplicationCredential(credential.id, "no")
    with pytest.raises(openstack.RefusedError) as error:
        accounts.token(wrong)
    assert refusal(error) == 401


@pytest.mark.parametrize("validator", ["service", "admin"])
def test_service_validates_the_token_of_another(
    accounts: openstack.Accounts, personas: openstack.Personas, validator: str
) -> None:
    token = accounts.token(personas.reader)
    asking = accounts.token(getattr(personas, validator))
    assert accounts.validate(token.text, asking) == token


def test_fpgapools_own_user_validates_tokens(
    accounts: openstack.Accounts, personas: openstack.Personas
) -> None:
    token = accounts.token(personas.reader)
    asking = accounts.token(accounts.create_fpgapool())
    assert accounts.validate(token.text, asking).user_id == token.user_id


@pytest.mark.parametrize("validator", ["member", "manager", "stranger"])
def test_others_may_not_validate_it(
    accounts: openstack.Accounts, personas: openstack.Personas, validator: str
) -> None:
    token = accounts.token(personas.reader)
    asking = accounts.token(getattr(personas, validator))
    with pytest.raises(openstack.RefusedError) as error:
        accounts.validate(token.text, asking)
    assert refusal(error) == 403


def test_token_of_a_deleted_user_is_worth_nothing(
    accounts: openstack.Accounts, personas: openstack.Personas
) -> None:
    leaver = accounts.create_user("leaver", personas.member.project, "member")
    token = accounts.token(leaver)
    asking = accounts.token(personas.service)
    assert accounts.validate(token.text, asking) == token
    accounts.delete_user(leaver)
    with pytest.raises(openstack.RefusedError) as error:
        accounts.validate(token.text, asking)
    assert refusal(error) == 404


@pytest.mark.long
def test_catalog_tells_the_endpoint_that_was_registered_last(
    accounts: openstack.Accounts, personas: openstack.Personas
) -> None:
    for url in ("http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"):
        accounts.register_endpoint(url)
        endpoints = accounts.token(personas.reader).endpoints
        assert endpoints[openstack.SERVICE_TYPE] == url


def image_data() -> bytes:
    """Return what an image consists of."""
    return random.Random(7).randbytes(IMAGE_BYTES)


def create_image(url: str, token: openstack.Token) -> str:
    """Make an image without data and return its URL."""
    answer = WEB.post(
        f"{url}/v2/images",
        json={
            "name": "noise",
            "disk_format": "raw",
            "container_format": "bare",
        },
        headers=token.headers(),
        timeout=LIMIT_S,
    )
    assert answer.status_code == 201, answer.text
    return f"{url}/v2/images/{answer.json()['id']}"


def upload(
    image_url: str, data: bytes | Iterator[bytes], token: openstack.Token
) -> requests.Response:
    """Send the data of an image."""
    return WEB.put(
        f"{image_url}/file",
        data=data,
        headers={
            **token.headers(),
            "Content-Type": "application/octet-stream",
        },
        timeout=LIMIT_S,
    )


def get(url: str, token: openstack.Token | None = None) -> requests.Response:
    """Ask for something, with a token or without."""
    headers = token.headers() if token else {}
    return WEB.get(url, headers=headers, timeout=LIMIT_S)


@pytest.mark.parametrize("how", ["whole", "in chunks"])
def test_image_comes_back_as_it_was_sent(
    accounts: openstack.Accounts,
    personas: openstack.Personas,
    glance: glance_service.Glance,
    how: str,
) -> None:
    token = accounts.token(personas.member)
    url = token.endpoints["image"]
    assert url == glance.base_url
    data = image_data()
    image_url = create_image(url, token)
    body = data if how == "whole" else iter([data[:1000], data[1000:]])
    assert upload(image_url, body, token).status_code == 204
    image = get(image_url, token).json()
    assert image["status"] == "active"
    assert image["size"] == IMAGE_BYTES
    assert image["os_hash_value"] == hashlib.sha512(data).hexdigest()
    assert get(f"{image_url}/file", token).content == data


def test_image_is_not_there_for_others(
    accounts: openstack.Accounts,
    personas: openstack.Personas,
    glance: glance_service.Glance,
) -> None:
    owner = accounts.token(personas.member)
    image_url = create_image(glance.base_url, owner)
    assert upload(image_url, b"mine", owner).status_code == 204
    assert get(f"{image_url}/file", owner).content == b"mine"
    stranger = accounts.token(personas.stranger)
    assert get(image_url, stranger).status_code == 404
    assert get(f"{image_url}/file", stranger).status_code == 404
    assert get(image_url).status_code == 401


@pytest.mark.long
def test_services_keep_their_data_over_a_crash(
    accounts: openstack.Accounts,
    personas: openstack.Personas,
    glance: glance_service.Glance,
) -> None:
    owner = accounts.token(personas.member)
    image_url = create_image(glance.base_url, owner)
    assert upload(image_url, b"kept", owner).status_code == 204
    glance.kill()
    with pytest.raises(requests.ConnectionError):
        get(image_url, owner)
    glance.ensure_running()
    assert get(f"{image_url}/file", owner).content == b"kept"
