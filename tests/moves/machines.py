# SPDX-License-Identifier: Apache-2.0

"""Machines that stream through accelerators, and what comes of it."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import hashlib
import json
import pathlib
import socketserver
import threading
import typing
from collections.abc import Iterator

from cryptography.hazmat.primitives import ciphers
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.ciphers import modes

from fpgapool.db import api as db_api
from fpgapool.objects import instance
from fpgapool.vocabulary import codes
from tests.harness import cloud as clouds
from tests.harness import waiting
from tests.integration.nova import harness
from tests.services import nova as nova_service
from tests.services.hypervisors import computes
from tests.services.hypervisors import guest
from tests.services.hypervisors import network
from tests.services.hypervisors import program

#: With an accelerator, and room for a session that waits for its end while
#: the machine has begun anew.
SPECS = {"fpgapool:accelerators": "aes"}
#: A machine whose processor is emulated takes seconds to begin, or minutes
#: beside many other processes.
LIMIT_S = 600.0
_RAM_MIB = 192
_DISK_BYTES = 1 << 20
_MORE_PIECES = 5
_BLOCK_BYTES = 16


class Api(harness.Api):
    """The pool's API, at an address that machines reach."""

    def __init__(self, *arguments: typing.Any) -> None:
        super().__init__(*arguments)
        self.address = f"{network.ADDRESS}:{self.port}"


@dataclasses.dataclass
class Stream:
    """A session as its machine saw it.

    :ivar wrong: numbers of pieces of output that were wrong.
    :ivar ended: the code that its program got; empty without one.
    """

    session_id: str
    pieces: int = 0
    wrong: list[int] = dataclasses.field(default_factory=list)
    reconnects: int = 0
    reopens: int = 0
    ended: str = ""


def _digest(number: int) -> str:
    """Return what a piece has to become."""
    first = number * program.PIECE_BYTES // _BLOCK_BYTES
    counter = int.from_bytes(program.IV) + first
    mode = modes.CTR(counter.to_bytes(_BLOCK_BYTES))
    cipher = ciphers.Cipher(algorithms.AES(program.KEY), mode).encryptor()
    return hashlib.sha256(cipher.update(program.piece(number))).hexdigest()


class Record:
    """What one machine told, over all its lives."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        #: Codes that programs got without a session.
        self.refusals: list[str] = []
        self.starts = 0

    def note(self, told: dict[str, typing.Any]) -> None:
        """Take in a line."""
        if "started" in told:
            self.starts += 1
        elif "opened" in told:
            self.streams.append(Stream(told["opened"]))
        elif "piece" in told:
            self._note_piece(told)
        elif self.streams and not self.streams[-1].ended:
            self.streams[-1].ended = told["ended"]
        else:
            self.refusals.append(told["ended"])

    def _note_piece(self, told: dict[str, typing.Any]) -> None:
        stream = self.streams[-1]
        number = told["piece"]
        if number != stream.pieces or told["digest"] != _digest(number):
            stream.wrong.append(number)
        stream.pieces += 1
        stream.reconnects = told["reconnects"]
        stream.reopens = told["reopens"]

    @property
    def pieces(self) -> int:
        """How many came in all."""
        return sum(stream.pieces for stream in self.streams)


class Listener(socketserver.ThreadingTCPServer):
    """Hears all machines, and knows them by their addresses."""

    daemon_threads = True

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        records = self.records

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                address = str(self.client_address[0])
                record = records.setdefault(address, Record())
                with contextlib.suppress(ConnectionError):
                    for line in self.rfile:
                        # A machine that ends may have begun a line.
                        if line.endswith(b"\n"):
                            record.note(json.loads(line))

        super().__init__((network.ADDRESS, 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def record(self, server: harness.Server) -> Record:
        """Return what a server's machine told."""
        digits = bytes.fromhex(server.id[2:6])
        address = f"198.18.{digits[0]}.{digits[1]}"
        return self.records.setdefault(address, Record())

    def __exit__(self, *exc_info: object) -> None:
        self.shutdown()
        super().__exit__(*exc_info)


class Cloud:
    """Nova, its two hosts and the pool.

    :param connection: of an administrator.
    :param directory: an empty one, for what machines start with.
    """

    def __init__(
        self,
        connection: typing.Any,
        nova: nova_service.Nova,
        pool: clouds.Cloud,
        hosts: computes.Computes,
        listener: Listener,
        directory: pathlib.Path,
    ) -> None:
        self.compute = harness.Compute(connection, LIMIT_S)
        self.nova = nova
        self.pool = pool
        self.hosts = hosts
        self.listener = listener
        self.actions = connection.compute
        self._images = connection.image
        port = listener.server_address[1]
        ramdisk = guest.ramdisk(directory, port)
        self.image_id = self._upload(
            bytes(_DISK_BYTES),
            "raw",
            "bare",
            kernel_id=self._upload(guest.kernel().read_bytes(), "aki", "aki"),
            ramdisk_id=self._upload(ramdisk, "ari", "ari"),
            os_command_line="console=ttyS0 quiet rdinit=/init",
        )

    def _upload(
        self, data: bytes, disk: str, container: str, **properties: str
    ) -> str:
        image = self._images.create_image(
            f"image-{disk}",
            allow_duplicates=True,
            data=data,
            disk_format=disk,
            container_format=container,
            **properties,
        )
        return str(image.id)

    def create_flavor(self) -> typing.Any:
        """Make a flavor that machines fit in."""
        return self.compute.create_flavor(SPECS, ram_mib=_RAM_MIB)

    def delete_images(self, name: str) -> None:
        """Delete what servers were stored in."""
        for image in self._images.images(name=name):
            self._images.delete_image(image)

    def usage(self) -> collections.Counter[str]:
        """Return what was charged, to all projects."""
        rows = self.pool.usage()
        return collections.Counter(
            sessions=sum(row.sessions for row in rows),
            input_bytes=sum(row.input_bytes for row in rows),
        )

    @contextlib.contextmanager
    def machines(self, count: int) -> Iterator[list[Machine]]:
        """Boot machines; at the end nothing is left of them, and no slot."""
        booted = [
            Machine(self, server)
            for server in self.compute.boot_many(
                self.create_flavor(), self.image_id, count
            )
        ]
        try:
            for machine in booted:
                assert machine.server.status == "ACTIVE", machine.server.fault
                machine.wait_begun()
            yield booted
        finally:
            self.compute.clean_up()
        self.pool.check_consistent(live=0)


