# SPDX-License-Identifier: Apache-2.0

"""The RPC endpoint: what is malformed never reaches the engine."""

import dataclasses
import functools
import queue
import threading
from concurrent import futures

import oslo_messaging as messaging
import pytest
from oslo_config import cfg

from fpgapool import objects
from fpgapool.bitstreams import signatures
from fpgapool.common import exception
from fpgapool.common.messaging import rpc
from fpgapool.conductor import rpc as conductor_rpc
from fpgapool.conductor.calls import base
from fpgapool.conductor.decisions import effects
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import limits
from fpgapool.conductor.decisions.views import audit
from fpgapool.db import api as db_api
from fpgapool.objects import finding as findings
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import formats
from tests.unit.bitstreams import samples
from tests.unit.conductor import pumps
from tests.unit.conductor import world


@pytest.fixture
def endpoint(monkeypatch):
    # What is not answered at once is not.
    monkeypatch.setattr(base, "ANSWER_S", 0.0)
    pump = pumps.FakePump()
    made = conductor_rpc.ConductorManager(pump, pumps.FakeDatabase(), 40)
    return made, pump.inputs, made._database


REQUEST = world.request()
CLIENT = codes.CANCELLED_BY_CLIENT


OLD_RECORD = db_api.SessionRecord(
    id=1,
    session_id="old",
    request_id="r",
    project_id="p",
    user_id="u",
    host_id=None,
    accelerator="copy",
    claimed_bytes=1,
    state="CLOSED",
    revision=7,
    connect_timeout_s=1.0,
    resume_grace_s=1.0,
    queued_at=1.0,
    arrival_s=1.0,
)


def test_well_formed_casts_reach_the_engine(endpoint):
    made, taken, _ = endpoint
    report = world.FakeAgent("a", 1).report()
    made.report(None, report.to_primitive())
    made.cancel_session(None, "p", request_id="r", reason="R")
    made.cancel_session(None, "p", session_id="s", reason="")
    made.renew_secret(None, "s")
    made.report_progress(None, "p", "s", 7)
    assert taken == [
        report,
        inputs.Cancel("p", None, "r", "R"),
        inputs.Cancel("p", "s", None, codes.CANCELLED_BY_CLIENT),
        inputs.RenewSecret("s"),
        inputs.ClientProgress("p", "s", 7),
    ]


@pytest.mark.parametrize(
    "junk", [None, 7, "x", [], {}, {"fpgapool_object": "OpenRequest"}]
)
def test_malformed_casts_are_dropped(endpoint, junk):
    made, taken, _ = endpoint
    made.report(None, junk)
    made.prepared(None, junk)
    made.cancel_session(None, ["p"], request_id=junk, reason=None)
    made.renew_secret(None, 7)
    made.report_progress(None, "p", "s", [junk])
    made.report_progress(None, "p", [junk], 7)
    made.report_progress(None, "p", "s", -1)
    assert taken == []


@pytest.mark.parametrize("junk", [None, 7.5, [], {}, [[]], [{}], ["a", None]])
def test_malformed_names_are_answered(endpoint, junk):
    made, taken, _ = endpoint
    for call in (
        lambda: made.reopen_session(None, "p", "s", junk or True, ""),
        lambda: made.reopen_session(None, "p", "s", 5, junk),
        lambda: made.reopen_session(None, "p", junk, 5, ""),
        lambda: made.session_now(None, junk, "p"),
        lambda: made.session_now(None, "s", junk),
        lambda: made.changed_sessions(None, {}, junk or [None]),
    ):
        with pytest.raises(messaging.ExpectedException) as caught:
            call()
        assert isinstance(caught.value.exc_info[1], exception.InvalidRequest)
    assert taken == []


def test_what_no_column_can_hold_is_refused(endpoint):
    made, taken, _ = endpoint
    for changes in (
        {"project_id": "p" * 256},
        {"accelerator": "a" * 256},
        {"priority": 2**63},
        {"project_id": "p\0"},
        {"user_id": "\ud800"},
    ):
        request = dataclasses.replace(REQUEST, **changes)
        with pytest.raises(messaging.ExpectedException):
            submit(made, REQUEST, request)
    assert taken == []
    report = world.FakeAgent("a", 1)
    report.slots[0].seen_generation = 2**64
    with pytest.raises(ValueError, match="seen_generation is out of range"):
        limits.check(report.report())


def test_a_huge_size_is_left_to_the_engine_which_has_a_code_for_it(endpoint):
    made, taken, _ = endpoint
    request = dataclasses.replace(REQUEST, claimed_bytes=2**70)
    made._pump.view = pumps.VIEW
    submit(made, request)
    assert taken[0].request == request


