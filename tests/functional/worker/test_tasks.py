# SPDX-License-Identifier: Apache-2.0

"""A worker process that runs the tasks of a group's desk."""

import json
import os
import random

import pytest

from fpgapool.accelerators import aes
from fpgapool.protocol import records
from tests.functional.worker import harness
from tests.functional.worker import members

MIB = 1 << 20
AES = {"key": "00112233445566778899aabbccddeeff", "iv": "f" * 32}
NOSY = "tests.functional.worker.nosy_driver:NosyDriver"
SECRET = b"SECRET-" + b"0123456789" + b"012345"


@pytest.fixture
def desk(directory):
    made = members.Desk(directory)
    yield made
    made.close()


@pytest.fixture
def join(desk):
    """Let a worker's slot join the desk's group."""

    def let_join(agent, generation=1, **order):
        reply = agent.join(desk.path, generation, **order)
        assert reply["ok"], reply
        return desk.accept()

    return let_join


@pytest.fixture
def nosy(start, join):
    """A member whose cores look for leftovers, and its agent."""
    # They look through their own memory, which a room forbids.
    agent = start(driver=NOSY, isolation="none").connect()
    return join(agent), agent


def reference(data, offset=0):
    core = aes.AesCore(AES)
    output = bytearray(len(data))
    core.process(memoryview(data), memoryview(output), offset)
    return bytes(output)


def test_tasks_at_offsets_give_the_output_of_one_session(agent, worker, join):
    data = random.Random(1).randbytes(8 * MIB)
    order = {"accelerator": "aes", "bitstream": "builtin:aes"}
    prepared = agent.prepare(1, **order)
    client = harness.Client.local(worker).hello(prepared, params=AES)
    client.stream(data)
    client.close()
    agent.request("release", generation=1, reason="CANCELLED_BY_CLIENT")
    agent.wait_result()

    member = join(agent, 2, **order)
    halves = [
        member.run(data[at : at + 4 * MIB], params=AES, offset=at)
        for at in (4 * MIB, 0)
    ]
    assert [half.kind for half in halves] == [records.DONE, records.DONE]
    assert all(half.busy_ns > 0 for half in halves)
    output = halves[1].output + halves[0].output
    assert output == bytes(client.output) == reference(data)
    member.send(records.STOP)
    assert member.recv().kind == records.LEFT
    result = agent.wait_result(2)
    assert (result["state"], result["code"]) == ("CLOSED", "OK")
    assert result["input_bytes"] == result["output_bytes"] == 8 * MIB


def test_tasks_may_be_queued_in_the_ring(agent, join):
    member = join(agent)
    sent = [
        member.send(records.TASK, b"%d" % number) for number in range(1000)
    ]
    replies = [member.recv() for _ in sent]
    assert [reply.task_id for reply in replies] == sent
    assert [int(reply.output) for reply in replies] == list(range(1000))


@pytest.mark.parametrize("length", [0, 1, 4096, 4 * MIB - 3, 4 * MIB])
def test_tasks_of_all_sizes(agent, join, length):
    member = join(agent)
    data = random.Random(length).randbytes(length)
    for _ in range(3):
        reply = member.run(data)
        assert (reply.kind, reply.output) == (records.DONE, data)


def test_a_member_shows_as_active_and_counts_its_bytes(agent, join):
    member = join(agent)
    member.run(b"12345")
    status = agent.status()
    assert status["state"] == "active"
    assert status["input_bytes"] == status["output_bytes"] == 5
    assert not agent.prepared


@pytest.mark.parametrize(
    ("params", "data", "code"),
    [
        ({"do": "raise"}, b"data", "CORE_FAILED"),
        ({"do": "nothing it knows"}, b"data", "CORE_FAILED"),
        ({}, b"data", "INVALID_PARAMS"),
        (b"no JSON", b"data", "PROTOCOL_ERROR"),
        (b"[1]", b"data", "PROTOCOL_ERROR"),
        (b'"' + b"x" * 70_000 + b'"', b"data", "FRAME_TOO_LARGE"),
        ({"do": "huge"}, bytes(MIB), "TASK_TOO_LARGE"),
    ],
)
def test_a_task_that_fails_does_not_disturb_the_next(nosy, params, data, code):
    member, agent = nosy
    for _ in range(3):
        reply = member.run(data, params=params)
        assert reply.kind == records.FAILED
        assert reply.detail["code"] == code
        assert "data" not in reply.detail["message"]
        assert reply.output == b""
        after = member.run(b"after", params={"do": "echo"})
        assert (after.kind, after.output) == (records.DONE, b"after")
    assert agent.status()["state"] == "active"


