# SPDX-License-Identifier: Apache-2.0

"""Checks of clients' requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool import objects
from fpgapool.agent.door import requests
from fpgapool.vocabulary import rules

GOOD = {"request_id": "r-1", "accelerator": "aes", "size_bytes": 1}

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=80),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


def parse(**members: object) -> objects.OpenRequest:
    return requests.open_request(
        {**GOOD, **members},
        project_id="p",
        user_id="0",
        host_uuid="h",
    )


def test_a_good_request_becomes_an_open_request():
    request = parse(
        size_bytes=2**63 - 1, wait_timeout_s=3, priority=-7, resume_grace_s=0.5
    )
    assert request == objects.OpenRequest(
        request_id="r-1",
        project_id="p",
        user_id="0",
        host_uuid="h",
        accelerator="aes",
        claimed_bytes=2**63 - 1,
        priority=-7,
        wait_timeout_s=3.0,
        resume_grace_s=0.5,
    )


def test_a_slot_may_be_given_back_when_its_connection_breaks():
    """The REST API takes that, too."""
    assert parse(resume_grace_s=0).resume_grace_s == 0


@pytest.mark.parametrize(
    ("member", "value", "code"),
    [
        ("size_bytes", 0, "INVALID_SIZE"),
        ("size_bytes", -1, "INVALID_SIZE"),
        ("size_bytes", True, "INVALID_SIZE"),
        ("size_bytes", 1.0, "INVALID_SIZE"),
        ("size_bytes", "1", "INVALID_SIZE"),
        ("size_bytes", None, "INVALID_SIZE"),
        ("size_bytes", 2**63, "INVALID_SIZE"),
        ("size_bytes", 2**70, "INVALID_SIZE"),
        ("request_id", "", "INVALID_REQUEST_ID"),
        ("request_id", "a" * 65, "INVALID_REQUEST_ID"),
        ("request_id", "a b", "INVALID_REQUEST_ID"),
        ("request_id", "a\n", "INVALID_REQUEST_ID"),
        ("request_id", 5, "INVALID_REQUEST_ID"),
        ("accelerator", "", "UNKNOWN_ACCELERATOR"),
        ("accelerator", "../aes", "UNKNOWN_ACCELERATOR"),
        ("accelerator", None, "UNKNOWN_ACCELERATOR"),
        ("priority", 1001, "INVALID_REQUEST"),
        ("priority", False, "INVALID_REQUEST"),
        ("wait_timeout_s", 0, "INVALID_TIMEOUT"),
        ("wait_timeout_s", float("nan"), "INVALID_TIMEOUT"),
        ("wait_timeout_s", float("inf"), "INVALID_TIMEOUT"),
        ("wait_timeout_s", 10**400, "INVALID_TIMEOUT"),
        ("connect_timeout_s", True, "INVALID_TIMEOUT"),
        ("resume_grace_s", "1", "INVALID_TIMEOUT"),
    ],
)
def test_bad_members_have_their_codes(member, value, code):
    with pytest.raises(rules.RequestError) as caught:
        parse(**{member: value})
    assert caught.value.code == code


@given(st.dictionaries(st.sampled_from([*GOOD, "priority"]), JSON))
def test_anything_else_is_a_request_error(members):
    try:
        request = parse(**members)
    except rules.RequestError:
        return
    assert objects.OpenRequest.from_primitive(request.to_primitive()) == (
        request
    )


def test_cancel_names_a_session_or_a_request():
    assert requests.cancel_target({"session_id": "s"}) == ("s", None)
    assert requests.cancel_target({"request_id": "r"}) == (None, "r")
    with pytest.raises(rules.RequestError):
        requests.cancel_target({})


@pytest.mark.parametrize("value", [None, True, -1, 2**63, "1"])
def test_generation_is_a_whole_number(value):
    with pytest.raises(rules.RequestError):
        requests.generation({"generation": value})