def test_reports_to_an_earlier_leader_of_the_same_name_are_dropped(endpoint):
    made, taken, _ = endpoint
    report = world.FakeAgent("a", 1).report()
    for epoch in (1, 24):
        old = dataclasses.replace(report, leader_epoch=epoch)
        made.report(None, old.to_primitive())
    assert taken == []
    for epoch in (0, 25, 40):
        made.report(
            None,
            dataclasses.replace(report, leader_epoch=epoch).to_primitive(),
        )
    assert len(taken) == 3


def test_calls_fail_with_a_code_while_no_answer_is_durable(endpoint):
    made, _, _ = endpoint
    for call in (
        lambda: made.pool_summary(None),
        lambda: made.pool_now(None),
        lambda: made.session_now(None, "s", "p"),
        lambda: made.list_accelerators(None),
        lambda: submit(made, REQUEST),
        lambda: made.reopen_session(None, "p", "s", 5, ""),
    ):
        with pytest.raises(messaging.ExpectedException) as caught:
            call()
        assert isinstance(
            caught.value.exc_info[1], exception.DatabaseUnavailable
        )


@pytest.mark.parametrize(
    "revisions",
    [None, ["s"], {"s": "1"}, {"s": True}, {str(n): 1 for n in range(1001)}],
)
def test_revisions_are_whole_numbers_of_not_too_many(endpoint, revisions):
    made, _, _ = endpoint
    with pytest.raises(messaging.ExpectedException) as caught:
        made.changed_sessions(None, revisions)
    assert caught.value.exc_info[1].code == codes.INVALID_REQUEST


def submit(
    made: conductor_rpc.ConductorManager, *requests: objects.OpenRequest
) -> list[objects.SessionView]:
    answer = made.submit_sessions(
        None, [one.to_primitive() for one in requests]
    )
    return [objects.SessionView.from_primitive(view) for view in answer]


def test_submitted_requests_are_answered_by_what_became_of_each(endpoint):
    made, taken, _ = endpoint
    made._pump.view = pumps.VIEW
    others = [dataclasses.replace(REQUEST, request_id=name) for name in "xy"]
    assert submit(made, REQUEST, *others) == [pumps.VIEW] * 3
    assert [one.request for one in taken] == [REQUEST, *others]
    until = pumps.NOW + base.ANSWER_S
    assert {one.awaited_until for one in taken} == {until}
    assert submit(made) == []


def test_nothing_is_awaited_any_more_when_a_call_has_failed(endpoint):
    made, taken, _ = endpoint
    with pytest.raises(messaging.ExpectedException):
        submit(made, REQUEST, REQUEST)
    assert [one.future.cancelled() for one in taken] == [True, True]


CANCELLED = objects.SessionEnd(project_id="p", session_id="s")
CLOSED = dataclasses.replace(CANCELLED, generation=5, output_bytes=7)


def test_ended_sessions_are_answered_by_what_became_of_each(endpoint):
    made, taken, _ = endpoint
    ends = [one.to_primitive() for one in (CANCELLED, CLOSED)]
    for view in (pumps.VIEW, None):
        made._pump.view = view
        answer = made.end_sessions(None, ends)
        assert answer == [view and view.to_primitive()] * 2
    cancelled, closed = (
        dataclasses.replace(one, future=None) for one in taken[:2]
    )
    assert cancelled == inputs.Cancel("p", "s", None, CLIENT)
    assert closed == inputs.Close("p", "s", 5, 0, 7, confirmed=False)


@pytest.mark.parametrize(
    "junk",
    [
        *(None, 7, {}, [None], [{}], [REQUEST.to_primitive()]),
        [CANCELLED.to_primitive(), None],
        [CANCELLED.to_primitive()] * 1001,
        [dataclasses.replace(CANCELLED, session_id="\n").to_primitive()],
    ],
)
def test_malformed_ends_are_told(endpoint, junk):
    made, taken, _ = endpoint
    with pytest.raises(messaging.ExpectedException) as caught:
        made.end_sessions(None, junk)
    assert caught.value.exc_info[1].code == codes.INVALID_REQUEST
    assert taken == []


def test_a_reopening_is_answered_by_how_the_session_stands(endpoint):
    made, taken, _ = endpoint
    for view in (pumps.VIEW, None):
        made._pump.view = view
        answer = made.reopen_session(None, "p", "s", 5, "a")
        assert answer == (view and view.to_primitive())
    names = {(one.project_id, one.session_id, one.host_uuid) for one in taken}
    assert names == {("p", "s", "a")}
    assert {one.generation for one in taken} == {5}


