# SPDX-License-Identifier: Apache-2.0

"""The documents' pictures of life cycles show the tables."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def test_life_cycles_are_drawn_as_their_tables_say(tmp_path):
    tool = ROOT / "tools" / "draw-life-cycles"
    subprocess.run([sys.executable, tool, tmp_path], check=True, cwd=ROOT)
    drawn = {one.name: one.read_text() for one in tmp_path.iterdir()}
    assert "session-life.svg" in drawn
    images = ROOT / "doc" / "source" / "images"
    kept = {name: (images / name).read_text() for name in drawn}
    assert kept == drawn, "run tools/draw-life-cycles doc/source/images"
