# SPDX-License-Identifier: Apache-2.0

"""What pytest has told of the tests, and what that means for the gate."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import xml.etree.ElementTree
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from tests.gate import plan

#: Failures beyond so many are no chance.
MOST_RETRIES = 3
_SLOWEST = 20
_MOST_CHARACTERS = 200
#: The exit status of pytest if tests failed, and nothing else was wrong.
_TESTS_FAILED = 1
#: Where the machine's other work can make a test fail.
_UNSTEADY_PLACES = ("tests/functional/", "tests/integration/")


@dataclasses.dataclass(frozen=True)
class Test:
    """A test that has run.

    :ivar name: pytest runs it by that; if it did not even begin, it is
        anything.
    :ivar outcome: "passed", "failed" or "skipped".
    :ivar seconds: with the fixtures that were made for it.
    :ivar security: whether it is marked so.
    :ivar reason: of its failure, one line at most.
    """

    __test__ = False

    name: str
    outcome: str
    seconds: float = 0.0
    security: bool = False
    reason: str = ""

    @property
    def folder(self) -> str:
        """Where its file is."""
        return str(pathlib.PurePath(self.name.partition("::")[0]).parent)

    @property
    def may_be_chance(self) -> bool:
        """Whether it may run again if it fails."""
        return self.name.startswith(_UNSTEADY_PLACES) and not self.security


def read(path: pathlib.Path) -> list[Test]:
    """Read a file that pytest has written, with the gate's plugin.

    :param path: of the file; without it there are no tests.
    """
    if not path.exists():
        return []
    tests: dict[str, Test] = {}
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        test = _test(case)
        known = tests.get(test.name)
        # A test that failed and whose fixtures did, too, is there twice.
        if known is None or known.outcome != "failed":
            tests[test.name] = test
    return list(tests.values())


def _test(case: xml.etree.ElementTree.Element) -> Test:
    told = {one.get("name"): one.get("value") for one in case.iter("property")}
    outcome, reason = "passed", ""
    for child in case:
        if child.tag in ("failure", "error"):
            outcome = "failed"
            line = (child.get("message") or "").partition("\n")[0]
            reason = line[:_MOST_CHARACTERS]
        elif child.tag == "skipped":
            outcome = "skipped"
    return Test(
        told.get("nodeid") or f"{case.get('classname')} {case.get('name')}",
        outcome,
        float(case.get("time") or 0),
        "security" in told,
        reason,
    )


def unexplained(
    states: Mapping[str, plan.State],
    statuses: Mapping[str, int],
    tests: Mapping[str, Collection[Test]],
) -> list[str]:
    """Name the jobs that failed by something else than their tests.

    :param statuses: exit statuses of those that ran.
    :param tests: of the jobs that had some.
    """
    return [
        name
        for name, state in states.items()
        if state is plan.State.FAILED
        and not (
            statuses[name] == _TESTS_FAILED
            and any(test.outcome == "failed" for test in tests.get(name, ()))
        )
    ]


def to_retry(
    states: Mapping[str, plan.State],
    statuses: Mapping[str, int],
    tests: Mapping[str, Collection[Test]],
) -> list[str]:
    """Name the tests that run once more, since it may be chance.

    :param statuses: exit statuses of those that ran.
    :param tests: of the jobs that had some.
    :returns: all that failed, or none.
    """
    failed = failures(tests)
    if (
        plan.State.SKIPPED in states.values()
        or unexplained(states, statuses, tests)
        or len(failed) > MOST_RETRIES
        or not all(test.may_be_chance for test in failed)
    ):
        return []
    return [test.name for test in failed]


def failures(tests: Mapping[str, Collection[Test]]) -> list[Test]:
    """Return the tests that failed."""
    return [
        test
        for some in tests.values()
        for test in some
        if test.outcome == "failed"
    ]


def _rows(title: str, rows: Iterable[tuple[float, str]]) -> list[str]:
    return ["", title, *(f"{s:9.1f} s  {text}" for s, text in rows)]


def tables(
    begins_s: Mapping[str, float],
    ends_s: Mapping[str, float],
    tests: Sequence[Test],
) -> str:
    """Say where the time went."""
    slowest = sorted(tests, key=lambda test: test.seconds, reverse=True)
    folders: collections.Counter[str] = collections.Counter()
    for test in tests:
        folders[test.folder] += test.seconds  # type: ignore[assignment]
    phases = [
        (end_s - begins_s[name], f"{name}, from {begins_s[name]:.0f} s on")
        for name, end_s in ends_s.items()
    ]
    return "\n".join(
        [
            *_rows(
                f"the slowest {_SLOWEST} tests, with their fixtures:",
                ((one.seconds, one.name) for one in slowest[:_SLOWEST]),
            ),
            *_rows(
                "tests by folder; several run side by side:",
                ((s, name) for name, s in folders.most_common()),
            ),
            *_rows("phases, in the order of their ends:", phases),
        ]
    )


def closing(
    states: Mapping[str, plan.State],
    tests: Mapping[str, Collection[Test]],
    others: Collection[str],
    steady: bool,
) -> list[str]:
    """Say how it ended.

    :param tests: of the jobs that had some.
    :param steady: False: what failed has passed when it ran once more.
    """
    lines = [""]
    failed = failures(tests)
    for test in failed if steady else ():
        lines += [f"FAILED: {test.name}", f"    {test.reason}"]
    lines += [f"FAILED: the job {name}" for name in others]
    not_run = [
        name for name, state in states.items() if state is plan.State.SKIPPED
    ]
    if not_run:
        lines.append(f"not run: {', '.join(not_run)}")
    lines += [f"UNSTEADY: {test.name}" for test in ([] if steady else failed)]
    counts = collections.Counter(
        test.outcome for some in tests.values() for test in some
    )
    if not steady:
        counts["passed"] += counts.pop("failed")
    lines.append(
        f"{counts['passed']} passed, {counts['failed']} failed,"
        f" {counts['skipped']} skipped"
    )
    return lines