@pytest.mark.parametrize(
    "junk",
    [
        None,
        7,
        {},
        [REQUEST.to_primitive(), None],
        [{}],
        [REQUEST.to_primitive()] * 1001,
        [dataclasses.replace(REQUEST, user_id="u" * 256).to_primitive()],
    ],
)
def test_a_malformed_submission_is_told(endpoint, junk):
    made, taken, _ = endpoint
    with pytest.raises(messaging.ExpectedException) as caught:
        made.submit_sessions(None, junk)
    assert caught.value.exc_info[1].code == codes.INVALID_REQUEST
    assert taken == []


def test_sessions_that_are_forgotten_are_looked_up(endpoint):
    made, _, database = endpoint
    made._pump.ask = lambda question, timeout_s, *, durable: (
        [],
        ["old", "never"],
    )
    database.sessions_by_ids = lambda ids: [OLD_RECORD] if "old" in ids else []
    answer = made.changed_sessions(None, {"old": 3, "never": 1})
    (view,) = map(objects.SessionView.from_primitive, answer["changed"])
    assert (view.session_id, view.state, view.revision) == ("old", "CLOSED", 7)
    assert answer["unknown"] == ["never"]


class LibraryPump(pumps.FakePump):
    """Takes changes of the library."""

    def offer(self, item, project_id=None) -> bool:
        self.inputs.append(item.change)
        item.future.set_result(None)
        return True


CHECKSUM = "ab" * 32
UPLOAD = objects.UploadBitstream(
    bitstream_id="b",
    checksum_sha256=CHECKSUM,
    size_bytes=1,
    location="here",
    signed_by="liar",
    shapes=("small",),
    profile={},
)
APPROVAL = objects.DecideBitstream(
    bitstream_id="b", approve=True, user_id="u", signed_by="liar"
)


def _library(
    directory, signature: str, *, required: bool = True, **members: str
):
    """Return a conductor's endpoint that knows one bitstream, and its pump."""
    pump, database = LibraryPump(), pumps.FakeDatabase()
    record = samples.record(
        bitstream_id="b",
        checksum_sha256=CHECKSUM,
        signature=signature,
        **members,
    )
    database.get_bitstream = {"b": record}.get
    signer = functools.partial(
        signatures.TrustedKeys(str(directory)).signer, required=required
    )
    made = conductor_rpc.ConductorManager(pump, database, 40, signer=signer)
    return made, pump.inputs


@pytest.mark.security
@pytest.mark.parametrize("change", [UPLOAD, APPROVAL])
@pytest.mark.parametrize("signed", ["not", "by a stranger", "another file"])
def test_who_signed_a_bitstream_is_not_for_the_caller_to_say(
    tmp_path, change, signed
):
    stranger = samples.Signer(tmp_path)
    trusted = samples.Signer(tmp_path)
    trusted.trust()
    signature = {
        "not": "",
        "by a stranger": signatures.sign(stranger.private_pem, CHECKSUM),
        "another file": signatures.sign(trusted.private_pem, "cd" * 32),
    }[signed]
    made, taken = _library(tmp_path, signature)
    with pytest.raises(messaging.ExpectedException) as caught:
        made.change_bitstream(None, change.to_primitive())
    assert caught.value.exc_info[1].code == (
        codes.INVALID_SIGNATURE if signature else codes.SIGNATURE_REQUIRED
    )
    assert taken == []


@pytest.mark.parametrize("change", [UPLOAD, APPROVAL])
def test_the_key_that_signed_a_bitstream_is_noted(tmp_path, change):
    trusted = samples.Signer(tmp_path)
    trusted.trust("ours.pem")
    signature = signatures.sign(trusted.private_pem, CHECKSUM)
    made, taken = _library(tmp_path, signature)
    made.change_bitstream(None, change.to_primitive())
    assert [one.signed_by for one in taken] == ["ours"]


@pytest.mark.security
@pytest.mark.parametrize("change", [UPLOAD, APPROVAL])
@pytest.mark.parametrize("file_format", formats.NATIVE_CODE)
def test_native_code_is_signed_whatever_is_configured(
    tmp_path, change, file_format
):
    made, taken = _library(tmp_path, "", required=False, format=file_format)
    with pytest.raises(messaging.ExpectedException) as caught:
        made.change_bitstream(None, change.to_primitive())
    assert caught.value.exc_info[1].code == codes.SIGNATURE_REQUIRED
    assert taken == []


