# SPDX-License-Identifier: Apache-2.0

"""A desk's process, as clients and its agent see it."""

import concurrent.futures
import os
import socket
import threading

import numpy
import pytest

from fpgapool import client
from fpgapool.client import errors
from fpgapool.client.groups import group
from fpgapool.client.groups import grouphosts
from fpgapool.client.links import link
from fpgapool.client.links import wires
from fpgapool.common.channels import channel
from fpgapool.common.channels import rings
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.protocol import messages
from fpgapool.protocol import records
from fpgapool.vocabulary import codes
from tests.functional.groupdesk import harness
from tests.harness import waiting


@pytest.fixture
def desk(tmp_path):
    with harness.DeskProcess(
        tmp_path / "h", data_address="127.0.0.1", resume_grace_s=5.0
    ) as made:
        made.keep("c", "d", "e", revision=1)
        made.join(0, 1)
        yield made


@pytest.fixture(params=[False, True], ids=["rings", "tls"])
def tcp(request):
    return request.param


def test_results_are_those_of_the_tasks(desk, tcp):
    with harness.open_group(desk, tcp=tcp) as opened:
        assert opened.run(b"hello", timeout_s=30) == b"hello"
        assert opened.run(b"") == b""
        assert opened.run(b"params", params={"a": 1}) == b'{"a":1}'
        pieces = [b"%d" % number for number in range(500)]
        assert list(opened.map(pieces)) == pieces
        futures = [opened.submit(piece) for piece in pieces]
        assert [one.result(30) for one in futures] == pieces
        assert opened.members == 2


@pytest.mark.parametrize(
    ("clear_between", "counts"),
    [("projects", [1, 2, 3, 1, 2, 1]), ("clients", [1, 1, 1, 1, 2, 1])],
)
def test_a_member_is_cleared_between_projects_or_clients(
    tmp_path, clear_between, counts
):
    with harness.DeskProcess(
        tmp_path / "h", slots=1, clear_between=clear_between
    ) as desk:
        desk.admit("c", "d")
        desk.admit("e", project_id="q")
        desk.join(0)
        with (
            harness.open_group(desk) as first,
            harness.open_group(desk, "d") as second,
            harness.open_group(desk, "e") as other,
        ):
            # Tasks since the member was cleared last.
            found = [
                int(one.run(b"count", timeout_s=30))
                for one in (first, second, first, other, other, second)
            ]
    assert found == counts


@pytest.mark.security
def test_blocks_are_those_of_a_project_and_an_application(tmp_path, tcp):
    with harness.DeskProcess(
        tmp_path / "h", slots=1, data_address="127.0.0.1"
    ) as desk:
        desk.admit("c", "d")
        desk.admit("e", project_id="q")
        desk.join(0)
        block = client.Block(bytes(range(256)) * 400)

        def sent_bytes(client_id: str, application: str) -> int:
            """Run a task as if the program knew that the block is there."""
            with harness.open_group(
                desk, client_id, tcp, application=application
            ) as opened:
                assert opened.run(b"x", timeout_s=30) == b"x"
                (link,) = opened._hosts._links.values()
                link._there.add(block.reference, len(block))
                sent = []
                put = link._put
                link._put = lambda parts: (
                    sent.append(sum(map(len, parts))) or put(parts)
                )
                assert opened.run(block, timeout_s=30) == block.data
            return sum(sent)

        found = [
            sent_bytes(*one) > len(block)
            for one in (
                *(("c", "a"), ("c", "a"), ("d", "a"), ("d", "b")),
                # Another project, and then the first one again.
                *(("e", "a"), ("e", "a"), ("c", "a")),
                # Each for itself.
                *(("c", ""), ("d", ""), ("c", "")),
            )
        ]
    first, again = True, False
    assert found == [
        *(first, again, again, first),
        *(first, again, first),
        *(first, first, again),
    ]


