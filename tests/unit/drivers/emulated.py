# SPDX-License-Identifier: Apache-2.0

"""A driver of one emulated board."""

import yaml

from fpgapool.drivers import emulator

BOARD = {"name": "board0", "slots": 2}


def make(directory, *, shapes=None, is_apart=False, **board):
    path = directory / "boards.yaml"
    if is_apart:
        path = directory / "boards" / "boards.yaml"
        path.parent.mkdir(exist_ok=True)
    document = {"unlimited": True, "boards": [{**BOARD, **board}]}
    if shapes is not None:
        document["shapes"] = shapes
    path.write_text(yaml.safe_dump(document))
    return emulator.EmulatorDriver(
        {"state_dir": str(directory), "boards_file": str(path)}
    )
