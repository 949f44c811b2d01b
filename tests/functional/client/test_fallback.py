# SPDX-License-Identifier: Apache-2.0

"""Work that this machine's CPU does when the pool does not."""

import contextlib
import gzip
import json
import pathlib
import random
import socket
import threading

import pytest

from fpgapool import client
from fpgapool.accelerators import base
from fpgapool.accelerators import copy
from fpgapool.client.sessions import opening
from fpgapool.cmd import run
from tests.harness import listener as listeners
from tests.harness import programs

AES = {"key": programs.KEY, "iv": programs.IV}
TIMEOUT_S = 60


@pytest.fixture
def nowhere(tmp_path):
    """Path of a front door that is not there."""
    return str(tmp_path / "none.sock")


def _open(path, accelerator="copy", **options):
    return client.acc_open(
        accelerator,
        1000,
        front_door=path,
        fallback="cpu",
        timeout_s=TIMEOUT_S,
        **options,
    )


def test_no_front_door_at_all(nowhere):
    data = random.Random(1).randbytes(9_000_001)
    done = []
    output, report = client.run_buffer(
        "aes",
        data,
        params=AES,
        front_door=nowhere,
        fallback="cpu",
        progress=lambda *progress: done.append(progress),
    )
    assert bytes(output) == programs.encrypted(data)
    assert report.fallback_reason == "FRONT_DOOR_UNAVAILABLE"
    assert report.host == socket.gethostname()
    assert (report.slot, report.local, report.session_id) == (None, True, "")
    assert report.input_bytes == report.output_bytes == len(data)
    assert done == sorted(done)
    assert done[-1] == (len(data), len(data))


def test_the_energy_of_the_cpu_is_estimated(nowhere, monkeypatch, tmp_path):
    builtin = pathlib.Path(base.__file__).parent / "profiles" / "copy.yaml"
    (tmp_path / "copy.yaml").write_text(
        builtin.read_text()
        + "platforms: {cpu: {peak_bytes_per_s: 1.0e+8, active_w: 1000}}\n"
    )
    reports = []
    for directory in (tmp_path / "none", tmp_path):
        monkeypatch.setenv("FPGAPOOL_ACCELERATORS_DIR", str(directory))
        _, report = client.run_buffer(
            "copy",
            bytes(5_000_000),
            front_door=nowhere,
            fallback="cpu",
        )
        reports.append(report)
    without, measured = reports
    assert without.cpu_energy_j is None
    # One core at most, for as long as the run took.
    assert 0 < measured.cpu_energy_j <= 1000 * measured.ran_s


def test_session_is_like_any_other(nowhere):
    data = random.Random(2).randbytes(3000)
    views = []
    with _open(nowhere, "aes", params=AES, on_state=views.append) as session:
        output = b""
        for start in (0, 1000, 2000):
            session.pin[:1000] = data[start : start + 1000]
            output += client.acc_run(session, 1000)
            assert bytes(session.pout) == output[start:]
        assert bytes(session.finish()) == b""
        with pytest.raises(client.SessionClosed):
            session.run(1)
    assert output == programs.encrypted(data)
    assert (session.transport, session.reopens) == ("cpu", 0)
    assert session.fallback_reason == "FRONT_DOOR_UNAVAILABLE"
    assert session.statistics.input_bytes == 3000
    (view,) = views
    assert (view.state, view.reason) == ("READY", "FRONT_DOOR_UNAVAILABLE")
    client.acc_close(session)
    with pytest.raises(client.SessionClosed):
        session.run(1)


def test_output_of_another_length(nowhere):
    data = random.Random(4).randbytes(1 << 14) * 200
    file, report = client.run_buffer(
        "gzip", data, front_door=nowhere, fallback="cpu"
    )
    assert gzip.decompress(file) == data
    assert report.output_bytes == len(file) < len(data) / 10


def test_argument_that_is_missing(nowhere):
    params = {"features": 3}
    with _open(nowhere, "lr", params=params) as session:
        with pytest.raises(client.SessionFailed) as caught:
            session.run(1024)
    assert caught.value.code == "INVALID_ARGUMENT"
    assert "argument 1, the weights" in caught.value.message


FFT = {"frame_samples": 256}