@pytest.mark.parametrize(
    "application", ["x" * 256, "a\nb", "\0", "\ud800", 5, None]
)
def test_wrong_applications_are_refused(application):
    with pytest.raises(client.InvalidRequest):
        client.group_open("g", application=application, front_door=object())


def test_a_list_of_references_that_is_none_ends_the_connection(desk):
    door = harness.GivenDoor(desk.host(), h=desk)
    access = door.attach("c", None, None)
    (host,) = access.members.hosts
    for record in (
        (records.header(records.BLOCKS_TASK, 1), b"x"),
        (records.header(records.BLOCKS_TASK, 1), bytes(100)),
        (records.header(records.BLOCKS_TASK, 1, 50), bytes(49)),
    ):
        wire = wires.connect(host, access, door, 4)
        assert wire.put(*record)
        with pytest.raises(channel.ChannelClosed):
            _receive_for_ever(wire)
        wire.close()


def _receive_for_ever(wire):
    while True:
        wire.receive(channel.deadline_after(30))
        wire.free()


def test_a_running_desk_follows_other_rules(tmp_path):
    with harness.DeskProcess(tmp_path / "h", slots=1) as desk:
        desk.admit("c", "d")
        desk.join(0)
        with (
            harness.open_group(desk) as first,
            harness.open_group(desk, "d") as second,
        ):
            found = []
            for revision, clear_between in enumerate(
                ("clients", "projects", "clients"), start=1
            ):
                desk.keep(
                    *("c", "d"),
                    revision=revision,
                    clear_between=clear_between,
                    arbitration="time",
                )
                found += [
                    int(one.run(b"count", timeout_s=30))
                    for one in (first, second, second)
                ]
            wrong = desk.agent.ask("keep", revision=9, arbitration="lifo")
            assert not wrong["ok"]
            status = desk.agent.ask("status")["status"]
            assert (status["revision"], status["clients"]) == (3, 2)
    assert found == [1, 1, 2, 1, 2, 3, 1, 1, 2]


@pytest.mark.parametrize("size_bytes", [65_537, 1_000_001, 4 << 20])
def test_long_tasks(desk, tcp, size_bytes):
    data = numpy.random.default_rng(1).bytes(size_bytes)
    with harness.open_group(desk, tcp=tcp) as opened:
        futures = [opened.submit(data) for _ in range(6)]
        assert all(one.result(60) == data for one in futures)


def test_arrays_and_buffers(desk):
    with harness.open_group(desk) as opened:
        array = numpy.arange(12, dtype=numpy.int32).reshape(3, 4)
        result = opened.run(array)
        assert result.dtype == numpy.int32
        assert result.tolist() == array.tolist()
        result += 1
        assert opened.run(array.T).tolist() == array.T.tolist()
        assert opened.run(array[::2, ::3]).tolist() == [[0, 3], [8, 11]]
        assert opened.run(numpy.zeros(0)).size == 0
        assert opened.run(memoryview(b"abcdef")[::2]) == b"ace"
        assert opened.run(bytearray(b"xyz")) == b"xyz"
        with pytest.raises(errors.InvalidRequest) as caught:
            opened.run("text")
        assert caught.value.code == codes.INVALID_INPUT


def test_many_threads(desk):
    def work(number: int) -> bool:
        data = b"%d " % number
        return all(
            opened.run(data * size) == data * size for size in range(60)
        )

    with (
        harness.open_group(desk) as opened,
        concurrent.futures.ThreadPoolExecutor(8) as pool,
    ):
        assert all(pool.map(work, range(8)))


def test_a_short_task_passes_a_long_one_of_another_thread(desk):
    with harness.open_group(desk) as opened:
        started = threading.Event()

        def long() -> bytes:
            started.set()
            return opened.run(b"sleep 1.5")

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            slow = pool.submit(long)
            started.wait()
            for _ in range(20):
                assert opened.run(b"x", timeout_s=30) == b"x"
            assert not slow.done()
            assert slow.result(30) == b"sleep 1.5"


