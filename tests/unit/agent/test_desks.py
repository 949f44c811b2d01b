# SPDX-License-Identifier: Apache-2.0

"""What an agent asks of the desks of its groups."""

from __future__ import annotations

import pathlib
import socket
import typing
import uuid
from unittest import mock

import pytest

from fpgapool import objects
from fpgapool.agent import settings as agent_settings
from fpgapool.agent.child import port
from fpgapool.agent.slots import table
from fpgapool.agent.supervision import cgroups
from fpgapool.agent.supervision import desks
from fpgapool.objects import identity
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.protocol import messages
from tests.unit.agent import factories

KEYS = [("board0", 0), ("board0", 1)]
NONE = frozenset[tuple[str, int]]()
GROUP = "group-1"
FIRST, LAST = (str(uuid.UUID(int=number)) for number in (0, 2**128 - 1))


class Desks(desks.Desks):
    """Notes what is asked of a desk that seems to be connected."""

    def __init__(self, path: str) -> None:
        self.asked: list[tuple[str, dict[str, typing.Any]]] = []
        self.leaving: list[tuple[str, int]] = []
        self.changes = 0
        self.started = 0
        super().__init__(
            agent_settings.AgentSettings(
                host_uuid=factories.HOST,
                host_name="host1",
                state_path=path,
                driver_name="noop",
                driver_path="",
                data_address="192.0.2.7",
            ),
            mock.Mock(now=lambda: 5.0),
            KEYS,
            lambda key, *_event: self.leaving.append(key),
            self._note_change,
            mock.Mock(),
            cgroups.Cgroups("host"),
        )

    def _note_change(self) -> None:
        self.changes += 1

    def _ask(self, desk, operation, members) -> None:
        self.asked.append((operation, dict(members)))

    def _take_over(self, child) -> None:
        self.started += 1

    def take(self) -> list[tuple[str, dict[str, typing.Any]]]:
        """Return what was asked since the last call, but for questions."""
        asked, self.asked = self.asked, []
        return [one for one in asked if one[0] not in ("status", "counts")]

    def hear(self, **changes: object) -> None:
        """Let the desk say how it is."""
        status = {
            "boot_id": "boot-1",
            "revision": 0,
            "clients": 0,
            "data_port": 4711,
            "certificate_sha256": "ab",
            "members": [],
            **changes,
        }
        self.answer("status", status=status)

    def count(
        self,
        more: bool = False,
        boot_id: str = "boot-1",
        moved_bytes: dict[str, int] | None = None,
        **clients: int,
    ) -> None:
        """Let the desk say what its clients did.

        :param moved_bytes: None: the desk is of an earlier release.
        """
        counts = {
            name: {
                "arrived": ended,
                "ended": ended,
                "busy_s": 0.5,
                "waiting": 1,
                "running": 1,
                "connected": True,
                **(moved_bytes or {}),
            }
            for name, ended in clients.items()
        }
        self.answer("counts", boot_id=boot_id, clients=counts, more=more)

    def answer(self, operation: str, **members: object) -> None:
        desk = self._desk(GROUP)
        desk.link.requests[1] = operation
        self._handle(desk, {"id": 1, "ok": True, **members})

    def set(self, *keys: tuple[str, int], unreported=NONE) -> None:
        """Let the group have slots."""
        members = {key: table.Member(7, leaves=False) for key in keys}
        self.set_members({GROUP: members} if members else {}, unreported)


@pytest.fixture
def made(tmp_path) -> Desks:
    return Desks(str(tmp_path))


def order(revision: int = 1, clients: int = 1, **changes: object):
    return objects.GroupOrder(
        **{
            "group_id": GROUP,
            "revision": revision,
            "project_id": factories.PROJECT,
            "accelerator": "copy",
            "arbitration": "fifo",
            "clear_between": "clients",
            "max_task_bytes": 1000,
            "clients": tuple(
                objects.GroupAccess(
                    client_id=f"client-{number:03}",
                    project_id=factories.PROJECT,
                    secret_sha256="0" * 64,
                )
                for number in range(clients)
            ),
            **changes,
        }
    )


def kept(revision: int, **changes: str) -> dict[str, object]:
    """Return what a desk is told to follow."""
    rules = {"arbitration": "fifo", "clear_between": "clients"}
    return {"revision": revision, **rules, **changes}


def member(slot: int, state: str) -> dict[str, object]:
    return {"device": "board0", "slot": slot, "generation": 7, "state": state}


def test_a_desk_is_started_with_a_member_and_an_order(made):
    made.set(KEYS[0])
    assert made.started == 0
    made.keep(1, order())
    assert made.started == 1
    made.keep(1, order(2, deleted=True))
    made.set(*KEYS)
    assert made.started == 1


def test_a_desk_without_members_is_not_started(made):
    made.keep(1, order())
    assert made.started == 0
    made.set(KEYS[0])
    assert made.started == 1


