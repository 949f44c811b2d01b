# SPDX-License-Identifier: Apache-2.0

"""A front door and workers in threads, as small as the protocol allows.

They check what a client sends, break connections and lose slots where a test
wants it.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import mmap
import os
import secrets
import socket
import threading
import time
import zlib

from fpgapool.common.channels import buffers
from fpgapool.common.channels import channel
from fpgapool.protocol import frames
from fpgapool.protocol import messages

CHUNK_BYTES = 16 * 1024
WINDOW_BYTES = 4 * CHUNK_BYTES
SCHEMA = {
    "type": "object",
    "properties": {"key": {"type": "string", "pattern": "^[0-9a-f]{4}$"}},
    "required": ["key"],
    "additionalProperties": False,
}


class Broken(channel.PlainChannel):
    """A channel that breaks after some bytes, within a frame if need be."""

    def __init__(self, sock: socket.socket, budget_bytes: int | None) -> None:
        super().__init__(sock)
        self.budget_bytes = budget_bytes

    def _recv_raw(self, buffer: memoryview, flags: int) -> int:
        received_bytes = super()._recv_raw(self._limited(buffer), flags)
        self._spend(received_bytes)
        return received_bytes

    def _try_send(self, parts, flags: int) -> int:
        sent_bytes = super()._try_send(
            (self._limited(memoryview(b"".join(parts))),), flags
        )
        self._spend(sent_bytes)
        return sent_bytes

    def _limited(self, buffer: memoryview) -> memoryview:
        if self.budget_bytes is None:
            return buffer
        if self.budget_bytes <= 0:
            self.shutdown()
            raise channel.ChannelClosed("broken on purpose")
        return buffer[: self.budget_bytes]

    def _spend(self, spent_bytes: int) -> None:
        if self.budget_bytes is not None:
            self.budget_bytes -= spent_bytes


def copied(data: bytes, offset: int) -> bytes:
    """Output of the core ``copy``: every byte and its position mixed."""
    return bytes(
        (byte + (offset + index) // 251) & 0xFF
        for index, byte in enumerate(data)
    )


def _spoiled(data: bytes, offset: int, at: int | None) -> bytes:
    if at is None or not offset <= at < offset + len(data):
        return data
    spoiled = bytearray(data)
    spoiled[at - offset] ^= 0xFF
    return bytes(spoiled)


class Core:
    """What the fake slot computes.

    :param name: ``copy``; ``double`` gives each byte twice; ``digest``
        gives the SHA-256 of everything at the end.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._digest = hashlib.sha256()

    def process(self, data: bytes, offset: int) -> bytes:
        if self.name == "digest":
            self._digest.update(data)
            return b""
        if self.name == "double":
            return bytes(byte for byte in data for _ in range(2))
        return copied(data, offset)

    def start_at(self, input_offset: int) -> int:
        """Position of the output that belongs to a position of the input."""
        return input_offset * {"copy": 1, "double": 2}[self.name]

    def finish(self) -> bytes:
        return self._digest.digest() if self.name == "digest" else b""


