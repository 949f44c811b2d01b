# SPDX-License-Identifier: Apache-2.0

"""Which hosts pass."""

from __future__ import annotations

import logging
import typing
from collections.abc import Callable
from collections.abc import Mapping

import pytest

from fpgapool_nova_filters import filters
from tests.nova_filters import pools

HOSTS = ("aes", "both", "busy", "none", "down", "broken", "stranger")
POOL = pools.document(
    aes=pools.host_document(aes=(2, 2)),
    both=pools.host_document(aes=(2, 1), fft=(2, 1)),
    busy=pools.host_document(aes=(2, 0)),
    none=pools.host_document(),
    down=pools.host_document(aes=(2, 2), up=False),
    broken=pools.host_document(aes=(0, 0), total=2),
)

SetPool = Callable[..., pools.Source]


def passing(extra_specs: Mapping[str, str], **options: bool) -> set[str]:
    """Return the hosts that pass."""
    states = [pools.state(name) for name in HOSTS]
    request = pools.request(extra_specs, **options)
    found = filters.FpgaAffinityFilter().filter_all(states, request)
    return {state.uuid for state in found}


def required(accelerators: str) -> dict[str, str]:
    """Return what a flavor says that requires accelerators."""
    return {
        "fpgapool:affinity": "required",
        "fpgapool:accelerators": accelerators,
    }


@pytest.mark.parametrize(
    "extra_specs",
    [
        {},
        {"fpgapool:accelerators": "aes"},
        {"fpgapool:accelerators": "aes", "fpgapool:affinity": "preferred"},
        {"fpgapool:max_sessions": "1"},
        {"fpgapool:sla": "high"},
    ],
)
def test_others_pass_everywhere_and_nobody_is_asked(
    set_pool: SetPool, extra_specs: dict[str, str]
) -> None:
    source = set_pool(POOL)
    assert passing(extra_specs) == set(HOSTS)
    assert source.count == 0


def test_required_needs_a_usable_slot(set_pool: SetPool) -> None:
    set_pool(POOL)
    assert passing(required("aes")) == {"aes", "both", "busy"}


def test_required_needs_a_slot_for_every_accelerator(
    set_pool: SetPool,
) -> None:
    set_pool(POOL)
    assert passing(required("aes,fft")) == {"both"}
    assert passing(required("aes,unheard-of")) == set()


def test_required_without_names_needs_any_slot(set_pool: SetPool) -> None:
    set_pool(POOL)
    assert passing({"fpgapool:affinity": "required"}) == {
        "aes",
        "both",
        "busy",
    }


def test_avoid_refuses_hosts_with_usable_slots(set_pool: SetPool) -> None:
    set_pool(POOL)
    assert passing({"fpgapool:affinity": "avoid"}) == {
        "none",
        "down",
        "broken",
        "stranger",
    }


def test_soft_leaves_hosts_with_slots_while_another_passes(
    set_pool: SetPool,
) -> None:
    set_pool(POOL)
    soft = {"fpgapool:sla": "soft"}
    assert passing(soft) == passing({"fpgapool:affinity": "avoid"})
    with_slots = {"aes", "both", "busy"}
    states = [pools.state(name) for name in sorted(with_slots)]
    found = filters.FpgaAffinityFilter().filter_all(
        states, pools.request(soft)
    )
    assert {state.uuid for state in found} == with_slots


def test_rebuild_stays_where_it_is(set_pool: SetPool) -> None:
    source = set_pool(POOL)
    assert passing(required("unheard-of"), rebuild=True) == set(HOSTS)
    assert source.count == 0


def test_required_fails_with_a_reason_while_nothing_is_known(
    set_pool: SetPool, caplog: pytest.LogCaptureFixture
) -> None:
    set_pool(OSError("nobody listens"))
    assert passing(required("aes")) == set()
    (text,) = [
        record.getMessage()
        for record in caplog.records
        if record.name == filters.__name__
    ]
    assert "refuses all 7 hosts" in text
    assert "requires aes" in text
    assert "nobody listens" in text


def test_avoid_refuses_nobody_while_nothing_is_known(
    set_pool: SetPool, caplog: pytest.LogCaptureFixture
) -> None:
    set_pool(OSError("nobody listens"))
    assert passing({"fpgapool:affinity": "avoid"}) == set(HOSTS)
    assert passing({"fpgapool:sla": "soft"}) == set(HOSTS)
    assert "nobody listens" in caplog.text


@pytest.mark.parametrize(
    "extra_specs",
    [{"fpgapool:affinity": "require"}, {"fpgapool:accelerators": "a b"}],
)
def test_what_is_not_understood_fails_with_a_reason(
    set_pool: SetPool,
    caplog: pytest.LogCaptureFixture,
    extra_specs: dict[str, str],
) -> None:
    set_pool(POOL)
    assert passing(extra_specs) == set()
    assert next(iter(extra_specs.values())) in caplog.text


def test_log_has_a_line_per_request_and_reasons_at_debug(
    set_pool: SetPool, caplog: pytest.LogCaptureFixture
) -> None:
    set_pool(POOL)
    caplog.set_level(logging.DEBUG, filters.__name__)
    passing(required("aes,fft"))
    texts: dict[int, list[typing.Any]] = {}
    for record in caplog.records:
        texts.setdefault(record.levelno, []).append(record.getMessage())
    (summary,) = texts[logging.INFO]
    assert "1 of 7 hosts pass" in summary
    assert "requires aes, fft" in summary
    assert texts[logging.DEBUG] == [
        "Host host-aes is refused: it has no usable slot for fft",
        "Host host-busy is refused: it has no usable slot for fft",
        "Host host-none is refused: it has no usable slot for aes, fft",
        "Host host-down is refused: its agent does not report to fpgapool",
        "Host host-broken is refused: it has no usable slot for aes, fft",
        "Host host-stranger is refused: it is not in the pool",
    ]


def test_filter_keeps_nothing_between_requests() -> None:
    assert vars(filters.FpgaAffinityFilter()) == {}
