# SPDX-License-Identifier: Apache-2.0

"""Workers and desks that say whatever they like."""

from __future__ import annotations

import errno
import json
import os
from unittest import mock

import hypothesis
import pytest
from hypothesis import strategies

from fpgapool.agent import loop as agent_loop
from fpgapool.agent import metrics
from fpgapool.agent.slots import orders
from fpgapool.agent.supervision import assigned
from fpgapool.agent.supervision import children
from fpgapool.agent.supervision import link as links
from fpgapool.agent.supervision import processes
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes
from tests.unit.agent import factories
from tests.unit.agent import test_desks
from tests.unit.agent import test_workers

pytestmark = pytest.mark.security

KEY = test_workers.KEY
OTHER = ("board0", 1)
GROUP = "group-1"


def status(generation: int | None = None, **changes: object):
    """Return what an honest worker says."""
    held = generation is not None
    return {
        "state": "active" if held else "idle",
        "session_id": f"session-{generation}" if held else None,
        "generation": generation,
        "seen_generation": generation or 0,
        "project_id": factories.PROJECT if held else None,
        "programmed": None,
        "input_bytes": 0,
        "output_bytes": 0,
        "last_result": None,
        "data_port": 4711,
        "made_for": "",
        **changes,
    }


def result(generation: int, **changes: object) -> dict[str, object]:
    return {
        "session_id": f"session-{generation}",
        "generation": generation,
        "state": "CLOSED",
        "code": "OK",
        "message": "",
        "input_bytes": 1,
        "output_bytes": 1,
        "started_at": 1.0,
        "finished_at": 2.0,
        **changes,
    }


class Site(test_workers.Site):
    """A worker whose agent has a table of two slots."""

    def __init__(self, directory) -> None:
        super().__init__(directory)
        self.table = factories.make_table()
        self.now = 0.0
        self.supervisor._counts = metrics.Counts()
        self.supervisor._emit = self._emit
        self.supervisor._workers[KEY] = self.child
        self.own = directory / "workers" / "board0.0"
        self.own.mkdir(parents=True, exist_ok=True)
        self.child.is_new = True
        self.supervisor._greet(self.child)
        self.take()

    def _emit(self, key, event, *arguments):
        effects = event(self.table, key, *arguments, self.now)
        self.prepared = [
            one for one in effects if type(one).__name__ == "Prepared"
        ]

    def assign(self, generation: int = 7, **changes: object):
        """Give the worker an assignment; return what it is sent."""
        request = factories.assign_request(generation, **changes)
        self.supervisor.send(
            orders.ToWorker(KEY, "assign", generation, dict(vars(request)))
        )
        return [one["op"] for one in self.take()[0]]

    def say(self, **members: object) -> None:
        self.event("status", status=members)

    def event(self, event: str, **members: object) -> None:
        if self.child.link.sock is not None:
            self.child.link._dispatch({"event": event, **members})

    @property
    def is_killed(self) -> bool:
        assert (self.child.link.sock is None) == bool(self.child.ended_for)
        return self.child.ended_for is not None


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    yield made
    made.close()


def test_an_honest_worker_is_believed(site):
    site.say(**status())
    assert site.assign(7) == ["assign"]
    site.say(**status())
    site.say(**status(7))
    site.say(**status(seen_generation=7, last_result=result(7)))
    assert site.assign(8) == ["assign"]
    # It had not received the order yet.
    site.say(**status(seen_generation=7, last_result=result(7)))
    site.say(**status(8))
    assert not site.is_killed
    slot = site.table.slot(KEY)
    assert (slot.status.generation, slot.last_result.generation) == (8, 7)


LIES = [
    status(8),
    status(7, session_id="session-8"),
    status(7, session_id=GROUP, is_member=True),
    status(7, session_id="../../../etc", is_member=True),
    status(7, session_id="/etc", is_member=True),
    status(7, project_id="project-b"),
    status(7, state="idle"),
    status(7, state="sleeping"),
    status(7, state=["idle"]),
    status(7, session_id=None),
    status(7, seen_generation=2**62),
    status(7, seen_generation=-1),
    status(7, input_bytes=2**70),
    status(7, input_bytes=-1),
    status(7, input_bytes=1e300),
    status(7, output_bytes=True),
    status(7, quanta=float("nan")),
    status(7, data_port=-1),
    status(7, data_port="4711"),
    status(7, certificate_sha256="x" * 1000),
    status(7, programmed="x\x1b[2J"),
    status(7, programmed="x" * 1000),
    status(7, blocks=[1] * 10_000),
    status(7, blocks={"hits": float("inf")}),
    status(7, blocks={str(one): 1 for one in range(1000)}),
    status(7, beyond_claim="yes"),
    status(last_result=result(8)),
    status(last_result=result(7, session_id="session-8")),
    status(last_result=result(7, session_id="../x")),
    status(last_result=result(7, finished_at=1e300)),
    status(last_result=result(7, finished_at=float("nan"))),
    status(last_result=result(7, state="ACTIVE")),
    status(last_result=result(7, code="X" * 100)),
    status(last_result=[]),
    {},
]


