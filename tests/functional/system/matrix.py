# SPDX-License-Identifier: Apache-2.0

"""What a fault of a component does to a session in a state.

One cell for each component, fault and state. The tests of each component
(``test_matrix_*.py``) play its rows and compare; the tables in
``doc/source/reference/faults.rst`` are compared with the same data by
``tests/unit/test_faults_doc.py``. To write them again::

    python -m tests.functional.system.matrix

To write the rows of a component: add its :class:`Fault` objects to ``FAULTS``
and five cells for each of them to ``CELLS``, in the order of ``STATES``. The
outcome of a cell is one of

``WAITS``
    the session keeps its place in the queue (QUEUED only);
``GOES_ON``
    it keeps its slot under the same generation and is served to its end;
``MOVES``
    it is served to its end under a higher generation, in another slot or
    in the same one prepared again; ``meanwhile`` names the end from which
    its client brings it back, if there is one;
``ENDS``
    it ends in ``end``, a state and a code.

``limit`` names the option that says when at the latest, or is ``""`` for at
once. ``client`` is the code that its program gets; ``""`` means that it
notices nothing and gets its data.
"""

from __future__ import annotations

import dataclasses
import enum
import pathlib
import typing
from collections.abc import Iterable
from collections.abc import Iterator

from tests.harness import waiting

if typing.TYPE_CHECKING:
    from tests.harness import scene as scenes

DOCUMENT = (
    pathlib.Path(__file__).parents[3]
    / "doc"
    / "source"
    / "reference"
    / "faults.rst"
)

COMPONENTS = (
    "client",
    "worker",
    "agent",
    "conductor",
    "RabbitMQ",
    "MariaDB",
)
STATES = ("QUEUED", "PREPARING", "READY", "ACTIVE", "DETACHED")
KINDS = ("kill", "stop", "restart")

_BEGIN = ".. The tables are made of tests/functional/system/matrix.py.\n"
_END = "\n.. End of the tables.\n"

#: Beyond the limit: for the machine that the tests run on.
MARGIN_S = waiting.LIMIT_S


class Outcome(enum.StrEnum):
    """What becomes of a session."""

    WAITS = "waits"
    GOES_ON = "goes on"
    MOVES = "moves"
    ENDS = "ends"


@dataclasses.dataclass(frozen=True)
class Fault:
    """A row of the table.

    :ivar opens: the code that requests get during the fault; empty if they
        are served or wait.
    :ivar opens_limit: the option that says when at the latest.
    """

    component: str
    kind: str
    opens: str = ""
    opens_limit: str = ""


@dataclasses.dataclass(frozen=True)
class Cell:
    """What becomes of one session; see the module.

    :ivar state: of the session when the fault happens.
    :ivar end: state and code, such as ``EXPIRED RESUME_TIMEOUT``.
    """

    component: str
    kind: str
    state: str
    outcome: Outcome
    end: str = ""
    meanwhile: str = ""
    limit: str = ""
    client: str = ""


def waits(client: str = "") -> dict[str, typing.Any]:
    """Return the members of a cell of which nothing else is to be said."""
    return {"outcome": Outcome.WAITS, "client": client}


def goes_on(limit: str = "", client: str = "") -> dict[str, typing.Any]:
    """Return the members of a cell whose session keeps its slot."""
    return {"outcome": Outcome.GOES_ON, "limit": limit, "client": client}


def moves(
    limit: str = "", meanwhile: str = "", client: str = ""
) -> dict[str, typing.Any]:
    """Return the members of a cell whose session gets another assignment."""
    return {
        "outcome": Outcome.MOVES,
        "limit": limit,
        "meanwhile": meanwhile,
        "client": client,
    }


def ends(end: str, limit: str = "", client: str = "") -> dict[str, typing.Any]:
    """Return the members of a cell whose session ends."""
    return {
        "outcome": Outcome.ENDS,
        "end": end,
        "limit": limit,
        "client": client,
    }


def row(
    component: str, kind: str, *cells: dict[str, typing.Any]
) -> tuple[Cell, ...]:
    """Return the five cells of a fault.

    :param cells: in the order of STATES.
    """
    return tuple(
        Cell(component, kind, state, **members)
        for state, members in zip(STATES, cells, strict=True)
    )