def test_where_no_signature_is_required_none_is_noted(tmp_path):
    made, taken = _library(tmp_path, "", required=False)
    rejection = dataclasses.replace(APPROVAL, approve=False, signed_by="")
    for change in (UPLOAD, APPROVAL, rejection):
        made.change_bitstream(None, change.to_primitive())
    unknown = dataclasses.replace(APPROVAL, bitstream_id="other")
    made.change_bitstream(None, unknown.to_primitive())
    assert [one.signed_by for one in taken] == [""] * 4


class AuditedDatabase:
    """Holds one live session of which the engine knows nothing."""

    lost = dataclasses.replace(OLD_RECORD, state="QUEUED")

    def now(self) -> float:
        return pumps.NOW

    def holdings(self, deleted_before: float) -> db_api.Holdings:
        assert deleted_before == pumps.NOW - audit.GONE_S
        return db_api.Holdings(
            lease=db_api.Lease(holder="c", epoch=40, renewals=0),
            sessions=[
                db_api.SessionState(
                    id=1,
                    session_id="old",
                    state="QUEUED",
                    slot_id=None,
                    generation=0,
                )
            ],
            assignments=[],
        )

    def get_session(self, session_id: str) -> db_api.SessionRecord | None:
        return self.lost if session_id == "old" else None


def test_an_audit_and_its_repair():
    pool = world.Conductor(world.hosts(a=1))
    pump = pumps.AnsweringPump(pool.ask)
    made = conductor_rpc.ConductorManager(pump, AuditedDatabase(), 40)
    pump.endpoint = made
    pump.report = pool.agents["a"].report()
    (found,) = made.audit(None)
    assert found["data"]["kind"] == "session_unknown"
    assert made.repair(None, found)
    pool.feed()
    # It was given the slot that is free.
    assert pool.rows["sessions"][1].state == "PREPARING"


@pytest.mark.parametrize(
    ("kind", "session_id", "done"),
    [
        ("session_unknown", "nobody", False),
        ("session_without_slot", "nobody", True),
        ("worker_without_session", None, True),
        ("worker_without_agent", None, False),
        ("novelty", None, False),
    ],
)
def test_repairs_of_what_is_not_there_change_nothing(kind, session_id, done):
    pool = world.Conductor(world.hosts(a=1))
    pump = pumps.AnsweringPump(pool.ask)
    made = conductor_rpc.ConductorManager(pump, AuditedDatabase(), 40)
    found = objects.Finding(
        kind=kind, subject="s", detail="d", session_id=session_id
    )
    before = {name: dict(rows) for name, rows in pool.rows.items()}
    assert made.repair(None, found.to_primitive()) is done
    pool.feed()
    assert pool.rows == before


@pytest.mark.parametrize("kind", sorted(findings.RECONCILABLE))
def test_a_repair_has_only_the_host_of_the_finding_report(kind):
    pool = world.Conductor([world.FakeAgent(name, 1) for name in "abc"])
    pool.wire.clear()
    made = conductor_rpc.ConductorManager(
        pumps.AnsweringPump(pool.ask), AuditedDatabase(), 40
    )
    found = objects.Finding(kind=kind, subject="s", detail="d", host_uuid="b")
    assert made.repair(None, found.to_primitive())
    pool.feed()
    assert pool.wire == [effects.AskReport("b")]


@pytest.mark.parametrize("junk", [None, 7, {}, {"kind": "x"}])
def test_a_malformed_finding_is_refused(junk):
    made = conductor_rpc.ConductorManager(
        pumps.FakePump(), AuditedDatabase(), 40
    )
    with pytest.raises(messaging.ExpectedException) as caught:
        made.repair(None, junk)
    assert isinstance(caught.value.exc_info[1], exception.InvalidRequest)


def test_a_submission_for_which_there_is_no_room_is_told(endpoint):
    made, taken, _ = endpoint
    made._pump.full = True
    with pytest.raises(messaging.ExpectedException) as caught:
        submit(made, REQUEST)
    assert caught.value.exc_info[1].code == codes.RATE_LIMITED
    assert taken == []