@pytest.mark.parametrize("lie", LIES)
def test_a_worker_that_lies_in_its_status_is_killed_once(site, caplog, lie):
    site.say(**status())
    site.assign(7)
    before = site.table.slot(KEY).status, site.table.slot(OTHER).visible()
    for _ in range(3):
        site.say(**lie)
        site.supervisor.tick()
    assert site.is_killed
    after = site.table.slot(KEY).status, site.table.slot(OTHER).visible()
    assert after == before
    (line,) = [one for one in caplog.messages if "Killing" in one]
    assert line.isprintable()
    assert "sent an invalid message" in line


JSON = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.floats()
    | strategies.text(),
    lambda inner: (
        strategies.lists(inner, max_size=4)
        | strategies.dictionaries(strategies.text(), inner, max_size=4)
    ),
    max_leaves=10,
)
_NAMES = sorted({*status(7), "is_member", "blocks", "quanta", "was_member"})


@hypothesis.given(
    members=strategies.dictionaries(strategies.sampled_from(_NAMES), JSON),
    others=strategies.dictionaries(
        strategies.sampled_from(["event", "id", "ok", "error", "generation"]),
        JSON | strategies.sampled_from(["prepared", "unread", "desk_wanted"]),
    ),
)
@hypothesis.settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
def test_no_message_raises_or_changes_what_was_assigned(
    tmp_path_factory, members, others
):
    site = Site(tmp_path_factory.getbasetemp())
    try:
        site.say(**status())
        site.assign(7)
        site.child.link._dispatch({"event": "status", **others})
        site.say(**{**status(7), **members})
        site.child.link._dispatch(others)
        found = site.table.standing()
        assert not found.members
        assert found.generations in ({}, {KEY: 7})
        assert site.table.slot(OTHER).status is None
    finally:
        site.close()


def test_a_worker_cannot_return_to_what_has_ended(site):
    site.assign(7)
    site.say(**status(7))
    site.say(**status(seen_generation=7, last_result=result(7)))
    # An order that is repeated permits it; the connection did, too.
    site.assign(7)
    for _ in range(2):
        site.say(**status(7))
        site.say(**status(seen_generation=7, last_result=result(7)))
        assert not site.is_killed
    site.say(**status(7))
    assert site.is_killed


def test_a_worker_announces_its_slot_once_an_order(site):
    site.assign(7)
    site.say(**status(7, state="ready"))
    for _ in range(2):
        site.event("prepared", generation=7, secret="ab" * 32)
        assert [one.generation for one in site.prepared] == [7]
    assert not site.is_killed
    site.event("prepared", generation=7, secret="ab" * 32)
    assert site.is_killed


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"generation": 7, "secret": "x"},
        {"generation": 7, "secret": "AB" * 10_000},
        {"generation": "7", "secret": ""},
        {"generation": float("inf"), "secret": ""},
    ],
)
def test_a_worker_that_announces_nonsense_is_killed(site, members):
    site.assign(7)
    site.event("prepared", **members)
    assert site.is_killed


@pytest.mark.parametrize(
    "answer",
    [
        {"id": [], "ok": True},
        {"id": 1, "ok": "yes"},
        {"id": 1, "ok": False},
        {"id": 1, "ok": False, "error": {"code": "x" * 100, "message": ""}},
        {"id": 1, "ok": True, "status": []},
    ],
)
def test_a_worker_that_answers_nonsense_is_killed(site, answer):
    site.child.link._dispatch(answer)
    assert site.is_killed


