# SPDX-License-Identifier: Apache-2.0

"""Any scenario that is written is read back as it was."""

import pathlib
import tempfile

import hypothesis
import hypothesis.strategies as st
import msgspec

from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from fpgapool.sim.outcomes import schedules

# Scenarios with cores can be checked only with their model.
from reproduction import models as _models  # noqa: F401

positive = st.floats(1e-3, 1e12)
not_negative = st.one_of(st.just(0.0), positive)
rates = st.floats(scenarios.MIN_BYTES_PER_S, scenarios.MAX_BYTES_PER_S)
sizes = st.floats(1e-3, scenarios.MAX_BYTES)
spans = st.floats(1e-9, scenarios.MAX_S)
times = st.one_of(st.just(0.0), spans)
counts = st.integers(1, 12)
numbers = st.integers(0, 20)
# What UTF-8 cannot hold cannot be in a file.
texts = st.text(
    st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=8
)


def optional(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.one_of(st.none(), values)


@st.composite
def clusters(draw: st.DrawFn) -> scenarios.Cluster:
    hosts = draw(st.integers(1, 12))
    host = st.integers(0, hosts - 1)
    overrides = st.builds(
        scenarios.HostOverride,
        optional(counts),
        optional(rates),
        optional(rates),
    )
    has_cores = draw(st.booleans())
    profiles = st.builds(
        scenarios.AcceleratorProfile,
        rates,
        st.floats(0.0, scenarios.MAX_RETURN_RATIO),
        cpu_bytes_per_s=rates if has_cores else optional(rates),
        quantum_bytes=sizes if has_cores else optional(sizes),
    )
    return scenarios.Cluster(
        hosts=hosts,
        fpga_hosts=tuple(draw(st.sets(host, min_size=1))),
        accelerators=draw(
            st.dictionaries(texts, profiles, min_size=1, max_size=3)
        ),
        slots_per_device=draw(counts),
        dma_bytes_per_s=draw(rates),
        nic_bytes_per_s=draw(rates),
        reconfiguration_s=0.0 if has_cores else draw(times),
        cores_per_host=draw(counts) if has_cores else None,
        attach_s=draw(times) if has_cores else 0.0,
        host_overrides=draw(st.dictionaries(host, overrides, max_size=3)),
        power=draw(
            optional(
                st.builds(
                    scenarios.Power,
                    not_negative,
                    not_negative,
                    not_negative,
                    not_negative if has_cores else st.just(0.0),
                )
            )
        ),
    )


strategies = st.builds(
    scenarios.StrategyOptions,
    strategy=optional(texts),
    seed=optional(numbers),
    remote_limit=optional(numbers),
    skip_limit=optional(numbers),
    wait_s_per_byte=optional(not_negative),
    fallback=optional(st.booleans()),
    thresholds_bytes=optional(
        st.sets(sizes, max_size=5).map(lambda values: tuple(sorted(values)))
    ),
    E_bytes=optional(sizes),
    q=optional(positive),
    k1=optional(counts),
    k2=optional(counts),
    queues=optional(counts),
    slot_choice=texts,
    offer_order=texts,
)
outcomes = st.builds(
    schedules.Outcome,
    jobs=st.lists(
        st.builds(
            schedules.JobOutcome,
            numbers,
            not_negative,
            not_negative,
            optional(numbers),
            optional(numbers),
            st.booleans(),
            optional(st.sampled_from(["done", "late", "killed"])),
            optional(
                st.builds(
                    schedules.OnCore,
                    optional(numbers),
                    not_negative,
                    not_negative,
                )
            ),
        ),
        max_size=3,
    ),
    metrics=st.dictionaries(texts, optional(not_negative), max_size=3),
)


@st.composite
def whole_scenarios(draw: st.DrawFn) -> scenarios.Scenario:
    cluster = draw(clusters())
    job = st.builds(
        scenarios.JobSpec,
        id=st.integers(-(2**60), 2**60),
        host=optional(st.integers(0, cluster.hosts - 1)),
        size_bytes=sizes,
        arrival_s=times,
        accelerator=st.sampled_from(sorted(cluster.accelerators)),
        tenant=st.one_of(st.just(""), texts),
        deadline_s=optional(spans),
        claimed_bytes=st.none() if cluster.cores_per_host else optional(sizes),
    )
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=cluster,
        strategies=draw(
            st.dictionaries(texts, strategies, min_size=1, max_size=3)
        ),
        jobs=draw(
            st.lists(
                job, min_size=1, max_size=6, unique_by=lambda each: each.id
            )
        ),
        name=draw(st.one_of(st.just(""), texts)),
        note=draw(st.one_of(st.just(""), texts)),
        wakeups=draw(st.booleans()),
        expected=draw(optional(st.dictionaries(texts, outcomes, max_size=2))),
    )


@hypothesis.given(scenario=whole_scenarios())
def test_round_trip(scenario: scenarios.Scenario) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "s.json"
        scenario_files.write(scenario, path)
        again = scenario_files.read(path)
        content = path.read_bytes()
        scenario_files.write(again, path)
        assert path.read_bytes() == content
    assert again == scenario
    # Equality does not tell 1 from 1.0 or from True.
    assert msgspec.json.encode(again) == msgspec.json.encode(scenario)