def test_only_stateless_accelerators_have_offsets(agent, join):
    member = join(agent, accelerator="sha", bitstream="builtin:sha")
    reply = member.run(b"data", offset=64)
    assert reply.kind == records.FAILED
    assert reply.detail["code"] == "BAD_OFFSET"
    assert member.run(b"data").kind == records.DONE


def test_an_offset_has_a_limit(agent, join):
    member = join(agent)
    reply = member.run(b"data", offset=2**63 + 1)
    assert reply.detail["code"] == "BAD_OFFSET"


class TestLeftovers:
    """What a core finds of an earlier task."""

    pytestmark = pytest.mark.security

    @staticmethod
    def snoop(member, data=b"12345678"):
        reply = member.run(data, params={"do": "snoop"})
        assert reply.kind == records.DONE, reply
        return json.loads(reply.output)

    def test_the_search_finds_a_secret(self, nosy):
        # Within one client: the room is used again, and not wiped.
        member, _ = nosy
        member.run(SECRET * 1000, params={"do": "echo"})
        assert "room" in self.snoop(member, bytes(20_000))
        assert "input" in self.snoop(member, SECRET)

    @pytest.mark.parametrize("length", [1, 1000, 100_000])
    def test_nothing_is_left_after_clear(self, nosy, length):
        member, _ = nosy
        assert self.snoop(member) == []
        for _ in range(3):
            data = SECRET * length
            params = {"do": "echo", "key": SECRET.decode()}
            assert member.run(data, params=params).output == data
            member.clear()
            assert self.snoop(member) == []
            reply = member.run(bytes(100), params={"do": "room"})
            assert reply.output == bytes(100)

    def test_a_result_that_the_desk_has_not_freed_is_wiped(self, nosy):
        member, _ = nosy
        sent = member.send(records.TASK, SECRET * 50, params={"do": "echo"})
        member.channel.wait(harness.TIMEOUT_S)
        assert records.split(member.channel.get()).task_id == sent
        member.send(records.CLEAR, task_id=0)
        task_id = member.send(
            records.TASK, b"12345678", params={"do": "snoop"}
        )
        member.channel.free()
        assert member.recv().kind == records.CLEARED
        reply = member.recv()
        assert (reply.task_id, reply.output) == (task_id, b"[]")

    def test_nothing_is_left_of_a_task_that_failed(self, nosy):
        member, _ = nosy
        for do in ("raise", "huge", "no such thing"):
            params = {"do": do, "key": SECRET.decode()}
            reply = member.run(SECRET * 50_000, params=params)
            assert reply.kind == records.FAILED
            member.clear()
            assert self.snoop(member) == []

    def test_nothing_is_left_of_a_lock(self, nosy):
        member, _ = nosy
        member.send(records.KEEP)
        params = {"do": "stay", "key": SECRET.decode()}
        member.run(SECRET, params=params)
        member.clear()
        assert self.snoop(member) == []

    def test_nothing_is_left_when_the_desk_has_died(self, nosy, desk):
        member, _ = nosy
        member.run(SECRET * 1000, params={"do": "echo"})
        member.close()
        assert self.snoop(desk.accept()) == []

    def test_parameters_do_not_outlive_their_task(self, nosy):
        member, _ = nosy
        params = {"do": "echo", "key": SECRET.decode()}
        member.run(b"data", params=params)
        assert self.snoop(member) == []


