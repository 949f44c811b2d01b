# SPDX-License-Identifier: Apache-2.0

"""What the client library logs in a whole pool."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import threading

import pytest

from fpgapool import client
from tests.functional.allinone import harness


def test_the_life_of_a_session(
    site: harness.Site,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    door = site.pool.front_door()
    monkeypatch.setenv("FPGAPOOL_SOCKET", door)
    key = "00112233445566778899aabbccddeeff"
    queued = threading.Event()
    opened: list[client.Session] = []

    def on_state(view: client.SessionView) -> None:
        if view.state == "QUEUED":
            queued.set()

    def open_third() -> None:
        opened.append(
            client.acc_open(
                "aes", 1, params={"key": key, "iv": key}, on_state=on_state
            )
        )

    with caplog.at_level(logging.DEBUG, "fpgapool"):
        with client.acc_open("copy", 1) as first:
            second = client.acc_open("copy", 1)
            waits = threading.Thread(target=open_third)
            waits.start()
            assert queued.wait(harness.LIMIT_S)
            second.abort()
        waits.join(harness.LIMIT_S)
        (third,) = opened
        third.close()
    lines = [record.message for record in caplog.records]
    text = "\n".join(lines)
    assert f"The pool is at the front door {door}" in lines
    assert f"Session {first.session_id} closed" in lines
    assert f"Session {second.session_id} aborted: CANCELLED" in lines
    assert f"Session {third.session_id} waits: " in text
    assert re.search(
        rf"Session {third.session_id} of aes opened after \d+\.\d+ s: "
        r"slot \d of board0 on host node1, transport shm",
        text,
    )
    assert key not in text
    for one in (first, second, third):
        assert (one.view.secret or "secret") not in text


def test_nothing_appears_unless_the_program_wants_it() -> None:
    program = (
        "import logging\n"
        "from fpgapool import client\n"
        "client.run_buffer('copy', b'abc', front_door='/none',"
        " fallback='cpu')\n"
        "print(logging.getLogger('fpgapool').handlers)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout == "[<NullHandler (NOTSET)>]\n"
