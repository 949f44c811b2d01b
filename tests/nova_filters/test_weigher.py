# SPDX-License-Identifier: Apache-2.0

"""Which hosts are better."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nova.conf import CONF
from nova.scheduler import weights as nova_weights

from fpgapool_nova_filters import specs
from fpgapool_nova_filters import weights
from tests.nova_filters import pools

AES = specs.Wish(("aes",), specs.PREFERRED)
BOTH = specs.Wish(("aes", "fft"), specs.PREFERRED)
ANY = specs.Wish((), specs.PREFERRED)
SLOTS = st.integers(0, 8).flatmap(
    lambda usable: st.tuples(st.just(usable), st.integers(0, usable))
)
HOST = st.builds(
    pools.host,
    up=st.booleans(),
    nic_load=st.floats(0, 1),
    queued=st.integers(0, 5),
    total=st.integers(0, 8),
    aes=SLOTS,
    fft=SLOTS,
)
POOL = pools.document(
    board=pools.host_document(aes=(2, 2)), plain=pools.host_document()
)
SetPool = Callable[..., pools.Source]


@given(host=HOST, wish=st.sampled_from([AES, BOTH, ANY, specs.NOTHING]))
def test_weights_are_within_bounds(host: typing.Any, wish: specs.Wish) -> None:
    weigher = weights.FpgaAffinityWeigher
    assert weigher.minval <= weights.weigh(wish, host) <= weigher.maxval


@given(host=HOST)
def test_usable_is_better_than_none_by_half_of_the_range(
    host: typing.Any,
) -> None:
    none = weights.weigh(AES, None)
    if host.slots("aes").usable:
        assert weights.weigh(AES, host) >= none + 1
    else:
        assert weights.weigh(AES, host) == none


BETTER = [
    ("free slots", {"aes": (4, 1)}, {"aes": (4, 0)}),
    ("more free slots", {"aes": (4, 4)}, {"aes": (4, 3)}),
    ("free before usable", {"aes": (1, 1)}, {"aes": (8, 0)}),
    ("more usable slots", {"aes": (4, 0)}, {"aes": (2, 0)}),
    ("right slots", {"aes": (1, 1)}, {"fft": (8, 8)}),
    (
        "less queued",
        {"aes": (4, 2), "queued": 1},
        {"aes": (4, 2), "queued": 2},
    ),
    (
        "less load",
        {"aes": (4, 2), "nic_load": 0.1},
        {"aes": (4, 2), "nic_load": 0.9},
    ),
    ("up", {"aes": (1, 0), "nic_load": 1.0}, {"aes": (8, 8), "up": False}),
]


@pytest.mark.parametrize(
    ("better", "worse"),
    [case[1:] for case in BETTER],
    ids=[case[0] for case in BETTER],
)
def test_better_for_who_asks(
    better: dict[str, typing.Any], worse: dict[str, typing.Any]
) -> None:
    found = [
        weights.weigh(AES, pools.host(**host)) for host in (better, worse)
    ]
    assert found[0] > found[1]


def test_all_that_is_asked_for_is_better_than_a_part() -> None:
    all_of_it = pools.host(aes=(1, 0), fft=(1, 0), nic_load=1)
    part = pools.host(aes=(8, 8))
    nothing = pools.host()
    found = [weights.weigh(BOTH, host) for host in (all_of_it, part, nothing)]
    assert found == sorted(found, reverse=True)
    assert len(set(found)) == 3


@given(host=HOST)
def test_who_does_not_ask_stays_away_from_boards(host: typing.Any) -> None:
    found = weights.weigh(specs.NOTHING, host)
    assert found == (-1 if host.has_boards else 0)
    assert weights.weigh(specs.NOTHING, None) == 0


def scores(
    extra_specs: Mapping[str, str], names: list[str]
) -> dict[str, float]:
    """Return what Nova makes of the weights, by host."""
    found = nova_weights.HostWeightHandler().get_weighed_objects(
        [weights.FpgaAffinityWeigher()],
        [pools.state(name) for name in names],
        pools.request(extra_specs),
    )
    return {weighed.obj.uuid: weighed.weight for weighed in found}


def test_nova_multiplies_what_is_weighed(set_pool: SetPool) -> None:
    set_pool(POOL)
    names = ["board", "plain"]
    asked = scores({"fpgapool:accelerators": "aes"}, names)
    assert asked["plain"] == 0
    assert asked["board"] >= 5
    assert scores({}, names) == {"board": 0, "plain": 5}
    CONF.set_override("fpga_affinity_weight_multiplier", 0, "filter_scheduler")
    try:
        assert scores({}, names) == {"board": 0, "plain": 0}
    finally:
        CONF.clear_override(
            "fpga_affinity_weight_multiplier", "filter_scheduler"
        )


def test_aggregate_may_say_the_multiplier() -> None:
    aggregate = types.SimpleNamespace(
        metadata={"fpga_affinity_weight_multiplier": "3"}
    )
    state = pools.state("any")
    weigher = weights.FpgaAffinityWeigher()
    assert weigher.weight_multiplier(state) == 10
    state.aggregates = [aggregate]
    assert weigher.weight_multiplier(state) == 3


@pytest.mark.parametrize(
    "extra_specs",
    [{}, {"fpgapool:accelerators": "aes"}, {"fpgapool:affinity": "nonsense"}],
)
def test_hosts_weigh_the_same_while_nothing_is_known(
    set_pool: SetPool, extra_specs: dict[str, str]
) -> None:
    set_pool(OSError("nobody listens"))
    found = scores(extra_specs, ["board", "plain"])
    assert len(set(found.values())) == 1


def test_weigher_keeps_nothing_between_requests(set_pool: SetPool) -> None:
    set_pool(POOL)
    weigher = weights.FpgaAffinityWeigher()
    before = dict(vars(weigher))
    weighed = [nova_weights.WeighedHost(pools.state("board"), 0.0)]
    weigher.weigh_objects(weighed, pools.request({}))
    assert vars(weigher) == before
