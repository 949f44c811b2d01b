# SPDX-License-Identifier: Apache-2.0

"""Chains that compute on the CPU while they wait, in a real pool."""

from __future__ import annotations

import contextlib
import gzip
import io
import random
import threading
from collections.abc import Callable
from collections.abc import Iterator

import pytest

from fpgapool import client
from fpgapool.client.chains import meanwhile
from fpgapool.client.chains import transfer
from fpgapool.vocabulary import codes
from tests.functional.allinone import harness
from tests.harness import programs
from tests.harness import waiting

AES = {"key": programs.KEY, "iv": programs.IV}
MIB = 2**20
DATA = random.Random(3).randbytes(3 * MIB + 776) * 2
SLOTS = 4


class Source(io.RawIOBase):
    """Gives a part of the data, and the rest after something was done.

    :param first_bytes: length of the part.
    """

    def __init__(self, first_bytes: int, between: Callable[[], None]) -> None:
        super().__init__()
        self._data = io.BytesIO(DATA)
        self._first_bytes = first_bytes
        self._between: Callable[[], None] | None = between

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        left_bytes = self._first_bytes - self._data.tell()
        if left_bytes <= 0 and self._between is not None:
            between, self._between = self._between, None
            between()
        if self._between is not None:
            buffer = memoryview(buffer)[:left_bytes]
        return self._data.readinto(buffer)


@contextlib.contextmanager
def busy(pool: harness.Pool) -> Iterator[contextlib.ExitStack]:
    """Hold all slots, until what is given is closed."""
    with contextlib.ExitStack() as stack:
        for _ in range(SLOTS):
            holder = client.acc_open(
                "copy",
                1,
                front_door=pool.front_door(),
                timeout_s=harness.LIMIT_S,
            )
            stack.callback(holder.close)
        yield stack


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> list[meanwhile.Beside]:
    """Give what has computed, as soon as it begins."""
    made: list[meanwhile.Beside] = []
    make = transfer.Job._beside

    def noted(job: transfer.Job) -> meanwhile.Beside:
        made.append(make(job))
        return made[-1]

    monkeypatch.setattr(transfer.Job, "_beside", noted)
    return made


def _chain(pool: harness.Pool, *names: str, **options) -> client.Chain:
    given = {
        "params": {one: AES for one in names if one in ("aes", "aes-cbc")},
        "front_door": pool.front_door(),
        "timeout_s": harness.LIMIT_S,
        "meanwhile": "cpu",
    }
    return client.chain(*names, **{**given, **options})


@pytest.mark.parametrize(
    "names", [("gzip", "aes"), ("aes-cbc", "copy", "gzip")]
)
def test_the_slots_take_over(pool, beside, names) -> None:
    expected, _ = _chain(pool, *names, meanwhile=None).run_buffer(
        DATA, timeout_s=harness.LIMIT_S
    )
    with busy(pool) as slots:

        def between() -> None:
            (one,) = beside
            waiting.wait_until(
                lambda: one.computing.input_bytes == MIB, "input"
            )
            slots.close()
            waiting.wait_until(lambda: one._all_ready, "slots")

        output = io.BytesIO()
        report = _chain(pool, *names).run_stream(
            Source(MIB, between),
            output,
            len(DATA),
            timeout_s=harness.LIMIT_S,
        )
    assert output.getvalue() == expected
    assert [one.slot is not None for one in report.stages] == [True] * len(
        names
    )
    assert report.stages[0].cpu_bytes == MIB
    assert report.input_bytes == len(DATA)
    assert report.output_bytes == len(expected)


def test_the_cpu_computes_all(pool) -> None:
    with busy(pool):
        output, report = _chain(pool, "gzip", "aes").run_buffer(
            DATA, timeout_s=harness.LIMIT_S
        )
    assert gzip.decompress(programs.encrypted(bytes(output))) == DATA
    assert [one.slot for one in report.stages] == [None, None]
    assert report.stages[0].cpu_bytes == len(DATA)
    # Its requests are withdrawn, so that all slots are free.
    again, _ = _chain(pool, *["copy"] * SLOTS, meanwhile=None).run_buffer(
        DATA, timeout_s=harness.LIMIT_S
    )
    assert again == DATA


def test_a_wait_that_the_pool_ends_names_its_stage(pool) -> None:
    with busy(pool):
        chain = _chain(pool, "gzip", "aes", wait_timeout_s=1)
        ended = threading.Event()
        source = Source(MIB, lambda: ended.wait(harness.LIMIT_S))
        with pytest.raises(client.WaitTimeout, match=r"stage [12]"):
            chain.run_stream(
                source,
                io.BytesIO(),
                len(DATA),
                timeout_s=harness.LIMIT_S,
            )
        ended.set()


def test_cancelling_ends_it(pool, beside) -> None:
    token = client.CancelToken()
    with busy(pool):
        chain = _chain(pool, "gzip", "aes", cancel=token)
        with pytest.raises(client.Cancelled):
            chain.run_buffer(
                DATA,
                progress=lambda *_: token.cancel(),
                timeout_s=harness.LIMIT_S,
            )
    waiting.wait_until(
        lambda: not harness.ask_pool(pool.front_door()).get("queued"),
        "requests are withdrawn",
    )


def test_what_the_slots_could_not_continue(pool) -> None:
    with pytest.raises(
        client.InvalidRequest,
        match=r"stage 2 \(sha\): meanwhile: .* no checkpoints",
    ) as caught:
        _chain(
            pool,
            "gzip",
            "sha",
        )
    assert caught.value.stage == 2


def test_another_processor(pool) -> None:
    with pytest.raises(client.InvalidRequest, match="meanwhile") as caught:
        _chain(pool, "gzip", "aes", meanwhile="gpu")
    assert caught.value.code == codes.INVALID_REQUEST