class WaitingPump(pumps.FakePump):
    """Does not answer before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.proceed = threading.Event()

    def ask(self, question, timeout_s, *, durable=True):
        self.asked.put(None)
        assert self.proceed.wait(30)
        return []


@pytest.mark.parametrize(
    ("failing", "code"),
    [(True, codes.DATABASE_UNAVAILABLE), (False, codes.RATE_LIMITED)],
)
def test_questions_leave_threads_for_what_agents_say(failing, code):
    """Those beyond are refused, and all is well again afterwards."""
    pump = WaitingPump()
    count = base.places(8)
    assert count == 6
    made = conductor_rpc.ConductorManager(
        pump, pumps.FakeDatabase(), 40, count
    )
    with futures.ThreadPoolExecutor(count) as pool:
        waiting = [
            pool.submit(made.list_accelerators, None) for _ in range(count)
        ]
        for _ in range(count):
            pump.asked.get(timeout=30)
        pump.database_failing = failing
        with pytest.raises(messaging.ExpectedException) as caught:
            made.list_accelerators(None)
        assert caught.value.exc_info[1].code == code
        # Whoever is refused a place has asked for nothing.
        with pytest.raises(messaging.ExpectedException):
            submit(made, REQUEST)
        with pytest.raises(messaging.ExpectedException):
            made.set_reservable_slots(None, REQUEST.host_uuid, "board0", 1)
        made.renew_secret(None, "s")
        assert pump.inputs == [inputs.RenewSecret("s")]
        pump.proceed.set()
        assert [one.result(30) for one in waiting] == [[]] * count
    assert made.list_accelerators(None) == []


@pytest.mark.parametrize("threads", range(4, 200))
def test_calls_never_take_all_threads(threads):
    assert 0 < base.places(threads) < threads


@pytest.mark.parametrize("threads", [-1, 0, 1, 3])
def test_too_few_threads_are_refused_by_the_name_of_their_option(threads):
    with pytest.raises(exception.ConfigurationError) as caught:
        base.places(threads)
    assert "executor_thread_pool_size" in str(caught.value)


def test_calls_have_48_places_by_default():
    conf = cfg.ConfigOpts()
    conf([], project="fpgapool", default_config_files=[])
    assert base.places(rpc.handler_threads(conf)) == 48
    conf.set_override("executor_thread_pool_size", 16)
    assert base.places(rpc.handler_threads(conf)) == 12


def _form(**changes: int) -> dict:
    agent = world.FakeAgent("a", 3)
    for name, value in changes.items():
        setattr(agent.slots[1], name, value)
    return agent.report().to_primitive()


def test_only_lines_that_have_changed_are_read_again(endpoint):
    made, taken, _ = endpoint
    made.report(None, _form())
    made.report(None, _form(seen_generation=9))
    first, second = (report.devices[0].slots for report in taken)
    assert second[0] is first[0]
    assert second[2] is first[2]
    assert (first[1].seen_generation, second[1].seen_generation) == (0, 9)
    assert taken[1] == objects.AgentReport.from_primitive(
        _form(seen_generation=9)
    )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda form: form["data"].update(devices=[7]),
        lambda form: form["data"].update(devices=7),
        lambda form: form["data"].update(host_uuid=[]),
        lambda form: form["data"].update(sessions=["s"]),
        lambda form: form["data"].update(sessions={"s": "1"}),
        lambda form: form["data"].update(
            sessions={str(number): 1 for number in range(1001)}
        ),
        lambda form: form["data"]["devices"][0].update(data=[]),
        lambda form: form["data"]["devices"][0]["data"].update(slots=None),
        lambda form: form["data"]["devices"][0]["data"]["slots"].append("x"),
        lambda form: form["data"]["devices"][0]["data"]["slots"][1][
            "data"
        ].update(seen_generation=2**64),
    ],
)
def test_a_malformed_report_after_a_good_one_is_dropped(endpoint, spoil):
    made, taken, _ = endpoint
    made.report(None, _form())
    bad = _form()
    spoil(bad)
    made.report(None, bad)
    made.report(None, None)
    assert len(taken) == 1
    made.report(None, _form(seen_generation=9))
    assert taken[1].devices[0].slots[1].seen_generation == 9


@pytest.mark.parametrize(
    ("member", "wrong"),
    [
        ("host_name", "evil node-of-another=acc-stolen,x"),
        ("host_name", "-directlyAccessNodeLabelStore"),
        ("host_name", "host\n"),
        ("host_name", ""),
        ("host_name", "x" * 256),
        ("host_name", "h\u00f6st"),
        ("host_uuid", "../../allocations"),
        ("host_uuid", "a b"),
    ],
)
def test_what_a_host_says_of_itself_cannot_be_read_as_more(
    endpoint, member, wrong
):
    made, taken, _ = endpoint
    form = _form()
    form["data"][member] = wrong
    made.report(None, form)
    assert taken == []
    made.report(None, _form())
    assert len(taken) == 1


def test_a_report_of_other_slots_is_read_as_a_whole(endpoint):
    made, taken, _ = endpoint
    made.report(None, _form())
    more = world.FakeAgent("a", 4).report()
    made.report(None, more.to_primitive())
    assert taken[1] == more
