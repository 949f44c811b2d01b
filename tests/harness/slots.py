# SPDX-License-Identifier: Apache-2.0

"""A pool of one slot: a real worker process behind a small front door."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import threading
from collections.abc import Callable

from fpgapool.common.channels import buffers
from fpgapool.common.channels import channel
from fpgapool.protocol import messages
from tests.functional.worker import harness


class Slot:
    """One slot's worker.

    :param transport: ``shm``, ``tcp`` or ``tls``.
    """

    def __init__(
        self, directory: pathlib.Path, transport: str, **settings: object
    ) -> None:
        directory.mkdir(exist_ok=True)
        self.transport = transport
        self.worker = harness.WorkerProcess(
            directory, tls=transport == "tls", **settings
        )
        self.agent = self.worker.connect()

    def end(self) -> None:
        """End the worker, and clear what it has left, as agents do later."""
        self.worker.process.terminate()
        self.worker.wait()
        fds, self.agent.fds = self.agent.fds, []
        buffers.discard(fds)

    def stop(self) -> None:
        self.agent.close()
        self.worker.kill()


class Door:
    """A front door that assigns every session to one worker.

    :param transport: ``shm``, ``tcp`` or ``tls``.
    """

    def __init__(
        self, directory: pathlib.Path, transport: str, **settings: object
    ) -> None:
        self.path = str(directory / "door.sock")
        self.cancelled = threading.Event()
        self.promised_sha256: str | None = None
        self.slots = [Slot(directory, transport, **settings)]
        #: Take over from the newest slot when a session is reopened.
        self.spares: list[Slot] = []
        #: Called before that.
        self.on_reopen: Callable[[], object] = lambda: None
        self._generation = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Door:
        return self

    def __exit__(self, *exc_info: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for slot in [*self.slots, *self.spares]:
            slot.stop()

    @property
    def slot(self) -> Slot:
        return self.slots[-1]

    @property
    def worker(self) -> harness.WorkerProcess:
        return self.slot.worker

    def take_back(self, reason: str = "YIELDED") -> None:
        """Take the slot from the session that has it."""
        self.begin_to_take_back(reason)()

    def begin_to_take_back(self, reason: str) -> Callable[[], object]:
        """Tell the worker only; return a function that waits for the end."""
        # The session may have another slot before this one is free.
        agent, generation = self.slot.agent, self._generation
        agent.request("release", generation=generation, reason=reason)
        return lambda: agent.wait_result(generation)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                threading.Thread(
                    target=self._serve, args=(sock,), daemon=True
                ).start()

    def _serve(self, sock: socket.socket) -> None:
        decoder = messages.MessageDecoder()
        with sock, contextlib.suppress(OSError):
            while data := sock.recv(65536):
                for message in decoder.feed(data):
                    self._answer(sock, message)

    def _answer(self, sock: socket.socket, message: dict) -> None:
        reply = messages.encode(messages.reply(message["id"], profile={}))
        if message["op"] == "get":
            session = {"session_id": message["session_id"]}
            session |= {"state": "FAILED", "reason": "WORKER_DIED"}
            if self.worker.process.poll() is None:
                session["state"] = "ACTIVE"
            reply = messages.encode(
                messages.reply(message["id"], session=session)
            )
        if message["op"] == "connect":
            path = self.worker.settings["data_socket"]
            with channel.connect_unix(path) as connection:
                socket.send_fds(sock, [reply], [connection.fileno()])
            return
        if message["op"] == "cancel":
            self.cancelled.set()
        sock.sendall(reply)
        if message["op"] == "close" and not message["confirmed"]:
            # The worker has not heard it, and would wait for its client.
            with contextlib.suppress(channel.ChannelClosed):
                self.slot.agent.tell(
                    "release", generation=self._generation, reason="CLOSED"
                )
        if message["op"] == "open":
            if self._generation:
                self.slot.agent.wait_result(self._generation)
            self._accelerator = message["accelerator"]
            self._grant(sock, f"session-{self._generation + 1}")
        if message["op"] == "reopen":
            assert message["generation"] == self._generation
            self.on_reopen()
            self.slots.append(self.spares.pop(0))
            self._grant(sock, message["session_id"])

    def _grant(self, sock: socket.socket, session_id: str) -> None:
        self._generation += 1
        prepared = self.slot.agent.prepare(
            self._generation,
            session_id=session_id,
            accelerator=self._accelerator,
            bitstream=f"builtin:{self._accelerator}",
        )
        local = {"network": "local", "address": "", "port": 0}
        remote = {
            "network": "data",
            "address": "127.0.0.1",
            "port": prepared["data_port"],
        }
        view = {
            "session_id": prepared["session_id"],
            "generation": prepared["generation"],
            "revision": self._generation,
            "state": "READY",
            "secret": prepared["secret"],
            "endpoints": [local if self.slot.transport == "shm" else remote],
            "certificate_sha256": self.promised_sha256
            or prepared["certificate_sha256"],
        }
        sock.sendall(
            messages.encode(messages.notification("session", session=view))
        )
