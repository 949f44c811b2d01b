# SPDX-License-Identifier: Apache-2.0

"""What a project may take of a desk."""

import contextlib
from unittest import mock

import pytest

from fpgapool.agent.child import port as data_ports
from fpgapool.agent.groupdesk import accounts
from fpgapool.agent.groupdesk import ports
from fpgapool.agent.groupdesk.decisions import model
from fpgapool.agent.groupdesk.decisions import queues
from fpgapool.protocol import records
from fpgapool.vocabulary import codes

pytestmark = pytest.mark.security

LONG_BYTES = 4 * 1024 * 1024 - 1024


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


def made(max_connections=1000):
    clock = Clock()
    return accounts.Accounts(max_connections, mock.Mock(), clock), clock


def refusal(found, project_id, client_id="c"):
    try:
        with found.connection(project_id, client_id):
            return None
    except data_ports.Refused as exc:
        return exc.code


def test_connections_of_a_project_are_limited():
    found, _ = made(max_connections=3)
    with contextlib.ExitStack() as stack:
        for number in range(3):
            stack.enter_context(found.connection("p", f"c{number}"))
        assert refusal(found, "p") == codes.QUOTA_EXCEEDED
        assert refusal(found, "q") is None
    assert refusal(found, "p") is None
    assert not found._connections


def test_a_client_that_connects_again_and_again_is_slowed_down():
    found, clock = made()
    codes_found = [refusal(found, "p", "c") for _ in range(100)]
    many = codes_found.index(codes.RATE_LIMITED)
    assert 10 <= many <= 40
    assert set(codes_found[many:]) == {codes.RATE_LIMITED}
    # Other clients of the project do not pay for it.
    assert refusal(found, "p", "d") is None
    clock.now_s += 1.0
    assert refusal(found, "p", "c") is None


def test_so_is_a_project_with_many_clients():
    found, _ = made()
    codes_found = [refusal(found, "p", f"c{n}") for n in range(500)]
    assert codes_found.count(None) == 256
    assert refusal(found, "q", "c") is None


def test_all_clients_of_a_project_find_a_new_desk_in_time():
    """They try again for 30 seconds, once a second."""
    found, clock = made()
    waiting = [f"c{number}" for number in range(1000)]
    while waiting:
        waiting = [one for one in waiting if refusal(found, "p", one)]
        clock.now_s += 1.0
    assert clock.now_s < 30.0


class Desk:
    """Clients of one project whose tasks wait for members."""

    def __init__(self, *client_ids):
        self.queues = queues.Queues(1)
        self.woken = mock.Mock()
        self.account = accounts.Account(self.woken)
        self.ports = [self.connect(one) for one in client_ids]

    def connect(self, client_id):
        channel = mock.Mock()
        channel.is_empty.return_value = False
        channel.get.side_effect = lambda: channel.record
        channel.take.side_effect = lambda _count, most: (
            [] if len(channel.record) > most else [channel.record]
        )
        channel.arm.return_value = True
        port = ports.ClientPort(
            client_id,
            channel,
            mock.Mock(),
            self.queues,
            self.decide,
            mock.Mock(),
        )
        port.client = self.queues.attach(client_id)
        port.account = self.account
        port.numbers = iter(range(10**6))
        return port

    def decide(self, now):
        for one in self.queues.decide(now):
            if isinstance(one, model.Start):
                # It was sent from its place.
                one.task.payload = None
            elif isinstance(one, model.Answer):
                self.ports[0].answered(one.task)

    def send(self, port, size_bytes=LONG_BYTES, kind=records.TASK):
        """Let a client send a task; return whether the desk has read it."""
        head = records.header(kind, next(port.numbers))
        port._channel.record = head + bytes(size_bytes)
        return port.work(1.0)


def test_the_waiting_tasks_of_a_project_are_limited():
    desk = Desk("c", "d")
    first, second = desk.ports
    while desk.send(first):
        pass
    most = accounts.MAX_WAITING_BYTES
    assert most < desk.account.waiting_bytes <= most + 2 * LONG_BYTES
    # Another client of the project is no way around it.
    assert not desk.send(second)
    assert first.arm()
    assert second.arm()
    desk.woken.assert_not_called()
    queue = first.client.queues[0]
    while desk.account.waiting_bytes > most:
        first.answered(queue.waiting.popleft())
    assert {call.args[0] for call in desk.woken.call_args_list} == {
        first,
        second,
    }
    assert desk.send(second)


def test_short_tasks_count_with_what_they_take(monkeypatch):
    monkeypatch.setattr(accounts, "MAX_WAITING_BYTES", 1 << 20)
    desk = Desk("c")
    (port,) = desk.ports
    read = 0
    while desk.send(port, 0):
        read += 1
    assert 1000 < read < (1 << 20) / accounts.TASK_BYTES


def test_tasks_that_are_refused_do_not_count():
    desk = Desk("c")
    (port,) = desk.ports
    port._queues._max_waiting_tasks = 1
    for _ in range(100):
        assert desk.send(port)
    assert desk.account.waiting_bytes <= LONG_BYTES + 1000


def test_a_client_that_leaves_gives_all_back():
    desk = Desk("c", "d")
    first, second = desk.ports
    while desk.send(first):
        pass
    first.arm()
    second.arm()
    first.leave()
    assert desk.account.waiting_bytes == 0
    desk.woken.assert_called_once_with(second)
    assert not desk.account.stalled


def test_a_client_with_a_lock_is_heard_while_the_others_wait_for_it():
    desk = Desk("c", "d")
    first, second = desk.ports
    for member in (0, 1):
        desk.queues.members.join(member)
    desk.queues.locks.lock(first.client, 7, 0.0)
    desk.queues.decide(0.0)
    while desk.send(second):
        pass
    assert desk.send(first, kind=records.TASK | 7 << 8)
    # It runs, so that the desk takes the next one, and then no more.
    assert desk.send(first, kind=records.TASK | 7 << 8)
    assert not desk.send(first, kind=records.TASK | 7 << 8)


def test_a_client_that_receives_nothing_is_dropped():
    """News of the group comes without its asking."""
    desk = Desk("c")
    (port,) = desk.ports
    port._channel.put.return_value = False
    told = 0
    while not port._failed.called:
        port.notify(133, 0)
        told += 1
    assert 4096 < told < 10_000


def test_a_client_whose_task_gets_no_memory_is_dropped():
    desk = Desk("c")
    (port,) = desk.ports
    port._channel.take.side_effect = MemoryError
    assert port.work(0.0)
    port._failed.assert_called_once()


def test_a_result_without_room_makes_a_sleeping_client_heard():
    """It waited for records, and now it waits for room, too."""
    desk = Desk("c")
    (port,) = desk.ports
    assert port.arm()
    port._channel.put.return_value = False
    port.send(b"result")
    desk.woken.assert_called_once_with(port)
    assert port.client.paused
    assert not port.work(1.0)
    port._channel.put.return_value = True
    # It has worked, so that the desk decides anew.
    port._channel.is_empty.return_value = True
    assert port.work(1.0)
    assert not port.client.paused