class Worker:
    """One session's worker in one slot.

    :param budgets: after how many bytes each connection breaks; the ones
        after the last never do.
    :param mortal: the worker dies when the last of them breaks, or at once.
    :param yields_at: the pool takes the slot back at this input offset.
    :param local: hand out connections and shared memory, else TCP.
    :param features: optional features that OPENED tells; None for those that
        HELLO asks for.
    """

    def __init__(
        self,
        core: str = "copy",
        budgets: tuple[int, ...] = (),
        *,
        mortal: bool = False,
        yields_at: int | None = None,
        local: bool = True,
        sizes: tuple[int, int] = (CHUNK_BYTES, WINDOW_BYTES),
        features: object = None,
    ):
        self.local = local
        self.dead = mortal and not budgets
        self._mortal = mortal
        self.yields_at = yields_at
        self._chunk_bytes, self._window_bytes = sizes
        self._buffers = self._window_bytes // self._chunk_bytes
        self.session_id = secrets.token_hex(8)
        self.generation = 1
        self.secret = secrets.token_hex(32)
        self.params: dict | None = None
        self.hellos: list[dict] = []
        self.violations: list[str] = []
        self.closed = threading.Event()
        self.refuse: tuple[str, str] | None = None
        #: So many times HELLO comes too late.
        self.misses = 0
        self.fail_at: int | None = None
        self.hold = threading.Event()
        self.hold.set()
        self.reached = threading.Event()
        self.noise = b""
        #: Changes one byte of the output at this offset.
        self.spoils_output_at: int | None = None
        #: Makes of the right CHECKSUM frame what is sent instead.
        self.lie = lambda frame: frame
        self._features = features
        self._sums = frames.Checksums()
        self._core = Core(core)
        self._budgets = collections.deque(budgets)
        self._resume_secrets: list[str] = []
        self._input_offset = 0
        self._output: collections.deque[tuple[int, bytes, int, int]] = (
            collections.deque()
        )
        self._produced = 0
        self._released = 0
        self._last_task = 0
        self._ended = False
        self._maps: list[tuple[int, mmap.mmap]] = []
        self._lock = threading.Lock()

    def serve(self, sock: socket.socket) -> None:
        budget = self._budgets.popleft() if self._budgets else None
        data = Broken(sock, budget)
        try:
            with self._lock:
                if not self.dead:
                    try:
                        self._serve(data)
                    finally:
                        self._drop_maps()
        except (channel.ChannelClosed, AssertionError) as exc:
            if isinstance(exc, AssertionError):
                self.violations.append(str(exc))
        finally:
            self.dead = self.dead or (
                self._mortal and budget is not None and not self._budgets
            )
            data.close()

    def _serve(self, data: channel.PlainChannel) -> None:
        header = channel.recv_header(data, bytearray(32))
        assert header.type == frames.HELLO, "no HELLO"
        hello = frames.decode_json(channel.recv_payload(data, header))
        self.hellos.append(hello)
        if self.misses:
            self.misses -= 1
            data.send(frames.error_frame("HELLO_TIMEOUT", "no HELLO in time"))
            return
        if not self._authorized(hello):
            data.send(frames.error_frame("UNAUTHORIZED", "wrong secret"))
            return
        if self.refuse is not None:
            data.send(frames.error_frame(*self.refuse))
            return
        self._shared = hello["transport"] == "shm"
        if "start_input_offset" in hello:
            self._start(hello)
        self._pending: collections.deque = collections.deque()
        self._closing = False
        self._received = self._input_offset
        self._resume(data, hello)
        while not (self._closing and not self._pending):
            if self._pending:
                self._process(data, *self._pending.popleft())
            else:
                self._receive(data)
        self._send_closed(data)

    def _start(self, hello: dict) -> None:
        start = hello["start_input_offset"]
        assert "secret" in hello, "started twice"
        assert hello["start_output_offset"] == self._core.start_at(start)
        self._input_offset = start
        self._produced = self._released = hello["start_output_offset"]

    def _authorized(self, hello: dict) -> bool:
        if (hello["session_id"], hello["generation"]) != (
            self.session_id,
            self.generation,
        ):
            return False
        if "secret" in hello:
            if hello["secret"] != self.secret:
                return False
            self.secret = ""
            self.params = hello["params"]
            return True
        return hello["resume_secret"] in self._resume_secrets[-2:]

    def _resume(self, data: channel.PlainChannel, hello: dict) -> None:
        self._resume_secrets.append(secrets.token_hex(32))
        opened = {
            "features": hello["features"]
            if self._features is None
            else self._features,
            "resume_secret": self._resume_secrets[-1],
            "chunk_bytes": self._chunk_bytes,
            "window_bytes": self._window_bytes,
            "input_offset": self._input_offset,
            "output_offset": hello.get("output_offset", self._produced),
            "stateless": self._core.name != "digest",
            "accelerator": self._core.name,
            "chunk_multiple_bytes": 1,
            "resume_grace_s": 5,
            "max_streams": 1,
        }
        if self._shared:
            opened["shm"] = {
                "buffers": self._buffers,
                "buffer_bytes": self._chunk_bytes,
            }
        frame = frames.encode_frame(frames.FrameHeader(frames.OPENED), opened)
        if self._shared:
            self._make_maps()
            data.send_with_fds(frame, [fd for fd, _ in self._maps])
        else:
            data.send(frame)
        if self.noise:
            data.send(self.noise)
        if "secret" in hello:
            self._acknowledged = self._input_offset
            return
        self._acknowledged = hello["input_offset"]
        self._send_again(data, hello["output_offset"])

    def _make_maps(self) -> None:
        # Fresh ones for each connection: the harder case for a client.
        for name in ("in", "out"):
            fd = buffers.make(name, self._window_bytes + 1)
            memory = mmap.mmap(fd, self._window_bytes + 1)
            memory[-1] = 1
            self._maps.append((fd, memory))
        self._free_outputs = collections.deque(range(self._buffers))
        self._used_outputs: collections.deque = collections.deque()

    def _drop_maps(self) -> None:
        while self._maps:
            fd, memory = self._maps.pop()
            memory.close()
            os.close(fd)

    def _send_again(self, data: channel.PlainChannel, offset: int) -> None:
        self._release(offset)
        again = tuple(self._output)
        resumed = bool(self._input_offset or self._ended)
        for start, output, flags, task_id in again:
            self._send_output(data, start, output, flags, task_id)
        if self._ended and not again:
            self._send_output(data, self._produced, b"", frames.END, 0)
        if resumed:
            self._send_ack(data)

    def _receive(self, data: channel.PlainChannel) -> None:
        header = channel.recv_header(data, bytearray(32))
        if header.type == frames.ACK:
            assert header.offset_bytes <= self._produced, "ACK of the future"
            self._release(header.offset_bytes)
        elif header.type == frames.INPUT:
            self._receive_input(data, header)
        elif header.type == frames.CLOSE:
            self._closing = True
        elif header.type == frames.ERROR:
            channel.recv_payload(data, header)
            raise channel.ChannelClosed("the client gave up")
        else:
            assert header.type == frames.PONG, f"frame {header.type}"

    def _receive_input(self, data, header: frames.FrameHeader) -> None:
        length = header.payload_length_bytes
        if header.flags & frames.SHM:
            start = header.aux * self._chunk_bytes
            payload = self._maps[0][1][start : start + length]
        else:
            payload = bytes(channel.recv_payload(data, header))
        if self._ended and not payload:
            self._send_ack(data)
            return
        assert header.offset_bytes == self._received, "BAD_OFFSET"
        self._received += length
        in_flight = self._received - self._acknowledged
        assert in_flight <= self._window_bytes, "CREDIT_EXCEEDED"
        self._pending.append((header, payload))

    def _process(self, data, header: frames.FrameHeader, payload) -> None:
        self.reached.set()
        self.hold.wait()
        if self.fail_at is not None and header.offset_bytes >= self.fail_at:
            data.send(
                frames.error_frame(
                    "CORE_FAILED", "no luck", header.offset_bytes
                )
            )
            raise channel.ChannelClosed("failed on purpose")
        if self.yields_at is not None and (
            header.offset_bytes >= self.yields_at
        ):
            self.dead = True
            data.send(
                frames.error_frame("YIELDED", "claimed", header.offset_bytes)
            )
            raise channel.ChannelClosed("yielded on purpose")
        output = self._core.process(payload, header.offset_bytes)
        end = bool(header.flags & frames.END)
        if end:
            output += self._core.finish()
        sums = self._sums
        self._sums = frames.Checksums(
            sums.input_bytes + len(payload),
            sums.output_bytes + len(output),
            zlib.crc32(payload, sums.input_crc32),
            zlib.crc32(output, sums.output_crc32),
        )
        output = _spoiled(output, self._produced, self.spoils_output_at)
        pieces = [
            output[start : start + self._chunk_bytes]
            for start in range(0, len(output), self._chunk_bytes)
        ]
        if end and not pieces:
            pieces = [b""]
        # The state changes first: what is sent may get lost.
        self._input_offset = header.offset_bytes + len(payload)
        self._last_task = header.task_id
        self._ended = self._ended or end
        entries = []
        for index, piece in enumerate(pieces):
            flags = 0
            if index == len(pieces) - 1:
                flags = frames.TASK_END | (frames.END if end else 0)
            entry = (self._produced, piece, flags, header.task_id)
            entries.append(entry)
            self._output.append(entry)
            self._produced += len(piece)
        for start, piece, flags, task_id in entries:
            self._send_output(data, start, piece, flags, task_id)
        self._send_ack(data)

    def _send_output(
        self, data, start: int, output: bytes, flags: int, task_id: int
    ) -> None:
        while start + len(output) - self._released > self._window_bytes or (
            self._shared and not self._free_outputs
        ):
            self._receive(data)
        header = frames.FrameHeader(
            frames.OUTPUT, flags, 0, task_id, start, len(output)
        )
        if self._shared:
            number = self._free_outputs.popleft()
            self._used_outputs.append((start + len(output), number))
            begin = number * self._chunk_bytes
            self._maps[1][1][begin : begin + len(output)] = output
            header = header._replace(flags=flags | frames.SHM, aux=number)
            data.send(header.pack())
        else:
            data.send(header.pack(), output)

    def _release(self, offset: int) -> None:
        self._released = max(self._released, offset)
        while self._output and (
            self._output[0][0] + len(self._output[0][1]) <= offset
        ):
            self._output.popleft()
        if self._shared:
            while self._used_outputs and self._used_outputs[0][0] <= offset:
                self._free_outputs.append(self._used_outputs.popleft()[1])

    def _send_ack(self, data: channel.PlainChannel) -> None:
        self._acknowledged = self._input_offset
        header = frames.FrameHeader(
            frames.ACK,
            task_id=self._last_task,
            offset_bytes=self._input_offset,
        )
        if frames.CHECKSUM_FEATURE in self.hellos[0]["features"]:
            sums = self._sums.encode()
            announced = header._replace(
                type=frames.CHECKSUM, payload_length_bytes=len(sums)
            )
            data.send(self.lie(announced.pack() + sums))
        data.send(header.pack())

    def _send_closed(self, data: channel.PlainChannel) -> None:
        self.closed.set()
        data.send(
            frames.encode_frame(
                frames.FrameHeader(frames.CLOSED),
                {
                    "code": "OK",
                    "input_bytes": self._input_offset,
                    "output_bytes": self._produced,
                    "run_s": 0.25,
                },
            )
        )