_CONNECT = "[conductor] connect_timeout_s"
_RESUME = "[conductor] resume_grace_s"
_IDLE = "[conductor] idle_timeout_s"
_REPORT = "[conductor] report_timeout_s"
_WORKER = "[agent] worker_timeout_s"
_OPEN = "[agent] open_timeout_s"

_GONE = ends("CANCELLED CLIENT_GONE")
_LEFT = ends("CANCELLED CANCELLED_BY_CLIENT", client="CANCELLED")
_NOT_RESUMED = ends("EXPIRED RESUME_TIMEOUT", _RESUME)
_NOT_CONNECTED = ends(
    "EXPIRED CONNECT_TIMEOUT", _CONNECT, client="CONNECT_TIMEOUT"
)

FAULTS: tuple[Fault, ...] = (
    Fault("client", "kill"),
    Fault("client", "stop"),
    Fault("client", "restart"),
    Fault("worker", "kill"),
    Fault("worker", "stop"),
    Fault("worker", "restart"),
    Fault("agent", "kill", opens="FRONT_DOOR_UNAVAILABLE"),
    Fault("agent", "stop", opens="TIMEOUT"),
    Fault("agent", "restart", opens="FRONT_DOOR_UNAVAILABLE"),
    Fault("conductor", "kill", "CONDUCTOR_UNAVAILABLE", _OPEN),
    Fault("conductor", "stop", "CONDUCTOR_UNAVAILABLE", _OPEN),
    Fault("conductor", "restart", "CONDUCTOR_UNAVAILABLE", _OPEN),
    Fault("RabbitMQ", "kill", "CONDUCTOR_UNAVAILABLE", _OPEN),
    Fault("RabbitMQ", "stop", "CONDUCTOR_UNAVAILABLE", _OPEN),
    Fault("RabbitMQ", "restart", "CONDUCTOR_UNAVAILABLE", _OPEN),
    Fault("MariaDB", "kill", "DATABASE_UNAVAILABLE", _OPEN),
    Fault("MariaDB", "stop", "DATABASE_UNAVAILABLE", _OPEN),
    Fault("MariaDB", "restart", "DATABASE_UNAVAILABLE", _OPEN),
)

# What runs needs none of these, and who waits is remembered.
_ALL_GO_ON = (waits(), goes_on(), goes_on(), goes_on(), goes_on())

CELLS: tuple[Cell, ...] = (
    *row(
        "client",
        "kill",
        _GONE,
        _GONE,
        _GONE,
        _NOT_RESUMED,
        _NOT_RESUMED,
    ),
    *row(
        "client",
        "stop",
        _NOT_CONNECTED,
        _NOT_CONNECTED,
        _NOT_CONNECTED,
        ends("EXPIRED IDLE_TIMEOUT", _IDLE, client="IDLE_TIMEOUT"),
        moves(_RESUME, meanwhile="EXPIRED RESUME_TIMEOUT"),
    ),
    *row("client", "restart", *[_LEFT] * 5),
    *row(
        "worker",
        "kill",
        waits(),
        moves(),
        moves(),
        moves(),
        moves(meanwhile="FAILED WORKER_DIED"),
    ),
    *row(
        "worker",
        "stop",
        waits(),
        moves(_WORKER),
        moves(_WORKER),
        moves(_WORKER),
        moves(_WORKER, meanwhile="FAILED WORKER_DIED"),
    ),
    *row(
        "worker",
        "restart",
        waits(),
        moves(),
        moves(),
        moves(),
        moves(meanwhile="FAILED WORKER_DIED"),
    ),
    *row(
        "agent",
        "kill",
        waits(),
        moves(_REPORT),
        moves(_REPORT),
        goes_on(),
        goes_on(),
    ),
    *row(
        "agent",
        "stop",
        waits(),
        moves(_REPORT),
        moves(_REPORT),
        goes_on(),
        goes_on(),
    ),
    *row(
        "agent",
        "restart",
        waits(),
        goes_on(),
        goes_on(),
        goes_on(),
        goes_on(),
    ),
    *row("conductor", "kill", *_ALL_GO_ON),
    *row("conductor", "stop", *_ALL_GO_ON),
    *row("conductor", "restart", *_ALL_GO_ON),
    *row("RabbitMQ", "kill", *_ALL_GO_ON),
    *row("RabbitMQ", "stop", *_ALL_GO_ON),
    *row("RabbitMQ", "restart", *_ALL_GO_ON),
    *row("MariaDB", "kill", *_ALL_GO_ON),
    *row("MariaDB", "stop", *_ALL_GO_ON),
    *row("MariaDB", "restart", *_ALL_GO_ON),
)


