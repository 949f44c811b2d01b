# SPDX-License-Identifier: Apache-2.0

"""What workers and their agent hand over to each other."""

import array
import os
import signal
import socket
import subprocess
from unittest import mock

import pytest

from fpgapool.agent import settings
from fpgapool.agent.slots import orders
from fpgapool.agent.slots import table
from fpgapool.agent.supervision import assigned
from fpgapool.agent.supervision import cgroups
from fpgapool.agent.supervision import link
from fpgapool.agent.supervision import processes
from fpgapool.agent.supervision import unread
from fpgapool.agent.supervision import workers
from fpgapool.protocol import messages
from fpgapool.vocabulary import codes
from tests.harness import mapping
from tests.harness import waiting

pytestmark = pytest.mark.security

KEY = ("board0", 0)
MESSAGE = messages.encode(messages.notification("unread"))
STATUS = orders.ToWorker(KEY, "status", 0, {})


class Loop:
    """Takes the place of the loop, and forgets what is to be done later."""

    def now(self):
        return 0.0

    def watch(self, *_arguments):
        return

    def unwatch(self, _sock):
        return

    def call_later(self, _delay_s, _callback):
        return


class Site:
    """An agent's end of one worker, and the worker's."""

    def __init__(self, directory):
        made = settings.AgentSettings(
            host_uuid="host",
            host_name="host",
            state_path=str(directory),
            driver_name="emulator",
            driver_path="",
            chunk_bytes=mapping.BUFFERS_BYTES,
            window_chunks=1,
        )
        #: Answers the question for a slot's desk.
        self.dial = mock.Mock(return_value=None)
        #: Answers the question for the next stage of a chain.
        self.dial_next = mock.Mock()
        self.supervisor = workers.Workers(
            made,
            Loop(),
            None,
            None,
            self.dial,
            self.dial_next,
            None,
            cgroups.Cgroups("host"),
        )
        self.supervisor._emit = lambda *_event: None
        self._agent_end, self.worker_end = socket.socketpair()
        self._decoder = messages.MessageDecoder()
        self._agent_end.setblocking(False)
        self.child = workers._WorkerProcess(
            title="worker",
            name="worker-board0.0",
            control_path="",
            data_path="",
            log_file=None,
            key=KEY,
        )
        self.supervisor._link(self.child, self.read)
        self.child.link.open(self._agent_end)
        # As after many orders.
        self.child.may.update(unread=99)

    def close(self):
        self.child.link.close()
        self.worker_end.close()

    def read(self, sock):
        return self.supervisor._read(self.child, sock)

    def send(self, data, *fds):
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
        self.worker_end.sendmsg([data], [rights] if fds else [])
        for fd in fds:
            os.close(fd)

    def receive(self):
        while self.child.link.sock is not None:
            before = len(os.listdir("/proc/self/fd"))
            self.child.link.receive()
            if before == len(os.listdir("/proc/self/fd")):
                return

    def want_desk(self, generation=7):
        event = messages.notification("desk_wanted", generation=generation)
        self.send(messages.encode(event))
        self.receive()

    def take(self):
        """Return the requests that have arrived, and all descriptors."""
        requests, taken = [], []
        self.worker_end.setblocking(False)
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(self.worker_end, 65536, 9)
            except BlockingIOError:
                return requests, taken
            if not data:
                return requests, taken
            requests += self._decoder.feed(data)
            taken += fds

    @property
    def kept(self):
        return [fds for _, fds in self.supervisor._unread._kept[KEY]]

    def refuse(self, operation, code):
        """Have the worker refuse the agent's next request."""
        members = {
            "session_id": "s",
            "project_id": "p",
            "group_id": None,
        }
        self.supervisor.send(orders.ToWorker(KEY, operation, 7, members))
        ((request,), _) = self.take()
        refusal = messages.error_reply(request["id"], code, "")
        self.send(messages.encode(refusal))
        self.receive()


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    yield made
    made.supervisor.close(0.0)
    made.close()


def test_buffers_come_with_their_messages(site):
    clients = [mapping.ClientEnd() for _ in range(unread.SESSIONS)]
    for client in clients:
        site.send(MESSAGE, *client.leave())
    site.receive()
    assert [len(fds) for fds in site.kept] == [2] * len(clients)
    assert site.child.fds == []
    assert all(client.is_whole for client in clients)


def test_a_message_may_come_in_pieces(site):
    client = mapping.ClientEnd()
    site.send(MESSAGE[:5], *client.leave())
    site.receive()
    assert (len(site.child.fds), site.kept) == (2, [])
    site.send(MESSAGE[5:])
    site.receive()
    assert (site.child.fds, len(site.kept)) == ([], 1)


