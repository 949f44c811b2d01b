# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-manage trace``, without services."""

from __future__ import annotations

import io
import pathlib

import pytest

from fpgapool.cmd import manage

OWN = "req-11111111-1111-1111-1111-111111111111"
GLOBAL = "req-22222222-2222-2222-2222-222222222222"
OTHER = "req-33333333-3333-3333-3333-333333333333"

API = f"""\
2026-11-29 07:00:00.100 1 INFO api [-] POST 202 request_id={OWN} g={GLOBAL}
2026-11-29 07:00:00.400 1 INFO api [-] POST 202 request_id={OTHER} g=-
"""
CONDUCTOR = f"""\
2026-11-29 07:00:00.300 2 ERROR conductor [{GLOBAL} mine - - - -] bad
2026-11-29 07:00:00.300 2 ERROR conductor Traceback:
2026-11-29 07:00:00.300 2 ERROR conductor ValueError
2026-11-29 07:00:00.350 2 INFO conductor [-] else
"""
WORKER = f"2026-11-29 07:00:00,200 INFO worker [board0.0 {GLOBAL}] runs\n"


def test_lines_of_all_services_in_order(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (("a", API), ("c", CONDUCTOR), ("w", WORKER)):
        (tmp_path / f"{name}.log").write_text(text)
    assert manage.main(["trace", OWN, str(tmp_path)]) == 0
    lines = [
        line.partition(".log: ")[2]
        for line in capsys.readouterr().out.splitlines()
    ]
    assert lines == [
        API.splitlines()[0],
        WORKER.rstrip("\n"),
        *CONDUCTOR.splitlines()[:3],
    ]


def test_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(CONDUCTOR))
    assert manage.main(["trace", "mine", "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["nobody", "."], 1, "no line has nobody"),
        (["a b", "."], 2, "is not a request ID"),
        (["mine", "missing.log"], 2, "No such file"),
        (["mine"], 2, "log_dir is not set"),
    ],
)
def test_what_it_cannot_find(
    arguments: list[str],
    status: int,
    told: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert manage.main(["trace", *arguments]) == status
    assert told in capsys.readouterr().err
