# SPDX-License-Identifier: Apache-2.0

"""A real worker process, its agent's end, and a small client."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import pathlib
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

from fpgapool.agent.child import crew
from fpgapool.agent.supervision import processes
from fpgapool.common.channels import channel as channels
from fpgapool.common.channels import tls_channel
from fpgapool.protocol import frames
from fpgapool.protocol import messages
from tests.harness import waiting

TIMEOUT_S = 60
CHUNK_BYTES = 64 * 1024
WINDOW_CHUNKS = 8

BOARDS = """
unlimited: true
boards:
- name: board0
  slots: 4
"""


#: What tests and their fixtures connected, the newest last.
_channels: list[channels.Channel] = []


@contextlib.contextmanager
def closed_channels() -> Iterator[None]:
    """Close at the end what was connected within, and nothing older."""
    before = len(_channels)
    yield
    while len(_channels) > before:
        _channels.pop().close()


class WorkerProcess:
    """One worker process with a state directory of its own."""

    def __init__(self, directory: pathlib.Path, **members: object) -> None:
        (directory / "own").mkdir(exist_ok=True)
        boards_file = directory / "boards.yaml"
        if not boards_file.exists():
            boards_file.write_text(BOARDS)
        self.settings = {
            "worker_id": "board0.0",
            "device": "board0",
            "slot": 0,
            "state_dir": str(directory),
            "own_dir": str(directory / "own"),
            "control_socket": str(directory / "w" / "board0.0.sock"),
            "data_socket": str(directory / "w" / "board0.0.data.sock"),
            "driver": "fpgapool.drivers.emulator:EmulatorDriver",
            "driver_settings": {"boards_file": str(boards_file)},
            "data_address": "127.0.0.1",
            "data_ports": 0,
            "tls": False,
            "chunk_bytes": CHUNK_BYTES,
            "window_chunks": WINDOW_CHUNKS,
            "log_file": str(directory / "worker.log"),
            **members,
        }
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "fpgapool.agent.worker",
                json.dumps(self.settings),
            ]
        )

    def connect(
        self, desk: str | None = None, introduced: bool = False
    ) -> AgentEnd:
        """Connect as the agent, once the worker listens.

        :param introduced: whether the desk reads who a member is.
        """
        sock = dial(self.settings["control_socket"], self.process)
        names = ("device", "slot") if introduced else ()
        return AgentEnd(
            sock, desk, {name: self.settings[name] for name in names}
        )

    def log(self) -> str:
        return pathlib.Path(self.settings["log_file"]).read_text()

    def use(self) -> tuple[int, int]:
        """Return how many descriptors and threads it has."""
        process = pathlib.Path(f"/proc/{self.process.pid}")
        return len(os.listdir(process / "fd")), len(
            os.listdir(process / "task")
        )

    def wait_use(self, descriptors: int, threads: int) -> None:
        """Wait until it has no more than it had, but for spare threads."""
        most = descriptors, threads + crew.SPARE_THREADS
        waiting.wait_until(
            lambda: all(map(int.__le__, self.use(), most)),
            lambda: f"{self.use()} of {most}",
        )

    def wait(self) -> int:
        return self.process.wait(TIMEOUT_S)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(TIMEOUT_S)


def dial(path: str, process: subprocess.Popen[bytes]) -> socket.socket:
    """Connect to a process once it listens."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return channels.connect_unix(path)
        except channels.ChannelClosed:
            assert process.poll() is None, "the process ended"
            assert time.monotonic() < deadline_s
            # Nothing tells when a process starts to listen.
            threading.Event().wait(0.01)


