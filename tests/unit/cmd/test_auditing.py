# SPDX-License-Identifier: Apache-2.0

"""The looks, repairs and lines of fpgapool-manage audit."""

from __future__ import annotations

import collections
import datetime
import json

import oslo_messaging as messaging
import pytest

from fpgapool.bitstreams import base as stores
from fpgapool.cmd import manage
from fpgapool.cmd.managing import auditing
from fpgapool.conductor.decisions.views import audit
from fpgapool.db import api as db_api
from fpgapool.objects import finding as findings

NOW = 1e6
LEASE = db_api.Lease(holder="c1", epoch=4, renewals=2)


def finding(kind: str, subject: str = "it") -> findings.Finding:
    return findings.Finding(kind=kind, subject=subject, detail="differs")


class Conductor:
    """Tells one list of findings after the other, the last one for ever."""

    def __init__(self, *looks: list[findings.Finding]) -> None:
        self.looks = collections.deque(looks)
        self.repaired: list[findings.Finding] = []
        self.failure: Exception | None = None
        self.asked = 0

    def audit(self) -> list[findings.Finding]:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return self.looks.popleft() if len(self.looks) > 1 else self.looks[0]

    def repair(self, found: findings.Finding) -> bool:
        if self.failure is not None:
            raise self.failure
        self.repaired.append(found)
        return True


class Database:
    """Has what a test gives it."""

    def __init__(self) -> None:
        self.lease = LEASE
        self.rows: list[db_api.BitstreamRecord] = []
        self.gaps: list[db_api.UsageGap] = []

    def now(self) -> float:
        return NOW

    def holdings(self, deleted_before: float) -> db_api.Holdings:
        assert deleted_before == NOW - audit.GONE_S
        return db_api.Holdings(lease=self.lease, sessions=[], assignments=[])

    def usage_gaps(self, day: datetime.date) -> list[db_api.UsageGap]:
        assert day == datetime.date(1970, 1, 12)
        return self.gaps

    def bitstreams(self) -> list[db_api.BitstreamRecord]:
        return self.rows


class Store:
    """Has the files that a test gives it."""

    def __init__(self, **ages_s: float) -> None:
        self.ages_s = ages_s

    def files(self):
        return iter([stores.Found(*one) for one in self.ages_s.items()])

    def delete(self, location: str) -> None:
        del self.ages_s[location]


def auditor(conductor, database=None, store=None):
    """Return one that does not wait; and how long it would have."""
    return auditing.Auditor(
        conductor,
        database or Database(),
        store,
        orphan_age_s=60.0,
        pause_s=7.0,
        sleep=lambda _: None,
    )


def test_usage_that_lacks_sessions():
    database = Database()
    database.gaps.append(
        db_api.UsageGap(
            project_id="p",
            accelerator="aes",
            sessions=0,
            input_bytes=1048576,
            output_bytes=0,
        )
    )
    looks = auditor(Conductor([]), database)
    (found,) = looks.find()
    assert found.kind == findings.USAGE_LACKS_SESSIONS
    assert found.subject == "project p, aes"
    assert "1970-01-12 is missing 0 sessions, 1048576 bytes" in found.detail
    (line,) = looks.repair([found])
    assert not line.mended


def test_only_what_two_looks_show_is_a_finding():
    once, both = finding("once"), finding("both")
    conductor = Conductor([once, both], [both, finding("new")])
    assert auditor(conductor).find() == [both]
    # If the first one shows nothing, nobody waits for a second one.
    conductor = Conductor([])
    assert auditor(conductor).find() == []
    assert conductor.asked == 1


@pytest.mark.parametrize(
    "kind", sorted(findings.RECORDABLE | findings.RECONCILABLE)
)
def test_what_the_conductor_can_mend(kind):
    wrong = finding(kind)
    conductor = Conductor([])
    (line,) = auditor(conductor).repair([wrong])
    assert line.mended
    assert conductor.repaired == [wrong]


def test_what_is_still_there_is_not_mended():
    wrong = finding(findings.SESSION_DIFFERS)
    (line,) = auditor(Conductor([wrong])).repair([wrong])
    assert not line.mended
    assert "found again" in line.action


def test_what_needs_the_operator():
    conductor = Conductor([])
    (line,) = auditor(conductor).repair(
        [finding(findings.WORKER_WITHOUT_AGENT)]
    )
    assert (line.mended, conductor.repaired) == (False, [])
    assert "start the host's agent" in line.action


def test_without_a_leader():
    conductor = Conductor([])
    conductor.failure = messaging.MessagingTimeout()
    subject = auditor(conductor)
    (found,) = subject.find()
    assert found.kind == findings.NO_LEADER
    assert "lease: c1" in found.detail
    # As long as nobody renews the lease, nobody is asked again.
    assert conductor.asked == 1
    lines = subject.repair([finding(findings.SESSION_DIFFERS), found])
    assert not any(line.mended for line in lines)


def test_a_lease_that_was_given_back():
    database = Database()
    database.lease = db_api.Lease(holder="", epoch=4, renewals=2)
    conductor = Conductor([])
    (found,) = auditor(conductor, database).find()
    assert "lease: none" in found.detail
    assert conductor.asked == 0


def test_files_and_rows():
    database = Database()
    database.rows = [
        db_api.BitstreamRecord(
            id=number,
            bitstream_id=f"b{number}",
            project_id="p",
            user_id="u",
            name="n",
            accelerator="a",
            version="1",
            format="f",
            state="s",
            location=location,
            created_at=1.0,
            updated_at=1.0,
        )
        for number, location in enumerate(("here", "gone", ""))
    ]
    store = Store(here=9999.0, young=1.0, old=9999.0)
    subject = auditor(Conductor([]), database, store)
    found = subject.find()
    assert [(one.kind, one.subject) for one in found] == [
        (findings.FILE_WITHOUT_ROW, "file old"),
        (findings.ROW_WITHOUT_FILE, "bitstream b1"),
    ]
    lines = subject.repair(found)
    assert [line.mended for line in lines] == [True, False]
    assert set(store.ages_s) == {"here", "young"}


def test_an_error_of_the_conductor_is_told():
    conductor = Conductor([])
    conductor.failure = messaging.RemoteError("E", "text")
    with pytest.raises(messaging.RemoteError):
        auditor(conductor).find()


def test_lines_for_people_and_programs():
    lines = [
        auditing.Line(finding("kind", "subject")),
        auditing.Line(finding("kind", "other"), "done"),
    ]
    assert list(auditing.table(lines)) == [
        "kind: subject: differs",
        "kind: other: differs",
        "    done",
    ]
    first, second = json.loads(auditing.document(lines))["findings"]
    assert (first["action"], first["mended"]) == (None, False)
    assert (second["action"], second["mended"]) == ("done", True)


@pytest.mark.parametrize(
    "options", [("--pause-s", "0"), ("--pause-s", "x"), ("-f", "xml")]
)
def test_bad_options(options, capsys):
    with pytest.raises(SystemExit) as caught:
        manage.main(["audit", *options])
    assert caught.value.code == 2
    assert options[0] in capsys.readouterr().err
