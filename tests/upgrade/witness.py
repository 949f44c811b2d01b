# SPDX-License-Identifier: Apache-2.0

"""A session that is used for as long as its standard input is open.

The interpreters of both releases run this file, so it uses only what both
have. It tells, in JSON lines, the number of pieces so far, and at the end
whether all bytes were right.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import threading

from fpgapool import client
from tests.chaos import clients

PIECE_BYTES = 64 << 10
PAUSE_S = 0.25
CLAIMED_BYTES = 1 << 30
PATIENCE_S = 100.0


def _say(**members: object) -> None:
    sys.stdout.write(json.dumps(members) + "\n")
    sys.stdout.flush()


def _follow(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


def run(door: str, token: str, seed: int) -> None:
    """Send and check until told to end."""
    over = threading.Event()
    threading.Thread(target=_follow, args=(over,), daemon=True).start()
    rng = random.Random(seed)
    sent, received = hashlib.sha256(), hashlib.sha256()
    pieces = 0
    with client.acc_open(
        "copy",
        CLAIMED_BYTES,
        front_door=clients.front_door(door, token),
        timeout_s=PATIENCE_S,
    ) as session:
        while not over.wait(PAUSE_S):
            piece = rng.randbytes(PIECE_BYTES)
            sent.update(piece)
            session.pin[: len(piece)] = piece
            received.update(session.run(len(piece), timeout_s=PATIENCE_S))
            pieces += 1
            _say(pieces=pieces)
        received.update(session.finish(timeout_s=PATIENCE_S))
    _say(
        pieces=pieces,
        right=sent.digest() == received.digest(),
        moved=session.reopens + session.reconnects,
    )


if __name__ == "__main__":
    try:
        run(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    except client.FpgapoolError as error:
        _say(pieces=0, right=False, error=f"{error.code}: {error.message}")
