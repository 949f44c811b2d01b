# SPDX-License-Identifier: Apache-2.0

"""Helpers: what workers get from them, and what they take from workers."""

import concurrent.futures
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from fpgapool.drivers import base
from fpgapool.drivers import helper
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import shapes

_TEXT = shapes.Members({"text": shapes.text(8)})


def _open_files(_data):
    targets = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            targets[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
    return json.dumps(targets).encode()


def _refuse(_data):
    raise base.DriverError(codes.SCRUB_FAILED, "the board does not answer")


def _say(_data):
    os.write(1, b"here")
    return b""


def _say_and_hang(_data):
    os.write(1, b"here")
    signal.pause()


def _fail(_data):
    raise OSError("no room on the disk")


DUTIES = {
    "pid": helper.Duty(lambda _data: str(os.getpid()).encode()),
    "join": helper.Duty(
        lambda data, text: data + text.encode(), _TEXT, 1 << 20
    ),
    "small": helper.Duty(lambda data: data, max_bytes=4),
    "files": helper.Duty(_open_files),
    "refuse": helper.Duty(_refuse),
    "fail": helper.Duty(_fail),
    "die": helper.Duty(lambda _data: os.kill(os.getpid(), signal.SIGKILL)),
    "say": helper.Duty(_say),
    "say_and_hang": helper.Duty(_say_and_hang),
}


def duties():
    return DUTIES


def start():
    return helper.start(f"{__name__}:duties")


@pytest.fixture
def helping():
    found = start()
    yield found
    found.end()


def refusal(asked, *arguments, **members):
    with pytest.raises(base.DriverError) as caught:
        asked.ask(*arguments, **members)
    return caught.value


def test_a_duty_is_done_in_another_process(helping):
    assert helping.ask("pid") == str(helping.pid).encode()
    assert helping.pid != os.getpid()
    assert helper.Local(DUTIES).ask("pid") == str(os.getpid()).encode()


def test_a_helper_that_was_forked_beforehand_is_used_once():
    helper.prepare()
    (prepared,) = helper._prepared
    first, second = start(), start()
    assert first is prepared
    assert first.ask("pid") != second.ask("pid")
    first.end()
    second.end()


@pytest.mark.parametrize("size_bytes", [0, 1, 1 << 20])
def test_data_goes_there_and_back(helping, size_bytes):
    data = os.urandom(size_bytes)
    assert helping.ask("join", data, text="end") == data + b"end"


def test_each_of_many_threads_gets_its_own_answer(helping):
    def ask(number):
        return helping.ask("join", b"%d" % number, text="!")

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ask, range(200)))
    assert answers == [b"%d!" % number for number in range(200)]


def test_an_error_arrives_with_its_code(helping):
    error = refusal(helping, "refuse")
    assert (error.code, error.message) == (
        codes.SCRUB_FAILED,
        "the board does not answer",
    )
    error = refusal(helping, "fail")
    assert error.code == codes.DEVICE_FAILED
    assert error.message == "OSError: no room on the disk"
    assert helping.ask("small", b"next") == b"next"


@pytest.mark.parametrize(
    ("name", "data", "members", "said"),
    [
        ("format", b"", {}, "must be one of: "),
        ("join", b"", {}, "members.text: is missing"),
        ("join", b"", {"text": "x" * 9}, "at most 8 characters"),
        ("join", b"", {"text": ["x"]}, "must be a string"),
        ("join", b"", {"text": "x", "more": 1}, "unknown member"),
        ("join", b"", {"text": {"a": {"b": {"c": {}}}}}, "deep"),
        ("pid", b"", {"text": "x"}, "unknown member"),
        ("small", b"12345", {}, "at most 4 bytes"),
    ],
)
def test_an_odd_request_is_refused(helping, name, data, members, said):
    error = refusal(helping, name, data, **members)
    assert error.code == codes.INVALID_REQUEST
    assert said in error.message
    assert helping.ask("small", b"next") == b"next"


@pytest.mark.parametrize("header", [b"", b"\xff", b"[]", b"{", b"1e999"])
def test_a_header_that_is_no_request_is_refused(helping, header):
    helping._connection.send_bytes(header)
    code, _ = json.loads(helping._connection.recv_bytes())
    assert code == codes.INVALID_REQUEST


@pytest.mark.parametrize(
    ("name", "data"), [("small", bytes(2 << 20)), ("x" * (2 << 20), b"")]
)
def test_a_request_that_is_too_long_ends_the_helper(helping, name, data):
    assert refusal(helping, name, data).code == codes.PROCESS_SPENT
    assert refusal(helping, "pid").code == codes.PROCESS_SPENT


def test_a_worker_learns_that_its_helper_has_died(helping):
    error = refusal(helping, "die")
    assert error.code == codes.PROCESS_SPENT
    assert "helper process" in error.message
    assert refusal(helping, "pid").code == codes.PROCESS_SPENT


def test_an_interrupted_request_leaves_no_answer_behind(helping, monkeypatch):
    def interrupt(_data):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(json, "loads", interrupt)
        with pytest.raises(KeyboardInterrupt):
            helping.ask("pid")
    assert refusal(helping, "small", b"1").code == codes.PROCESS_SPENT


def test_a_helper_has_no_descriptors_of_its_worker(tmp_path):
    listener = socket.socket()
    with listener, open(tmp_path / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        helping = start()
        files = json.loads(helping.ask("files"))
    try:
        assert files["0"] == os.devnull
        others = [files[fd] for fd in files if int(fd) > 2]
        assert str(tmp_path / "lock") not in others
        assert sum(each.startswith("socket:") for each in others) == 1
        # It would keep the lock.
        with open(tmp_path / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        helping.end()


def test_signals_to_the_service_do_not_end_the_helper(helping):
    helping.ask("pid")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(helping.pid, number)
    assert helping.ask("small", b"here") == b"here"


_WORKER = """
from tests.unit.drivers import test_helper
helping = test_helper.start()
helping.ask({name!r})
"""


@pytest.mark.parametrize("name", ["say", "say_and_hang"])
def test_a_helper_ends_with_its_worker_even_if_it_hangs(name):
    program = _WORKER.format(name=name) + "import signal; signal.pause()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdout.read(4) == b"here"
        worker.kill()
        # The pipe ends when both processes have ended.
        assert worker.stdout.read() == b""


def test_a_helper_writes_to_the_log_of_its_worker(tmp_path):
    program = """
import logging, sys
logging.basicConfig(filename=sys.argv[1])
from tests.unit.drivers import test_helper
helping = test_helper.start()
for _ in range(50):
    test_helper.refusal(helping, "fail")
"""
    log = tmp_path / "log"
    subprocess.run([sys.executable, "-c", program, log], check=True)
    # No limit of the worker's files holds for its helper.
    assert 0 < log.read_text().count("no room on the disk") < 50