def test_a_failed_task_fails_alone(desk, tcp):
    with harness.open_group(desk, tcp=tcp) as opened:
        with pytest.raises(errors.TaskFailed) as caught:
            opened.run(b"fail")
        assert caught.value.code == "CORE_FAILED"
        assert opened.run(b"x") == b"x"


def test_a_task_that_is_too_large_is_not_sent(desk):
    with harness.open_group(desk) as opened:
        with pytest.raises(errors.InvalidRequest) as caught:
            opened.run(bytes((4 << 20) + 1))
        assert caught.value.code == codes.TASK_TOO_LARGE
        assert opened.run(b"x") == b"x"


def test_the_desk_refuses_a_task_that_is_too_large(desk, tcp, monkeypatch):
    # A client that does not know the limit.
    monkeypatch.setattr(grouphosts.group, "MAX_TASK_BYTES", 1 << 30)
    monkeypatch.setattr(grouphosts.Hosts, "_learn_limit", lambda _hosts: None)
    with (
        harness.open_group(desk, tcp=tcp) as opened,
        harness.open_group(desk, "d") as other,
    ):
        future = opened.submit(bytes((4 << 20) + 1))
        assert other.run(b"x", timeout_s=30) == b"x"
        assert future.exception(30).code == codes.TASK_TOO_LARGE
        assert opened.run(b"x", timeout_s=30) == b"x"


def test_wrong_arguments_change_nothing(desk):
    wrong = [
        *(
            ({"offset": offset}, codes.INVALID_REQUEST)
            for offset in (1.5, "1", None, True, -1, 2**63)
        ),
        *(
            ({"params": {"a": value}}, codes.INVALID_PARAMS)
            for value in (object(), float("nan"), "y" * 100_000)
        ),
    ]
    with harness.open_group(desk) as opened:
        for options, code in wrong:
            with pytest.raises(errors.InvalidRequest) as caught:
                opened.submit(b"x", **options)
            assert caught.value.code == code
        offset = numpy.int64(3)
        assert opened.run(b"x", offset=offset, timeout_s=30) == b"x"


def test_a_callback_may_submit_and_not_wait(desk, tcp):
    def wait_in(opened):
        yield lambda: opened.run(b"x")
        yield lambda: next(opened.map([b"x"]))
        yield lambda: opened.lock().__enter__()
        yield opened.close

    with harness.open_group(desk, tcp=tcp) as opened:
        for wait in wait_in(opened):
            found = concurrent.futures.Future()

            def call_back(_, wait=wait, found=found):
                try:
                    wait()
                except errors.InvalidRequest:
                    chained = opened.submit(b"y")
                    chained.add_done_callback(
                        lambda one: found.set_result(one.result())
                    )

            opened.submit(b"x").add_done_callback(call_back)
            assert found.result(30) == b"y"


def test_a_time_limit(desk):
    with harness.open_group(desk) as opened:
        with pytest.raises(errors.OperationTimeout):
            opened.run(b"sleep 0.5", timeout_s=0.05)
        assert opened.run(b"x") == b"x"


def test_a_lock(desk, tcp):
    with (
        harness.open_group(desk, tcp=tcp) as opened,
        harness.open_group(desk, "d") as other,
    ):
        assert [opened.run(b"x"), other.run(b"x")] == [b"x", b"x"]
        with opened.lock(timeout_s=30):
            first = int(opened.run(b"count"))
            sent = [other.submit(b"x") for _ in range(20)]
            assert [one.result(30) for one in sent] == [b"x"] * 20
            counts = [int(opened.run(b"count")) for _ in range(3)]
            assert counts == [first + 1, first + 2, first + 3]
            with pytest.raises(errors.TaskFailed) as caught, other.lock():
                pass
            assert caught.value.code == codes.LOCK_LIMIT
            with pytest.raises(errors.InvalidRequest), opened.lock():
                pass
        # The desk may not have heard of the end yet.
        counted = waiting.wait_until(lambda: _count_in_lock(other), "lock")
        assert counted == b"1"


