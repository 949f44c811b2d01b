# SPDX-License-Identifier: Apache-2.0

"""Containers and heartbeats do what their rules say, literally."""

from __future__ import annotations

import copy
import dataclasses

import hypothesis
import hypothesis.strategies as st

from fpgapool.sim.inputs import scenario as scenarios
from reproduction.models import containers
from tests.property import fuzzing
from tests.property.reproduction import literal_containers as literal

ACCELERATORS = ("lr", "km")
_S = literal.TICKS_PER_S
_BYTES_PER_S = 1e6


@dataclasses.dataclass
class Drawn:
    rules: literal.Rules
    apps: list[literal.App]
    containers: list[literal.Container]


@st.composite
def runs(draw: st.DrawFn) -> Drawn:
    policy = draw(st.sampled_from(containers.POLICIES))
    least = len(ACCELERATORS) if policy == "static" else 1
    rules = literal.Rules(
        policy=policy,
        hosts=draw(st.integers(least, 4)),
        room=draw(st.integers(1, 3)),
        heartbeat=draw(st.sampled_from([_S // 2, _S, 2 * _S])),
        programming=draw(st.sampled_from([0, _S // 2, 3 * _S // 2])),
        misses=draw(st.sampled_from([0, 1, 2, 5, 40])),
        accelerators=ACCELERATORS,
    )
    apps: list[literal.App] = []
    made: list[literal.Container] = []
    for _ in range(draw(st.integers(1, 6))):
        # As scenarios have it, its first container names an application.
        app = literal.App(
            id=len(made),
            # Many at one time, and at the time of heartbeats.
            arrival=draw(st.integers(0, 12)) * _S // 4,
            accelerator=draw(st.sampled_from(ACCELERATORS)),
            cpu=draw(st.sampled_from([0, _S // 4, _S, 2 * _S])),
            slot=draw(st.sampled_from([_S // 2, _S, 2 * _S])),
        )
        apps.append(app)
        for _ in range(draw(st.integers(1, 3))):
            tasks = draw(st.integers(1, 4))
            made.append(literal.Container(len(made), app.id, tasks))
    return Drawn(rules, apps, made)


def make_scenario(drawn: Drawn) -> scenarios.Scenario:
    rules = drawn.rules
    apps = {app.id: app for app in drawn.apps}
    options = scenarios.StrategyOptions(strategy=rules.policy)
    if rules.policy in containers.WITH_AFFINITY:
        options = scenarios.StrategyOptions(
            strategy=rules.policy, affinity_misses=rules.misses
        )
    return scenarios.Scenario(
        format=scenarios.FORMAT,
        cluster=scenarios.Cluster(
            hosts=rules.hosts,
            fpga_hosts=tuple(range(rules.hosts)),
            accelerators={
                name: scenarios.AcceleratorProfile(_BYTES_PER_S)
                for name in rules.accelerators
            },
            slots_per_device=1,
            reconfiguration_s=rules.programming / _S,
            heartbeat_s=rules.heartbeat / _S,
            containers_per_device=rules.room,
        ),
        strategies={"it": options},
        jobs=[
            scenarios.JobSpec(
                id=each.id,
                host=None,
                size_bytes=each.tasks
                * apps[each.app].slot
                / _S
                * _BYTES_PER_S,
                arrival_s=apps[each.app].arrival / _S,
                accelerator=apps[each.app].accelerator,
                app=f"app {each.app}",
                tasks=each.tasks,
                cpu_s_per_task=apps[each.app].cpu / _S,
            )
            for each in drawn.containers
        ],
    )


@fuzzing.examples(60)
@hypothesis.given(drawn=runs())
def test_as_written(drawn: Drawn) -> None:
    expected = copy.deepcopy(drawn.containers)
    literal.Literal(drawn.rules, copy.deepcopy(drawn.apps), expected).run()
    scenario = make_scenario(drawn)
    found = containers.run(scenario, "it")
    for each, outcome in zip(expected, found, strict=True):
        assert each.end is not None
        assert outcome.container is not None
        assert (
            round(outcome.start_s * _S, 6),
            outcome.host,
            round(outcome.finish_s * _S, 6),
            outcome.container.reprogrammings,
        ) == (each.start, each.host, each.end, each.reprogrammings)
    makespan_s = max(each.finish_s for each in found)
    assert containers.bound_s(scenario) <= makespan_s + 1e-6