class AgentEnd:
    """The agent's end of the control socket.

    :param desk: path of the desk that members get connections to; without
        one, members get no answer.
    :param place: of the slot, for a desk that reads who a member is.
    """

    def __init__(
        self,
        sock: socket.socket,
        desk: str | None = None,
        place: dict[str, object] | None = None,
    ) -> None:
        self._place = place
        self._channel = channels.PlainChannel(sock)
        _channels.append(self._channel)
        self._incoming: queue.Queue = queue.Queue()
        self._number = 0
        self.statuses: list[dict] = []
        #: Each ``prepared``, with what its client needs of the status.
        self.prepared: list[dict] = []
        self._facts: dict = {}
        self._sessions: dict = {}
        self.desk = desk
        #: Descriptors that the worker has handed over.
        self.fds: list[int] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        decoder = messages.MessageDecoder()
        buffer = memoryview(bytearray(65536))
        try:
            while True:
                count, fds = self._channel.recv_with_fds(buffer)
                self.fds += fds
                for message in decoder.feed(buffer[:count]):
                    if message.get("event") == "desk_wanted" and self.desk:
                        self._connect_member(self.desk, message["generation"])
                    self._incoming.put(message)
        except (channels.ChannelClosed, frames.ProtocolError):
            self._incoming.put(None)

    def _connect_member(self, path: str, generation: int) -> None:
        sock = processes.dial(path)
        if sock is not None and self._place:
            who = {**self._place, "generation": generation}
            sock.sendall(messages.encode(who))
        message = messages.request(
            0, "desk", generation=generation, connected=sock is not None
        )
        fds = [] if sock is None else [sock.detach()]
        self._channel.send_with_fds(messages.encode(message), fds)
        channels.close_fds(fds)

    def next(self) -> dict | None:
        """Return the next message, None at the end of the connection."""
        message = self._incoming.get(timeout=TIMEOUT_S)
        if message is None:
            return None
        if status := message.get("status"):
            names = "data_port", "certificate_sha256"
            self._facts = {name: status[name] for name in names}
            self._sessions[status["generation"]] = status["session_id"]
        if message.get("event") == "status":
            self.statuses.append(message["status"])
        if message.get("event") == "prepared":
            self.prepared.append(message)
        for one in self.prepared:
            session_id = self._sessions.get(one["generation"])
            one |= {**self._facts, "session_id": session_id}
        return message

    def request(self, operation: str, **members: object) -> dict:
        """Send a request and return its reply."""
        self._number += 1
        self._channel.send(
            messages.encode(
                messages.request(self._number, operation, **members)
            )
        )
        while True:
            message = self.next()
            assert message is not None, "the worker hung up"
            if message.get("id") == self._number:
                return message

    def tell(self, operation: str, **members: object) -> None:
        """Send a request of which nobody awaits the reply."""
        self._channel.send(
            messages.encode(messages.request(0, operation, **members))
        )

    def assign(self, generation: int = 1, **members: object) -> dict:
        self._sessions[generation] = members.get(
            "session_id", f"session-{generation}"
        )
        return self.request(
            "assign",
            **{
                "session_id": f"session-{generation}",
                "generation": generation,
                "project_id": "project",
                "accelerator": "copy",
                "bitstream": "builtin:copy",
                "connect_timeout_s": 30.0,
                "resume_grace_s": 30.0,
                "local": True,
                "self_test": False,
                **members,
            },
        )

    def join(self, desk: str, generation: int = 1, **members: object) -> dict:
        """Assign the slot to the group of a desk."""
        self.desk = desk
        return self.assign(generation, group_id="group", **members)

    def prepare(self, generation: int = 1, **members: object) -> dict:
        """Assign and return the ``prepared`` that follows."""
        reply = self.assign(generation, **members)
        assert reply["ok"], reply
        return self.wait_prepared(generation)

    def wait_prepared(self, generation: int) -> dict:
        while not (
            self._facts
            and self.prepared
            and self.prepared[-1]["generation"] == generation
        ):
            assert self.next() is not None
        return self.prepared[-1]

    def status(self) -> dict:
        return self.request("status")["status"]

    def wait_state(self, *states: str) -> dict:
        """Wait until the slot's last known state is one of these."""
        while not (self.statuses and self.statuses[-1]["state"] in states):
            assert self.next() is not None, "the worker hung up"
        return self.statuses[-1]

    def wait_result(self, generation: int = 1) -> dict:
        """Wait until the slot is free again and return the result."""
        while True:
            if self.statuses:
                result = self.statuses[-1]["last_result"]
                if result and result["generation"] == generation:
                    return result
            assert self.next() is not None, "the worker hung up"

    def wait_closed(self) -> None:
        while self.next() is not None:
            pass

    def close(self) -> None:
        self._channel.close()
        fds, self.fds = self.fds, []
        channels.close_fds(fds)


def shared_memory_of(pid: int) -> bytes:
    """All that a process can write to and that is shared with others."""
    found = []
    memory = pathlib.Path(f"/proc/{pid}/fd")
    for path in memory.iterdir():
        try:
            target = os.readlink(path)
            if "memfd:" in target or "/shm/" in target:
                found.append(path.read_bytes())
        except FileNotFoundError:
            # It has been closed meanwhile.
            continue
    return b"".join(found)


def frame(kind: int, payload: bytes = b"", **members: int) -> bytes:
    """Return a frame of any kind, right or wrong."""
    members = {"payload_length_bytes": len(payload), **members}
    return frames.pack_header(kind, **members) + payload


class ErrorFrame(Exception):
    """The worker sent an ERROR."""

    def __init__(self, document: dict) -> None:
        super().__init__(document)
        self.code = document["code"]
        self.document = document


