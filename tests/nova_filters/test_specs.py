# SPDX-License-Identifier: Apache-2.0

"""What flavors say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nova import exception
from nova.api.validation.extra_specs import validators

from fpgapool_nova_filters import specs

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)


def accepted(name: str, value: str) -> bool:
    """Tell whether nova-api takes an extra spec."""
    try:
        validators.validate(name, value)
    except exception.ValidationError:
        return False
    return True


def test_nothing_said_is_nothing_asked() -> None:
    for extra_specs in (None, {}, {"hw:cpu_policy": "shared"}):
        wish = specs.parse(extra_specs)
        assert wish == specs.NOTHING
        assert not wish.asks


def test_names_alone_prefer_boards() -> None:
    wish = specs.parse({"fpgapool:accelerators": "aes, fft,aes"})
    assert wish == specs.Wish(("aes", "fft"), "preferred")
    assert wish.asks


def test_affinity_alone_asks_for_any_accelerator() -> None:
    wish = specs.parse({"fpgapool:affinity": "required"})
    assert wish == specs.Wish((), "required")
    assert wish.asks
    assert not specs.parse({"fpgapool:affinity": "avoid"}).asks


def test_high_sla_prefers_boards_and_soft_leaves_them_to_others() -> None:
    high = specs.parse({"fpgapool:sla": "high"})
    assert high == specs.parse({"fpgapool:affinity": "preferred"})
    soft = specs.parse(
        {"fpgapool:sla": "soft", "fpgapool:accelerators": "aes"}
    )
    assert soft == specs.Wish(("aes",), specs.AVOID_IF_POSSIBLE)
    assert not soft.asks


@pytest.mark.parametrize(
    ("sla", "affinity"),
    [("high", "preferred"), ("high", "required"), ("soft", "avoid")],
)
def test_the_affinity_says_where(sla: str, affinity: str) -> None:
    both = specs.parse({"fpgapool:sla": sla, "fpgapool:affinity": affinity})
    assert both == specs.parse({"fpgapool:affinity": affinity})


@pytest.mark.parametrize(
    ("sla", "affinity"),
    [("soft", "preferred"), ("soft", "required"), ("high", "avoid")],
)
def test_sla_and_affinity_must_not_contradict(sla: str, affinity: str) -> None:
    with pytest.raises(specs.InvalidError) as caught:
        specs.parse({"fpgapool:sla": sla, "fpgapool:affinity": affinity})
    assert f"fpgapool:sla={sla}" in str(caught.value)
    assert f"fpgapool:affinity={affinity}" in str(caught.value)
    assert "contradict each other" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "contradicts"),
    [
        ("resources:CUSTOM_FPGAPOOL_SLOT", "1", True),
        ("resources2:CUSTOM_FPGAPOOL_SLOT", "1", True),
        ("trait:CUSTOM_FPGAPOOL_AES", "required", True),
        ("trait_fpga:CUSTOM_FPGAPOOL_AES", "required", True),
        ("resources:CUSTOM_FPGAPOOL_SLOT", "0", False),
        ("trait:CUSTOM_FPGAPOOL_AES", "forbidden", False),
        ("trait:CUSTOM_GPU", "required", False),
    ],
)
def test_who_avoids_boards_does_not_ask_placement_for_them(
    key: str, value: str, contradicts: bool
) -> None:
    flavor = {"fpgapool:affinity": "avoid", key: value}
    if contradicts:
        with pytest.raises(specs.InvalidError, match=key):
            specs.parse(flavor)
    else:
        assert specs.parse(flavor).affinity == "avoid"
    specs.parse({"fpgapool:sla": "soft", key: value})


def test_all_that_is_wrong_is_told_together() -> None:
    with pytest.raises(specs.InvalidError) as caught:
        specs.parse(
            {
                "fpgapool:accelerators": "aes,",
                "fpgapool:affinity": "avoid",
                "fpgapool:sla": "high",
                "resources:CUSTOM_FPGAPOOL_SLOT": "2",
            }
        )
    assert str(caught.value) == (
        "fpgapool:accelerators='aes,' must be names of accelerators, separated"
        " by commas; fpgapool:sla=high, resources:CUSTOM_FPGAPOOL_SLOT=2 and"
        " fpgapool:affinity=avoid contradict each other: the former place"
        " instances near boards, the latter away from them"
    )


def test_limit_of_sessions_is_no_wish() -> None:
    assert specs.parse({"fpgapool:max_sessions": "3"}) == specs.NOTHING


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fpgapool:affinity", "require"),
        ("fpgapool:affinity", "Required"),
        ("fpgapool:affinity", ""),
        ("fpgapool:sla", "avoid if possible"),
        ("fpgapool:sla", "High"),
        ("fpgapool:sla", ""),
        ("fpgapool:accelerators", ""),
        ("fpgapool:accelerators", "aes,"),
        ("fpgapool:accelerators", ",aes"),
        ("fpgapool:accelerators", "aes fft"),
        ("fpgapool:accelerators", "-aes"),
        ("fpgapool:accelerators", "aes\n"),
        ("fpgapool:accelerators", "a" * 65),
    ],
)
def test_mistakes_are_named_and_nova_refuses_them(
    name: str, value: str
) -> None:
    with pytest.raises(specs.InvalidError, match=name):
        specs.parse({name: value})
    assert not accepted(name, value)


@given(
    names=st.lists(NAMES, min_size=1, max_size=5),
    affinity=st.sampled_from(specs.AFFINITIES),
)
def test_what_nova_accepts_is_understood(
    names: list[str], affinity: str
) -> None:
    extra_specs = {
        "fpgapool:accelerators": ",".join(names),
        "fpgapool:affinity": affinity,
    }
    assert all(accepted(*item) for item in extra_specs.items())
    wish = specs.parse(extra_specs)
    assert set(wish.accelerators) == set(names)
    assert wish.affinity == affinity


@given(text=st.text(max_size=80))
def test_any_text_is_understood_if_nova_accepts_it(text: str) -> None:
    for name in (specs.ACCELERATORS, specs.AFFINITY, specs.SLA):
        try:
            specs.parse({name: text})
        except specs.InvalidError:
            understood = False
        else:
            understood = True
        assert understood == accepted(name, text)


@pytest.mark.parametrize("value", ["1", "16"])
def test_limit_of_sessions_is_accepted(value: str) -> None:
    assert accepted("fpgapool:max_sessions", value)


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "", "many"])
def test_limit_of_sessions_is_at_least_one(value: str) -> None:
    assert not accepted("fpgapool:max_sessions", value)


def test_misspelled_key_is_refused_and_others_are_none_of_ours() -> None:
    assert not accepted("fpgapool:afinity", "required")
    assert not accepted("fpgapool:", "required")
    assert accepted("acme:afinity", "required")