def _count_in_lock(opened):
    try:
        with opened.lock(timeout_s=30):
            return opened.run(b"count")
    except errors.TaskFailed as error:
        return error.code != codes.LOCK_LIMIT


def test_a_member_that_dies_loses_no_result(desk, tcp):
    with harness.open_group(desk, tcp=tcp) as opened:
        futures = [opened.submit(b"sleep 0.3 %d" % n) for n in range(6)]
        long = opened.submit(b"sleep 0.3 " + bytes(200_000))
        waiting.wait_until(lambda: futures[0].done(), "result")
        desk.kill_member(0)
        assert [one.result(30) for one in futures] == [
            b"sleep 0.3 %d" % number for number in range(6)
        ]
        assert len(long.result(30)) == 200_010


def test_a_task_that_kills_members_fails(desk):
    with harness.open_group(desk) as opened:
        future = opened.submit(b"die")
        for _ in range(3):
            slot = next(
                iter(
                    waiting.wait_until(
                        lambda: [
                            slot
                            for slot, member in desk.members.items()
                            if member.poll() is not None
                        ],
                        "dead member",
                    )
                )
            )
            desk.start_member(slot)
        with pytest.raises(errors.TaskFailed) as caught:
            future.result(30)
        assert caught.value.code == codes.WORKER_DIED
        assert opened.run(b"x") == b"x"


def test_a_member_that_owes_an_answer_is_dropped(desk):
    with harness.open_group(desk) as opened:
        task = opened.submit(b"forget 0")
        desk.await_states({1: "joined"})
        assert task.result(30) == b"forget 0"


def test_more_may_wait_than_the_desk_keeps(desk, tcp):
    """Neither side waits for the other for ever."""
    data = [bytes([number]) * (4 << 20) for number in range(24)]
    with harness.open_group(desk, tcp=tcp) as opened:
        futures = [opened.submit(one) for one in data]
        assert [one.result(30) for one in futures] == data
    counts, all_bytes = _counts(desk, "c"), sum(map(len, data))
    assert (counts["input_bytes"], counts["output_bytes"]) == (
        all_bytes,
        all_bytes,
    )


@pytest.mark.security
def test_a_project_has_so_many_connections(tmp_path, tcp):
    with harness.DeskProcess(
        tmp_path / "h",
        data_address="127.0.0.1",
        max_group_project_connections=2,
    ) as desk:
        desk.admit("c", "d", "e")
        desk.admit("x", project_id="q")
        desk.join(0)
        with (
            harness.open_group(desk, "c", tcp) as first,
            harness.open_group(desk, "d", tcp) as second,
        ):
            assert first.run(b"x", timeout_s=30) == b"x"
            assert second.run(b"x", timeout_s=30) == b"x"
            with pytest.raises(link.Refused) as caught:
                _connect(desk, "e", tcp)
            assert caught.value.code == codes.QUOTA_EXCEEDED
            with harness.open_group(desk, "x", tcp) as other:
                assert other.run(b"x", timeout_s=30) == b"x"
        waiting.wait_until(lambda: _may_connect(desk, "e", tcp), "a free one")


def _connect(desk, client_id, tcp):
    host = desk.host(tcp=tcp)
    door = harness.GivenDoor(host, h=desk)
    return wires.connect(host, door.attach(client_id, None, None), door, 10)


def _may_connect(desk, client_id, tcp):
    try:
        _connect(desk, client_id, tcp).close()
    except link.Refused:
        return False
    return True


