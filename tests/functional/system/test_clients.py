# SPDX-License-Identifier: Apache-2.0

"""What programs can rely on while the pool itself is well."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Iterator

import pytest

from fpgapool import client
from tests.functional.worker import harness as wire
from tests.harness import cases
from tests.harness import cloud as clouds
from tests.harness import door as doors
from tests.harness import programs
from tests.harness import waiting

SLOTS = 4
CHUNK = clouds.CHUNK_BYTES


@pytest.fixture(scope="module")
def cloud(make_cloud) -> clouds.Cloud:
    return make_cloud(
        clouds.HostPlan("board", slots=SLOTS),
        clouds.HostPlan("compute", slots=0),
        options={"conductor": {"resume_grace_s": 3}},
    )


@pytest.fixture
def board(cloud) -> Iterator[clouds.Host]:
    """The host with the board; afterwards nothing may be left over."""
    yield cloud.hosts["board"]
    cloud.check_consistent()


@pytest.fixture
def compute(cloud, board) -> clouds.Host:
    return cloud.hosts["compute"]


@pytest.mark.long
def test_check_sees_what_is_wrong(cloud, board) -> None:
    """The check behind all these tests notices each part that differs."""
    cloud.check_consistent()
    with pytest.raises(AssertionError, match="0 sessions live, 1 expected"):
        cloud.check_consistent(live=1, limit_s=0)
    with board.door() as door:
        attached = door.attach(door.open_ready())
        cloud.check_consistent(live=1)
        board.agent.pause()
        with pytest.raises(AssertionError, match="does not report"):
            cloud.check_consistent(live=1, limit_s=0)
        worker = board.worker(SLOTS - 1)
        worker.kill()
        waiting.wait_until(
            lambda: worker not in board.workers(), "the worker ends"
        )
        with pytest.raises(AssertionError, match="workers of board"):
            cloud.check_consistent(live=1, limit_s=0)
        board.agent.resume()
        cloud.check_consistent(live=1)
        doors.let_go([attached])


def test_ten_clients_at_once(
    cloud, board, compute, tmp_path, rng: random.Random
) -> None:
    """Ten programs get what they asked for, wherever their slots are."""

    def run(number: int, host: clouds.Host, aes: programs.Aes):
        source = tmp_path / f"in{number}"
        project = (clouds.PROJECT, clouds.OTHER_PROJECT)[number // 2 % 2]
        certificates = set()

        def on_state(view: client.SessionView) -> None:
            if view.state == "READY":
                certificates.add(view.certificate_sha256)

        report = client.run_file(
            "aes",
            source,
            tmp_path / f"out{number}",
            front_door=host.socket_path(project),
            params=aes.params,
            on_state=on_state,
        )
        return report, certificates

    keys = [programs.Aes(rng) for _ in range(10)]
    texts = [rng.randbytes(rng.randrange(1, 40 * CHUNK)) for _ in keys]
    runs = []
    for number, (aes, text) in enumerate(zip(keys, texts, strict=True)):
        pathlib.Path(tmp_path / f"in{number}").write_bytes(text)
        host = (board, compute)[number % 2]
        runs.append(
            programs.Background(lambda n=number, h=host, a=aes: run(n, h, a))
        )
    for number, one in enumerate(runs):
        report, certificates = one.result()
        output = (tmp_path / f"out{number}").read_bytes()
        assert output == keys[number].encrypt(texts[number])
        assert report.local == (number % 2 == 0)
        assert report.host == "board"
        # What crosses the network is encrypted by a pinned certificate.
        assert None not in certificates


@pytest.mark.parametrize("where", ["board", "compute"])
def test_open_run_close(cloud, board, where: str, rng) -> None:
    """acc_open, acc_run and acc_close process piece by piece."""
    aes = programs.Aes(rng)
    text = rng.randbytes(3 * CHUNK + 17)
    session = client.acc_open(
        "aes",
        len(text),
        params=aes.params,
        front_door=cloud.hosts[where].socket_path(),
    )
    output = bytearray()
    for start in range(0, len(text), CHUNK):
        piece = text[start : start + CHUNK]
        session.pin[: len(piece)] = piece
        output += client.acc_run(session, len(piece))
    transport = session.transport
    client.acc_close(session)
    assert output == aes.encrypt(text)
    assert transport == ("shm" if where == "board" else "stream")
    record = cloud.wait_session(session.session_id, "CLOSED")
    assert (record["reason"], record["input_bytes"]) == ("OK", len(text))


def test_short_sessions_are_closed(cloud, board, compute, rng) -> None:
    """What ended well is recorded as such, however short it was."""
    for _ in range(8):
        text = rng.randbytes(100)
        output, report = client.run_buffer(
            "copy", text, front_door=compute.socket_path()
        )
        assert output == text
        view = cloud.wait_session(report.session_id, "CLOSED")
        assert view["reason"] == "OK"


@pytest.mark.parametrize("where", cases.first("board", "compute"))
def test_program_killed_before_it_connects(cloud, board, where) -> None:
    """A slot that waits for a program that died is free again."""
    program = programs.Program(cloud.hosts[where].socket_path(), "READY")
    assert cloud.state(program.session_id) == "READY"
    program.kill()
    view = cloud.wait_session(program.session_id, "CANCELLED")
    assert view["reason"] == "CLIENT_GONE"


@pytest.mark.parametrize("where", cases.first("compute", "board"))
def test_program_killed_while_it_runs(cloud, board, where) -> None:
    """The slot of a program that died is free again after the grace."""
    program = programs.Program(cloud.hosts[where].socket_path(), "ACTIVE")
    cloud.wait_session(program.session_id, "ACTIVE")
    program.kill()
    cloud.wait_session(program.session_id, "DETACHED")
    view = cloud.wait_session(program.session_id, "EXPIRED")
    assert view["reason"] == "RESUME_TIMEOUT"


def test_cancel_ready(cloud, board) -> None:
    """A session can be cancelled before its client connects."""
    with board.door() as door:
        view = door.open_ready()
        door.request("cancel", session_id=view["session_id"])
        door.wait_state(view["request_id"], "CANCELLED")
        cloud.check_consistent()
        stranger = doors.connect_remote(view)
        assert doors.refusal_of(stranger, view) == "UNAUTHORIZED"


def test_cancel_active(cloud, board) -> None:
    """A session can be cancelled while it runs; its client is told why."""
    with board.door() as door:
        view = door.open_ready()
        attached = door.attach(view)
        door.wait_state(view["request_id"], "ACTIVE")
        door.request("cancel", session_id=view["session_id"])
        with pytest.raises(wire.ErrorFrame) as error:
            attached.recv()
        assert error.value.code == "CANCELLED_BY_CLIENT"
        door.wait_state(view["request_id"], "CANCELLED")
        attached.close()


def test_cancel_by_token(cloud, board) -> None:
    """A program gets out of its own wait, and out of a running transfer."""
    with board.door() as door:
        held = doors.hold_slots(door, SLOTS - 1)
        tokens = client.CancelToken(), client.CancelToken()
        running = programs.Transfer(
            board.socket_path(), bytes(2 * CHUNK), cancel=tokens[0]
        )
        running.run_to(CHUNK)
        queued = programs.Transfer(
            board.socket_path(), bytes(CHUNK), cancel=tokens[1]
        )
        queued.wait_state("QUEUED")
        for token, transfer in zip(tokens, (running, queued), strict=True):
            token.cancel()
            with pytest.raises(client.Cancelled):
                transfer.result()
            cloud.wait_session(transfer.session_id, "CANCELLED")
        doors.let_go(held)


def test_wait_timeout(cloud, board) -> None:
    """A program that will not wait longer gets an answer in time."""
    with board.door() as door:
        held = doors.hold_slots(door, SLOTS)
        with pytest.raises(client.WaitTimeout) as error:
            client.acc_open(
                "copy", 1, front_door=board.socket_path(), wait_timeout_s=1
            )
        assert error.value.code == "WAIT_TIMEOUT"
        doors.let_go(held)


def test_connect_timeout(cloud, board) -> None:
    """A slot whose client does not come goes to somebody else."""
    with board.door() as door:
        view = door.open_ready(connect_timeout_s=1)
        view = door.wait_state(view["request_id"], "EXPIRED")
        assert view["reason"] == "CONNECT_TIMEOUT"


@pytest.mark.parametrize("where", ["board", "compute"])
def test_broken_connection_is_resumed(cloud, board, where, rng) -> None:
    """A broken connection costs a program nothing but time."""
    aes = programs.Aes(rng)
    text = rng.randbytes(30 * CHUNK)
    cutter = programs.Cutter()
    transfer = programs.Transfer(
        cloud.hosts[where].socket_path(),
        text,
        "aes",
        params=aes.params,
        cancel=cutter,
    )
    for upto in (3 * CHUNK, 12 * CHUNK):
        transfer.run_to(upto)
        cutter.cut()
    report = transfer.finish()
    assert transfer.output == aes.encrypt(text)
    assert report.reconnects == 2


def test_grace_expires(cloud, board) -> None:
    """Who comes back too late finds the slot given to somebody else."""
    with board.door() as door:
        view = door.open_ready(resume_grace_s=1)
        lost = door.attach(view)
        assert lost.run(b"data") == b"data"
        lost.close()
        ended = door.wait_state(view["request_id"], "EXPIRED")
        assert ended["reason"] == "RESUME_TIMEOUT"
        code = doors.refusal_of(
            doors.connect_remote(view),
            view,
            resume_secret=lost.opened["resume_secret"],
        )
        assert code == "UNAUTHORIZED"


@pytest.mark.parametrize("where", ["board", "compute"])
def test_worker_killed(cloud, board, where, rng) -> None:
    """Work that keeps no state goes on in another slot, if one dies."""
    text = rng.randbytes(20 * CHUNK)
    path = cloud.hosts[where].socket_path()
    victim, other = (programs.Transfer(path, text) for _ in range(2))
    for transfer in (victim, other):
        transfer.run_to(4 * CHUNK)
    view = cloud.wait_session(victim.session_id, "ACTIVE")
    board.worker(view["slot"]).kill()
    report = victim.finish()
    assert victim.output == text
    assert report.reopens == 1
    # Nobody else has noticed.
    report = other.finish()
    assert other.output == text
    assert (report.reconnects, report.reopens) == (0, 0)


def test_worker_killed_for_good(cloud, board) -> None:
    """A session whose worker died is reported as such."""
    with board.door() as door:
        view = door.open_ready()
        attached = door.attach(view)
        door.wait_state(view["request_id"], "ACTIVE")
        board.worker(view["slot"]).kill()
        ended = door.wait_state(view["request_id"], "FAILED")
        assert ended["reason"] == "WORKER_DIED"
        with pytest.raises(ConnectionError):
            attached.recv()
        attached.close()


def test_repeated_request_opens_once(cloud, board) -> None:
    """A request that is repeated is the same request, also when it ended."""
    request_id = doors.new_request_id()
    with board.door() as first, board.door() as second:
        for _ in range(3):
            first.open(request_id=request_id)
        view = first.wait_state(request_id, "READY")
        second.open(request_id=request_id)
        again = second.wait_state(request_id, "READY")
        assert again["session_id"] == view["session_id"]
        assert again["generation"] == view["generation"]
        cloud.check_consistent(live=1)
        doors.let_go([second.attach(again)])
        second.wait_state(request_id, "CLOSED")
        first.open(request_id=request_id)
        ended = first.wait_state(request_id, "CLOSED")
        assert ended["session_id"] == view["session_id"]


def test_request_id_for_something_else(cloud, board) -> None:
    """A used request id is refused for another request, not for another
    project's.
    """
    request_id = doors.new_request_id()
    with board.door() as door, board.door(clouds.OTHER_PROJECT) as other:
        doors.let_go([door.attach(door.open_ready(request_id=request_id))])
        door.wait_state(request_id, "CLOSED")
        code = door.refusal(request_id=request_id, size_bytes=2)
        assert code == "REQUEST_ID_REUSED"
        doors.let_go([other.attach(other.open_ready(request_id=request_id))])
