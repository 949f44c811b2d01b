# SPDX-License-Identifier: Apache-2.0

"""Many runs: combinations of parameters × seeds × strategies.

A specification in YAML has fixed and varied options, seeds and strategies::

    fixed: {hosts: 100, boards: 50}
    vary:
      load: [0.6, 0.8, 1.0]
      return-ratio: [0, 1]
    seeds: 5
    strategies: [fifo, wra]

Names under ``fixed`` and ``vary`` are options of ``fpgapool-sim generate``.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import pathlib
import typing
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import msgspec
import yaml

from fpgapool.sim import errors
from fpgapool.sim import files
from fpgapool.sim import simulation
from fpgapool.sim.experiments import journals
from fpgapool.sim.inputs import generating
from fpgapool.sim.inputs import scenario as scenarios
from fpgapool.sim.inputs import scenario_files
from fpgapool.sim.outcomes import results

RESULTS = "results.csv"
_SPECIFICATION = "sweep.json"

#: The metrics, in the order of the columns.
METRICS = (
    "act_s",
    "tct95_s",
    "p50_s",
    "p99_s",
    "sar",
    "dlr",
    "makespan_s",
    *results.WAITS,
)

_Value = str | int | float | bool
_Name = typing.Annotated[str, msgspec.Meta(min_length=1)]
_Values = typing.Annotated[list[_Value], msgspec.Meta(min_length=1)]

#: Maximum number of runs in a sweep.
MAX_RUNS = 100_000

#: Options of generate that a sweep sets itself.
_RESERVED = ("output", "strategy", "seed")


class Specification(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a sweep's file.

    :ivar seeds: a list of seeds, or how many seeds to use, starting at 1.
    :ivar vary: options, each with its list of values.
    """

    strategies: typing.Annotated[list[_Name], msgspec.Meta(min_length=1)]
    seeds: (
        typing.Annotated[int, msgspec.Meta(ge=1, le=MAX_RUNS)]
        | typing.Annotated[
            list[typing.Annotated[int, msgspec.Meta(ge=0)]],
            msgspec.Meta(min_length=1),
        ]
    )
    fixed: dict[_Name, _Value | list[_Value]] = {}
    vary: dict[_Name, _Values] = {}
    engine: str = "fluid"

    @property
    def seed_list(self) -> list[int]:
        if isinstance(self.seeds, int):
            return list(range(1, self.seeds + 1))
        return self.seeds


@dataclasses.dataclass(frozen=True)
class Task:
    """One run.

    :ivar values: values of the varied options, by name.
    """

    source: str
    values: Mapping[str, _Value]
    options: tuple[str, ...]
    seed: int
    strategy: str
    engine: str

    @property
    def key(self) -> tuple[str, ...]:
        """Return the cells that identify the run in the results file."""
        values = map(str, self.values.values())
        return (*values, str(self.seed), self.strategy)

    def scenario(self) -> scenarios.Scenario:
        """Make the run's scenario.

        :raises errors.InputError: if its options are invalid.
        """
        return generating.make_scenario(
            [*self.options, "--strategy", self.strategy], self.seed, str(self)
        )

    def __str__(self) -> str:
        values = [f"{name} {value}" for name, value in self.values.items()]
        return ", ".join(
            [self.source, *values, f"seed {self.seed}", self.strategy]
        )


def read(path: pathlib.Path) -> Specification:
    """Read a specification.

    :raises errors.InputError: if it cannot be read or is invalid.
    """
    source = str(path)
    document: typing.Any = None
    try:
        document = yaml.safe_load(files.read_text(path))
        specification = msgspec.convert(document, Specification)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f"line {mark.line + 1}"
        reason = getattr(error, "problem", None) or "is not YAML"
        raise errors.InputError(source, place, reason) from error
    except msgspec.ValidationError as error:
        raise errors.InputError(
            source,
            *scenario_files.place_and_reason(error, document, Specification),
        ) from error
    _check(specification, source)
    return specification