def test_text_of_workers_does_not_write_lines_of_its_own(site, caplog):
    site.assign(7)
    (number,) = (
        number
        for number, one in site.child.link.requests.items()
        if one.operation == "assign"
    )
    error = {"code": "X", "message": "no\nERROR root: fire\x1b" + "x" * 10_000}
    site.child.link._dispatch({"id": number, "ok": False, "error": error})
    assert not site.is_killed
    assert all(one.isprintable() for one in caplog.messages)
    assert max(map(len, caplog.messages)) < 2000


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\0",
        b"\xff" * 10,
        b"\0\0\0\x02[]",
        b"\0\0\x40\0" + b"[" * 0x4000,
        b"\0\0\0\x07" + b'{"x":}}',
    ],
)
def test_bytes_that_are_no_message_end_their_worker(site, data):
    site.send(data)
    site.receive()
    site.receive()
    assert site.is_killed


@pytest.mark.parametrize(
    "changes",
    [{"project_id": "project-b"}, {"group_id": GROUP, "session_id": GROUP}],
)
def test_a_worker_serves_no_other_project_whatever_it_says(site, changes):
    """Nor anybody after a group."""
    site.assign(7, **changes)
    held = site.child.assigned
    site.say(
        **status(
            seen_generation=7,
            last_project_id=None,
            was_member=False,
            last_result=result(7, session_id=held.session_id),
        )
    )
    assert not site.is_killed
    told = site.table.slot(KEY).status
    assert told.last_project_id == held.project_id
    assert told.is_stale == held.is_member
    assert site.assign(8) == ["exit"]
    assert site.child.assigned is held


def test_only_the_worker_of_an_assignment_sees_its_bitstream(site):
    """Not the slot's last worker, nor the next one."""
    file = site.own.parent / "cached"
    file.write_text("of project-a")
    placed = site.own / "bitstream"
    reference = {"path": str(file)}
    for generation in (7, 8):
        # The second one finds the same file.
        assert site.assign(generation, bitstream_ref=reference) == ["assign"]
        assert placed.read_text() == "of project-a"
    others = site.own.parent / "other"
    others.write_text("of project-b")
    changes = {
        "project_id": "project-b",
        "bitstream_ref": {"path": str(others)},
    }
    assert site.assign(9, **changes) == ["exit"]
    assert placed.read_text() == "of project-a"
    site.child.is_new = True
    site.supervisor._greet(site.child)
    site.take()
    assert site.assign(10, project_id="project-b") == ["assign"]
    assert os.listdir(site.own) == ["assigned"]


def test_a_bitstream_of_another_file_system_is_copied(
    site, tmp_path, monkeypatch
):
    kept = tmp_path / "kept"
    kept.write_text("content")
    refused = OSError(errno.EXDEV, "Invalid cross-device link")
    monkeypatch.setattr(os, "link", mock.Mock(side_effect=refused))
    assert site.assign(7, bitstream_ref={"path": str(kept)}) == ["assign"]
    assert (site.own / "bitstream").read_text() == "content"


def test_a_bitstream_that_cannot_be_placed_fails_its_assignment(site):
    told = []
    site.supervisor._emit = lambda *event: told.append(event)
    reference = {"path": str(site.own / "none")}
    assert site.assign(7, bitstream_ref=reference) == []
    ((_, _, generation, code, message),) = told
    assert (generation, code) == (7, codes.BITSTREAM_UNAVAILABLE)
    assert "cannot be placed" in message
    assert site.child.assigned.generation == 0


def test_a_worker_that_does_not_exit_to_be_replaced_is_killed(site):
    later = []
    site.supervisor._loop.call_later = lambda *one: later.append(one)
    site.child.stale = True
    site.child.pid, site.child.pidfd = 1, 2
    site.assign(7)
    ((_, check),) = later
    site.child.pid = 3
    check()
    assert site.child.ended_for is None
    site.child.pid = 1
    check()
    assert site.child.ended_for == "did not exit to be replaced"
    site.child.pidfd = None


@pytest.fixture
def inherit(tmp_path):
    """Give what makes the next agent, to which a process is connected."""
    heirs = []

    def make(pid):
        heir = Site.__new__(Site)
        test_workers.Site.__init__(heir, tmp_path)
        heirs.append(heir)
        heir.table, heir.now = factories.make_table(), 0.0
        heir.supervisor._counts = metrics.Counts()
        heir.supervisor._emit = heir._emit
        heir.supervisor._workers[KEY] = heir.child
        heir.child.pid = pid
        heir.supervisor._greet(heir.child)
        return heir

    yield make
    for heir in heirs:
        heir.close()