@pytest.mark.parametrize("count", [0, 1, 3, 200])
def test_a_worker_that_lies_about_descriptors_leaves_none(site, caplog, count):
    before = len(os.listdir("/proc/self/fd"))
    site.send(MESSAGE, *(os.dup(0) for _ in range(count)))
    site.receive()
    assert site.kept == []
    # The agent's end is closed as well.
    assert len(os.listdir("/proc/self/fd")) == before - 1
    assert "invalid message" in caplog.text


def test_descriptors_without_messages_end_the_connection(site, caplog):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        site.send(MESSAGE[:1], os.dup(0), os.dup(0))
    site.receive()
    assert site.child.link.sock is None
    assert "descriptors without a message" in caplog.text
    # The agent's end is closed as well.
    assert len(os.listdir("/proc/self/fd")) == before - 1


def test_a_worker_that_goes_leaves_no_descriptor(site):
    site.send(MESSAGE[:5], *mapping.ClientEnd().leave())
    site.receive()
    site.worker_end.close()
    site.receive()
    assert (site.child.link.sock, site.child.fds) == (None, [])


def test_a_worker_without_memory_says_so_to_its_slot(tmp_path, monkeypatch):
    site = Site(tmp_path)
    told = []
    site.supervisor._emit = lambda key, event: told.append((key, event))
    site.supervisor._server = mock.Mock(
        exit_status=mock.Mock(return_value=-signal.SIGKILL)
    )
    groups = site.supervisor._cgroups = mock.Mock(
        ran_out=mock.Mock(return_value=True)
    )
    site.child.pidfd = os.open(os.devnull, os.O_RDONLY)
    site.supervisor._exited(site.child, site.child.pidfd)
    assert site.supervisor.ended == {("board0", "out_of_memory"): 1}
    assert told[-1] == (KEY, table.worker_ran_out)
    groups.remove.assert_called_once_with("worker-board0.0")
    site.worker_end.close()


def test_the_other_processes_hand_over_nothing(site):
    """Only workers may: the kernel closes what a desk would send."""
    before = len(os.listdir("/proc/self/fd"))
    site.send(MESSAGE, *mapping.ClientEnd().leave())
    data = link.receive(site.child.link.sock)
    assert data == MESSAGE
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_member_gets_a_connection_to_its_desk(site):
    before = len(os.listdir("/proc/self/fd"))
    desk, site.dial.return_value = socket.socketpair()
    site.want_desk()
    site.dial.assert_called_once_with(KEY, 7)
    (request,), (fd,) = site.take()
    assert (request["op"], request["generation"]) == ("desk", 7)
    assert request["connected"] is True
    with desk, socket.socket(fileno=fd) as connection:
        desk.sendall(b"rings")
        assert connection.recv(9) == b"rings"
    # The agent has kept none.
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_member_whose_desk_is_not_there_is_told_so(site):
    site.want_desk()
    (request,), fds = site.take()
    assert (request["connected"], fds) == (False, [])


@pytest.mark.parametrize("members", [{}, {"generation": "x"}])
def test_a_worker_that_asks_for_no_generation_gets_nothing(
    site, caplog, members
):
    event = messages.notification("desk_wanted", **members)
    site.send(messages.encode(event))
    site.receive()
    assert site.take() == ([], [])
    assert "invalid message" in caplog.text
    site.dial.assert_not_called()


class TestNextStage:
    """A worker asks for a connection to the next stage of its chain."""

    GIVEN = assigned.Assigned(7, "session", "project")

    @staticmethod
    def want(site, **changes):
        members = {
            "number": 3,
            "generation": 7,
            "session_id": "next",
            "next_generation": 9,
        }
        event = messages.notification("next_wanted", **members | changes)
        site.send(messages.encode(event))
        site.receive()

    def test_the_project_is_that_of_the_agent(self, site):
        site.child.assigned = self.GIVEN
        self.want(site, project_id="of another one")
        ((project_id, *wanted, answer), _) = site.dial_next.call_args
        assert (project_id, *wanted) == ("project", "next", 9)
        here, there = socket.socketpair()
        answer(here)
        (request,), (fd,) = site.take()
        assert (request["op"], request["number"]) == ("next", 3)
        assert request["connected"] is True
        with there, socket.socket(fileno=fd) as connection:
            there.sendall(b"bytes")
            assert connection.recv(9) == b"bytes"

    def test_one_connection_at_a_time(self, site):
        site.child.assigned = self.GIVEN
        self.want(site)
        self.want(site, number=4)
        site.dial_next.assert_called_once()
        (request,), fds = site.take()
        assert (request["number"], request["connected"]) == (4, False)
        assert fds == []

    @pytest.mark.parametrize(
        "given",
        [
            None,
            assigned.Assigned(),
            assigned.Assigned(8, "session", "project"),
            assigned.Assigned(7, "session", "project", is_member=True),
        ],
    )
    def test_only_the_holder_of_the_slot_has_a_next_stage(self, site, given):
        site.child.assigned = given
        self.want(site)
        site.dial_next.assert_not_called()
        (request,), fds = site.take()
        assert (request["connected"], fds) == (False, [])

    def test_another_process_gets_no_connection(self, site):
        site.child.assigned = self.GIVEN
        self.want(site)
        answer = site.dial_next.call_args.args[-1]
        site.child.run = "another one"
        here, there = socket.socketpair()
        answer(here)
        assert site.take() == ([], [])
        with there:
            assert there.recv(1) == b""


