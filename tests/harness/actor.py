# SPDX-License-Identifier: Apache-2.0

"""A tenant's program of a scene, which does what it is told.

Run as ``python -m tests.harness.actor SETTINGS``, with the JSON of an object
with ``front_door``, ``accelerator`` and ``request_id``. It reads commands,
a line each, from its standard input, and tells what happens in JSON lines:

``open``
    ask for the session and, when it is READY, connect;
``hold``
    the same, but do not connect before ``go``;
``run``, ``stream``
    have one piece of data processed, or one after the other until the next
    command;
``cut``
    break the data connection, and do nothing about it;
``finish``
    have a last piece processed, and close.

SIGTERM is an orderly end: what was asked for is given back.
"""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import sys
import threading
import types
import typing

from fpgapool import client
from tests.harness import programs

PIECE_BYTES = 4096
#: Enough for all that an actor may send.
CLAIM_BYTES = 1 << 30
_STREAM_INTERVAL_S = 0.05


class Actor:
    """The program."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = settings
        self._commands: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._cutter = programs.Cutter()
        self._rng = random.Random(settings["request_id"])
        self._aes: programs.Aes | None = None
        if settings["accelerator"] == "aes":
            self._aes = programs.Aes(self._rng)
        self._input = b""
        self._done_bytes = 0
        self._holds = False

    def run(self) -> None:
        """Follow the commands to the end of the session."""
        threading.Thread(target=self._listen, daemon=True).start()
        say("started")
        self._holds = self._commands.get() == "hold"
        try:
            self._play()
        except client.FpgapoolError as error:
            say("failed", code=error.code, message=error.message)

    def _listen(self) -> None:
        for line in sys.stdin:
            self._commands.put(line.strip())
        # Nobody is left to tell what to do.
        os._exit(1)

    def _play(self) -> None:
        settings = self._settings
        with client.acc_open(
            settings["accelerator"],
            CLAIM_BYTES,
            params=None if self._aes is None else self._aes.params,
            front_door=settings["front_door"],
            request_id=settings["request_id"],
            on_state=self._on_state,
            cancel=self._cutter,
            verify=False,
        ) as session:
            say("opened")
            self._use(session)
            say("closed", reopens=session.reopens)

    def _on_state(self, view: client.SessionView) -> None:
        say("state", state=view.state, generation=view.generation)
        if self._holds and view.state == "READY":
            self._holds = False
            while self._commands.get() != "go":
                pass

    def _use(self, session: client.Session) -> None:
        streams = False
        while True:
            try:
                command = self._commands.get(
                    timeout=_STREAM_INTERVAL_S if streams else None
                )
            except queue.Empty:
                self._run_piece(session)
                continue
            streams = command == "stream"
            if command == "cut":
                self._cutter.cut()
                say("cut")
            else:
                self._run_piece(session)
            if command == "finish":
                return

    def _run_piece(self, session: client.Session) -> None:
        piece = self._rng.randbytes(PIECE_BYTES)
        expected = piece
        if self._aes is not None:
            self._input += piece
            expected = self._aes.encrypt(self._input)[-PIECE_BYTES:]
        session.pin[:PIECE_BYTES] = piece
        if bytes(session.run(PIECE_BYTES)) != expected:
            raise client.SessionFailed("WRONG_OUTPUT", "bytes differ")
        self._done_bytes += PIECE_BYTES
        say("progress", done_bytes=self._done_bytes)


def say(event: str, **members: typing.Any) -> None:
    """Tell what happened."""
    sys.stdout.write(json.dumps({"event": event, **members}) + "\n")
    sys.stdout.flush()


def leave(_number: int, _frame: types.FrameType | None) -> None:
    """End in order, wherever the program is."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, leave)
    Actor(json.loads(sys.argv[1])).run()