class TestDeaths:
    """Desks, workers and cores that end in the middle."""

    def test_a_new_desk_gets_the_member(self, nosy, desk):
        member, agent = nosy
        for _ in range(3):
            member.close()
            member = desk.accept()
            reply = member.run(b"data", params={"do": "echo"})
            assert reply.output == b"data"
        assert agent.wait_state("active")

    def test_a_desk_that_dies_during_a_task(self, nosy, desk):
        member, _agent = nosy
        member.send(records.TASK, b"data", params={"do": "echo"})
        member.close()
        member = desk.accept()
        assert member.run(b"x", params={"do": "echo"}).output == b"x"

    def test_a_desk_that_comes_late(self, agent, desk, directory):
        late = directory / "late"
        agent.join(str(late))
        while agent.next().get("event") != "desk_wanted":
            pass
        late.symlink_to(desk.path)
        assert desk.accept().run(b"x").output == b"x"

    def test_a_member_without_an_agent_asks_the_next_one(self, start, desk):
        worker = start()
        agent = worker.connect()
        assert agent.assign(group_id="group")["ok"]
        while agent.next().get("event") != "desk_wanted":
            pass
        agent.close()
        agent = worker.connect(desk.path)
        member = desk.accept()
        agent.close()
        member.close()
        worker.connect(desk.path)
        assert desk.accept().run(b"x").output == b"x"

    def test_a_desk_that_does_not_come_back(self, start, desk, join):
        agent = start().connect()
        member = join(agent, resume_grace_s=0.1)
        desk.stop_listening()
        member.close()
        result = agent.wait_result()
        assert (result["state"], result["code"]) == (
            "EXPIRED",
            "RESUME_TIMEOUT",
        )
        assert agent.status()["state"] == "idle"

    @pytest.mark.parametrize("params", [{"do": "hang"}, {"do": "die"}])
    def test_a_worker_that_dies_during_a_task(self, start, desk, join, params):
        worker = start(driver=NOSY)
        agent = worker.connect()
        member = join(agent)
        member.run(b"before", params={"do": "echo"})
        member.send(records.TASK, b"data", params=params)
        if params["do"] == "hang":
            worker.process.kill()
        with pytest.raises(members.Gone):
            member.recv()
        worker.wait()
        # The slot's next process joins as any other.
        again = start(driver=NOSY).connect()
        member = join(again, 2)
        reply = member.run(b"data", params={"do": "echo"})
        assert (reply.kind, reply.output) == (records.DONE, b"data")

    def test_a_hanging_task_meets_the_limit(self, start, join):
        worker = start(driver=NOSY, clear_timeout_s=0.2)
        agent = worker.connect()
        member = join(agent, idle_timeout_s=0.5)
        member.send(records.TASK, b"data", params={"do": "hang"})
        with pytest.raises(members.Gone):
            member.recv()
        assert worker.wait() == 4
        assert "the core has not stopped" in worker.log()


class TestLeaving:
    """The end of a membership."""

    def test_stop_ends_after_the_tasks_before_it(self, agent, join):
        member = join(agent)
        task_id = member.send(records.TASK, bytes(MIB))
        member.send(records.STOP)
        assert member.recv().task_id == task_id
        assert member.recv().kind == records.LEFT
        with pytest.raises(members.Gone):
            member.recv()
        result = agent.wait_result()
        assert (result["state"], result["code"]) == ("CLOSED", "OK")
        assert agent.status()["state"] == "idle"
        # It may have served several projects.
        refused = agent.assign(2)
        assert refused["error"]["code"] == "RECYCLE"

    def test_a_released_slot_gives_no_result(self, nosy):
        member, agent = nosy
        member.send(records.TASK, b"data", params={"do": "wait"})
        reply = agent.request("release", generation=1, reason="DRAINED")
        assert reply["ok"]
        with pytest.raises(members.Gone):
            member.recv()
        result = agent.wait_result()
        assert (result["state"], result["code"]) == ("CANCELLED", "DRAINED")
        assert agent.status()["state"] == "idle"

    def test_a_slot_that_cannot_be_cleared_leaves(self, nosy, directory):
        member, agent = nosy
        (directory / "soiled").touch()
        member.send(records.CLEAR)
        assert member.recv().kind == records.LEFT
        result = agent.wait_result()
        assert (result["state"], result["code"]) == ("FAILED", "SLOT_FAULTY")

    def test_a_desk_that_sends_nonsense_is_left(self, nosy, desk):
        member, _agent = nosy
        for record in (
            b"short",
            records.header(77),
            records.header(records.TASK, 1, 100),
        ):
            member.channel.put(record)
            with pytest.raises(members.Gone):
                member.recv()
            member = desk.accept()
        assert member.run(b"x", params={"do": "echo"}).output == b"x"

    def test_a_desk_without_rings_is_left(self, start, desk, join, agent):
        agent.join(desk.path)
        sock, _ = desk._listener.accept()
        before = os.pipe()
        sock.sendall(b"\0")
        sock.close()
        for fd in before:
            os.close(fd)
        assert desk.accept().run(b"x").output == b"x"


def test_a_result_waits_for_room_in_the_ring(agent, desk):
    agent.join(desk.path)
    member = desk.accept(ring_bytes=16384)
    data = random.Random(2).randbytes(7000)
    sent = 0
    # Both rings are full before the desk reads a result.
    while member.channel.has_room(len(data) + records.HEADER_BYTES):
        member.send(records.TASK, data)
        sent += 1
    for _number in range(200):
        assert member.recv().output == data
        member.send(records.TASK, data)
    for _ in range(sent):
        assert member.recv().output == data