class Stuffed:
    """A worker that has not read what fills its control connection."""

    def __init__(self, site):
        self.site = site
        link = site.child.link
        self.count = 0
        while not link._unsent:
            link.ask("status", {"text": "x" * 10_000}, STATUS)
            self.count += 1
        self.desk, site.dial.return_value = socket.socketpair()
        site.want_desk()


@pytest.fixture
def stuffed(site):
    before = len(os.listdir("/proc/self/fd"))
    made = Stuffed(site)
    yield made
    made.desk.close()
    alive = site.child.link.sock is not None
    assert len(os.listdir("/proc/self/fd")) == before - (not alive)


def test_a_connection_waits_until_the_worker_reads(stuffed):
    requests, taken = [], []
    while len(requests) <= stuffed.count:
        some, fds = stuffed.site.take()
        requests += some
        taken += fds
        stuffed.site.child.link._flush()
    assert [one["op"] for one in requests] == (
        ["status"] * stuffed.count + ["desk"]
    )
    assert len(taken) == 1
    os.close(taken[0])


def test_a_descriptor_is_sent_once_if_its_request_goes_in_pieces(site):
    before = len(os.listdir("/proc/self/fd"))
    site._agent_end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    link = site.child.link
    link.ask("desk", {"text": "x" * 60_000}, STATUS, [os.dup(0)])
    assert link._unsent
    requests, taken = [], []
    while not requests:
        some, fds = site.take()
        requests += some
        taken += fds
        link._flush()
    assert len(taken) == 1
    os.close(taken[0])
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_connection_for_a_worker_that_goes_is_closed(stuffed):
    stuffed.site.worker_end.shutdown(socket.SHUT_RDWR)
    stuffed.site.receive()
    assert stuffed.desk.recv(1) == b""


@pytest.mark.parametrize("proved", [True, False])
def test_what_an_ended_worker_leaves_ends_with_it(tmp_path, proved):
    """It would keep the lock of a worker, whose slot would serve no more."""
    site = Site(tmp_path)
    child = site.child
    site.supervisor._server = mock.Mock(
        exit_status=mock.Mock(return_value=None)
    )
    with subprocess.Popen(
        ["sh", "-c", "sleep 1000 >&- & echo $!; read wait"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as started:
        left = os.pidfd_open(int(started.stdout.readline()))
        child.pid, child.proved = started.pid, proved
        child.pidfd = os.pidfd_open(started.pid)
        # Its leader still runs.
        processes.end_rest(started.pid)
        assert not processes.ended(left, 0.0)
        started.communicate()
    site.supervisor._exited(child, child.pidfd)
    # Others' processes may have the number of one that was never proved.
    assert processes.ended(left, waiting.LIMIT_S * proved) is proved
    processes.end_rest(started.pid)
    os.close(left)
    site.worker_end.close()


@pytest.mark.parametrize(("status", "how"), [(0, "left"), (None, "died")])
def test_a_process_whose_exit_status_is_unknown_has_died(
    tmp_path, monkeypatch, status, how
):
    site = Site(tmp_path)
    child = site.child
    again = []
    site.supervisor._server = mock.Mock(
        exit_status=mock.Mock(return_value=status)
    )
    monkeypatch.setattr(site.supervisor, "_spawn", again.append)
    child.pidfd = os.open(os.devnull, os.O_RDONLY)
    child.link.heard = child.proved = True
    site.supervisor._exited(child, child.pidfd)
    assert site.supervisor.ended == {("board0", how): 1}
    assert (again, child.failures) == (
        [child] if status == 0 else [],
        status is None,
    )
    site.worker_end.close()


@pytest.mark.parametrize(
    ("operation", "code", "level"),
    [
        ("assign", codes.RECYCLE, "DEBUG"),
        ("reissue_secret", codes.SESSION_NOT_READY, "DEBUG"),
        ("assign", codes.SLOT_BUSY, "WARNING"),
        ("release", codes.STALE_GENERATION, "WARNING"),
    ],
)
def test_only_a_refusal_that_is_no_part_of_ordinary_life_is_a_warning(
    site, caplog, operation, code, level
):
    caplog.set_level("DEBUG")
    site.supervisor._workers[KEY] = site.child
    site.refuse(operation, code)
    (record,) = (one for one in caplog.records if code in one.getMessage())
    assert record.levelname == level
