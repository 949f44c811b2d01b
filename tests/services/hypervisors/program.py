# SPDX-License-Identifier: Apache-2.0

"""What runs in a machine: it streams, and tells what it got.

Run as a script: ``ADDRESS PORT``, to which it sends one line of JSON for each
thing that happens. It checks nothing: who listens does.
"""

import hashlib
import json
import socket
import sys
import time
import typing

from fpgapool import client

KEY = bytes(range(32))
IV = bytes(16)
PIECE_BYTES = 16 * 1024
_CLAIM_BYTES = 1 << 40
_PATTERN = bytes(range(251)) * (PIECE_BYTES // 251 + 2)
_PERIOD_S = 0.05
_AGAIN_S = 1.0

Tell = typing.Callable[..., None]


def piece(number: int) -> bytes:
    """Return the input of a number, from 0 on."""
    start = number % 251
    return _PATTERN[start : start + PIECE_BYTES]


def stream(tell: Tell) -> None:
    """Use one session for as long as it lasts."""
    with client.acc_open(
        "aes", _CLAIM_BYTES, params={"key": KEY, "iv": IV}
    ) as session:
        tell(opened=session.session_id, host=session.host_name)
        number = 0
        while True:
            session.pin[:PIECE_BYTES] = piece(number)
            output = session.run(PIECE_BYTES)
            tell(
                piece=number,
                digest=hashlib.sha256(output).hexdigest(),
                reconnects=session.reconnects,
                reopens=session.reopens,
            )
            number += 1
            time.sleep(_PERIOD_S)


def main(address: str, port: str) -> None:
    """Stream for ever."""
    with socket.create_connection((address, int(port))) as connection:

        def tell(**what: typing.Any) -> None:
            connection.sendall(json.dumps(what).encode() + b"\n")

        tell(started=True)
        while True:
            try:
                stream(tell)
            except client.FpgapoolError as error:
                tell(ended=error.code, message=str(error))
                time.sleep(_AGAIN_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