@pytest.mark.security
def test_rings_go_with_their_connection(desk, monkeypatch):
    kept = []
    attach = rings.Channel.attach

    def keep(fds):
        kept.extend(os.dup(fd) for fd in fds[:2])
        return attach(fds)

    monkeypatch.setattr(rings.Channel, "attach", keep)

    def kept_bytes():
        return 512 * sum(os.fstat(fd).st_blocks for fd in kept)

    for _ in range(5):
        with harness.open_group(desk) as opened:
            assert len(opened.run(bytes(4 << 20), timeout_s=30)) == 4 << 20
            assert kept_bytes() > 4 << 20
    waiting.wait_until(lambda: kept_bytes() == 0, "empty rings")
    assert len(kept) == 10
    for fd in kept:
        os.close(fd)


def test_revocation(desk, tcp):
    with (
        harness.open_group(desk, tcp=tcp) as opened,
        harness.open_group(desk, "d") as other,
    ):
        assert opened.run(b"x") == b"x"
        mine = [opened.submit(b"sleep 0.2") for _ in range(20)]
        theirs = [other.submit(b"sleep 0.05 %d" % n) for n in range(20)]
        waiting.wait_until(lambda: mine[0].done(), "result")
        desk.keep("d", revision=2)
        refused = [one.exception(30) for one in mine[4:]]
        assert {error.code for error in refused} == {codes.ACCESS_REVOKED}
        with pytest.raises(errors.TaskFailed) as caught:
            opened.run(b"x")
        assert caught.value.code == codes.ACCESS_REVOKED
        assert [one.result(30) for one in theirs] == [
            b"sleep 0.05 %d" % number for number in range(20)
        ]
    with harness.open_group(desk) as again:
        with pytest.raises(errors.TaskFailed) as caught:
            again.run(b"x", timeout_s=30)
        assert caught.value.code == codes.ACCESS_REVOKED


def test_a_desk_that_is_killed_loses_no_result(desk, tcp):
    with harness.open_group(desk, tcp=tcp) as opened:
        futures = [opened.submit(b"sleep 0.05 %d" % n) for n in range(20)]
        waiting.wait_until(lambda: futures[0].done(), "result")
        desk.restart()
        for slot in (0, 1):
            desk.kill_member(slot)
        desk.admit()
        desk.join(0, 1)
        opened._door.members_list = groups.MemberList(2, (desk.host(tcp=tcp),))
        assert [one.result(30) for one in futures] == [
            b"sleep 0.05 %d" % number for number in range(20)
        ]


def test_two_hosts_share_the_tasks(desk, tmp_path):
    with harness.DeskProcess(tmp_path / "i", slots=1) as second:
        second.admit("c")
        second.join(0)
        door = harness.GivenDoor(
            desk.host("h"), second.host("i"), h=desk, i=second
        )
        with group.group_open("c", front_door=door) as opened:
            assert opened.run(b"x") == b"x"
            _await_desks(opened)
            futures = [opened.submit(b"sleep 0.05") for _ in range(60)]
            sent = [
                len(link.unanswered) for link in opened._hosts._links.values()
            ]
            # By the number of members, 2 and 1.
            assert sent[0] >= 1.5 * sent[1]
            second.process.kill()
            assert {one.result(30) for one in futures} == {b"sleep 0.05"}


@pytest.mark.parametrize("stays", [True, False])
def test_a_lock_stays_when_its_host_leaves_the_group(
    desk, tmp_path, tcp, stays
):
    with harness.DeskProcess(
        tmp_path / "i", slots=1, data_address="127.0.0.1"
    ) as second:
        second.admit("c")
        second.join(0)
        first, other = desk.host("h", tcp=tcp), second.host("i", tcp=tcp)
        door = harness.GivenDoor(first, h=desk, i=second)
        with group.group_open("c", front_door=door) as opened:
            with opened.lock(timeout_s=30):
                begun = int(opened.run(b"count", timeout_s=30))
                gone = [first._replace(members=0)] if stays else []
                door.members_list = groups.MemberList(2, (*gone, other))
                opened._hosts._ask_door()
                waiting.wait_until(lambda: opened.members == 1, "another list")
                counts = [
                    int(opened.run(b"count", timeout_s=30)) for _ in range(3)
                ]
                assert counts == [begun + 1, begun + 2, begun + 3]
                # Other threads use the new host.
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    run = pool.submit(opened.run, b"x", timeout_s=30)
                    assert run.result(30) == b"x"
            assert opened.run(b"x", timeout_s=30) == b"x"
            assert opened.submit(b"y").result(30) == b"y"
            waiting.wait_until(
                lambda: (len(opened._hosts._links) == 2) is stays, ""
            )


