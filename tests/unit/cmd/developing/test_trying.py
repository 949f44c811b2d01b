# SPDX-License-Identifier: Apache-2.0

"""fpgapool-dev try, as far as it comes without a pool."""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Iterator

import pytest

from fpgapool import client
from fpgapool.accelerators import base as accelerators
from fpgapool.accelerators import parameters
from fpgapool.cmd import dev
from fpgapool.cmd.developing import answers
from fpgapool.cmd.developing import checks
from fpgapool.cmd.developing import making
from fpgapool.cmd.developing import subjects
from fpgapool.cmd.developing import trying
from fpgapool.common import exception

VECTOR = {"input": "00ff", "output": ""}


def _try(path: pathlib.Path, *options: str) -> int:
    return dev.main(["try", str(path), *options])


@pytest.mark.parametrize(
    ("name", "beside", "reason"),
    [
        ("nothing.cl", (), "no such file"),
        ("nothing.c", (), "neither an OpenCL program"),
        ("mine.cl", ("mine.cl",), "lacks mine.json beside it, its manifest"),
        ("mine.py", ("mine.py",), "lacks mine.yaml beside it, its profile"),
    ],
)
def test_files_that_are_missing(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    beside: tuple[str, ...],
    reason: str,
) -> None:
    for one in beside:
        (tmp_path / one).write_text("")
    assert _try(tmp_path / name) == 2
    printed = capsys.readouterr()
    assert (printed.out, reason in printed.err) == ("", True)
    code = "INVALID_USAGE" if name.endswith(".c") else "FILE_ERROR"
    assert printed.err.startswith(f"fpgapool-dev: {code}: ")
    assert "onfiguration" not in printed.err


def test_a_time_limit_names_the_option() -> None:
    told = trying._told(client.OperationTimeout("the limit was exceeded"))
    assert told.startswith("TIMEOUT: the limit was exceeded; what to do: ")
    assert "--timeout-s" in told


@pytest.fixture
def core(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pathlib.Path]:
    """Give the path of a core with its profile, which no other test sees."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    making.make("core", "faulty", tmp_path)
    yield tmp_path / "faulty" / "faulty.py"
    sys.modules.pop("faulty", None)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("name: faulty", "name: other", "must be that of the file"),
        ("faulty:Faulty", "json:Faulty", "core must be 'faulty:CLASS'"),
        ("stateless: true", "stateless: 1", "INVALID_PROFILE"),
        ("FaultyCore", "NoCore", "what to do: make the module importable"),
    ],
)
def test_profiles_that_are_wrong(
    core: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    reason: str,
) -> None:
    profile = core.with_suffix(".yaml")
    assert old in profile.read_text()
    profile.write_text(profile.read_text().replace(old, new))
    assert _try(core) == 1
    first, verdict = capsys.readouterr().out.splitlines()
    assert first.startswith("failed  core ")
    assert reason in first
    assert verdict.startswith("FAILED: faulty (faulty.py); failed: core; ")


def test_a_core_in_the_home_directory_is_refused(
    core: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the home directory, workers see nothing."""
    monkeypatch.setenv("HOME", str(core.parent))
    assert _try(core, "-f", "json") == 1
    (step,) = json.loads(capsys.readouterr().out)["steps"]
    assert "workers may not read the home directory" in step["detail"]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("{}", "must be a list"),
        ("[", "Expecting value"),
        ("[" * 100_000, "recursion"),
        (json.dumps([VECTOR] * 1001), "1000"),
        (json.dumps([{"input": "00"}]), "output"),
        (json.dumps([VECTOR | {"input": ""}]), "[0].input: must be at least"),
        (json.dumps([VECTOR | {"output": "0"}]), "[0].output: must be bytes"),
        (json.dumps([VECTOR | {"params": []}]), "[0].params: must be an"),
        (json.dumps([VECTOR | {"novelty": 1}]), "novelty"),
    ],
)
def test_vectors_that_are_none(
    tmp_path: pathlib.Path, document: str, reason: str
) -> None:
    path = tmp_path / "x.vectors.json"
    path.write_text(document)
    with pytest.raises(exception.ConfigurationError) as caught:
        answers.read_vectors(path)
    assert str(path) in str(caught.value)
    assert reason in str(caught.value)


def test_vectors(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.vectors.json"
    assert answers.read_vectors(path) == []
    more = {"params": {"a": 1}, "arguments": ["01", ""]}
    path.write_text(json.dumps([VECTOR, VECTOR | more]))
    assert answers.read_vectors(path) == [
        accelerators.KnownAnswer({}, b"\x00\xff", b""),
        accelerators.KnownAnswer({"a": 1}, b"\x00\xff", b"", (b"\x01", b"")),
    ]


def test_a_reference(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.py"
    assert answers.read_reference(path) is None
    path.write_text(
        "rounding = ('<f4', 0.5)\n"
        "def reference(data, params, arguments=()):\n"
        "    return data + bytes([params['a']]) + b''.join(arguments)\n"
    )
    found = answers.read_reference(path)
    assert found is not None
    assert (found.rounding, found.make_input) == (("<f4", 0.5), None)
    assert found.compute(b"1", {"a": 50}, ()) == b"12"
    assert found.compute(b"1", {"a": 50}, (b"3", b"4")) == b"1234"


@pytest.mark.parametrize(
    ("source", "reason"),
    [("x = 1", "no function reference"), ("1 / 0", "ZeroDivisionError")],
)
def test_references_that_are_none(
    tmp_path: pathlib.Path, source: str, reason: str
) -> None:
    path = tmp_path / "x.py"
    path.write_text(source)
    with pytest.raises(exception.ConfigurationError, match=reason):
        answers.read_reference(path)


class _LastCore(accelerators.Core):
    """Returns its argument, then its input, and its parameter at the end."""

    def __init__(self, params):
        self._last = parameters.checked(params, required=["last"])["last"]

    def set_argument(self, number, data):
        self._argument = bytes(data)

    def process(self, chunk_in, chunk_out, offset_bytes):
        output = self._argument + bytes(chunk_in)
        chunk_out[: len(output)] = output
        return len(output)

    def finish(self, chunk_out):
        chunk_out[:1] = bytes([self._last])
        return 1

    def max_output_bytes(self, input_bytes):
        return input_bytes + 2


def test_a_core_is_its_own_reference() -> None:
    found = answers.of_core(_LastCore)
    assert found.compute(b"bc", {"last": 100}, (b"a",)) == b"abcd"


def test_without_vectors_and_reference_it_says_so(
    tmp_path: pathlib.Path,
) -> None:
    made = checks.Checks(
        subjects.Core(tmp_path / "mine.py"), "nowhere", 1.0, 1
    )
    assert made.vectors() == (
        "absent",
        "no vectors (mine.vectors.json): only ran",
    )
    assert made.reference() == (
        "absent",
        "no reference (mine.py): not compared",
    )


@pytest.mark.parametrize("unit_bytes", [1, 3, 1000])
@pytest.mark.parametrize("most_bytes", [1000, 4096])
def test_pieces_are_whole_and_differ(unit_bytes: int, most_bytes: int) -> None:
    size_bytes = 50 * unit_bytes + 1
    lengths = list(checks._lengths(size_bytes, unit_bytes, most_bytes))
    assert sum(lengths) == size_bytes
    assert all(0 < length <= most_bytes for length in lengths)
    assert all(length % unit_bytes == 0 for length in lengths[:-1])
    assert len(lengths) > 5
