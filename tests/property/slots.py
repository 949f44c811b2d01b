# SPDX-License-Identifier: Apache-2.0

"""The service of a worker, without a process of its own."""

from __future__ import annotations

import contextlib
import json
import pathlib
import socket
import threading
from collections.abc import Iterator

from fpgapool.agent.worker import service
from fpgapool.agent.worker import settings as worker_settings
from fpgapool.agent.worker import state
from fpgapool.common.channels import channel
from tests.functional.worker import harness
from tests.harness import machines

TIMEOUT_S = 30.0
CHUNK_BYTES = 4096
#: All generations have as many digits.
FIRST_GENERATION = 100_000


class InProcess:
    """The service of one slot, and its agent's end."""

    def __init__(self, directory: pathlib.Path, slot: int = 0) -> None:
        boards = directory / "boards.yaml"
        boards.write_text(harness.BOARDS)
        self.settings = worker_settings.parse(
            json.dumps(
                {
                    "worker_id": "fuzzed",
                    "device": "board0",
                    "slot": slot,
                    "state_dir": str(directory),
                    "control_socket": str(directory / "control"),
                    "data_socket": str(directory / "data"),
                    "driver": "fpgapool.drivers.emulator:EmulatorDriver",
                    "driver_settings": {"boards_file": str(boards)},
                    "chunk_bytes": CHUNK_BYTES,
                    "window_chunks": 4,
                    "clear_timeout_s": TIMEOUT_S,
                }
            )
        )
        self.worker = service.Worker(self.settings)
        self._thread = threading.Thread(target=self.worker.run, daemon=True)
        self._thread.start()
        self.generation = FIRST_GENERATION
        self.connect()

    def connect(self) -> None:
        """Connect as the agent."""
        self.agent = harness.AgentEnd(
            channel.connect_unix(self.settings.control_socket)
        )

    def stop(self) -> None:
        self.worker.post(state.Exit("the test is over"))
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()

    @contextlib.contextmanager
    def session(self, **members: object) -> Iterator[dict]:
        """Assign the slot, give the ``prepared`` that follows, free it."""
        self.generation += 1
        self.result: dict = {}
        yielded = self.agent.prepare(self.generation, **members)
        try:
            yield yielded
        finally:
            self.result = self.free()

    def talk(self, data: bytes, *, waits: bool = False) -> bytes:
        """Say something at the data socket; :returns: all of the answer.

        :param waits: for the worker to hang up; else it is told at once that
            there is no more, and need not answer all of it.
        """
        sock = channel.connect_unix(self.settings.data_socket)
        with sock:
            sock.settimeout(TIMEOUT_S)
            answer = bytearray()
            try:
                sock.sendall(data)
                if not waits:
                    sock.shutdown(socket.SHUT_WR)
                while received := sock.recv(65536):
                    answer += received
            except (BrokenPipeError, ConnectionResetError):
                # Hung up on before it was done.
                pass
        return bytes(answer)

    def free(self) -> dict:
        """Take the slot back; :returns: what became of the session."""
        reply = self.agent.request(
            "release", generation=self.generation, reason="TEST"
        )
        assert reply["ok"]
        result = self.agent.wait_result(self.generation)
        assert self.agent.statuses[-1]["state"] == "idle"
        self.agent.statuses.clear()
        machines.check(self.worker._machine)
        return result
