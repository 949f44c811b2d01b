# SPDX-License-Identifier: Apache-2.0

"""Programs that use one session each, in threads, and check each byte."""

import random
import threading
import typing

from fpgapool import client

#: The claim of each session; none sends so much.
CLAIM_BYTES = 2**30
_LONGEST_BYTES = 2**16
_LIMIT_S = 500


class User(threading.Thread):
    """Sends random pieces through ``copy``.

    :param door: a way into the pool.
    :param seed: of the pieces; also names its request.
    :param pieces: how many to send; None: until it is told to stop.
    :ivar begun: the first piece is done, or the session has failed.
    :ivar cpu_bytes: the part of ``sent_bytes`` that the CPU has computed.
    :ivar moves: how often the work went from the CPU to a slot, or back.
    """

    def __init__(
        self,
        door: str | client.PoolApi,
        seed: int,
        pieces: int | None = None,
        **options: typing.Any,
    ) -> None:
        super().__init__()
        self._door = door
        self._rng = random.Random(seed)
        self._pieces = pieces
        self.options = options
        self.enough = threading.Event()
        self.begun = threading.Event()
        self.request_id = f"user{seed}"
        self.session_id = ""
        self.sent_bytes = self.cpu_bytes = self.reopens = self.moves = 0
        self._on_cpu: bool | None = None
        self._error: Exception | None = None

    def run(self) -> None:
        """Use the session to its end."""
        try:
            with client.acc_open(
                "copy",
                size_bytes=CLAIM_BYTES,
                front_door=self._door,
                timeout_s=_LIMIT_S,
                request_id=self.request_id,
                **self.options,
            ) as session:
                self.session_id = session.session_id
                left = self._pieces
                while left != 0 and not self.enough.is_set():
                    self._run_piece(session)
                    self.begun.set()
                    left = None if left is None else left - 1
                self.reopens = session.reopens
        except Exception as error:
            self._error = error
        self.begun.set()

    def _run_piece(self, session: client.Session) -> None:
        size_bytes = self._rng.randint(1, _LONGEST_BYTES)
        data = self._rng.randbytes(size_bytes)
        session.pin[:size_bytes] = data
        output = client.acc_run(session, size_bytes)
        assert output == data, f"at {self.sent_bytes} of {self.session_id}"
        self.sent_bytes += size_bytes
        on_cpu = session.transport == "cpu"
        if on_cpu:
            self.cpu_bytes += size_bytes
        self.moves += self._on_cpu not in (None, on_cpu)
        self._on_cpu = on_cpu

    def wait(self) -> None:
        """Wait for its end."""
        self.join(_LIMIT_S)
        assert not self.is_alive()
        if self._error is not None:
            raise self._error