class Client:
    """A client that does one thing at a time."""

    def __init__(self, channel: channels.Channel) -> None:
        self.channel = channel
        _channels.append(channel)
        self.opened: dict = {}
        self.buffers: list[mmap.mmap] = []
        self.input_bytes = 0
        self.output = bytearray()
        self.acked_input_bytes = 0
        self.finished = False
        self._task_id = 0

    @classmethod
    def local(cls, worker: WorkerProcess) -> Client:
        sock = channels.connect_unix(worker.settings["data_socket"])
        return cls(channels.PlainChannel(sock))

    @classmethod
    def remote(cls, prepared: dict) -> Client:
        sock = channels.connect_tcp("127.0.0.1", prepared["data_port"])
        if prepared["certificate_sha256"]:
            return cls(
                tls_channel.TlsChannel.connect(
                    sock, prepared["certificate_sha256"]
                )
            )
        return cls(channels.PlainChannel(sock))

    def hello(self, prepared: dict, **members: object) -> Client:
        """Send HELLO and take OPENED."""
        document = {
            "features": [],
            "session_id": prepared["session_id"],
            "generation": prepared["generation"],
            "transport": "stream",
            **members,
        }
        if "resume_secret" not in document:
            document.setdefault("secret", prepared["secret"])
        self.send_json(frames.HELLO, document)
        if document["transport"] == "shm":
            self._take_shared()
        else:
            header, payload = self.recv()
            assert header.type == frames.OPENED, header
            self.opened = frames.decode_json(payload)
        self.input_bytes = self.opened["input_offset"]
        return self

    def _take_shared(self) -> None:
        head = bytearray(frames.HEADER_BYTES)
        fds = self.channel.recv_exact_with_fds(memoryview(head))
        header = frames.FrameHeader.unpack_from(head)
        payload = channels.recv_payload(self.channel, header)
        self.opened = frames.decode_json(payload)
        if header.type == frames.ERROR:
            raise ErrorFrame(self.opened)
        shm = self.opened["shm"]
        length_bytes = shm["buffers"] * shm["buffer_bytes"]
        self.buffers = [mmap.mmap(fd, length_bytes) for fd in fds]
        self.fds = fds

    def send_json(self, kind: int, document: dict) -> None:
        self.channel.send(
            frames.encode_frame(frames.FrameHeader(kind), document)
        )

    def recv(self) -> tuple[frames.FrameHeader, bytes]:
        header = channels.recv_header(
            self.channel,
            bytearray(frames.HEADER_BYTES),
            deadline_s=channels.deadline_after(TIMEOUT_S),
        )
        payload = bytes(channels.recv_payload(self.channel, header))
        if header.type == frames.ERROR:
            raise ErrorFrame(frames.decode_json(payload))
        return header, payload

    def recv_to_the_end(self) -> None:
        """Receive until an ERROR or the end, either of which raises."""
        while True:
            self.recv()

    def send_input(self, data: bytes, flags: int = 0, aux: int = 0) -> None:
        self._task_id += 1
        if self.buffers:
            start = aux * CHUNK_BYTES
            self.buffers[0][start : start + len(data)] = data
            flags |= frames.SHM
        header = frames.FrameHeader(
            frames.INPUT,
            flags,
            task_id=self._task_id,
            offset_bytes=self.input_bytes,
            payload_length_bytes=len(data),
            aux=aux,
        )
        self.input_bytes += len(data)
        if self.buffers:
            self.channel.send(header.pack())
        else:
            self.channel.send(header.pack(), data)

    def send_ack(self) -> None:
        header = frames.FrameHeader(frames.ACK, offset_bytes=len(self.output))
        self.channel.send(header.pack())

    def take(self) -> frames.FrameHeader:
        """Receive a frame and keep what it says."""
        header, payload = self.recv()
        if header.type == frames.ACK:
            self.acked_input_bytes = header.offset_bytes
        if header.type == frames.OUTPUT:
            assert header.offset_bytes == len(self.output)
            if header.flags & frames.SHM:
                start = header.aux * CHUNK_BYTES
                end = start + header.payload_length_bytes
                payload = self.buffers[1][start:end]
            self.output += payload
            self.finished = bool(header.flags & frames.END)
        return header

    def run(self, data: bytes, flags: int = 0) -> bytes:
        """Send a piece and return its output."""
        before = len(self.output)
        self.send_input(data, flags)
        # One of an earlier piece is repeated after a resume.
        while (
            self.take().type != frames.ACK
            or self.acked_input_bytes < self.input_bytes
        ):
            pass
        self.send_ack()
        return bytes(self.output[before:])

    def stream(self, data: bytes, upto: int | None = None) -> None:
        """Send data from the present position and collect its output.

        Keeps to the window. Stops once that much output has come.
        """
        while upto is None or len(self.output) < upto:
            room = self.opened["window_bytes"] - (
                self.input_bytes - self.acked_input_bytes
            )
            left = len(data) - self.input_bytes
            size = min(left, CHUNK_BYTES)
            if size and room >= size:
                last = self.input_bytes + size == len(data)
                self.send_input(
                    data[self.input_bytes : self.input_bytes + size],
                    frames.END if last else 0,
                    self.input_bytes // CHUNK_BYTES % WINDOW_CHUNKS,
                )
                continue
            if self.take().type == frames.OUTPUT:
                self.send_ack()
            if self.finished and self.acked_input_bytes == len(data):
                return

    def resume_from(self, other: Client) -> None:
        """Take over what another client has received."""
        self.output = other.output
        self.finished = other.finished
        self.acked_input_bytes = self.opened["input_offset"]
        self._task_id = other._task_id

    def close_session(self) -> dict:
        self.channel.send(frames.FrameHeader(frames.CLOSE).pack())
        while True:
            header, payload = self.recv()
            if header.type == frames.CLOSED:
                return frames.decode_json(payload)

    def close(self) -> None:
        self.channel.close()
        for buffer in self.buffers:
            buffer.close()
        for fd in getattr(self, "fds", []):
            os.close(fd)
        self.buffers = []
        self.fds = []
