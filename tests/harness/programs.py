# SPDX-License-Identifier: Apache-2.0

"""Programs of tenants: in threads, and as processes that can be killed."""

from __future__ import annotations

import concurrent.futures
import io
import random
import subprocess
import sys
import threading
import typing
from collections.abc import Callable

from cryptography.hazmat.primitives import ciphers
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.ciphers import modes

from fpgapool import client
from fpgapool.common.channels import channel
from tests.harness import processes
from tests.harness import waiting

KEY, IV = bytes(range(32)), bytes(range(16))


def encrypted(data: bytes, key: bytes = KEY, iv: bytes = IV) -> bytes:
    """Encrypt without the pool.

    :param data: plain text from the beginning.
    """
    cipher = ciphers.Cipher(algorithms.AES(key), modes.CTR(iv)).encryptor()
    return cipher.update(data) + cipher.finalize()


class Aes:
    """A random key, and what the accelerator must make of data with it."""

    def __init__(self, rng: random.Random) -> None:
        self._key = rng.randbytes(32)
        self._iv = rng.randbytes(16)

    @property
    def params(self) -> dict[str, bytes]:
        """Parameters for ``acc_open``."""
        return {"key": self._key, "iv": self._iv}

    def encrypt(self, data: bytes) -> bytes:
        """Encrypt without the pool.

        :param data: plain text from the beginning.
        """
        return encrypted(data, self._key, self._iv)


class Background:
    """A call in a thread of its own, which a failed test leaves behind."""

    def __init__(self, call: Callable[[], typing.Any]) -> None:
        self._call = call
        self._outcome: concurrent.futures.Future[typing.Any] = (
            concurrent.futures.Future()
        )
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self._outcome.set_result(self._call())
        except Exception as error:
            self._outcome.set_exception(error)

    def result(self, limit_s: float = waiting.LIMIT_S) -> typing.Any:
        """Wait for the end; return or raise what the call did."""
        return self._outcome.result(limit_s)


class Cutter(client.CancelToken):
    """Breaks the connections of the call that it is given to."""

    def __init__(self) -> None:
        super().__init__()
        self._newest: channel.Channel | None = None

    def attach(self, attached: channel.Channel) -> None:
        """Remember the newest connection."""
        super().attach(attached)
        self._newest = attached

    def cut(self) -> None:
        """Break the newest connection."""
        assert self._newest is not None
        self._newest.shutdown()


class SteppedSource(io.RawIOBase):
    """Data that may be read up to where the test allows."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = memoryview(data)
        self._position = 0
        self._allowed_bytes = 0
        self._changed = threading.Condition()

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def allow(self, upto_bytes: int) -> None:
        """Let the reader go on."""
        with self._changed:
            self._allowed_bytes = upto_bytes
            self._changed.notify_all()

    def readinto(self, buffer: typing.Any) -> int:
        """Read some, waiting until that is allowed."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._allowed_bytes > self._position
            )
            end = min(self._position + len(buffer), self._allowed_bytes)
        count = end - self._position
        buffer[:count] = self._data[self._position : end]
        self._position = end
        return count


class Transfer:
    """A client that streams data, as far as the test lets it."""

    def __init__(
        self,
        path: str,
        data: bytes,
        accelerator: str = "copy",
        **options: typing.Any,
    ) -> None:
        self.states: list[str] = []
        self.session_id = ""
        #: What the output must be, for whoever checks it later.
        self.expected = data
        self._size_bytes = len(data)
        self._source = SteppedSource(data)
        self._output = io.BytesIO()
        self._done_bytes = 0
        self._changed = threading.Condition()
        self._run = Background(
            lambda: client.run_stream(
                accelerator,
                self._source,
                self._output,
                len(data),
                front_door=path,
                progress=self._progress,
                on_state=self._on_state,
                **options,
            )
        )

    def _on_state(self, view: client.SessionView) -> None:
        with self._changed:
            self.states.append(view.state)
            self.session_id = view.session_id
            self._changed.notify_all()

    def _progress(self, done_bytes: int, _size_bytes: int) -> None:
        with self._changed:
            self._done_bytes = done_bytes
            self._changed.notify_all()

    def _wait_for(self, test: Callable[[], bool], what: str) -> None:
        with self._changed:
            if not self._changed.wait_for(test, waiting.LIMIT_S):
                raise AssertionError(
                    f"no {what}: {self.states}, {self._done_bytes} bytes"
                )

    def wait_state(self, state: str) -> None:
        """Wait until the client has heard of a state."""
        self._wait_for(lambda: state in self.states, state)

    def run_to(self, upto_bytes: int) -> None:
        """Let it stream to a point and wait until it has got there.

        :param upto_bytes: the point in the input, a multiple of the chunk.
        """
        self._source.allow(upto_bytes)
        self._wait_for(lambda: self._done_bytes >= upto_bytes, "progress")

    def finish(self, limit_s: float = waiting.LIMIT_S) -> client.RunReport:
        """Let it stream to the end.

        :param limit_s: how long that may take.
        :returns: or raises what the client got.
        """
        self._source.allow(self._size_bytes)
        return self.result(limit_s)

    def result(self, limit_s: float = waiting.LIMIT_S) -> client.RunReport:
        """Return or raise what the client got.

        :param limit_s: how long to wait for it.
        """
        try:
            report = self._run.result(limit_s)
        finally:
            # Else a thread that reads keeps itself and the session's buffers.
            self._source.allow(self._size_bytes)
        assert isinstance(report, client.RunReport)
        return report

    @property
    def output(self) -> bytes:
        """What has come so far."""
        return self._output.getvalue()


class Program:
    """A client process that stands still in a state, to be killed there."""

    def __init__(self, path: str, state: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.program", path, state],
            cwd=processes.ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        #: Of its session.
        self.session_id = self._process.stdout.readline().strip()

    def kill(self) -> None:
        """End it at once, if it lives."""
        self._process.kill()
        self._process.wait(waiting.LIMIT_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