def test_a_running_desk_is_told_of_other_rules(made):
    made.keep(1, order(1))
    made.set(KEYS[0])
    made.hear()
    made.take()
    rules = {"arbitration": "time", "clear_between": "projects"}
    made.keep(1, order(2, **rules))
    assert ("keep", kept(2, **rules)) in made.take()


@pytest.mark.parametrize(
    ("mine", "others", "spares_member"),
    [
        (2, {}, True),
        (2, {LAST: 1}, True),
        (1, {LAST: 2}, False),
        # The lowest UUID of equals.
        (1, {FIRST: 1}, False),
        (1, {LAST: 1}, True),
        # Its members are not serving yet: it does not know.
        (0, {LAST: 1}, True),
    ],
)
def test_one_host_spares_a_member_from_locks(
    made, mine, others, spares_member
):
    members = {factories.HOST: mine, **others}
    hosts = [
        objects.GroupHost(host_uuid=name, members=count)
        for name, count in members.items()
        if count
    ]
    made.keep(1, order(hosts=tuple(hosts)))
    made.set(KEYS[0])
    made.hear()
    (told,) = (asked for name, asked in made.take() if name == "hosts")
    assert told["spares_member"] == spares_member


def test_a_desk_is_told_as_many_hosts_as_fit_its_own_first(made):
    names = [
        factories.HOST,
        *(str(uuid.UUID(int=number)) for number in range(900)),
    ]
    made.keep(
        1,
        order(
            hosts=tuple(
                objects.GroupHost(host_uuid=name, members=1) for name in names
            )
        ),
    )
    made.set(KEYS[0])
    made.hear()
    (told,) = (asked for name, asked in made.take() if name == "hosts")
    assert messages.encode({"op": "hosts", "id": 1, **told})
    # As the API and front doors call it.
    mine = identity.host_hash(factories.HOST, GROUP)
    assert told["hosts"][0]["host_id"] == mine
    assert len(told["hosts"]) < told["hosts_total"] == len(names)
    members = groups.MemberList.parse(told)
    assert members.hosts_total == len(names)
    assert frames.encode_json(members.document())


def test_a_desk_is_told_all_when_it_is_first_heard(made):
    made.keep(1, order(3, clients=300))
    made.set(KEYS[0])
    assert made.take() == []
    made.hear()
    asked = made.take()
    assert [one for one, _ in asked] == [
        "members",
        "admit",
        "admit",
        "admit",
        "keep",
        "hosts",
    ]
    admitted = [
        client["client_id"]
        for _, members in asked[1:4]
        for client in members["clients"]
    ]
    assert admitted == [f"client-{number:03}" for number in range(300)]
    assert asked[4] == ("keep", kept(3))
    made.hear(revision=3)
    assert made.take() == []


def test_slots_that_are_not_known_yet_stay_members(made):
    made.set(unreported=frozenset(KEYS))
    made.hear(members=[member(0, "joined"), member(1, "joined")])
    ((_, told),) = made.take()
    assert [one["slot"] for one in told["members"]] == [0, 1]
    made.count()
    assert made.take() == []
    # The first slot has another holder; the second is the group's.
    made.set(KEYS[1])
    ((_, told),) = made.take()
    assert told["members"] == [
        {"device": "board0", "slot": 1, "generation": 7}
    ]


def test_a_slot_that_leaves_is_not_told_as_a_member(made):
    made.set(*KEYS)
    made.hear()
    made.take()
    made.set_members({GROUP: {KEYS[0]: table.Member(7, leaves=True)}}, NONE)
    assert made.take() == [("members", {"members": []})]
    # The desk says so; it still has the slot.
    made.hear(members=[member(0, "leaving")])
    assert made.leaving == [KEYS[0]]
    made.count()
    assert made.take() == []


def test_a_desk_of_no_use_ends_after_its_last_counts(made):
    made.keep(1, order())
    made.set(unreported=NONE)
    made.hear(clients=1)
    made.count(a=5)
    assert "exit" not in dict(made.take())
    made.hear(clients=0)
    made.count(more=True, a=6)
    assert made.asked[-1] == ("counts", {"after": "a"})
    made.count(b=7)
    assert made.take() == [("exit", {})]
    (report,) = made.reports()
    assert [(one.client_id, one.ended) for one in report.clients] == [
        ("a", 6),
        ("b", 7),
    ]


def test_a_deleted_group_has_no_clients(made):
    made.keep(1, order(1))
    made.set(unreported=NONE)
    made.hear(clients=1)
    made.take()
    made.keep(1, order(2, deleted=True))
    assert [one for one, _ in made.take()] == ["keep", "hosts"]
    made.count(a=5)
    assert made.take() == [("exit", {})]


def test_a_desk_that_ends_with_a_request_unread_is_no_fault(made, caplog):
    caplog.set_level("INFO")
    made.set(KEYS[0])
    desk = made._desk(GROUP)
    desk.link.sock, other = socket.socketpair()
    desk.link.sock.send(b"request")
    other.close()
    desk.link.receive()
    assert desk.link.sock is None
    (record,) = caplog.records
    assert (record.levelname, desk.title in record.message) == ("INFO", True)


