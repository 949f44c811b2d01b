# SPDX-License-Identifier: Apache-2.0

"""Many runs: combinations of parameters × seeds × policies.

A specification in YAML says what is fixed, what varies, and how often::

    fixed: {hosts: 100, boards: 50}
    vary:
      load: [0.6, 0.8, 1.0]
      return-ratio: [0, 1]
    seeds: 5
    policies: [fifo, wra]

Names under ``fixed`` and ``vary`` are options of ``fpgapool-sim generate``.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import json
import pathlib
import typing
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import msgspec
import yaml

from fpgapool.sim import errors
from fpgapool.sim import files
from fpgapool.sim import results
from fpgapool.sim import scenario as scenarios
from fpgapool.sim import simulation
from fpgapool.sim.commands import generate

RESULTS = "results.csv"
_SPECIFICATION = "sweep.json"

#: What is measured, in the order of the columns.
METRICS = (
    "act_s",
    "tct95_s",
    "p50_s",
    "p99_s",
    "sar",
    "dlr",
    "makespan_s",
)

_Value = str | int | float | bool
_Name = typing.Annotated[str, msgspec.Meta(min_length=1)]
_Values = typing.Annotated[list[_Value], msgspec.Meta(min_length=1)]

#: Of generate's options, those that a sweep sets itself.
_RESERVED = ("output", "policy", "seed")


class Specification(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be run.

    :ivar policies: names of strategies.
    :ivar seeds: a list, or how many, from 1.
    :ivar fixed: options that are the same in all runs.
    :ivar vary: options, and the values that each takes.
    """

    policies: typing.Annotated[list[_Name], msgspec.Meta(min_length=1)]
    seeds: (
        typing.Annotated[int, msgspec.Meta(ge=1)]
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
        """The seeds themselves."""
        if isinstance(self.seeds, int):
            return list(range(1, self.seeds + 1))
        return self.seeds


@dataclasses.dataclass(frozen=True)
class Task:
    """One run.

    :ivar source: the specification's file, for messages.
    :ivar values: of what varies, by name.
    :ivar options: of ``generate``, all but seed and policy.
    """

    source: str
    values: Mapping[str, _Value]
    options: tuple[str, ...]
    seed: int
    policy: str
    engine: str

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from the others, as the results' file has it."""
        values = map(str, self.values.values())
        return (*values, str(self.seed), self.policy)

    def scenario(self) -> scenarios.Scenario:
        """What it simulates.

        :raises errors.InputError: if its options make no sense.
        """
        return generate.make_scenario(
            [*self.options, "--policy", self.policy], self.seed, str(self)
        )

    def __str__(self) -> str:
        values = [f"{name} {value}" for name, value in self.values.items()]
        return ", ".join(
            [self.source, *values, f"seed {self.seed}", self.policy]
        )


def read(path: pathlib.Path) -> Specification:
    """Read a specification.

    :raises errors.InputError: if it cannot be read or makes no sense.
    """
    source = str(path)
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
            source, *scenarios.place_and_reason(str(error))
        ) from error
    _check(specification, source)
    return specification


def _check(specification: Specification, source: str) -> None:
    if specification.engine not in simulation.ENGINES:
        raise errors.InputError(
            source,
            "engine",
            f"there is no engine {specification.engine!r}; known: "
            f"{', '.join(sorted(simulation.ENGINES))}",
        )
    seen: set[str] = set()
    for group in ("fixed", "vary"):
        for name in getattr(specification, group):
            plain = name.replace("_", "-")
            if plain in _RESERVED:
                reason = "a sweep sets it itself"
            elif plain in seen:
                reason = "twice"
            else:
                seen.add(plain)
                continue
            raise errors.InputError(source, f"{group}.{name}", reason)
    lists: dict[str, Sequence[_Value]] = {
        **specification.vary,
        "policies": specification.policies,
        "seeds": specification.seed_list,
    }
    for name, values in lists.items():
        if len(set(map(str, values))) < len(values):
            raise errors.InputError(source, name, "the same value twice")