class Pool:
    """A front door before the slots that one session gets.

    :param path: of the front door's socket.
    :param spares: take over, one after the other, when it is reopened; the
        reopening is refused when there are no more.
    """

    def __init__(
        self, path, worker: Worker, *, spares: tuple[Worker, ...] = ()
    ) -> None:
        self.path = str(path)
        self.worker = worker
        self.workers = [worker, *spares]
        self.requests: list[dict] = []
        self.cancelled = threading.Event()
        self.asked = threading.Event()
        self.ready = threading.Event()
        self.ready.set()
        self.tells_of_queue = True
        self.drop_while_queued = 0
        #: Requests for a connection that are refused, and those by which
        #: the front door is restarted and the slot is lost.
        self.refuse_connections = 0
        self.drop_at_connections = 0
        self.rejection: dict | None = None
        self.core = "copy"
        #: Whether the front door has the operation ``progress``.
        self.takes_reports = True
        #: What the session becomes when a lost slot cannot be replaced;
        #: the front door does not know the operation if it is None.
        self.last_state: dict | None = None
        #: Serve the session of a request that is made again.
        self.again: list[Worker] = []
        self.reopening = threading.Event()
        self._spares = collections.deque(spares)
        self._session_id = worker.session_id
        self._revision = 2
        self._stack = contextlib.ExitStack()
        self._tcp = self._listen(socket.AF_INET, ("127.0.0.1", 0))
        self._door = self._listen(socket.AF_UNIX, self.path)
        self._accept(self._tcp, self._serve_tcp)
        self._accept(self._door, self._serve_door)

    @property
    def violations(self) -> list[str]:
        return [text for one in self.workers for text in one.violations]

    def operations(self) -> list[str]:
        return [request["op"] for request in self.requests]

    def _listen(self, family: int, address) -> socket.socket:
        listener = self._stack.enter_context(socket.socket(family))
        listener.bind(address)
        listener.listen()
        return listener

    def _accept(self, listener: socket.socket, serve) -> None:
        def loop() -> None:
            with contextlib.suppress(OSError):
                while True:
                    sock, _ = listener.accept()
                    self._thread(serve, sock)

        self._thread(loop)

    def _thread(self, target, *arguments) -> None:
        threading.Thread(target=target, args=arguments, daemon=True).start()

    def stop(self) -> None:
        for listener in (self._tcp, self._door):
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
        for worker in self.workers:
            worker.hold.set()
        self.ready.set()
        self._stack.close()

    def _serve_tcp(self, sock: socket.socket) -> None:
        channel.tune(sock)
        self.worker.serve(sock)

    def _serve_door(self, sock: socket.socket) -> None:
        decoder = messages.MessageDecoder()
        with sock, contextlib.suppress(OSError):
            while data := sock.recv(65536):
                for message in decoder.feed(data):
                    if not self._answer(sock, message):
                        return

    def _answer(self, sock: socket.socket, message: dict) -> bool:
        self.requests.append(message)
        number = message["id"]
        operation = message["op"]
        if operation == "connect":
            if self.drop_at_connections:
                self.drop_at_connections -= 1
                self.worker.dead = True
                return False
            self._connect(sock, number)
            return True
        if operation == "reopen":
            return self._reopen(sock, message)
        if operation == "accelerator" and message["name"] == "none":
            reply = messages.error_reply(number, "UNKNOWN_ACCELERATOR", "no")
        elif operation == "accelerator":
            profile = {
                "name": "copy",
                "params_schema": SCHEMA,
                "core": self.core,
            }
            reply = messages.reply(number, profile=profile)
        elif operation == "get":
            reply = messages.reply(number, session=self._known())
        elif operation == "progress" and not self.takes_reports:
            reply = messages.error_reply(number, "UNKNOWN_OPERATION", "no")
        else:
            reply = messages.reply(number)
        if operation == "cancel":
            self.cancelled.set()
        sock.sendall(messages.encode(reply))
        return operation != "open" or self._open(sock)

    def _known(self) -> dict:
        state = {"state": "ACTIVE"}
        if self.worker.dead:
            state = {"state": "FAILED", "reason": "WORKER_DIED"}
        return {
            "session_id": self._session_id,
            "generation": self.worker.generation,
            "revision": self._revision,
            **state,
        }

    def _reopen(self, sock: socket.socket, message: dict) -> bool:
        number = message["id"]
        assert message["session_id"] == self._session_id
        lost = message["generation"] == self.worker.generation
        if lost and not self._spares and self.last_state is None:
            reply = messages.error_reply(number, "UNKNOWN_OPERATION", "no")
            sock.sendall(messages.encode(reply))
            return True
        # News of the lost slot that was on its way already.
        self._push(sock, **{**self._known(), "state": "DETACHED"})
        sock.sendall(messages.encode(messages.reply(number)))
        if lost:
            if not self._spares:
                self._revision += 1
                self._push(sock, revision=self._revision, **self.last_state)
                return True
            self._advance()
        self._push(sock, **{**self._known(), "state": "QUEUED"})
        self.reopening.set()
        self.ready.wait()
        self._push_ready(sock)
        while self.worker.dead:
            # The pool finds out by itself before the client does.
            self._advance()
            self._push_ready(sock)
        return True

    def _advance(self) -> None:
        generation = self.worker.generation + 1
        self.worker = self._spares.popleft()
        self.worker.session_id = self._session_id
        self.worker.generation = generation
        self._revision += 1

    def _connect(self, sock: socket.socket, number: int) -> None:
        if self.worker.dead or self.refuse_connections:
            self.refuse_connections = max(0, self.refuse_connections - 1)
            reply = messages.error_reply(number, "SESSION_NOT_FOUND", "no")
            sock.sendall(messages.encode(reply))
            return
        ours, theirs = socket.socketpair()
        self._thread(self.worker.serve, ours)
        with theirs:
            socket.send_fds(
                sock,
                [messages.encode(messages.reply(number))],
                [theirs.fileno()],
            )

    def _open(self, sock: socket.socket) -> bool:
        if self.worker.hellos and self.again:
            self.worker = self.again.pop(0)
            self.workers.append(self.worker)
            self._session_id = self.worker.session_id
            self._revision = 2
        if self.worker.dead and self._spares:
            self._advance()
        if self.tells_of_queue:
            self._push(sock, state="QUEUED", revision=1, queue_position=0)
        if self.drop_while_queued:
            self.drop_while_queued -= 1
            return False
        if self.rejection is not None:
            self._push(sock, revision=2, **self.rejection)
            return True
        self.asked.set()
        if not self.ready.is_set():
            self._thread(self._push_ready_later, sock)
            return True
        self._push_ready(sock)
        return True

    def _push_ready_later(self, sock: socket.socket) -> None:
        self.ready.wait()
        with contextlib.suppress(OSError):
            self._push_ready(sock)

    def _push_ready(self, sock: socket.socket) -> None:
        self._revision += 1
        worker = self.worker
        address, port = self._tcp.getsockname()
        endpoints = [{"network": "data", "address": address, "port": port}]
        if worker.local:
            endpoints.append({"network": "local", "address": "", "port": 0})
        self._push(
            sock,
            state="READY",
            revision=self._revision,
            generation=worker.generation,
            secret=worker.secret,
            endpoints=endpoints,
            slot_host_name="host7",
            device="board0",
            slot=1 + worker.generation,
            local=worker.local,
            queued_at=time.time(),
        )

    def _push(self, sock: socket.socket, **members) -> None:
        view = {"session_id": self._session_id, **members}
        sock.sendall(
            messages.encode(messages.notification("session", session=view))
        )
