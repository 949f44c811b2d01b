# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-run`` with an accelerator and a FILE: what goes where."""

import argparse
import pathlib

import pytest

from fpgapool.cmd.running import arguments as command_line
from fpgapool.cmd.running import habits


@pytest.fixture(autouse=True)
def directory(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("made.gz").touch()
    return tmp_path


def filled(words: str) -> argparse.Namespace:
    arguments = command_line.parse(words.split())
    habits.fill_in(arguments)
    return arguments


@pytest.mark.parametrize(
    ("words", "source", "destination"),
    [
        ("gzip a", "a", "a.gz"),
        ("gzip --param level=9 a", "a", "a.gz"),
        ("--json gzip d/a.tar", "d/a.tar", "d/a.tar.gz"),
        ("gzip -f made", "made", "made.gz"),
        ("gzip .gz", ".gz", ".gz.gz"),
        ("gzip a --out b", "a", "b"),
        ("gzip a.gz --out b", "a.gz", "b"),
        ("gzip --in a --out b", "a", "b"),
        ("gzip -", "-", None),
        ("gzip@p1 a", "a", "a.gz"),
        ("aes a", "a", "a.enc"),
        ("aes --decrypt a.enc", "a.enc", "a"),
        ("aes-cbc --encrypt a.enc", "a.enc", "a.enc.enc"),
        ("sha a", "a", "-"),
        ("sha a --out b", "a", "b"),
        ("sha -", "-", "-"),
        ("copy a", "a", None),
        ("gzip --dry-run made", "made", None),
    ],
)
def test_ends(words: str, source: str, destination: str | None) -> None:
    found = filled(words)
    assert (found.source, found.destination) == (source, destination)
    made = found.destination == f"{source}.gz"
    assert found.like == (source if made else found.like)
    assert (found.digest_of is not None) == (destination == "-")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("gzip made", "made.gz already exists; --force replaces it"),
        ("gzip a.gz", "a.gz already ends with .gz"),
        ("aes a.enc", "a.enc already ends with .enc"),
        ("aes --decrypt a", "a does not end with .enc; specify --out"),
        ("gzip a --in b", "specify FILE or --in, not both"),
    ],
)
def test_refusals(words: str, told: str) -> None:
    with pytest.raises(command_line.UsageError) as caught:
        filled(words)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a b", "00ff  a b\n"),
        ("-", "00ff  -\n"),
        ("a\\b\nc\rd", "\\00ff  a\\\\b\\nc\\rd\n"),
    ],
)
def test_lines(
    capsys: pytest.CaptureFixture[str], name: str, line: str
) -> None:
    """Coreutils escape such names, too."""
    habits.show_digest(b"\x00\xff", name)
    assert capsys.readouterr().out == line