def test_pieces_are_multiples_of_what_the_core_asks_for(nowhere):
    with _open(nowhere, "fft", params=FFT) as session:
        multiple_bytes = session.flow.chunk_multiple_bytes
        assert multiple_bytes == 256 * 8
        session.pin[: 2 * multiple_bytes] = bytes(2 * multiple_bytes)
        assert len(session.run(multiple_bytes)) == multiple_bytes
        with pytest.raises(client.SessionFailed) as caught:
            session.run(multiple_bytes - 1)
    assert caught.value.code == "INVALID_INPUT"
    assert caught.value.offset_bytes == multiple_bytes


def test_only_the_last_piece_may_be_no_multiple(nowhere):
    params = {"key": programs.KEY, "iv": programs.IV}
    with _open(nowhere, "aes-cbc", params=params) as session:
        session.run(17)
        with pytest.raises(client.SessionFailed) as caught:
            session.run(16)
    assert (caught.value.code, caught.value.offset_bytes) == ("BAD_OFFSET", 17)


def test_core_that_fails(nowhere, monkeypatch):
    def process(*_):
        raise RuntimeError("secret")

    monkeypatch.setattr(copy.CopyCore, "process", process)
    with _open(nowhere) as session:
        with pytest.raises(client.SessionFailed) as caught:
            session.run(16)
    assert caught.value.code == "CORE_FAILED"
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("state", ["REJECTED", "FAILED"])
@pytest.mark.parametrize(
    "code",
    [
        "WAIT_TIMEOUT",
        "QUEUE_FULL",
        "NO_COMPATIBLE_SLOT",
        "ACCELERATOR_OUT_OF_USE",
        "PROGRAM_FAILED",
        "CONDUCTOR_UNAVAILABLE",
        "DATABASE_UNAVAILABLE",
        "TOO_MANY_CONNECTIONS",
    ],
)
def test_refused(pools, code, state):
    pool = pools()
    pool.rejection = {"state": state, "reason": code, "message": "m"}
    with _open(pool.path, verify=False) as session:
        session.pin[:3] = b"abc"
        assert bytes(session.run(3)) == b"abc"
    assert session.fallback_reason == code


@pytest.mark.parametrize(
    "code",
    ["REQUEST_ID_REUSED", "QUOTA_EXCEEDED", "CANCELLED_BY_CLIENT"],
)
def test_refused_for_other_reasons(pools, code):
    pool = pools()
    pool.rejection = {"state": "REJECTED", "reason": code, "message": "m"}
    with pytest.raises(client.FpgapoolError, match="m"):
        _open(pool.path, verify=False)


def test_wait_timeout_that_the_pool_does_not_keep(pools, monkeypatch):
    monkeypatch.setattr(opening, "_QUEUE_MARGIN_S", 1.0)
    pool = pools()
    pool.ready.clear()
    with _open(pool.path, verify=False, wait_timeout_s=0.1) as session:
        assert session.fallback_reason == "WAIT_TIMEOUT"
    assert pool.cancelled.is_set()


def test_front_door_that_goes_away_while_waiting(pools, monkeypatch):
    monkeypatch.setattr(opening, "_FALLBACK_PATIENCE_S", 0.2)
    pool = pools()
    pool.drop_while_queued = 1
    # Nobody listens when the client comes back.
    with _open(pool.path, verify=False, on_state=lambda _: pool.stop()) as one:
        assert one.fallback_reason == "FRONT_DOOR_UNAVAILABLE"


def test_wait_timeout_holds_while_the_front_door_is_away(pools, monkeypatch):
    monkeypatch.setattr(opening, "_QUEUE_MARGIN_S", 0.1)
    pool = pools()
    pool.drop_while_queued = 1
    with pytest.raises(client.WaitTimeout):
        client.acc_open(
            "copy",
            1,
            front_door=pool.path,
            wait_timeout_s=0.1,
            verify=False,
            on_state=lambda _: pool.stop(),
        )


@pytest.fixture
def hanging(tmp_path):
    """Give the path of a front door that listens, and does nothing else."""
    with listeners.listening(str(tmp_path / "hangs")) as listener:
        yield listener.path


@pytest.fixture
def full(tmp_path):
    """Give the path of one that hangs, and has no room left."""
    with listeners.listening(str(tmp_path / "full")) as listener:
        listener.fill()
        yield listener.path


