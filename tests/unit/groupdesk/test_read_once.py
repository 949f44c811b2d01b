# SPDX-License-Identifier: Apache-2.0

"""Memory that a stranger can write is read once.

Here it changes after each look: what was checked is what is used.
"""

import contextlib
import itertools
import os
import random
from unittest import mock

import pytest

from fpgapool.agent.groupdesk import accounts
from fpgapool.agent.groupdesk import ports
from fpgapool.agent.groupdesk.decisions import model
from fpgapool.agent.groupdesk.decisions import queues
from fpgapool.client.groups import grouphosts
from fpgapool.client.groups import grouplink
from fpgapool.common.channels import rings
from fpgapool.common.monitoring import ratelimit
from fpgapool.protocol import blocks
from fpgapool.protocol import frames
from fpgapool.protocol import groups
from fpgapool.protocol import records
from tests.harness import flipping

pytestmark = pytest.mark.security

LONG = b"d" * (ports.KEPT_BYTES + 1)
LOCK = 7
PLACE = ("board0", 0, 1)
REFERENCES = blocks.encode_parts(
    [
        blocks.Part(blocks.Reference(b"n" * 16, 100, 1, number), None)
        for number in (1, 2)
    ]
)[0]


class Channel:
    """One record from the peer, and those to it.

    :param record: the peer changes it after each look.
    """

    def __init__(self, record=None):
        self.record = record and rings.Record(flipping.Memory(record))
        self.sent = []

    def is_empty(self):
        return self.record is None

    def get(self):
        return self.record

    def take(self, count, max_bytes):
        if len(self.record) > max_bytes:
            return []
        record, self.record = self.record, None
        return [bytes(record)]

    def free(self):
        self.record = None

    def put(self, *parts):
        self.sent.append(b"".join(map(bytes, parts)))
        return True

    def is_drained(self):
        return not self.sent


class Desk:
    """A client's port and a member's, without the loop.

    :param record: that the client has sent.
    """

    def __init__(self, record, members=1):
        self.queues = queues.Queues(2)
        self.to_member = Channel()
        self.member = ports.MemberPort(
            PLACE, mock.Mock(), self.to_member, *[mock.Mock()] * 3
        )
        self.dropped = []
        self.port = ports.ClientPort(
            "c",
            Channel(record),
            mock.Mock(),
            self.queues,
            self.decide,
            lambda _port, why: self.dropped.append(why),
        )
        self.port.client = self.queues.attach("c")
        self.port.client.scope = "p", "a"
        self.port.account = accounts.Account(mock.Mock())
        for number in range(members):
            self.queues.members.join(number)
        self.queues.locks.lock(self.port.client, LOCK, 0.0)
        self.decide(0.0)
        self.to_member.sent.clear()

    def decide(self, now):
        for one in self.queues.decide(now):
            if isinstance(one, model.Start):
                task = one.task
                self.member.start(
                    *(task.payload, bool(task.blocks), one.clear),
                    task.client.scope,
                    now,
                )
                task.payload = None


def _sent(record):
    desk = Desk(record, members=2)
    assert desk.port.work(1.0)
    desk.decide(1.0)
    assert not desk.dropped
    # Before it comes whose blocks these are, if there are any.
    return desk.to_member.sent[-1]


@pytest.mark.parametrize("data", [b"short", LONG])
@pytest.mark.parametrize("lock_id", [0, LOCK])
@pytest.mark.parametrize("params", [b"", b'{"a": 1}'])
def test_a_member_gets_the_header_that_was_checked(data, lock_id, params):
    head = records.header(
        records.TASK | lock_id << groups.KIND_BITS, 5, len(params), 9
    )
    sent = _sent(head + params + data)
    mine = records.header(records.TASK, 5, len(params), 9) + params
    assert sent[: len(mine)] == mine
    assert len(sent) == len(mine) + len(data)


@pytest.mark.parametrize("data", [b"short", LONG])
@pytest.mark.parametrize("lock_id", [0, LOCK])
def test_a_member_gets_the_references_that_were_checked(data, lock_id):
    kind = records.BLOCKS_TASK
    head = records.header(kind | lock_id << groups.KIND_BITS, 5, 2)
    sent = _sent(head + b"{}" + REFERENCES + data)
    mine = records.header(kind, 5, 2) + b"{}" + REFERENCES
    assert sent[: len(mine)] == mine
    assert len(sent) == len(mine) + len(data)


@pytest.mark.parametrize(
    "kind", [records.KEEP, records.CLEAR, records.STOP, records.SCOPE, 0, 255]
)
@pytest.mark.parametrize("data", [b"short", LONG])
def test_records_of_the_desk_itself_cannot_be_sent(kind, data):
    desk = Desk(records.header(kind, 5) + data, members=2)
    assert desk.port.work(1.0)
    desk.decide(1.0)
    assert desk.to_member.sent == []
    assert desk.dropped


def test_a_task_that_waits_is_what_was_checked(monkeypatch):
    """Its last part is copied in one piece, so that memory is real here."""
    head = records.header(records.BLOCKS_TASK, 5, 2) + b"{}" + REFERENCES
    memory = bytearray(head + LONG)

    def change_after(module, name, place):
        read = getattr(module, name)

        def changed(data):
            found = read(data)
            memory[place] = bytes(one ^ 0xFF for one in memory[place])
            return found

        monkeypatch.setattr(module, name, changed)

    change_after(records, "head", slice(records.HEADER_BYTES))
    change_after(blocks, "referred", slice(records.HEADER_BYTES, len(head)))
    desk = Desk(b"")
    desk.port._channel.record = rings.Record(memoryview(memory))
    assert desk.port.work(1.0)
    (task,) = [
        task for queue in desk.port.client.queues for task in queue.waiting
    ]
    (kept,) = task.payload
    assert kept == head + LONG
    assert memory[: len(head)] == bytes(one ^ 0xFF for one in head)