def _check(specification: Specification, source: str) -> None:
    if specification.engine not in simulation.ENGINES:
        raise errors.InputError(
            source,
            "engine",
            f"unknown engine {specification.engine!r}; known engines: "
            f"{', '.join(sorted(simulation.ENGINES))}",
        )
    seen: set[str] = set()
    for group in ("fixed", "vary"):
        for name in getattr(specification, group):
            plain = name.replace("_", "-")
            if plain in _RESERVED:
                reason = "a sweep sets this option itself; remove it"
            elif plain in seen:
                reason = "this option is given twice"
            else:
                seen.add(plain)
                continue
            raise errors.InputError(source, f"{group}.{name}", reason)
    lists: dict[str, Sequence[_Value]] = {
        **specification.vary,
        "strategies": specification.strategies,
        "seeds": specification.seed_list,
    }
    for name, values in lists.items():
        if len(set(map(str, values))) < len(values):
            raise errors.InputError(source, name, "has the same value twice")
    runs = math.prod(len(values) for values in lists.values())
    if runs > MAX_RUNS:
        raise errors.InputError(
            source, "", f"{runs} runs exceed the limit of {MAX_RUNS}"
        )


def tasks(specification: Specification, source: str) -> list[Task]:
    """Return all runs, in order.

    :raises errors.InputError: if the options of a run are invalid; this
        is checked before the first run.
    """
    made = [
        Task(
            source=source,
            values=dict(zip(specification.vary, values, strict=True)),
            options=_options(specification, values),
            seed=seed,
            strategy=strategy,
            engine=specification.engine,
        )
        for values in itertools.product(*specification.vary.values())
        for seed in specification.seed_list
        for strategy in specification.strategies
    ]
    first = specification.seed_list[0]
    for task in made:
        if task.seed == first:
            task.scenario()
    return made


def _options(
    specification: Specification, values: Sequence[_Value]
) -> tuple[str, ...]:
    varied = zip(specification.vary, values, strict=True)
    options: list[str] = []
    for name, value in [*specification.fixed.items(), *varied]:
        option = f"--{name.replace('_', '-')}"
        for each in value if isinstance(value, list) else [value]:
            if each is True:
                options.append(option)
            elif each is not False:
                options.append(f"{option}={each}")
    return tuple(options)


def run(task: Task) -> list[float]:
    """Simulate a run.

    :returns: the metrics, in the order of :data:`METRICS`.
    :raises errors.InputError: if it cannot be simulated.
    """
    scenario = task.scenario()
    outcomes = simulation.run(
        scenario,
        task.strategy,
        engine=task.engine,
        seed=task.seed,
        source=str(task),
    )
    measured = results.evaluate(scenario, outcomes).measured
    return [getattr(measured, name) for name in METRICS]


def open_journal(
    directory: pathlib.Path, specification: Specification
) -> journals.Journal:
    """Open the results so far, from which an interrupted sweep continues.

    :raises errors.InputError: if they cannot be used, or belong to another
        sweep.
    """
    files.make_directory(directory)
    path = directory / _SPECIFICATION
    # Seeds and strategies may be added later.
    document = msgspec.to_builtins(specification)
    kept = {name: document[name] for name in ("fixed", "vary", "engine")}
    text = json.dumps(kept, indent=1) + "\n"
    if not path.exists():
        files.write(path, text.encode())
    elif files.read_text(path) != text:
        raise errors.InputError(
            str(directory), "", "contains the results of another sweep"
        )
    return journals.Journal(
        directory / RESULTS,
        (*specification.vary, "seed", "strategy"),
        METRICS,
    )


def points(all_tasks: Sequence[Task]) -> Iterator[tuple[Task, list[Task]]]:
    """Yield the runs that differ only in the seed, with their first run."""
    groups: dict[tuple[str, ...], list[Task]] = {}
    for task in all_tasks:
        *values, _, strategy = task.key
        groups.setdefault((*values, strategy), []).append(task)
    for group in groups.values():
        yield group[0], group
