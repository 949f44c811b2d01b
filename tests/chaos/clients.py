# SPDX-License-Identifier: Apache-2.0

"""Clients of the pool, each in a thread, all in one process.

Run as ``python -m tests.chaos.clients SETTINGS``, with the JSON of
:class:`Settings`. It does as :mod:`tests.chaos.obeying` says, and tells
``ready`` of each slot that a client got, ``flowing`` of long streams that are
under way, and ``done`` of each job.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import random
import socket
import sys
import threading
import time
import traceback
import typing

from fpgapool import client
from tests.chaos import jobs
from tests.chaos import obeying
from tests.chaos import resending

#: How long any call of a client may take; longer than all that faults cost.
PATIENCE_S = 150.0
_SILENCE_S = jobs.IDLE_TIMEOUT_S + 2.0
_NONSENSE_BYTES = 64


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a process is told.

    :ivar seed: of all that its clients do.
    :ivar doors: paths of sockets, and addresses of APIs.
    :ivar streams: how many more clients there are, which do nothing but long
        streams.
    """

    seed: str
    clients: int
    doors: list[str]
    token: str
    streams: int = 0


@dataclasses.dataclass
class Outcome:
    """What became of a job, as told by ``done``.

    :ivar started_s: when the client asked, on the monotonic clock.
    :ivar ready_s: when it heard that it had a slot; None if it never did.
    :ivar state: the newest that the client was told.
    :ivar wanted: whether the client wanted the end that it was.
    :ivar code: of the error; empty if there was none.
    :ivar wrong: what was wrong with the output; empty if nothing was.
    :ivar got_bytes: right output, and the input that it was made of.
    :ivar neighbour: whether the client belongs to the project that may use up
        its budget.
    :ivar bug: what was raised that is not an error of the library.
    :ivar resent_reopens: in how many other slots at least two pieces of
        input were sent again; of long streams only.
    :ivar resent_resumes: the same, over other connections to one slot.
    """

    conduct: str
    accelerator: str
    stateless: bool
    door: str
    started_s: float
    ready_s: float | None = None
    ended_s: float = 0.0
    state: str = ""
    session_id: str = ""
    opened: bool = False
    wanted: bool = False
    code: str = ""
    message: str = ""
    wrong: str = ""
    bug: str = ""
    reopens: int = 0
    reconnects: int = 0
    restarts: int = 0
    resent_reopens: int = 0
    resent_resumes: int = 0
    got_bytes: int = 0
    neighbour: bool = False


