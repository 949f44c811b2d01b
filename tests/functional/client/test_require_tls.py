# SPDX-License-Identifier: Apache-2.0

"""Programs that insist on TLS, against a pool made for it and a real one."""

from __future__ import annotations

import pytest

from fpgapool import client
from tests.functional.client import fakepool
from tests.harness import slots

PARAMS = {"key": b"\x12\x34"}
TIMEOUT_S = 60
DATA = bytes(range(200))

pytestmark = pytest.mark.security


def _run(pool, **options) -> bytes:
    options = {"params": PARAMS, "require_tls": True, **options}
    output, _ = client.run_buffer(
        "copy", DATA, front_door=pool.path, timeout_s=TIMEOUT_S, **options
    )
    return bytes(output)


def test_nothing_is_sent_to_a_worker_without_tls(pools) -> None:
    pool = pools(local=False)
    with pytest.raises(client.SessionFailed) as caught:
        _run(pool)
    assert caught.value.code == "TLS_REQUIRED"
    assert pool.worker.hellos == []
    assert pool.cancelled.is_set()


def test_memory_of_the_same_host_needs_none(pools) -> None:
    assert _run(pools(local=True)) == fakepool.copied(DATA, 0)


def test_a_session_does_not_move_to_a_worker_without_tls(pools) -> None:
    spare = fakepool.Worker(local=False)
    pool = pools(local=True, yields_at=0, spares=[spare])
    with pytest.raises(client.SessionFailed) as caught:
        _run(pool)
    assert caught.value.code == "TLS_REQUIRED"
    assert spare.hellos == []


def test_a_worker_with_tls_is_used(directory) -> None:
    with slots.Door(directory, "tls") as door:
        assert _run(door, params=None) == DATA


def test_the_environment_insists_unless_the_program_says_otherwise(
    pools, monkeypatch
) -> None:
    monkeypatch.setenv("FPGAPOOL_REQUIRE_TLS", "true")
    with pytest.raises(client.SessionFailed) as caught:
        _run(pools(local=False), require_tls=None)
    assert caught.value.code == "TLS_REQUIRED"
    output = _run(pools(local=False), require_tls=False)
    assert output == fakepool.copied(DATA, 0)
