# SPDX-License-Identifier: Apache-2.0

"""What is refused before the sessions of a set are requested."""

from __future__ import annotations

import pytest

from fpgapool import client
from fpgapool.client.sessions import together
from fpgapool.vocabulary import codes

_ONE = ("copy", 1000)


def refusal(*arguments: object, **options: object) -> str:
    with pytest.raises(client.InvalidRequest) as caught:
        client.acc_open_set(*arguments, front_door="/nonexistent", **options)
    return caught.value.code


@pytest.mark.parametrize(
    ("members", "options", "code"),
    [
        ([_ONE], {}, codes.INVALID_SET),
        ([_ONE] * 65, {}, codes.INVALID_SET),
        ([], {}, codes.INVALID_SET),
        ([_ONE, "copy"], {}, codes.INVALID_SET),
        ([_ONE, {"accelerator": "copy"}], {}, codes.INVALID_SET),
        ([_ONE] * 2, {"placement": "near"}, codes.INVALID_SET),
        ([_ONE] * 2, {"set_id": "a b"}, codes.INVALID_SET),
        ([_ONE] * 2, {"set_size": 3}, codes.INVALID_SET),
        ([_ONE] * 2, {"request_id": "r"}, codes.INVALID_SET),
        (
            [{"accelerator": "copy", "size_bytes": 1, "request_id": "r"}] * 2,
            {},
            codes.INVALID_SET,
        ),
        (
            [_ONE, {"accelerator": "copy", "size_bytes": 1, "set_id": "r"}],
            {},
            codes.INVALID_SET,
        ),
        ([_ONE] * 2, {"fallback": "cpu"}, codes.INVALID_REQUEST),
        ([_ONE] * 2, {"meanwhile": "cpu"}, codes.INVALID_REQUEST),
        ([_ONE, ("copy", 0)], {}, codes.INVALID_SIZE),
        ([_ONE] * 2, {"timeout_s": -1}, codes.INVALID_TIMEOUT),
        ([_ONE] * 2, {"priority": 5000}, codes.INVALID_REQUEST),
    ],
)
def test_bad_arguments(
    members: list[object], options: dict[str, object], code: str
) -> None:
    assert refusal(members, **options) == code


@pytest.mark.parametrize(
    ("members", "options", "said"),
    [
        ([_ONE] * 2, {"set_placement": "spread"}, "name it placement"),
        ([_ONE] * 2, {"set_size": 2}, "it is the number of sessions"),
        ([_ONE] * 2, {"request_id": "r"}, "give it to single sessions"),
        (
            [{"accelerator": "copy", "size_bytes": 1, "set_id": "r"}] * 2,
            {},
            "give it to the whole set",
        ),
    ],
)
def test_arguments_elsewhere(
    members: list[object], options: dict[str, object], said: str
) -> None:
    with pytest.raises(client.InvalidRequest, match=said):
        client.acc_open_set(members, front_door="/nonexistent", **options)


@pytest.mark.parametrize(
    ("members", "options"),
    [
        ([_ONE] * 2, {"colour": 1}),
        ([_ONE, {"accelerator": "a", "size_bytes": 1, "colour": 1}], {}),
    ],
)
def test_unknown_options(
    members: list[object], options: dict[str, object]
) -> None:
    with pytest.raises(TypeError, match="colour"):
        client.acc_open_set(members, front_door="/nonexistent", **options)


def test_options_of_all_and_of_one() -> None:
    plan = together.Plan(
        [_ONE, {"accelerator": "sha", "size_bytes": 5, "priority": 7}],
        "spread",
        {"priority": 3, "set_id": "mine"},
    )
    first, second = plan.calls
    assert (first["priority"], second["priority"]) == (3, 7)
    assert [call["request_id"] for call in plan.calls] == ["mine.0", "mine.1"]
    for call in plan.calls:
        assert call["set_id"] == "mine"
        assert (call["set_size"], call["set_placement"]) == (2, "spread")


def test_requests_of_long_names_differ() -> None:
    plan = together.Plan([_ONE] * 64, None, {"set_id": "x" * 64})
    names = {call["request_id"] for call in plan.calls}
    assert len(names) == 64
    again = together.Plan([_ONE] * 64, None, {"set_id": "x" * 64})
    assert {call["request_id"] for call in again.calls} == names


def test_no_front_door() -> None:
    with pytest.raises(client.FrontDoorUnavailable) as caught:
        client.acc_open_set([_ONE] * 3, front_door="/nonexistent")
    assert caught.value.index in range(3)
    assert caught.value.__notes__


def test_the_cause_is_no_consequence() -> None:
    failed: dict[int, BaseException] = {
        2: client.RequestRejected(codes.SET_INCOMPLETE, "another one"),
        0: client.Cancelled(),
        1: client.RequestRejected(codes.QUEUE_FULL, "full"),
    }
    assert together.first_cause(failed) is failed[1]
    assert failed[1].index == 1
    del failed[1]
    assert together.first_cause(failed) is failed[2]