@pytest.mark.parametrize("door", ["hanging", "full"])
@pytest.mark.parametrize(
    ("options", "margin_s", "patience_s"),
    [({}, 3600.0, 0.3), ({"wait_timeout_s": 0.1}, 0.1, 3600.0)],
)
def test_front_door_that_hangs(
    request, monkeypatch, door, options, margin_s, patience_s
):
    monkeypatch.setattr(opening, "_FALLBACK_PATIENCE_S", patience_s)
    monkeypatch.setattr(opening, "_QUEUE_MARGIN_S", margin_s)
    path = request.getfixturevalue(door)
    with client.acc_open(
        "copy", 3, front_door=path, fallback="cpu", verify=False, **options
    ) as session:
        session.pin[:3] = b"abc"
        assert bytes(session.run(3)) == b"abc"
    assert session.fallback_reason in (
        "FRONT_DOOR_UNAVAILABLE",
        "WAIT_TIMEOUT",
    )


def test_front_door_that_hangs_for_as_long_as_was_said(full):
    with pytest.raises(client.OperationTimeout):
        client.acc_open(
            "copy", 3, front_door=full, fallback="cpu", timeout_s=0.2
        )


def test_time_limit_is_none_for_the_slot(pools):
    pool = pools()
    pool.ready.clear()
    with pytest.raises(client.OperationTimeout):
        client.acc_open(
            "copy",
            1,
            front_door=pool.path,
            fallback="cpu",
            timeout_s=0.2,
            verify=False,
        )


def test_slot_in_time_is_taken(pools):
    with _open(pools().path, verify=False) as session:
        assert session.fallback_reason is None
        assert session.transport == "shm"


def test_accelerator_that_this_machine_does_not_have(nowhere):
    with pytest.raises(client.FrontDoorUnavailable):
        _open(nowhere, "tenants-own")


def test_accelerator_of_the_same_name_with_another_core(pools):
    pool = pools()
    pool.core = "tenants-own"
    pool.rejection = {"state": "REJECTED", "reason": "WAIT_TIMEOUT"}
    with pytest.raises(client.WaitTimeout):
        _open(pool.path, params={"key": "1234"})


@pytest.mark.parametrize("params", [{}, {"key": "zz", "iv": "00" * 16}])
def test_wrong_parameters_stay_wrong(nowhere, params):
    with pytest.raises(client.InvalidParams) as caught:
        _open(nowhere, "aes", params=params)
    assert "zz" not in str(caught.value)


def _run_for_ever(path, **options):
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(open("/dev/zero", "rb", buffering=0))
        destination = stack.enter_context(open("/dev/null", "wb"))
        client.run_stream(
            "copy",
            source,
            destination,
            2**60,
            front_door=path,
            fallback="cpu",
            **options,
        )


@pytest.mark.parametrize("kind", [client.CancelToken, threading.Event])
def test_cancelled_while_running(nowhere, kind):
    cancel = kind()

    def progress(done_bytes, _total_bytes):
        (cancel.cancel if kind is client.CancelToken else cancel.set)()

    with pytest.raises(client.Cancelled):
        _run_for_ever(nowhere, cancel=cancel, progress=progress)


def test_deadline_is_looked_at_between_pieces(nowhere):
    with pytest.raises(client.OperationTimeout):
        _run_for_ever(nowhere, timeout_s=0.2)


def test_command(nowhere, tmp_path, capsys):
    source, destination = tmp_path / "in", tmp_path / "out"
    data = random.Random(4).randbytes(300_000)
    source.write_bytes(data)
    arguments = [
        *("copy", "--socket", nowhere),
        *("--in", str(source), "--out", str(destination)),
    ]
    assert run.main(arguments) == 1
    assert "FRONT_DOOR_UNAVAILABLE" in capsys.readouterr().err
    assert run.main([*arguments, "--fallback", "cpu"]) == 0
    assert destination.read_bytes() == data
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "fpgapool-run: no slot (FRONT_DOOR_UNAVAILABLE): "
        "computing on this machine's CPU"
    ]
    assert f"on the CPU of {socket.gethostname()}" in said.out
    assert run.main([*arguments, "--fallback", "cpu", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["fallback_reason"] == "FRONT_DOOR_UNAVAILABLE"
    assert run.main([*arguments, "--fallback", "gpu"]) == 2
