# SPDX-License-Identifier: Apache-2.0

"""What is over holds no memory and descriptors until a collector runs."""

import contextlib
import gc
import io
import weakref

import pytest

from fpgapool import client
from fpgapool.client.links import connection
from fpgapool.client.sessions import flow
from tests.functional.client import fakepool
from tests.harness import waiting

_SIZE_BYTES = 3 * fakepool.CHUNK_BYTES
_PARAMS = {"key": "1234"}


def _open(pool, **options):
    return client.acc_open(
        "copy",
        _SIZE_BYTES,
        params=_PARAMS,
        front_door=pool.path,
        timeout_s=60,
        **options,
    )


def _close(pool):
    session = _open(pool)
    session.run(100)
    session.finish()
    session.close()


def _abort(pool):
    session = _open(pool)
    session.run(100)
    session.abort()


def _raise_within(pool):
    with contextlib.suppress(KeyError), _open(pool) as session:
        session.run(100)
        raise KeyError


def _break(pool):
    token = client.CancelToken()
    with _open(pool, cancel=token) as session:
        for _ in range(3):
            session.run(100)
            for channel in token._channels:
                if hasattr(channel, "sock"):
                    channel.shutdown()
                    break
        session.run(100)


def _time_out(pool):
    pool.worker.hold.clear()
    session = _open(pool)
    with pytest.raises(client.OperationTimeout):
        session.run(100, timeout_s=0.05)
    with pytest.raises(client.OperationTimeout):
        session.run(100)
    session.close()


def _cancel(pool):
    token = client.CancelToken()
    session = _open(pool, cancel=token)
    token.cancel()
    with pytest.raises(client.Cancelled):
        session.run(100)
    with pytest.raises(client.Cancelled):
        session.run(100)
    session.close()


def _fail(pool):
    pool.worker.fail_at = 0
    session = _open(pool)
    with pytest.raises(client.SessionFailed):
        session.run(100)
    session.close()


def _transfer(pool):
    client.run_buffer(
        "copy", bytes(_SIZE_BYTES), params=_PARAMS, front_door=pool.path
    )


class _Empty(io.RawIOBase):
    """Ends at once, as a pipe may."""

    def readable(self):
        return True

    def readinto(self, buffer):
        return 0


def _read_too_little(pool):
    with pytest.raises(client.InvalidRequest, match="SIZE_MISMATCH"):
        client.run_stream(
            "copy",
            _Empty(),
            io.BytesIO(),
            _SIZE_BYTES,
            params=_PARAMS,
            front_door=pool.path,
        )


def _write_nowhere(pool):
    destination = io.BytesIO()
    destination.close()
    with pytest.raises(ValueError, match="closed"):
        client.run_stream(
            "copy",
            io.BytesIO(bytes(_SIZE_BYTES)),
            destination,
            _SIZE_BYTES,
            params=_PARAMS,
            front_door=pool.path,
        )


def _fail_in_background(pool):
    pool.worker.fail_at = 0
    future = client.submit(
        "copy", bytes(100), params=_PARAMS, front_door=pool.path
    )
    assert future.exception(60) is not None


_ENDS = (
    _close,
    _abort,
    _raise_within,
    _break,
    _time_out,
    _cancel,
    _fail,
    _transfer,
    _read_too_little,
    _write_nowhere,
    _fail_in_background,
)


@pytest.mark.parametrize("end", _ENDS, ids=[one.__name__ for one in _ENDS])
@pytest.mark.parametrize("local", [True, False], ids=["shm", "tcp"])
def test_nothing_waits_for_the_collector(pools, monkeypatch, local, end):
    made: list[weakref.ref] = []

    def watch(kind) -> None:
        before = kind.__init__

        def init(self, *args, **options) -> None:
            made.append(weakref.ref(self))
            before(self, *args, **options)

        monkeypatch.setattr(kind, "__init__", init)

    watch(flow.Flow)
    watch(connection.SharedBuffers)
    pool = pools(local=local)
    gc.disable()
    try:
        end(pool)
        assert made
        # Its threads may not have returned yet.
        waiting.wait_until(
            lambda: all(one() is None for one in made),
            lambda: f"no more {[one() for one in made]}",
        )
    finally:
        gc.enable()
