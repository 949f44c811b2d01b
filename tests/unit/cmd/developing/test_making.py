# SPDX-License-Identifier: Apache-2.0

"""fpgapool-dev new."""

from __future__ import annotations

import pathlib

import pytest

from fpgapool.cmd import dev
from fpgapool.cmd.developing import making
from fpgapool.common import exception


@pytest.mark.parametrize("kind", making.KINDS)
def test_all_names_are_replaced(tmp_path: pathlib.Path, kind: str) -> None:
    assert dev.main(["new", kind, "my_own", f"--directory={tmp_path}"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["my_own"]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    for path in files:
        assert "skeleton" not in str(path.relative_to(tmp_path))
        text = path.read_text()
        assert "keleton" not in text
        if path.suffix == ".py":
            compile(text, path, "exec")
    assert any("my_own" in path.read_text() for path in files)
    if kind != "opencl":
        assert any("class MyOwn" in path.read_text() for path in files)


@pytest.mark.parametrize(
    ("kind", "name", "reason"),
    [
        ("core", "Upper", "not a name"),
        ("core", "../up", "not a name"),
        ("core", "a-b", "not a name"),
        ("core", "1st", "not a name"),
        ("core", "", "not a name"),
        ("core", "a" * 32, "not a name"),
        ("core", "lambda", "not a name"),
        ("core", "json", "module 'json'"),
        ("core", "aes", "core 'aes'"),
        ("opencl", "sobel", "opencl 'sobel'"),
        ("driver", "noop", "driver 'noop'"),
        ("strategy", "wra", "strategy 'wra'"),
    ],
)
def test_names_that_cannot_be_used(
    tmp_path: pathlib.Path, kind: str, name: str, reason: str
) -> None:
    with pytest.raises(exception.ConfigurationError) as caught:
        making.make(kind, name, tmp_path)
    assert reason in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    where = f"--directory={tmp_path}"
    assert dev.main(["new", "core", "mine", where]) == 2
    assert "exists already" in capsys.readouterr().err
    assert list((tmp_path / "mine").iterdir()) == []
    missing = tmp_path / "missing"
    assert dev.main(["new", "core", "my", f"--directory={missing}"]) == 2
    assert str(missing) in capsys.readouterr().err
    assert not missing.exists()