def test_the_next_agent_knows_what_was_assigned(site, inherit):
    site.assign(7)
    heir = inherit(site.child.pid)
    heir.say(**status(7))
    assert not heir.is_killed
    assert heir.table.holders()[KEY].session_id == "session-7"
    heir.say(**status(7, session_id=GROUP, is_member=True))
    assert heir.is_killed


@pytest.mark.parametrize(
    ("generation", "changes", "is_killed", "is_told"),
    [
        (7, {}, False, True),
        (7, {"session_id": "session-6"}, True, False),
        # As after a file that was damaged.
        (8, {}, False, False),
        (8, {"session_id": "session-7"}, True, False),
        # Nobody waits to hear of it.
        (6, {}, False, False),
        (9, {}, True, False),
    ],
)
def test_the_result_before_the_last_is_of_the_assignment_before(
    site, inherit, generation, changes, is_killed, is_told
):
    site.assign(7)
    # The second one is a repetition.
    for _ in range(2):
        site.assign(8)
    heir = inherit(site.child.pid)
    told = result(generation, **changes)
    heir.say(**status(8), previous_result=told)
    assert heir.is_killed is is_killed
    reported = heir.table.slot(KEY).previous_result
    assert (reported is not None) is is_told


def test_a_record_of_an_older_agent_names_no_assignment_before(site, inherit):
    site.assign(7)
    site.assign(8)
    record = site.own / "assigned"
    members = json.loads(record.read_text())
    del members["previous_generation"], members["previous_session_id"]
    record.write_text(json.dumps(members))
    heir = inherit(site.child.pid)
    heir.say(**status(8), previous_result=result(7))
    assert not heir.is_killed
    assert heir.table.slot(KEY).previous_result is None


def test_a_worker_of_an_older_agent_is_believed_once(site):
    (site.own / "assigned").unlink()
    site.child.assigned = None
    site.say(**status(7))
    assert site.child.assigned == assigned.Assigned(
        7, "session-7", factories.PROJECT
    )
    recorded = assigned.load(str(site.own / "assigned"), site.child.run)
    assert recorded == site.child.assigned
    site.say(**status(8))
    assert site.is_killed


def test_a_worker_is_not_measured_by_the_record_of_another(site, inherit):
    """As after a downgrade and an upgrade: the agent between wrote none."""
    site.child.pid = os.getpid()
    site.supervisor._greet(site.child)
    site.assign(7)
    own = inherit(os.getpid())
    own.say(**status(8))
    assert own.is_killed
    other = inherit(os.getppid())
    other.say(**status(8))
    assert not other.is_killed
    assert other.table.holders()[KEY].session_id == "session-8"


def test_a_run_is_not_only_a_number():
    runs = {processes.run_of(one) for one in (os.getpid(), os.getppid())}
    assert len(runs) == 2
    assert all(len(one.split()) == 2 for one in runs)
    assert processes.run_of(os.getpid()) == processes.run_of(os.getpid())
    # Nothing has this number, and nothing can be read of it.
    assert processes.run_of(2**22 + 1) == str(2**22 + 1)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"generation": "x"}'])
def test_a_damaged_record_is_none(tmp_path, text):
    (tmp_path / "assigned").write_text(text)
    assert assigned.load(str(tmp_path / "assigned"), "1 2") is None


def test_a_record_replaces_a_longer_one(tmp_path):
    path = str(tmp_path / "assigned")
    for one in (
        assigned.Assigned(
            2**62, "s" * 64, "\x7f" * 255, True, 2**62, "s" * 64
        ),
        assigned.Assigned(),
    ):
        one.save(path, "1 2")
        assert assigned.load(path, "1 2") == one
        assert assigned.load(path, "1 3") is None
    assert (tmp_path / "assigned").stat().st_mode & 0o777 == 0o600


def test_a_member_costs_its_desk_one_connection_at_a_time(site):
    def wanted() -> int:
        site.event("desk_wanted", generation=7)
        return len(site.take()[0])

    assert [wanted() for _ in range(9)] == [1] + [0] * 8
    assert site.dial.call_count == 1
    # It answers at once, and wants the next.
    for _ in range(9):
        site.child.link.requests.clear()
        wanted()
    assert site.dial.call_count == 1


def test_a_worker_that_leaves_requests_unanswered_is_killed(site):
    site.say(**status())
    for _ in range(children._MOST_REQUESTS + 1):
        site.child.link.requests[site.child.link._last_number] = None
        site.child.link._last_number += 1
    site.supervisor.tick()
    assert site.child.ended_for == "does not answer"