class Machine:
    """A server, and what its program does."""

    def __init__(self, cloud: Cloud, server: harness.Server) -> None:
        self.cloud = cloud
        self.server = server
        self.record = cloud.listener.record(server)

    def refresh(self) -> None:
        """Ask Nova how it is."""
        self.server = self.cloud.actions.get_server(self.server.id)

    def check_active(self) -> None:
        """Check that Nova finds no fault with it, or say which."""
        self.refresh()
        assert self.server.status == "ACTIVE", self.server.fault

    @property
    def host(self) -> int:
        """The number of the host that it is on."""
        return harness.host_number(self.server)

    @property
    def stream(self) -> Stream:
        """The latest session that it opened."""
        return self.record.streams[-1]

    def wait_begun(self) -> None:
        """Wait until it streams for the first time.

        Without a metadata service, one for which Nova was slow to tell the
        pool its flavor has no token until it is rebuilt.
        """
        record = self.record
        while not record.streams:
            record.refusals.clear()
            waiting.wait_until(
                lambda: record.streams or record.refusals,
                f"{self.server.id} has begun",
                LIMIT_S,
            )
            if not record.streams:
                assert set(record.refusals) == {codes.FRONT_DOOR_UNAVAILABLE}
                self.cloud.actions.rebuild_server(
                    self.server.id, self.cloud.image_id
                )
                self.wait_status("ACTIVE")
        self.wait_streaming()

    def wait_streaming(self) -> Stream:
        """Wait until it has got some more pieces, of whatever session."""
        begun = self.record.pieces
        waiting.wait_until(
            lambda: self.record.pieces >= begun + _MORE_PIECES,
            lambda: (
                f"{self.server.id} streams; it has told {vars(self.record)}"
            ),
            LIMIT_S,
        )
        return self.stream

    def wait_status(self, *statuses: str) -> None:
        """Wait until Nova has it in a state."""
        self.server = self.cloud.compute.wait_status(self.server.id, *statuses)

    def wait_moved(self) -> None:
        """Wait until it is on the other host."""
        self.server = self.cloud.compute.wait_moved(self.server)

    def wait_left(self) -> None:
        """Wait until Nova has tidied up where it was before.

        After a live migration it goes on before, and may be put into ERROR
        if that fails.
        """
        under_way = {"accepted", "queued", "preparing", "running"}

        def is_over() -> bool:
            actions = self.cloud.actions
            made = actions.migrations(server_id=self.server.id)
            return not any(one.status in under_way for one in made)

        waiting.wait_until(
            is_over, f"{self.server.id} has left its host", LIMIT_S
        )

    def row(self, stream: Stream) -> db_api.SessionRecord:
        """Return what the database has of a session."""
        found = self.cloud.pool.database.get_session(stream.session_id)
        assert found is not None, stream
        assert found.user_id == instance.user_of(self.server.id)
        return found

    def rows(self) -> list[db_api.SessionRecord]:
        """Return what the database has of all its sessions."""
        mine = db_api.SessionFilter(user_id=instance.user_of(self.server.id))
        return self.cloud.pool.database.list_sessions(mine, limit=1000)

    def wait_end(self, stream: Stream) -> db_api.SessionRecord:
        """Wait until the pool has ended a session."""
        return waiting.wait_until(
            lambda: (
                row
                if (row := self.row(stream)).finished_at is not None
                else None
            ),
            f"session {stream.session_id} has ended",
        )

    def check_rows(self) -> None:
        """Check that the pool knows where it is, and what it holds."""
        uuid = harness.provider_of(self.server)

        def is_known() -> bool:
            snapshot = self.cloud.pool.snapshot()
            (known,) = [
                one
                for one in snapshot.instances
                if one.instance_id == self.server.id
            ]
            mine = {
                one.id
                for one in snapshot.live_sessions
                if one.user_id == instance.user_of(self.server.id)
            }
            held = [
                one.holder_id
                for one in snapshot.assignments
                if one.of_session and one.holder_id in mine
            ]
            current = self.row(self.stream).id
            return known.host_uuid == uuid and held == [current]

        waiting.wait_until(
            is_known, f"the pool knows that {self.server.id} is on {uuid}"
        )