def test_a_lock_that_one_host_refuses_is_had_at_another(desk, tmp_path):
    with harness.DeskProcess(tmp_path / "i", slots=3) as second:
        second.admit("c", "d")
        second.join(0, 1, 2)
        hosts = desk.host("h"), second.host("i")
        both = harness.GivenDoor(*hosts, h=desk, i=second)
        one = harness.GivenDoor(hosts[1], i=second)
        with (
            group.group_open("c", front_door=both) as opened,
            group.group_open("d", front_door=one) as other,
            concurrent.futures.ThreadPoolExecutor(1) as pool,
            other.lock(timeout_s=30),
        ):
            held, over = threading.Event(), threading.Event()
            holding = pool.submit(_hold, other, held, over)
            assert held.wait(30)
            _await_desks(opened)
            # The host with more members is asked first, and has no more.
            with opened.lock(timeout_s=30):
                (lock,) = opened._hosts._locks.values()
                assert lock.link.host.host_id == "h"
                assert opened.run(b"count", timeout_s=30) == b"1"
            over.set()
            assert holding.result(30) is None


def test_locks_of_two_hosts_leave_one_member_of_the_group(tmp_path):
    """With a member on each host, one lock can be had, and no second."""
    with (
        harness.DeskProcess(tmp_path / "h", slots=1) as first,
        harness.DeskProcess(tmp_path / "i", slots=1) as second,
    ):
        for one in (first, second):
            one.admit("c", "d")
            one.join(0)
        hosts = first.host("h"), second.host("i")
        members = groups.MemberList(2, hosts)
        for one, spares_member in ((first, True), (second, False)):
            assert one.agent.ask(
                "hosts", **members.document(), spares_member=spares_member
            )["ok"]
        doors = [harness.GivenDoor(*hosts, h=first, i=second) for _ in "cd"]
        with (
            group.group_open("c", front_door=doors[0]) as opened,
            group.group_open("d", front_door=doors[1]) as other,
        ):
            for one in (opened, other):
                _await_desks(one)
            with opened.lock(timeout_s=30):
                assert opened.run(b"count", timeout_s=30) == b"1"
                (lock,) = opened._hosts._locks.values()
                assert lock.link.host.host_id == "i"
                with (
                    pytest.raises(errors.TaskFailed) as caught,
                    other.lock(timeout_s=30),
                ):
                    pytest.fail("it has a lock")
                assert caught.value.code == codes.LOCK_LIMIT
                # Those that went to the locked host go to the other one.
                pieces = [b"%d" % number for number in range(50)]
                futures = [other.submit(piece) for piece in pieces]
                assert [one.result(30) for one in futures] == pieces
                # What that desk has not dropped yet would run again there.
                waiting.wait_until(
                    lambda: not _counts(second, "d")["waiting"],
                    "the desk with the lock to drop what left it",
                )
                assert opened.run(b"count", timeout_s=30) == b"2"
            # Later it is used again.
            waiting.wait_until(
                lambda: (
                    not any(
                        link.locked for link in other._hosts._links.values()
                    )
                ),
                "the unlocked host",
            )
            with other.lock(timeout_s=30):
                assert other.run(b"count", timeout_s=30) == b"1"


def _counts(desk, client_id):
    return desk.agent.ask("counts")["clients"][client_id]


def _await_desks(opened):
    waiting.wait_until(
        lambda: all(
            link.wire is not None for link in opened._hosts._links.values()
        ),
        "all desks",
    )


def _hold(opened, held, over):
    with opened.lock(timeout_s=30):
        held.set()
        over.wait(30)


