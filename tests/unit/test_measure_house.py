# SPDX-License-Identifier: Apache-2.0

"""What tools/measure-house counts, on a tree of a few lines."""

import importlib.machinery
import importlib.util
import pathlib
import sys
import threading
import types

import pytest

TOOL = pathlib.Path(__file__).parents[2] / "tools/measure-house"

ENGINE = '''\
# SPDX-License-Identifier: Apache-2.0

"""A room."""

import json  # for what comes in


class Session:
    """One.

    And no more.
    """

    kind = """
    text
    """

    def __init__(self, state):
        self.state = state

    def claim(self):
        """Say it."""
        return (
            # In bytes.
            self.claimed_bytes
        )


class Hold:
    def move(self, phase):
        self.phase, self.state = phase, json
        self.session.state += phase
        self.other.state = self.phase
'''
PATH = "fpgapool/conductor/engine.py"


@pytest.fixture(scope="module")
def tool() -> types.ModuleType:
    loader = importlib.machinery.SourceFileLoader("measure_house", str(TOOL))
    spec = importlib.util.spec_from_loader("measure_house", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    for path, source in {
        PATH: ENGINE,
        "fpgapool/core/a.py": "from fpgapool.core import b\n",
        "fpgapool/core/b.py": "from fpgapool.core import a\n\nunclaimed_bytes",
        "fpgapool_nova_filters/a.py": "# claimed_bytes\n",
        "tests/b.py": "claimed_bytes\n",
        "tests/data/b.json": "[1,\n2]\n",
        "reproduction/figures/c.py": "def draw():\n" + "    a()\n" * 70,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(source)
    return tmp_path


def test_rows_of_a_tree(tool: types.ModuleType, tree: pathlib.Path) -> None:
    rows = list(tool.rows(tree))
    expected = {
        "files": 4,
        "lines": 37,
        "lines of code": 19,
        "lines of reproduction/": 71,
        "lines of demo/": 0,
        "lines of fpgapool_tempest_plugin/": 0,
        "lines of tests, data included": 3,
        "lines of the client's group side": 0,
        "folders of > 20 files": 0,
        "functions of > 70 lines": 1,
        "    reproduction/figures/c.py:1 draw": 71,
        "classes of > 30 methods": 0,
        "circles of imports": 1,
        "files that name claimed_bytes": 2,
        "files that name resume_grace_s": 0,
        "places that write a phase or a session's state": 3,
        f"    {PATH}:19": "",
        f"    {PATH}:31": "",
        f"    {PATH}:32": "",
    }
    assert dict(rows[: len(expected)]) == expected
    assert (f"    {PATH}", 33) in rows
    assert (f"    {PATH}:Session", 2) in rows
    assert (f"    {PATH}:Hold", 1) in rows


def test_what_exceeds_a_limit_is_named(tool: types.ModuleType) -> None:
    files = {f"fpgapool/a/{number}.py": "" for number in range(3)}
    files["fpgapool/b.py"] = "class B:\n" + "    def c(self): ...\n" * 2
    assert list(tool.over(tool.folders(files), 2, "folders")) == [
        ("folders", 1),
        ("    fpgapool/a", 3),
    ]
    assert list(tool.over(tool.methods(files), 1, "classes")) == [
        ("classes", 1),
        ("    fpgapool/b.py:B", 2),
    ]
    assert list(tool.over(tool.methods(files), 2, "classes")) == [
        ("classes", 0)
    ]


def test_calls_of_all_threads_count(
    tool: types.ModuleType, tmp_path: pathlib.Path
) -> None:
    source = tmp_path / "core" / "a.py"
    source.parent.mkdir()
    source.write_text("def outer():\n    inner()\n\ndef inner():\n    len('')")
    names: dict[str, types.FunctionType] = {}
    exec(compile(source.read_text(), str(source), "exec"), names)
    calls = tool.Calls(tmp_path)
    before = sys.getprofile()
    try:
        calls.start()
        thread = threading.Thread(target=names["outer"])
        thread.start()
        names["inner"]()
        thread.join()
    finally:
        threading.setprofile(None)
        sys.setprofile(before)
    assert calls.taken() == {"all": 3, "core": 3}
    assert calls.taken() == {}


class _Request:
    def __init__(self, size: int) -> None:
        self.request_id = "r"
        self.size, self.accelerator, self.other = size, "copy", None


_Request.__module__ = "fpgapool.requests"