def tasks(specification: Specification, source: str) -> list[Task]:
    """All runs, in order.

    :param source: the specification's file, for messages.
    :raises errors.InputError: if the options of one make no sense; found
        out before anything is run.
    """
    made = [
        Task(
            source=source,
            values=dict(zip(specification.vary, values, strict=True)),
            options=_options(specification, values),
            seed=seed,
            policy=policy,
            engine=specification.engine,
        )
        for values in itertools.product(*specification.vary.values())
        for seed in specification.seed_list
        for policy in specification.policies
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
    """Simulate.

    :returns: the metrics, as :data:`METRICS` names them.
    :raises errors.InputError: if it cannot be simulated.
    """
    scenario = task.scenario()
    outcomes = simulation.run(
        scenario,
        task.policy,
        engine=task.engine,
        seed=task.seed,
        source=str(task),
    )
    measured = results.evaluate(scenario, outcomes).measured
    return [getattr(measured, name) for name in METRICS]


class Journal:
    """The results so far, in a file that grows with each run.

    :param directory: is made if needed. A sweep that was interrupted goes
        on there.
    :raises errors.InputError: if it cannot be used, or holds the results of
        another sweep.
    """

    def __init__(
        self, directory: pathlib.Path, specification: Specification
    ) -> None:
        self._columns = [
            *specification.vary,
            "seed",
            "policy",
            *METRICS,
        ]
        self.path = directory / RESULTS
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise files.unusable(directory, error) from error
        self._keep(directory / _SPECIFICATION, specification)
        self.rows = self._load()
        self._file = self._open()

    def _keep(self, path: pathlib.Path, specification: Specification) -> None:
        # More seeds or policies may be asked for later.
        document = msgspec.to_builtins(specification)
        kept = {name: document[name] for name in ("fixed", "vary", "engine")}
        text = json.dumps(kept, indent=1) + "\n"
        if path.exists():
            if files.read_text(path) != text:
                raise errors.InputError(
                    str(path.parent), "", "holds the results of another sweep"
                )
            return
        files.write(path, text.encode())

    def _load(self) -> dict[tuple[str, ...], list[float]]:
        if not self.path.exists():
            return {}
        text = files.read_text(self.path)
        # Of a line that was being written when the program was killed, and
        # of none else, the end is missing.
        lines = text[: text.rfind("\n") + 1].splitlines()
        keys = len(self._columns) - len(METRICS)
        rows: dict[tuple[str, ...], list[float]] = {}
        for number, row in enumerate(csv.reader(lines), 1):
            if number == 1:
                if row != self._columns:
                    raise errors.InputError(
                        str(self.path), "line 1", "has other columns"
                    )
                continue
            try:
                if len(row) != len(self._columns):
                    raise ValueError("has another number of columns")
                rows[tuple(row[:keys])] = [float(one) for one in row[keys:]]
            except ValueError as error:
                raise errors.InputError(
                    str(self.path), f"line {number}", str(error)
                ) from error
        return rows

    def _open(self) -> typing.TextIO:
        lines = [self._columns]
        lines += [[*key, *map(repr, row)] for key, row in self.rows.items()]
        files.write(self.path, "".join(map(_line, lines)).encode())
        return self.path.open("a", encoding="utf-8")

    def add(self, task: Task, row: Sequence[float]) -> None:
        """Note the result of a run; it survives an interruption."""
        self.rows[task.key] = list(row)
        self._file.write(_line([*task.key, *map(repr, row)]))
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> typing.Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _line(cells: Sequence[object]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()


def points(all_tasks: Sequence[Task]) -> Iterator[tuple[Task, list[Task]]]:
    """The runs that differ in their seed only, with the first of them."""
    groups: dict[tuple[str, ...], list[Task]] = {}
    for task in all_tasks:
        *values, _, policy = task.key
        groups.setdefault((*values, policy), []).append(task)
    for group in groups.values():
        yield group[0], group