def cells(component: str, kind: str) -> dict[str, Cell]:
    """Return the cells of a fault by the state of the session."""
    return {
        cell.state: cell
        for cell in CELLS
        if (cell.component, cell.kind) == (component, kind)
    }


def fault(component: str, kind: str) -> Fault:
    """Return a row of the table."""
    (found,) = [
        one for one in FAULTS if (one.component, one.kind) == (component, kind)
    ]
    return found


def check(cell: Cell, fate: scenes.Fate) -> None:
    """Compare what has become of a session with its cell.

    :param cell: what must become of it.
    :raises AssertionError: if they differ.
    """
    before, after = fate.before, fate.after
    assert before.state == cell.state
    assert fate.settled_s is not None, f"not in time: {fate}"
    assert fate.settled_s <= fate.limit_s, fate
    assert fate.client == cell.client, fate
    assert after.session_id == before.session_id
    if cell.outcome is Outcome.ENDS:
        assert f"{after.state} {after.reason}" == cell.end, fate
        return
    assert f"{after.state} {after.reason}" == "CLOSED OK", fate
    # How often it was assigned a slot; 0 before the first time.
    if cell.outcome is Outcome.GOES_ON:
        assert after.generation == before.generation, fate
    else:
        assert after.generation > before.generation, fate


# The document.


def document(text: str) -> str:
    """Return the document with its tables made anew.

    :param text: the document, with the marks between which they stand.
    """
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    tables = "\n".join(_lines())
    return f"{before}{_BEGIN}{tables}{_END}{after}"


def _lines() -> Iterator[str]:
    for component in COMPONENTS:
        yield from ("", component, "-" * len(component), "")
        yield from _table(
            (9, 14, 41, 20, 16),
            ("Fault", "State", "The session", "Within", "The program gets"),
            (_cell_texts(one) for one in CELLS if one.component == component),
        )
    yield from ("", "New requests", "-" * len("New requests"), "")
    yield from _table(
        (20, 20, 40, 20),
        ("Component", "Fault", "The program gets", "Within"),
        ((one.component, one.kind, *_open_texts(one)) for one in FAULTS),
    )


def _table(
    widths: Iterable[int],
    head: Iterable[str],
    rows: Iterable[Iterable[str]],
) -> Iterator[str]:
    yield ".. list-table::"
    yield "   :header-rows: 1"
    yield f"   :widths: {' '.join(map(str, widths))}"
    yield ""
    for texts in (head, *rows):
        for number, text in enumerate(texts):
            yield f"   {' ' if number else '*'} - {text}".rstrip()


def _cell_texts(cell: Cell) -> tuple[str, ...]:
    return (
        cell.kind,
        cell.state,
        _outcome_text(cell),
        _limit_text(cell.limit),
        _client_text(cell),
    )


def _client_text(cell: Cell) -> str:
    if cell.client:
        return f"``{cell.client}``"
    # A program that was killed gets nothing.
    return "" if cell.outcome is Outcome.ENDS else "its data"


def _outcome_text(cell: Cell) -> str:
    match cell.outcome:
        case Outcome.WAITS:
            return "keeps its place in the queue"
        case Outcome.GOES_ON:
            return "goes on in its slot"
        case Outcome.ENDS:
            return _end_text(cell.end)
    if cell.meanwhile:
        return (
            f"{_end_text(cell.meanwhile)}; goes on in another assignment when"
            " its client comes back"
        )
    return "goes on in another assignment"


def _end_text(end: str) -> str:
    state, code = end.split()
    return f"ends as {state}, ``{code}``"


def _limit_text(option: str) -> str:
    return f"``{option.rpartition(' ')[2]}``" if option else "at once"


def _open_texts(fault: Fault) -> tuple[str, str]:
    if not fault.opens:
        return "a place in the queue, or a slot", ""
    return f"``{fault.opens}``", _limit_text(fault.opens_limit)


if __name__ == "__main__":
    DOCUMENT.write_text(document(DOCUMENT.read_text()))
