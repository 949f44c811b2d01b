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


def test_the_group_side_is_named_after_groups(tool: types.ModuleType) -> None:
    lines = {
        "fpgapool/client/groups/group.py": 1,
        "fpgapool/client/groups/link.py": 2,
        "fpgapool/client/apigroups.py": 4,
        "fpgapool/client/sessions/session.py": 8,
        "fpgapool/agent/groupdesk/service.py": 16,
    }
    assert tool.group_side(lines) == 7


def test_only_the_largest_are_named(tool: types.ModuleType) -> None:
    counts = {f"{number:02}": number // 2 for number in range(14)}
    named = tool.largest(counts)
    assert named[:3] == [("12", 6), ("13", 6), ("10", 5)]
    assert len(named) == tool.TOP


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


def test_each_form_of_a_session_is_noted_once(
    tool: types.ModuleType, tmp_path: pathlib.Path
) -> None:
    source = tmp_path / "core" / "a.py"
    source.parent.mkdir()
    source.write_text(
        "def road(Request):\n"
        "    begun = {'request_id': 'r', 'size': 7, 'accelerator': 'copy',"
        " 'other': 1}\n"
        "    made = Request(7)\n"
        "    again = Request(7)\n"
        "    stranger = Request(8) and {'size': 8, 'a': 'copy', 'b': 1,"
        " 'c': 2}\n"
        "    few = {'request_id': 'r', 'size': 7, 'accelerator': 'copy'}\n"
        "    return {**begun, 'id': 3, 'size_bytes': 7}\n"
    )
    names: dict[str, types.FunctionType] = {}
    exec(compile(source.read_text(), str(source), "exec"), names)
    forms = tool.Forms(tmp_path)
    forms.on = True
    before = sys.getprofile()
    try:
        forms.start()
        names["road"](_Request)
    finally:
        threading.setprofile(None)
        sys.setprofile(before)
    found = tool.form_list(forms.taken({"r", 7}, {"copy"}))
    assert found == [
        (
            "dict of accelerator, other, request_id, size, size_bytes",
            "core/a.py:road",
        ),
        ("fpgapool.requests._Request", "core/a.py:road"),
    ]
    assert tool.form_list(forms.taken({"r", 7}, {"copy"})) == []