def test_old_orders_change_nothing(made):
    made.set(KEYS[0])
    made.keep(2, order(5))
    made.hear()
    made.take()
    for old in ((2, order(4)), (1, order(6))):
        made.keep(*old)
    assert made.take() == []
    # One that was not followed yet is sent again, a followed one is not.
    made.keep(2, order(5))
    assert made.take() != []
    made.hear(revision=5)
    made.keep(2, order(5))
    assert made.take() == []
    # A new leader may begin with any number.
    made.keep(3, order(1))
    assert ("keep", kept(1)) in made.take()


def test_figures_add_up_all_processes(made):
    assert made.figures() == []
    made.set(KEYS[0])
    made.hear(clients=2)
    made.count(a=5, b=1)
    made.count(a=7, b=1)
    # A client that was revoked takes none of its tasks back.
    made.count(a=8)
    (one,) = made.figures()
    assert (one.group_id, one.clients) == (GROUP, 2)
    assert (one.waiting, one.running, one.tasks) == (1, 1, 9)
    assert one.busy_s == pytest.approx(1.0)
    made.count(boot_id="boot-2", more=True, a=1)
    assert made.figures()[0].tasks == 9
    made.count(boot_id="boot-2", b=2)
    assert made.figures()[0].tasks == 12


def test_bytes_are_reported_if_the_desk_counts_them(made):
    made.set(KEYS[0])
    made.hear()
    made.count(a=5)
    ((counts,),) = [one.clients for one in made.reports()]
    assert (counts.input_bytes, counts.output_bytes) == (0, 0)
    moved_bytes = {"input_bytes": 7, "output_bytes": 3}
    made.count(moved_bytes=moved_bytes, a=5)
    ((counts,),) = [one.clients for one in made.reports()]
    assert (counts.input_bytes, counts.output_bytes) == (7, 3)


def test_another_process_counts_anew(made):
    made.set(KEYS[0])
    made.hear()
    made.count(a=5)
    made.hear(boot_id="boot-2")
    (report,) = made.reports()
    assert (report.desk_boot_id, len(report.clients)) == ("boot-1", 1)
    made.count(boot_id="boot-2", more=True, a=1)
    (report,) = made.reports()
    assert (report.desk_boot_id, len(report.clients)) == ("boot-1", 1)
    made.count(boot_id="boot-2", b=2)
    (report,) = made.reports()
    assert (report.desk_boot_id, len(report.clients)) == ("boot-2", 2)
    # A client that was revoked is forgotten in the end.
    made.count(boot_id="boot-2", b=2)
    (report,) = made.reports()
    assert [one.client_id for one in report.clients] == ["b"]


def test_news_are_reported_once(made):
    made.set(KEYS[0])
    made.keep(1, order())
    before = made.changes
    made.count(a=1)
    assert made.changes == before + 1
    made.hear()
    made.count(a=2)
    assert made.changes == before + 1


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "ok": True, "status": {}},
        {"id": 1, "ok": True, "status": {"clients": "many"}},
        {"ok": True},
    ],
)
def test_nonsense_of_a_desk_changes_nothing(made, message):
    made.set(KEYS[0])
    before = made.reports()
    desk = made._desk(GROUP)
    desk.link.requests[1] = "status"
    desk.link._dispatch(message)
    assert made.reports() == before


@pytest.mark.security
@pytest.mark.parametrize("introduced", [True, False])
def test_a_slot_is_connected_to_the_desk_of_its_group_only(
    made, monkeypatch, introduced
):
    path = pathlib.Path(desks.member_path(made._state_dir, GROUP))
    path.parent.mkdir(parents=True)
    # Paths of sockets are short.
    monkeypatch.chdir(path.parent)
    monkeypatch.setattr(desks, "member_path", lambda *_: path.name)
    made.set(KEYS[0])
    # The desk does not listen yet.
    assert made.dial_for(KEYS[0], 7) is None
    with port.listen_unix(path.name) as listener:
        # It has not said what it understands.
        assert made.dial_for(KEYS[0], 7) is None
        made.hear(introduced=introduced)
        connection = made.dial_for(KEYS[0], 7)
        assert connection is not None
        with connection, listener.accept()[0] as accepted:
            accepted.sendall(b"rings")
            assert connection.recv(9) == b"rings"
            connection.shutdown(socket.SHUT_WR)
            heard = messages.MessageDecoder().feed(accepted.recv(999))
        who = {"device": "board0", "slot": 0, "generation": 7}
        assert heard == [who] * introduced
        assert made.dial_for(KEYS[0], 6) is None
        assert made.dial_for(KEYS[1], 7) is None
        made.set()
        assert made.dial_for(KEYS[0], 7) is None
        made.set(KEYS[0])
    # It has died and left its socket.
    assert made.dial_for(KEYS[0], 7) is None
