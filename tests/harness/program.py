# SPDX-License-Identifier: Apache-2.0

"""A tenant's program that stands still in a state of its session.

Run as ``python -m tests.harness.program FRONT_DOOR STATE``. It prints the
session's id when it has got there.
"""

from __future__ import annotations

import signal
import sys

from fpgapool import client


def main(path: str, state: str) -> None:
    """Open a session and stand still.

    :param state: QUEUED, READY or ACTIVE.
    """

    def on_state(view: client.SessionView) -> None:
        # In this call nothing goes on: the client does not connect.
        if view.state == state:
            stand_still(view.session_id)

    session = client.acc_open("copy", 1, front_door=path, on_state=on_state)
    client.acc_run(session, 1)
    stand_still(session.session_id)


def stand_still(session_id: str) -> None:
    """Print the session's id and wait to be killed."""
    sys.stdout.write(f"{session_id}\n")
    sys.stdout.flush()
    while True:
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
