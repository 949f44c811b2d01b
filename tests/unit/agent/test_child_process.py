# SPDX-License-Identifier: Apache-2.0

"""How workers and desks end."""

import os
import subprocess
import sys

_PROGRAM = """
import os, types
from fpgapool.agent.child import process

class Service:
    room = None
    def run(self): pass
    def exit(self, reason): pass

settings = types.SimpleNamespace(isolation="none")
process.run(lambda settings: Service(), RuntimeError, settings)
os._exit(9)
"""


def test_an_orderly_end_needs_no_standard_output() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        preexec_fn=lambda: os.closerange(1, 3),
        check=False,
    )
    assert ended.returncode == 0