@pytest.mark.parametrize("kind", [records.DONE, records.FAILED, records.MISS])
@pytest.mark.parametrize("output", [b"short", LONG])
def test_a_client_gets_the_header_of_a_result_that_was_checked(kind, output):
    channel = Channel(records.header(kind, 5, 2, 1000) + b"{}" + output)
    ended = mock.Mock()
    port = ports.MemberPort(
        PLACE, mock.Mock(), channel, mock.Mock(), ended, mock.Mock()
    )
    port.number = 0
    assert port.work(1.0)
    number, found, task_id, busy_ns, parts, now = ended.call_args.args
    assert (number, found, task_id, busy_ns, now) == (0, kind, 5, 1000, 1.0)
    sent = b"".join(map(bytes, parts))
    mine = records.header(kind, 5, 2, 1000) + b"{}"
    assert sent[: len(mine)] == mine
    assert len(sent) == len(mine) + len(output)


@pytest.mark.parametrize("whole", [True, False])
def test_a_program_gets_the_output_that_it_has_read(whole):
    access = mock.Mock(members=groups.MemberList(1, ()))
    hosts = grouphosts.Hosts(mock.Mock(), access, 16, mock.Mock())
    link = grouplink.HostLink(groups.Host("h", 1, (), None), hosts._lock)
    link.wire = mock.Mock(is_whole=lambda: whole)
    task = grouplink.GroupTask(records.TASK)
    task.number = 5
    link.unanswered[records.TASK, 5] = task
    hosts._sent = 1
    record = rings.Record(
        flipping.Memory(records.header(records.DONE, 5) + b"output")
    )
    if whole:
        hosts._handle(link, record)()
        assert task.done
        assert task.result == b"output"
        assert not link.unanswered
        return
    # The desk has cleared the memory, perhaps before it was read.
    with pytest.raises(ConnectionError):
        hosts._handle(link, record)
    assert not task.done
    assert link.unanswered == {(records.TASK, 5): task}
    assert hosts._sent == 1


def test_a_program_takes_no_other_record_than_it_has_checked():
    document = frames.encode_json({"code": "CORE_FAILED", "message": "x"})
    access = mock.Mock(members=groups.MemberList(1, ()))
    hosts = grouphosts.Hosts(mock.Mock(), access, 16, mock.Mock())
    link = grouplink.HostLink(groups.Host("h", 1, (), None), hosts._lock)
    task = grouplink.GroupTask(records.TASK)
    link.unanswered[records.TASK, 5] = task
    record = rings.Record(
        flipping.Memory(
            records.header(records.FAILED, 5, len(document)) + document
        )
    )
    hosts._handle(link, record)()
    assert task.error.code == "CORE_FAILED"


def test_a_record_is_taken_apart_once():
    middle = b"m" * 10
    memory = flipping.Memory(
        records.header(records.TASK, 5, len(middle), 9) + middle + b"rest"
    )
    parts = records.split(rings.Record(memory))
    assert parts[:4] == (5, records.TASK, 9, middle)
    assert bytes(parts.rest) == b"rest"


def test_a_list_of_references_is_read_once():
    parts, rest = blocks.decode_parts(
        flipping.Memory(REFERENCES + b"rest"), 1000
    )
    assert [part.reference.argument for part in parts] == [1, 2]
    # It was within what was read ahead.
    assert len(rest) == 4


@pytest.mark.parametrize("seed", range(20))
def test_words_of_a_ring_are_read_once(seed):
    """A lie is found, or harms nothing: no other record than those written."""
    chance = random.Random(seed)
    ring = rings.Ring.create(4096)
    words = [0, 1, 8, 4096, 2**63, 2**64 - 1, *range(0, 5000, 8)]
    lies = (chance.choice(words) for _ in itertools.count())
    written = []
    for number in range(chance.randrange(1, 5)):
        written.append(bytes([number]) * chance.randrange(900))
        assert ring.put(written[-1])
    other = rings.Ring.attach(os.dup(ring.fd))
    other._words = flipping.Words(other._words, lies)
    other._lengths = flipping.Words(other._lengths, lies)
    got = []
    with contextlib.suppress(rings.RingDamaged):
        while (record := other.get()) is not None:
            if chance.random() < 0.5:
                got.append(bytes(record))
                other.free(wipe=True)
            else:
                got += other.take(1, len(record))
    # One look sees all records; after the next one, nothing is certain.
    assert got[: len(written)] == written[: len(got)]
    ring.close()
    other.close()


def test_a_writer_looks_once_at_what_the_reader_has_freed():
    ring = rings.Ring.create(4096)
    ring.put(b"secret")
    ring.get()
    ring.free()
    ring._words = flipping.Words(ring._words, itertools.cycle([0]))
    # With another look, records that it has not wiped would count, too.
    assert ring.wipe()
    ring.close()


def test_clients_that_send_nonsense_write_few_lines(caplog, monkeypatch):
    monkeypatch.setattr(ports, "LOG", ratelimit.RateLimitedLog(ports.__name__))
    for number in range(100):
        desk = Desk(records.header(255 - number % 2, number), members=2)
        assert desk.port.work(1.0)
        assert desk.dropped
    assert len(caplog.records) == ratelimit.BURST