def test_counts_since_the_desk_began(desk):
    with harness.open_group(desk) as opened:
        for _ in range(5):
            opened.run(b"x")
        counts = desk.agent.ask("counts")
        assert counts["more"] is False
        mine = counts["clients"]["c"]
        assert (mine["arrived"], mine["ended"]) == (5, 5)
        assert mine["busy_s"] == pytest.approx(0.005)
        assert (mine["input_bytes"], mine["output_bytes"]) == (5, 5)
        assert (mine["waiting"], mine["running"]) == (0, 0)
        assert mine["connected"] is True
        opened.run(b"x")
        again = desk.agent.ask("counts")
        mine = again["clients"]["c"]
        assert (mine["ended"], mine["input_bytes"]) == (6, 6)
        assert again["boot_id"] == counts["boot_id"]
        assert desk.agent.ask("counts", after="c")["clients"] == {}

    def is_connected():
        return desk.agent.ask("counts")["clients"]["c"]["connected"]

    waiting.wait_until(lambda: not is_connected(), "the client's end")
    desk.agent.close()
    desk.agent = harness.Agent(desk.path["control"])
    assert desk.agent.ask("counts")["clients"]["c"]["ended"] == 6
    desk.restart()
    new = desk.agent.ask("counts")
    assert (new["clients"], new["more"]) == ({}, False)
    assert new["boot_id"] != counts["boot_id"]


def test_clients_that_were_not_admitted_again_are_revoked(desk):
    def admitted_and_revision() -> tuple[int, int]:
        status = desk.agent.ask("status")["status"]
        return status["admitted"], status["revision"]

    assert admitted_and_revision() == (3, 1)
    desk.keep("c", "d", revision=7)
    assert admitted_and_revision() == (2, 7)
    desk.admit("e")
    assert admitted_and_revision() == (3, 7)
    # The next agent begins anew: half of an order counts for nothing.
    desk.agent.close()
    desk.agent = harness.Agent(desk.path["control"])
    desk.keep("d", revision=8)
    assert admitted_and_revision() == (1, 8)


def test_an_agent_that_comes_back_finds_the_desk_at_work(desk):
    with harness.open_group(desk) as opened:
        futures = [opened.submit(b"sleep 0.05") for _ in range(20)]
        desk.agent.close()
        desk.agent = harness.Agent(desk.path["control"])
        assert desk.states() == {0: "joined", 1: "joined"}
        assert all(one.result(30) for one in futures)


def test_wrong_requests_of_an_agent_change_nothing(desk):
    for request, code in (
        ({"operation": "nonsense"}, codes.UNKNOWN_OPERATION),
        ({"operation": "members", "members": 5}, codes.PROTOCOL_ERROR),
        (
            {
                "operation": "members",
                "members": [{"device": "board7", "slot": 0, "generation": 1}],
            },
            codes.SLOT_NOT_FOUND,
        ),
        ({"operation": "admit", "clients": [{}]}, codes.PROTOCOL_ERROR),
        ({"operation": "keep", "revision": -1}, codes.PROTOCOL_ERROR),
        ({"operation": "counts", "after": 1}, codes.PROTOCOL_ERROR),
    ):
        reply = desk.agent.ask(**request)
        assert reply["error"]["code"] == code
    assert desk.states() == {0: "joined", 1: "joined"}


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"secret": "6" * 64}, codes.UNAUTHORIZED),
        ({"client_id": "x"}, codes.UNAUTHORIZED),
        ({"group_id": "group-2"}, codes.UNAUTHORIZED),
        ({"transport": "stream"}, codes.PROTOCOL_ERROR),
        ({"window_tasks": 0}, codes.PROTOCOL_ERROR),
        ({"features": []}, codes.PROTOCOL_ERROR),
    ],
)
def test_clients_that_are_refused(desk, members, code):
    hello = groups.Hello(
        harness.GROUP, "c", harness.SECRET, groups.SHM, 10
    ).document()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(harness.TIMEOUT_S)
        sock.connect(desk.path["data"])
        sock.sendall(
            frames.encode_frame(
                frames.FrameHeader(frames.HELLO), {**hello, **members}
            )
        )
        answer = b""
        while piece := sock.recv(65536):
            answer += piece
    assert frames.decode_json(answer[32:])["code"] == code


