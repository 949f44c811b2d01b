# SPDX-License-Identifier: Apache-2.0

"""Completion of the commands in shells."""

import pathlib
import subprocess
import sys
import tomllib

import pytest

from fpgapool.cmd import completion
from fpgapool.cmd import run
from fpgapool.cmd.running import arguments

ROOT = pathlib.Path(__file__).parents[3]

_ASKS = """
source /dev/stdin
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_shtab_{function}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def bash() -> str:
    """Give the script for bash."""
    return completion.script("bash", arguments.parser())


def completed(bash: str, words: str) -> set[str]:
    """Return what bash offers for the last word."""
    function = words.split()[0].replace("-", "_")
    script = _ASKS.format(words=words, function=function)
    done = subprocess.run(
        ["bash", "-c", script],
        input=bash,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("fpgapool-run --de", {"--decrypt", "--deadline"}),
        ("fpgapool-run aes --iv", {"--iv", "--iv-file"}),
        ("fpgapool-run aes --meanwhile c", {"cpu"}),
        ("fpgapool-manage db s", {"sync"}),
        ("fpgapool-manage --conf", {"--config-file", "--config-dir"}),
        ("fpgapool-sim r", {"run"}),
        ("fpgapool-sim run --str", {"--strategy"}),
        ("fpgapool-allinone --b", {"--boards"}),
        ("fpgapool-dev new dr", {"driver"}),
        ("fpgapool-agent --conf", {"--config-file", "--config-dir"}),
        ("fpgapool-conductor --deb", {"--debug"}),
        ("fpgapool-status up", {"upgrade"}),
    ],
)
def test_bash(bash: str, words: str, offered: set[str]) -> None:
    assert offered <= completed(bash, words)


def test_files_are_completed(bash: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "key.hex").touch()
    words = f"fpgapool-run aes --key-file {tmp_path}/k"
    assert completed(bash, words) == {f"{tmp_path}/key.hex"}


def test_all_commands(bash: str) -> None:
    text = (ROOT / "pyproject.toml").read_text()
    for name in tomllib.loads(text)["project"]["scripts"]:
        function = f"_shtab_{name.replace('-', '_')}"
        assert f" -F {function} {name}\n" in f"{bash}\n"


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_shells(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--completion", shell]) == 0
    assert "fpgapool-manage" in capsys.readouterr().out


def test_unknown_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--completion", "fish"]) == 2
    assert "--completion" in capsys.readouterr().err


def test_without_its_library(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert run.main(["--completion", "bash"]) == 2
    assert "pip install 'fpgapool[cli]'" in capsys.readouterr().err