class _Paused(agent_loop.Loop):
    """A loop by hand."""

    def __init__(self) -> None:
        super().__init__("test")
        self.time_s = 0.0
        self.now = lambda: self.time_s


def test_a_worker_that_sends_too_much_is_not_read_for_a_while(site):
    loop = _Paused()
    site.child.link.close()
    agent, worker = links.socket.socketpair()
    agent.setblocking(False)
    heard = []
    link = links.Link(loop, "worker", heard.append, print, lambda: None)
    link.open(agent)
    worker.setblocking(False)
    data = messages.encode(messages.notification("x"))
    for _ in range(200):
        try:
            while True:
                worker.send(data * 50)
        except BlockingIOError:
            pass
        loop.call(lambda: None)
        loop._turn()
    first = len(heard)
    assert 0 < first <= links.RECEIVE_BYTES / len(data) + 1
    # Requests still go out, and do not wake it.
    link.ask("status", {}, None)
    loop._turn()
    assert len(heard) == first
    loop.time_s += 10.0
    for _ in range(2):
        loop.call(lambda: None)
        loop._turn()
    assert len(heard) > first
    link.close()
    worker.close()
    # This closes what the loop uses.
    loop._request_stop()
    loop._run()


# Desks.


@pytest.fixture
def desks(tmp_path):
    made = test_desks.Desks(str(tmp_path))
    made.set(test_desks.KEYS[0])
    made.keep(1, test_desks.order())
    made.hear()
    made.count(a=1)
    return made


def _told(desks, operation, **members):
    desk = desks._desk(GROUP)
    desk.link.requests[1] = operation
    desk.link._dispatch({"id": 1, "ok": True, **members})
    return desk


HEARD = {
    "revision": 0,
    "clients": 0,
    "data_port": 4711,
    "certificate_sha256": "ab",
    "members": [],
}
COUNTS = {
    "arrived": 1,
    "ended": 1,
    "busy_s": 0.5,
    "waiting": 1,
    "running": 1,
    "connected": True,
}


@pytest.mark.parametrize(
    "changes",
    [
        {"members": [test_desks.member(5, "leaving")]},
        {"members": [{**test_desks.member(0, "joined"), "generation": -1}]},
        {"members": {}},
        {"clients": 1e300},
        {"clients": float("inf")},
        {"revision": "1"},
        {"data_port": "x"},
        {"certificate_sha256": "\n"},
        {"introduced": 1},
    ],
)
def test_a_desk_that_lies_in_its_status_is_killed(desks, changes):
    before, desks.leaving = desks.reports(), []
    desk = _told(desks, "status", status={**HEARD, **changes})
    assert "invalid message" in desk.ended_for
    assert (desks.reports(), desks.leaving) == (before, [])


@pytest.mark.parametrize(
    "members",
    [
        {"clients": []},
        {"clients": {"a": []}},
        {"clients": {"a": {**COUNTS, "busy_s": float("nan")}}},
        {"clients": {"a": {**COUNTS, "busy_s": 1e300}}},
        {"clients": {"a": {**COUNTS, "ended": -1}}},
        {"clients": {"a": {**COUNTS, "ended": 2**63}}},
        {"clients": {"a\n": COUNTS}},
        {"clients": {}, "more": True},
        {"clients": {str(one): COUNTS for one in range(10_003)}},
        {"boot_id": "x" * 100},
        {"boot_id": 1},
    ],
)
def test_a_desk_that_lies_in_its_counts_is_killed(desks, members):
    before = desks.reports()
    told = {"boot_id": "boot-1", "clients": {}, "more": False, **members}
    desk = _told(desks, "counts", **told)
    assert "invalid message" in desk.ended_for
    assert desks.reports() == before


def test_a_desk_decides_about_its_own_members_only(desks):
    desks.leaving = []
    members = [test_desks.member(one, "leaving") for one in (0, 1)]
    _told(desks, "status", status={**HEARD, "members": members})
    assert desks.leaving == [test_desks.KEYS[0]]


@hypothesis.given(
    operation=strategies.sampled_from(["status", "counts"]),
    members=strategies.dictionaries(
        strategies.sampled_from(
            ["id", "ok", "error", "status", "clients", "boot_id", "more"]
        ),
        JSON,
    ),
)
@hypothesis.settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
def test_no_message_of_a_desk_raises(tmp_path_factory, operation, members):
    made = test_desks.Desks(str(tmp_path_factory.getbasetemp()))
    made.set(test_desks.KEYS[0])
    _told(made, operation, **members)
    assert not made.leaving