def _raw(desk):
    """Return the rings and the connection of client d."""
    wire = _connect(desk, "d", False)
    return wire._shared, wire


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"short",
        records.header(77, 1),
        records.header(records.TASK, 1, 2**31),
        records.header(records.TASK | 5 << 8, 1, 2**31),
    ],
)
def test_a_client_that_sends_nonsense_is_dropped_alone(desk, record):
    with harness.open_group(desk) as opened:
        assert opened.run(b"x") == b"x"
        shared, wire = _raw(desk)
        shared.put(record)
        with pytest.raises(channel.ChannelClosed):
            wire.receive(channel.deadline_after(30))
        wire.close()
        assert opened.run(b"x") == b"x"


def test_a_client_that_breaks_its_rings_is_dropped_alone(desk):
    with harness.open_group(desk) as opened:
        for ring, word in (("_outgoing", 8), ("_incoming", 16)):
            shared, wire = _raw(desk)
            # The task's result has no room, or the task is no record.
            if ring == "_incoming":
                shared._incoming._words[word] = 2**63
                shared.put(records.header(records.TASK, 1), b"x")
            else:
                shared._outgoing._words[word] = 2**63
                shared._peers_bell.ring()
            with pytest.raises(channel.ChannelClosed):
                wire.receive(channel.deadline_after(30))
            wire.close()
            assert opened.run(b"x") == b"x"


def test_a_second_desk_of_a_group_ends(desk):
    other = harness._python(*desk.process.args[1:-1], desk.process.args[-1])
    assert other.wait(harness.TIMEOUT_S) == 3


def _pose(desk: harness.DeskProcess, said: bytes) -> channel.PlainChannel:
    sock = channel.PlainChannel(channel.connect_unix(desk.path["member"]))
    sock.send(said)
    return sock


def _who(slot: int, generation: int = 1) -> dict[str, object]:
    return {"device": "board0", "slot": slot, "generation": generation}


@pytest.mark.security
@pytest.mark.parametrize("lie", [_who(1), _who(0, 2), {"slot": 0}])
def test_a_member_cannot_pass_for_another(desk, lie):
    desk.await_states({0: "joined", 1: "joined"})
    # What it adds to the words of its agent does not count.
    said = messages.encode(_who(0)) + messages.encode(_who(1))
    sock = _pose(desk, said)
    fds = sock.recv_exact_with_fds(memoryview(bytearray(1)), rings.CHANNEL_FDS)
    member = rings.Channel.attach(fds)
    detail = frames.encode_json(lie)
    member.put(records.header(records.READY, 0, len(detail)), detail)
    # It only takes the place of its own former connection.
    desk.await_states({1: "joined"})
    assert desk.members[1].poll() is None
    member.close()
    sock.close()
    with harness.open_group(desk) as opened:
        assert opened.run(b"x") == b"x"


@pytest.mark.security
@pytest.mark.parametrize(
    "said",
    [
        b"\0\0\0\0",
        b"x" * 100,
        messages.encode(_who(9)),
        messages.encode({"device": "board0", "slot": True, "generation": 1}),
        messages.encode({}),
        messages.encode(_who(0))[:-1],
    ],
)
def test_only_slots_of_the_host_are_connected(desk, said):
    desk.await_states({0: "joined", 1: "joined"})
    sock = _pose(desk, said)
    with pytest.raises(channel.ChannelClosed):
        sock.recv_exact_with_fds(memoryview(bytearray(1)), rings.CHANNEL_FDS)
    sock.close()
    desk.await_states({0: "joined", 1: "joined"})