class Crowd(obeying.Obeying):
    """All clients of this process."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings

    def follow(self) -> None:
        """Do as told, to the end."""
        self.run(
            functools.partial(self._client, number)
            for number in range(
                self._settings.clients + self._settings.streams
            )
        )

    def _client(self, number: int) -> None:
        rng = random.Random(f"{self._settings.seed} {number}")
        doors = self._settings.doors
        streams = number >= self._settings.clients
        draw = jobs.draw_long if streams else jobs.draw
        while True:
            job = draw(rng, len(doors))
            with self.turn(job.pause_s) as mine:
                if mine:
                    self._do(job, doors[job.door])

    def _do(self, job: jobs.Job, door: str) -> None:
        outcome = Outcome(
            job.conduct,
            job.accelerator,
            job.stateless,
            "api" if _is_api(door) else "socket",
            time.monotonic(),
        )
        try:
            Visit(job, door, self._settings.token, outcome, self.say).run()
        except client.FpgapoolError as error:
            outcome.code = error.code
            outcome.message = error.message
        except Exception:
            outcome.bug = traceback.format_exc()
        outcome.ended_s = time.monotonic()
        self.say("done", **dataclasses.asdict(outcome))


def _is_api(door: str) -> bool:
    return door.startswith("http:")


def front_door(door: str, token: str) -> str | client.PoolApi:
    """Return what the library takes as a front door.

    :param door: path of a socket, or address of an API.
    """
    if not _is_api(door):
        return door
    from keystoneauth1 import adapter
    from keystoneauth1 import session
    from keystoneauth1 import token_endpoint

    endpoint = f"{door}/v1"
    return client.PoolApi(
        adapter.Adapter(
            session.Session(auth=token_endpoint.Token(endpoint, token)),
            service_type="fpgapool",
            endpoint_override=endpoint,
        )
    )


class Visit:
    """A client and one job.

    :param outcome: takes what becomes of it.
    """

    def __init__(
        self,
        job: jobs.Job,
        door: str,
        token: str,
        outcome: Outcome,
        say: typing.Callable[..., None],
    ) -> None:
        self._job = job
        self._door = door
        self._outcome = outcome
        self._say = say
        self._data = job.data()
        self._cancel = client.CancelToken()
        # The newest slot.
        self._view: client.SessionView | None = None
        self._options: dict[str, typing.Any] = {
            "params": job.params,
            "front_door": front_door(door, token),
            "on_state": self._on_state,
            "cancel": self._cancel,
            "timeout_s": PATIENCE_S,
        }

    def run(self) -> None:
        """Do what the job says."""
        getattr(self, f"_do_{self._job.conduct}")()

    def _on_state(self, view: client.SessionView) -> None:
        outcome = self._outcome
        outcome.state = view.state
        outcome.session_id = view.session_id
        # Who takes over a slot may come to it before its holder has left.
        is_early = view.state == "PREPARING" and view.endpoints and view.secret
        if view.state == "READY" or is_early:
            self._view = view
            if outcome.ready_s is None:
                outcome.ready_s = time.monotonic()
                self._say("ready", at_s=outcome.ready_s)

    def _check(self, data: bytes, output: bytes) -> None:
        expected = self._job.expected(data)
        if output == expected:
            self._outcome.got_bytes += len(data) + len(output)
        else:
            pairs = zip(output, expected, strict=False)
            equal = sum(mine == theirs for mine, theirs in pairs)
            self._outcome.wrong = (
                f"{len(output)} bytes, {len(expected)} expected, {equal} of"
                f" them equal; seed {self._job.data_seed}"
            )

    # What clients do.

    def _do_stream(
        self, progress: typing.Callable[[int, int], object] | None = None
    ) -> None:
        output, report = client.run_buffer(
            self._job.accelerator,
            self._data,
            progress=progress,
            **self._options,
        )
        self._outcome.opened = True
        self._outcome.reopens = report.reopens
        self._outcome.reconnects = report.reconnects
        self._outcome.restarts = report.restarts
        self._check(self._data, bytes(output))

    def _do_long(self) -> None:
        tally = resending.begin()
        told_bytes = 0
        cut = False

        def progress(done_bytes: int, size_bytes: int) -> None:
            nonlocal told_bytes, cut
            if done_bytes - told_bytes >= jobs.LONG_PART_BYTES:
                told_bytes = done_bytes
                if size_bytes - done_bytes >= jobs.LONG_LEFT_BYTES:
                    self._tell_flowing()
            cut_bytes = self._job.cut_bytes
            if not cut and cut_bytes is not None and done_bytes >= cut_bytes:
                cut = True
                tally.cut()

        try:
            self._do_stream(progress)
        finally:
            self._outcome.resent_reopens = tally.reopens
            self._outcome.resent_resumes = tally.resumes

    def _tell_flowing(self) -> None:
        if self._view is not None:
            self._say(
                "flowing", host=self._view.host_name, slot=self._view.slot
            )

    def _cancel_later(self) -> threading.Timer:
        timer = threading.Timer(self._job.patience_s, self._cancel.cancel)
        timer.daemon = True
        timer.start()
        return timer

    def _do_cancel(self) -> None:
        timer = self._cancel_later()
        try:
            self._do_stream()
        except client.Cancelled:
            self._outcome.wanted = True
            raise
        finally:
            timer.cancel()

    def _open(self) -> contextlib.AbstractContextManager[client.Session]:
        return client.acc_open(
            self._job.accelerator, len(self._data), **self._options
        )

    @contextlib.contextmanager
    def _session(self) -> typing.Iterator[client.Session]:
        with self._open() as session:
            self._outcome.opened = True
            try:
                yield session
            finally:
                self._outcome.reopens = session.reopens
                self._outcome.reconnects = session.reconnects

    def _in_pieces(self, pause_s: float) -> None:
        output = bytearray()
        with self._session() as session:
            step = len(session.pin) // jobs.FRAME_BYTES * jobs.FRAME_BYTES
            for start in range(0, len(self._data), step):
                output += _run(session, self._data[start : start + step])
                if pause_s:
                    threading.Event().wait(pause_s)
            output += session.finish(timeout_s=PATIENCE_S)
        self._check(self._data, bytes(output))

    def _do_pieces(self) -> None:
        self._in_pieces(0.0)

    def _do_slow(self) -> None:
        self._in_pieces(self._job.patience_s / 8)

    def _do_early(self) -> None:
        with self._session() as session:
            step = len(session.pin) // jobs.FRAME_BYTES * jobs.FRAME_BYTES
            piece = self._data[:step]
            output = _run(session, piece)
            if self._job.stateless:
                self._check(piece, output)
            session.abort()

    def _do_silent(self) -> None:
        with self._session() as session:
            threading.Event().wait(_SILENCE_S)
            # It is told now that it has no slot any more.
            self._outcome.wanted = True
            _run(session, self._data[: jobs.FRAME_BYTES])

    def _do_stranger(self) -> None:
        self._outcome.wanted = True
        nonsense = self._data[:_NONSENSE_BYTES]
        with contextlib.suppress(OSError), _connection(self._door) as sock:
            sock.settimeout(self._job.patience_s)
            sock.sendall(nonsense)
            while sock.recv(4096):
                pass


def _run(session: client.Session, piece: bytes) -> bytes:
    session.pin[: len(piece)] = piece
    return bytes(session.run(len(piece), timeout_s=PATIENCE_S))


def _connection(door: str) -> socket.socket:
    if _is_api(door):
        host, _, port = door.removeprefix("http://").partition(":")
        return socket.create_connection((host, int(port)), PATIENCE_S)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(PATIENCE_S)
    sock.connect(door)
    return sock


if __name__ == "__main__":
    obeying.obey_signals()
    resending.count()
    Crowd(Settings(**json.loads(sys.argv[1]))).follow()
