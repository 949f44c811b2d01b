# SPDX-License-Identifier: Apache-2.0

"""Chains that are refused before anything is asked for, and claims."""

from __future__ import annotations

from typing import Any

import pytest

from fpgapool.client import errors
from fpgapool.client.chains import checking
from fpgapool.client.doors import asking
from fpgapool.vocabulary import codes

PROFILES = {
    "gzip": {"return_ratio": 0.3, "params_schema": {"type": "object"}},
    "aes": {"return_ratio": 1.0},
    "sha": {"return_ratio": 0},
    "own": {},
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The accelerators that the pool was asked for."""
    names: list[str] = []

    def ask(questions, **_options) -> list[dict[str, Any]]:
        ((operation, members),) = questions
        assert operation == "accelerator"
        names.append(members["name"])
        if members["name"] not in PROFILES:
            raise errors.RequestRejected(codes.UNKNOWN_ACCELERATOR, "unknown")
        return [{"profile": PROFILES[members["name"]]}]

    monkeypatch.setattr(asking, "ask", ask)
    return names


def _chain(*names: str, **options: Any) -> list[checking.Stage]:
    return checking.fitting(checking.stages(names, options), options, None)


@pytest.mark.parametrize("count", [0, 1, 9])
def test_a_chain_has_two_to_eight_stages(asked, count) -> None:
    with pytest.raises(errors.InvalidRequest, match=str(count)) as caught:
        _chain(*["aes"] * count)
    assert caught.value.code == codes.CHAIN_LENGTH
    assert not asked


@pytest.mark.parametrize("count", [2, 8])
def test_an_accelerator_may_come_again(asked, count) -> None:
    found = _chain(*["aes"] * count)
    assert [one.number for one in found] == list(range(1, count + 1))
    assert asked == ["aes"]


def test_parameters_go_to_their_stages(asked) -> None:
    found = _chain("gzip", "gzip", params={"gzip": {"a": 1}, "2": {"b": 2}})
    assert [one.params for one in found] == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize("params", [[1], "level", 5, [("gzip", {})], {"x"}])
def test_parameters_are_a_mapping(asked, params) -> None:
    with pytest.raises(errors.InvalidRequest, match="a mapping") as caught:
        _chain("gzip", "aes", params=params)
    assert caught.value.code == codes.CHAIN_PARAMS
    assert not asked


@pytest.mark.parametrize("name", ["gzi", "0", "3", ""])
def test_parameters_of_no_stage(asked, name) -> None:
    with pytest.raises(errors.InvalidRequest, match="gzip \\+ aes") as caught:
        _chain("gzip", "aes", params={name: {}})
    assert caught.value.code == codes.CHAIN_PARAMS
    assert not asked


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("arguments", {1: b"x"}),
        ("checksum", True),
        ("fallback", "cpu"),
    ],
)
def test_options_that_chains_do_not_have(asked, name, value) -> None:
    with pytest.raises(errors.InvalidRequest, match=name) as caught:
        _chain("gzip", "aes", **{name: value})
    assert caught.value.code == codes.CHAIN_OPTION
    assert not asked


def test_a_stage_without_output_is_the_last_one(asked) -> None:
    assert _chain("gzip", "sha")[-1].ratio == 0
    with pytest.raises(
        errors.InvalidRequest, match="stage 1 \\(sha\\)"
    ) as caught:
        _chain("sha", "gzip")
    assert (caught.value.code, caught.value.stage) == (
        codes.CHAIN_NO_OUTPUT,
        1,
    )


def test_an_unknown_accelerator_is_named(asked) -> None:
    with pytest.raises(
        errors.UnknownAccelerator, match="stage 2 \\(nothing\\)"
    ) as caught:
        _chain("gzip", "nothing", "aes")
    assert caught.value.stage == 2


def test_claims_follow_from_the_first_one(asked) -> None:
    found = _chain("gzip", "own", "aes", "sha")
    assert checking.claims(found, 1000) == [1000, 300, 300, 300]
    assert checking.claims(found, 0) == [1, 1, 1, 1]
