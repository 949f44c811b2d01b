# SPDX-License-Identifier: Apache-2.0

"""What services have said and kept: messages, frames and rows of the database.

Each ``NNN.json`` is a recording of one state of the code. A recording stays as
it is, and every later state must understand it, until no service of its
release may run beside the present ones: then its file goes.

``python -m tests.unit.recorded.make`` adds a recording, if there is something
new to record. Commit it with the change that needs it.
"""

import json
import pathlib
from typing import Any

HERE = pathlib.Path(__file__).parent

Recording = dict[str, Any]


def load_all() -> dict[str, Recording]:
    """Return all recordings by number, the oldest first."""
    return {
        path.stem: json.loads(path.read_text())
        for path in sorted(HERE.glob("[0-9]*.json"))
    }
