# SPDX-License-Identifier: Apache-2.0

"""Sessions that compute on the CPU while they wait, in a real pool."""

import contextlib
import random
import subprocess
from collections.abc import Iterator

from fpgapool import client
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states
from tests.functional.allinone import harness
from tests.harness import programs
from tests.harness import waiting

PIECE_BYTES = 10_000
AES = {"key": programs.KEY, "iv": programs.IV}


class Work:
    """A session of ``aes`` with its input and output.

    :param front_door: the way into the pool.
    """

    def __init__(self, front_door: str | client.PoolApi) -> None:
        self.data = b""
        self.output = b""
        self._random = random.Random(1)
        self.session = client.acc_open(
            "aes",
            10**9,
            params=AES,
            front_door=front_door,
            timeout_s=harness.LIMIT_S,
            meanwhile="cpu",
        )

    def run(self) -> str:
        """Process a piece and say what has done it."""
        piece = self._random.randbytes(PIECE_BYTES)
        self.session.pin[:PIECE_BYTES] = piece
        self.output += self.session.run(PIECE_BYTES, timeout_s=harness.LIMIT_S)
        self.data += piece
        return self.session.transport

    def check(self) -> None:
        """Compare the output."""
        assert self.output == programs.encrypted(self.data)


@contextlib.contextmanager
def all_busy(site: harness.Site) -> Iterator[client.Session]:
    """Hold both slots of the pool, and give one of these sessions."""
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            holder = stack.enter_context(
                client.acc_open(
                    "copy",
                    1,
                    front_door=site.pool.front_door(),
                    timeout_s=harness.LIMIT_S,
                )
            )
        yield holder


def wait_for_the_end(
    site: harness.Site, session: client.Session
) -> tuple[str, str]:
    """Return the final state and its reason."""
    waiting.wait_until(
        lambda: site.shown(session.session_id)["state"] in states.TERMINAL,
        "the end of the session",
        harness.LIMIT_S,
    )
    ended = site.shown(session.session_id)
    return ended["state"], ended["reason"]


def test_a_slot_goes_on_with_the_work_of_the_cpu(
    site: harness.Site, front_door: str | client.PoolApi
) -> None:
    with all_busy(site) as holder:
        work = Work(front_door)
        with work.session as session:
            assert session.view.state == states.QUEUED
            assert [work.run() for _ in range(3)] == ["cpu"] * 3
            holder.close()
            waiting.wait_until(
                lambda: work.run() != "cpu", "a slot", harness.LIMIT_S
            )
            assert session.slot is not None
            work.output += session.finish()
    work.check()
    assert (session.reopens, session.fallback_reason) == (0, None)
    assert wait_for_the_end(site, session) == (states.CLOSED, codes.OK)


def test_the_command_computes_meanwhile(site: harness.Site, tmp_path) -> None:
    data = random.Random(2).randbytes(PIECE_BYTES)
    (tmp_path / "data").write_bytes(data)
    with all_busy(site):
        result = subprocess.run(
            harness.command(
                *("run", "copy", "--in", "data", "--out", "out"),
                *("--meanwhile", "cpu"),
                *("--socket", site.pool.front_door()),
            ),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=harness.LIMIT_S,
        )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "out").read_bytes() == data
    assert "this machine's CPU" in result.stdout + result.stderr
    assert "not respond" not in result.stderr
