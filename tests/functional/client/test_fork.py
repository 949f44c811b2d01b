# SPDX-License-Identifier: Apache-2.0

"""A session belongs to the process that has opened it."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import traceback
from collections.abc import Callable

import pytest

from fpgapool import client
from tests.functional.client import fakepool

PARAMS = {"key": b"\x12\x34"}
TIMEOUT_S = 60
SIZE_BYTES = 1000


def _open(pool, **options) -> client.Session:
    options = {"params": PARAMS, "timeout_s": TIMEOUT_S, **options}
    return client.acc_open("copy", SIZE_BYTES, front_door=pool.path, **options)


def _in_child(action: Callable[[], object]) -> str | None:
    """Do something in a child made by fork.

    :returns: the code of its error; None if there was none.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        # Nothing of the test runner's may run here.
        signal.alarm(TIMEOUT_S)
        try:
            code = None
            try:
                action()
            except client.FpgapoolError as error:
                code = error.code
            os.write(writer, json.dumps(code).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as stream:
        content = stream.read()
    os.waitpid(pid, 0)
    return json.loads(content)


def _run(session: client.Session) -> None:
    """Check that a session is as good as before."""
    data = random.Random(1).randbytes(SIZE_BYTES)
    session.pin[:SIZE_BYTES] = data
    output = bytes(session.run(SIZE_BYTES, timeout_s=TIMEOUT_S))
    assert output == fakepool.copied(data, 0)


@pytest.fixture(params=[True, False], ids=["shm", "tcp"])
def pool(request, pools) -> fakepool.Pool:
    return pools(local=request.param)


@pytest.mark.parametrize(
    "use",
    [
        lambda session: session.pin,
        lambda session: session.run(1, timeout_s=TIMEOUT_S),
        lambda session: session.finish(timeout_s=TIMEOUT_S),
        lambda session: session.close(timeout_s=TIMEOUT_S),
        lambda session: session.__exit__(None, None, None),
    ],
    ids=["pin", "run", "finish", "close", "leave"],
)
def test_a_child_cannot_use_the_session_of_its_parent(pool, use) -> None:
    with _open(pool) as session:
        assert _in_child(lambda: use(session)) == "SESSION_FORKED"
        _run(session)


def _fail_within(session: client.Session) -> None:
    try:
        with session:
            raise SystemExit
    except SystemExit:
        pass


@pytest.mark.parametrize(
    "end", [_fail_within, client.Session.abort], ids=["fail", "abort"]
)
def test_a_child_that_ends_leaves_the_session_to_its_parent(pool, end) -> None:
    with _open(pool) as session:
        assert _in_child(lambda: end(session)) is None
        _run(session)
        assert session.reconnects == 0
    assert not pool.cancelled.is_set()


def test_a_token_cancels_what_its_own_process_waits_for(pool) -> None:
    """A pool of processes ends its children by a signal."""
    token = client.CancelToken()
    with _open(pool, cancel=token) as session:
        assert _in_child(token.cancel) is None
        _run(session)
        assert session.reconnects == 0
    assert not token.cancelled


def _use_own(path: str) -> bytes:
    output, _ = client.run_buffer(
        "copy", b"data", params=PARAMS, front_door=path, timeout_s=TIMEOUT_S
    )
    return bytes(output)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_has_sessions_of_its_own(pools, method) -> None:
    with multiprocessing.get_context(method).Pool(1) as processes:
        result = processes.apply_async(_use_own, (str(pools().path),))
        assert result.get(TIMEOUT_S) == fakepool.copied(b"data", 0)
