# SPDX-License-Identifier: Apache-2.0

"""What ``tests/chaos`` counts of what sessions send again."""

import pytest

from fpgapool import client
from fpgapool.client.sessions import flow as flows
from tests.chaos import resending
from tests.functional.client import fakepool

DATA = bytes(40 * fakepool.CHUNK_BYTES)
#: A connection breaks when a window of pieces is on its way.
BUDGET_BYTES = 5 * fakepool.CHUNK_BYTES


@pytest.mark.parametrize("mortal", [False, True])
def test_what_is_sent_again_is_counted(
    pools, monkeypatch: pytest.MonkeyPatch, mortal: bool
) -> None:
    monkeypatch.setattr(flows, "Flow", flows.Flow)
    resending.count()
    tally = resending.begin()
    pool = pools(
        budgets=(BUDGET_BYTES,),
        mortal=mortal,
        local=False,
        spares=[fakepool.Worker(local=False)],
    )
    output, _report = client.run_buffer(
        "copy",
        DATA,
        params={"key": b"\x12\x34"},
        front_door=pool.path,
        timeout_s=60,
    )
    assert bytes(output) == fakepool.copied(DATA, 0)
    assert (tally.resumes, tally.reopens) == ((0, 1) if mortal else (1, 0))
