# SPDX-License-Identifier: Apache-2.0

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading

import pytest
from oslo_config import cfg

from fpgapool.common import service

WAIT_S = 30


class _Service:
    """Notes what happens to it and can act when it is started."""

    def __init__(self, name, events, on_start=lambda: None, error=None):
        self._name = name
        self._events = events
        self._on_start = on_start
        self._error = error

    def start(self):
        self._events.append(f"start {self._name}")
        self._on_start()

    def stop(self):
        self._events.append(f"stop {self._name}")
        if self._error is not None:
            raise self._error


def _conf() -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[])
    return conf


def _kill_self(number: int):
    return lambda: os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_services_in_order(number):
    events = []
    before = signal.getsignal(number)
    exit_code = service.Runner(_conf()).run(
        [
            _Service("a", events),
            _Service("b", events, on_start=_kill_self(number)),
        ]
    )
    assert exit_code == 0
    assert events == ["start a", "start b", "stop b", "stop a"]
    assert signal.getsignal(number) == before


def test_one_that_does_not_stop_does_not_hinder_the_others(caplog):
    events = []
    service.Runner(_conf()).run(
        [
            _Service("a", events),
            _Service(
                "b",
                events,
                on_start=_kill_self(signal.SIGTERM),
                error=RuntimeError("stuck"),
            ),
        ]
    )
    assert events[-1] == "stop a"
    assert "stuck" in caplog.text


def test_one_that_does_not_start_ends_the_others():
    events = []

    def refuse():
        raise RuntimeError("no boards")

    with pytest.raises(RuntimeError, match="no boards"):
        service.Runner(_conf()).run(
            [_Service("a", events), _Service("b", events, on_start=refuse)]
        )
    assert events == ["start a", "start b", "stop b", "stop a"]


def test_a_failed_thread_ends_the_process_with_an_error(caplog):
    runner = service.Runner(_conf())

    def fail_later():
        threading.Thread(target=runner.fail, args=("pump died",)).start()

    events = []
    assert runner.run([_Service("a", events, on_start=fail_later)]) == 1
    assert events == ["start a", "stop a"]
    assert "pump died" in caplog.text


def test_a_signal_that_another_thread_gets_ends_the_process():
    runner = service.Runner(_conf())
    main_id = threading.get_ident()
    # If it is lost, the test has to end all the same.
    rescue = threading.Timer(60, runner.fail, args=("the signal was lost",))

    def get_signal():
        while sys._current_frames()[main_id].f_code.co_name != "_next":
            threading.Event().wait(0.01)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    def start():
        rescue.start()
        threading.Thread(target=get_signal).start()

    try:
        assert runner.run([_Service("a", [], on_start=start)]) == 0
    finally:
        rescue.cancel()


def test_hangup_reads_the_configuration_again(tmp_path):
    path = tmp_path / "fpgapool.conf"
    path.write_text("[DEFAULT]\nlevel = 1\n")
    conf = cfg.ConfigOpts()
    conf.register_opt(cfg.IntOpt("level", mutable=True))
    conf(["--config-file", str(path)], default_config_files=[])
    assert conf.level == 1
    seen = []

    def reloaded():
        seen.append(conf.level)
        os.kill(os.getpid(), signal.SIGTERM)

    path.write_text("[DEFAULT]\nlevel = 2\n")
    runner = service.Runner(conf, on_reload=reloaded)
    runner.run([_Service("a", [], on_start=_kill_self(signal.SIGHUP))])
    assert seen == [2]


def test_a_bad_configuration_does_not_end_what_runs(tmp_path, caplog):
    path = tmp_path / "fpgapool.conf"
    path.write_text("")
    conf = cfg.ConfigOpts()
    conf(["--config-file", str(path)], default_config_files=[])
    path.write_text("this is [not a configuration\n")

    def hang_up_and_end():
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)

    events = []
    exit_code = service.Runner(conf).run(
        [_Service("a", events, on_start=hang_up_and_end)]
    )
    assert (exit_code, events) == (0, ["start a", "stop a"])
    assert "Cannot reload" in caplog.text


def test_whoever_insists_ends_the_process_at_once():
    program = textwrap.dedent(
        """
        import sys, threading
        from oslo_config import cfg
        from fpgapool.common import service

        class Stuck:
            def start(self):
                print("started", flush=True)
            def stop(self):
                print("stopping", flush=True)
                threading.Event().wait()

        conf = cfg.ConfigOpts()
        conf([], default_config_files=[])
        sys.exit(service.Runner(conf).run([Stuck()]))
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "stopping\n"
        # The echo of the first signal, as a process group gets it.
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        for _ in range(100):
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
                break
        assert process.wait(WAIT_S) == 128 + signal.SIGTERM


def test_a_service_that_the_kernel_ends_says_where():
    program = textwrap.dedent(
        """
        import os, signal
        from oslo_config import cfg
        from fpgapool.common import service

        class Looks:
            def start(self):
                os.kill(os.getpid(), signal.SIGBUS)
            def stop(self):
                pass

        conf = cfg.ConfigOpts()
        conf([], default_config_files=[])
        service.Runner(conf).run([Looks()])
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == -signal.SIGBUS
    assert "Fatal Python error: Bus error" in done.stderr
    assert "in start" in done.stderr


@pytest.fixture(params=["file", "abstract"])
def systemd(request, tmp_path, monkeypatch):
    """Give a socket that hears what systemd would."""
    path = str(tmp_path / "notify")
    address = path
    if request.param == "abstract":
        path, address = f"@{path}", f"\0{path}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(address)
        channel.settimeout(WAIT_S)
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        yield channel


def test_systemd_is_told(systemd):
    service.Runner(_conf()).run(
        [_Service("a", [], on_start=_kill_self(signal.SIGTERM))]
    )
    assert systemd.recv(100) == b"READY=1"
    assert systemd.recv(100) == b"STOPPING=1"


def test_a_deaf_systemd_does_not_matter(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    service.notify("READY=1")
    assert "READY=1" in caplog.text
