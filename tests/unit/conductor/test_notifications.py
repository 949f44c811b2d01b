# SPDX-License-Identifier: Apache-2.0

"""What is told of what was written."""

import dataclasses
import importlib.machinery
import importlib.util
import pathlib
import queue
import threading
import types

import pytest

from fpgapool.conductor import counts
from fpgapool.conductor.decisions.views import journal
from fpgapool.conductor.outside import notifications
from fpgapool.db import api as db_api
from fpgapool.objects import base
from fpgapool.objects import notification
from fpgapool.vocabulary import states
from tests.harness import waiting

ROOT = pathlib.Path(__file__).parents[3]
TOOL = ROOT / "tools" / "write-notification-samples"
SAMPLES = ROOT / "doc" / "notification_samples"
DOCUMENT = ROOT / "doc" / "source" / "admin" / "notifications.rst"


def _tool() -> types.ModuleType:
    loader = importlib.machinery.SourceFileLoader("samples", str(TOOL))
    spec = importlib.util.spec_from_loader("samples", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


samples = _tool()


def _snapshot(**rows: object) -> db_api.Snapshot:
    empty = {
        "hosts": [samples.HOST],
        "devices": [samples.DEVICE],
        "slots": [samples.SLOT],
    }
    return db_api.Snapshot(**{**empty, **rows})


@pytest.fixture
def book() -> journal.Journal:
    """Give the journal of a conductor that has taken over a pool."""
    return journal.Journal(_snapshot())


def _told(book: journal.Journal, *rows: db_api.Record) -> list[str]:
    return [event.type for event in book.events(db_api.Changes.of(rows))]


def _session(state: str, **members: object) -> db_api.SessionRecord:
    return dataclasses.replace(samples.SESSION, state=state, **members)


def test_an_end_that_a_former_leader_told_is_told_if_it_changes() -> None:
    ended = _session(states.CANCELLED, finished_at=5.0)
    book = journal.Journal(_snapshot(ending_sessions=[ended]))
    assert _told(book, ended) == []
    assert _told(book, _session(states.CLOSED)) == [journal.SESSION_END]


def test_the_samples_are_up_to_date() -> None:
    # If they are not: make notification-samples
    written = {path.name: path.read_text() for path in SAMPLES.iterdir()}
    assert written == samples.samples()


def test_every_event_has_a_sample_and_is_documented() -> None:
    text = DOCUMENT.read_text()
    for event, payload in journal.EVENTS.items():
        name = event.replace(".", "-") + ".json"
        assert (SAMPLES / name).exists(), event
        assert f"``{event}``" in text
        assert f"{name}\n" in text
        assert f"``{payload.__name__}``" in text


@pytest.mark.parametrize("payload", notification.PAYLOADS)
def test_payloads_have_no_place_for_secrets(
    payload: type[base.Payload],
) -> None:
    names = set(base.members(payload))
    for word in ("secret", "params", "endpoint", "certificate", "token"):
        assert not [name for name in names if word in name]


def test_the_life_of_a_session(book: journal.Journal) -> None:
    life = [
        states.QUEUED,
        states.PREPARING,
        states.QUEUED,
        states.PREPARING,
        states.READY,
        states.ACTIVE,
        states.DETACHED,
        states.ACTIVE,
        states.CLOSED,
    ]
    told = [_told(book, _session(state)) for state in life]
    assert told == [
        ["session.queued"],
        ["session.preparing"],
        ["session.queued"],
        ["session.preparing"],
        ["session.ready"],
        ["session.active"],
        ["session.detached"],
        ["session.active"],
        ["session.end"],
    ]


def test_a_state_is_told_once(book: journal.Journal) -> None:
    assert _told(book, _session(states.QUEUED)) == ["session.queued"]
    assert _told(book, _session(states.QUEUED, skips=3)) == []


def test_steps_written_together_begin_with_the_queue(
    book: journal.Journal,
) -> None:
    ready = _session(
        states.READY, slot_id=1, ready_at=1767225601.0, generation=7
    )
    queued, told = book.events(db_api.Changes.of([ready]))
    assert (queued.type, told.type) == ("session.queued", "session.ready")
    assert queued.payload.state == states.QUEUED
    assert queued.payload.place is None
    assert queued.payload.ready_at is None
    assert told.payload.place.device == samples.DEVICE.name


@pytest.mark.parametrize(
    ("state", "is_error"),
    [
        (states.CLOSED, False),
        (states.CANCELLED, False),
        (states.EXPIRED, False),
        (states.FAILED, True),
        (states.LOST, True),
    ],
)
def test_ends(book: journal.Journal, state: str, is_error: bool) -> None:
    _told(book, _session(states.QUEUED))
    (event,) = book.events(db_api.Changes.of([_session(state)]))
    assert event.type == "session.end"
    assert event.is_error == is_error
    # It is forgotten, and lives again if it is reopened.
    assert _told(book, _session(states.QUEUED)) == ["session.queued"]


def test_an_end_is_told_once_each_life(book: journal.Journal) -> None:
    for _ in range(2):
        assert _told(book, _session(states.QUEUED)) == ["session.queued"]
        assert _told(book, _session(states.LOST)) == ["session.end"]
        # Its row is written again when its slot comes back.
        assert _told(book, _session(states.LOST, input_bytes=7)) == []


def test_ends_of_long_ago_are_forgotten(
    book: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_MAX_ENDED", 2)
    for number in range(10, 15):
        _told(book, _session(states.CLOSED, id=number))
    assert list(book._ended) == [13, 14]
    for number in (14, 13):
        assert _told(book, _session(states.CLOSED, id=number)) == []
    # Who lives again has not ended.
    _told(book, _session(states.QUEUED, id=13))
    assert list(book._ended) == [14]


def test_what_was_taken_over_is_not_told_again() -> None:
    taken = _session(states.ACTIVE)
    book = journal.Journal(_snapshot(live_sessions=[taken]))
    assert _told(book, taken, samples.HOST, samples.DEVICE) == []
    assert _told(book, _session(states.CLOSED)) == ["session.end"]


def test_sessions_that_were_not_recorded_are_not_told(
    book: journal.Journal,
) -> None:
    changes = db_api.Changes.of([_session(states.QUEUED)])
    assert book.events(changes, {samples.SESSION.id: "any"}) == []


def test_a_session_of_nobodys_host(book: journal.Journal) -> None:
    row = _session(states.QUEUED, host_id=None)
    (event,) = book.events(db_api.Changes.of([row]))
    assert event.payload.host_uuid is None


@pytest.mark.parametrize(
    ("row", "event"),
    [
        (dataclasses.replace(samples.HOST, last_report_at=5.0), None),
        (dataclasses.replace(samples.HOST, compute_state="known"), None),
        (dataclasses.replace(samples.HOST, up=False), "host.down"),
        (dataclasses.replace(samples.HOST, **samples.DRAIN), "host.drain"),
        (
            dataclasses.replace(samples.HOST, admin_state="disabled"),
            "host.update",
        ),
        (samples.DEVICE, None),
        (
            dataclasses.replace(samples.DEVICE, healthy=False),
            "device.fault",
        ),
        (
            dataclasses.replace(samples.DEVICE, **samples.DRAIN),
            "device.drain",
        ),
        (dataclasses.replace(samples.DEVICE, model="x"), "device.update"),
        (dataclasses.replace(samples.SLOT, programmed="fft"), None),
        (dataclasses.replace(samples.SLOT, faulty=True), "slot.fault"),
        (dataclasses.replace(samples.SLOT, shape="large"), "slot.update"),
    ],
)
def test_hardware(
    book: journal.Journal, row: db_api.Record, event: str | None
) -> None:
    assert _told(book, row) == ([event] if event else [])
    assert _told(book, row) == []


FAULT = db_api.FaultRecord(
    id=1,
    level="device",
    target_id=1,
    reason="CORE_FAILED",
    since=5.0,
    next_test_at=65.0,
)


def test_a_device_that_is_taken_out_after_failures(
    book: journal.Journal,
) -> None:
    (event,) = book.events(db_api.Changes.of([FAULT]))
    assert (event.type, event.is_error) == ("device.fault", True)
    assert not event.payload.healthy
    assert event.payload.fault_reason == "CORE_FAILED"
    # What is tried is not told, nor is its driver's word that it is well.
    tested = dataclasses.replace(FAULT, tests=1, next_test_at=185.0)
    assert _told(book, tested, samples.DEVICE) == []
    # Of the next conductor, too.
    book = journal.Journal(_snapshot(faults=[tested]))
    assert _told(book, tested) == []
    over = dataclasses.replace(FAULT, active=False, reason="")
    (event,) = book.events(db_api.Changes.of([over]))
    assert (event.type, event.payload.healthy) == ("device.update", True)
    assert event.payload.fault_reason == ""
    assert _told(book, over) == []


def test_a_device_out_of_use_whose_driver_complains(
    book: journal.Journal,
) -> None:
    hot = dataclasses.replace(
        samples.DEVICE, healthy=False, fault_reason="too hot"
    )
    assert _told(book, FAULT) == ["device.fault"]
    assert _told(book, hot) == ["device.update"]
    assert _told(book, dataclasses.replace(FAULT, active=False)) == []
    assert _told(book, samples.DEVICE) == ["device.update"]


@pytest.mark.parametrize(
    "fault",
    [
        dataclasses.replace(FAULT, level="slot"),
        dataclasses.replace(FAULT, level="accelerator", accelerator="aes"),
        # It went with its host.
        dataclasses.replace(FAULT, target_id=9, active=False),
    ],
)
def test_faults_that_are_no_devices(
    book: journal.Journal, fault: db_api.FaultRecord
) -> None:
    assert _told(book, fault) == []


def test_hardware_comes_before_what_is_in_it() -> None:
    nothing = {"hosts": [], "devices": [], "slots": []}
    book = journal.Journal(_snapshot(**nothing))
    assert _told(
        book,
        _session(states.QUEUED, slot_id=1),
        samples.SLOT,
        samples.DEVICE,
        samples.HOST,
    ) == ["host.update", "device.update", "slot.update", "session.queued"]


class Bus:
    """Stands for oslo.messaging's notifier.

    :param open: set when it takes notifications.
    """

    def __init__(self) -> None:
        self.open = threading.Event()
        self.entered = threading.Event()
        self.taken: queue.Queue[tuple[str, str]] = queue.Queue()

    def _take(self, priority: str, event_type: str) -> None:
        self.entered.set()
        assert self.open.wait(waiting.LIMIT_S)
        if event_type == "host.down":
            raise RuntimeError("no room")
        self.taken.put((priority, event_type))

    def info(self, ctxt: object, event_type: str, payload: object) -> None:
        self._take("info", event_type)

    def error(self, ctxt: object, event_type: str, payload: object) -> None:
        self._take("error", event_type)


def test_a_bus_that_is_away_keeps_nobody(book: journal.Journal) -> None:
    bus, figures = Bus(), counts.Counts()
    publisher = notifications.Publisher(bus, figures, max_queued=2)
    publisher.start()

    def note(*rows: db_api.Record) -> None:
        publisher.note(book, db_api.Changes.of(rows), {})

    note(_session(states.QUEUED))
    # One is on its way, two wait, and there is no room for the others.
    assert bus.entered.wait(waiting.LIMIT_S)
    for state in (states.PREPARING, states.READY, states.ACTIVE):
        note(_session(state))
    note(_session(states.LOST))
    assert figures.notifications_dropped == 2
    bus.open.set()
    publisher.stop()
    assert [bus.taken.get_nowait() for _ in range(3)] == [
        ("info", "session.queued"),
        ("info", "session.preparing"),
        ("info", "session.ready"),
    ]
    assert bus.taken.empty()
    assert figures.notifications_sent == 3


def test_what_the_bus_refuses_does_not_end_it(book: journal.Journal) -> None:
    bus, figures = Bus(), counts.Counts()
    bus.open.set()
    cleaned = threading.Event()
    publisher = notifications.Publisher(
        bus, figures, max_queued=10, cleanup=cleaned.set
    )
    publisher.start()
    down = dataclasses.replace(samples.HOST, up=False)
    faulty = dataclasses.replace(samples.SLOT, faulty=True)
    publisher.note(book, db_api.Changes.of([down, faulty]), {})
    publisher.stop()
    assert bus.taken.get_nowait() == ("error", "slot.fault")
    assert figures.notifications_failed == 1
    assert figures.notifications_sent == 1
    assert cleaned.is_set()


def test_an_error_of_its_own_harms_nobody() -> None:
    book = journal.Journal(_snapshot(hosts=[]))
    publisher = notifications.Publisher(Bus(), counts.Counts(), max_queued=1)
    slot = dataclasses.replace(samples.SLOT, faulty=True)
    publisher.note(book, db_api.Changes.of([slot]), {})
