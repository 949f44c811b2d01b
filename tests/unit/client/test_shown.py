# SPDX-License-Identifier: Apache-2.0

"""How the library's objects look, and bars of progress."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import types
import typing

import pytest

from fpgapool import client

CPU: dict[str, typing.Any] = {"front_door": "/none", "fallback": "cpu"}


def test_a_session_says_what_it_is() -> None:
    with client.acc_open(
        "copy", 1, request_id="<b>mine</b>"[3:7], **CPU
    ) as session:
        assert repr(session).startswith("<Session state='READY' host=")
        assert "fallback_reason='FRONT_DOOR_UNAVAILABLE'" in repr(session)
        assert "request_id='mine'" in repr(session)
        table = session._repr_html_()
        assert "<tr><th>transport</th><td>cpu</td></tr>" in table
    assert " state='closed' " in repr(session)


def test_a_session_of_asyncio_says_the_same() -> None:
    async def run() -> None:
        async with await client.aio.acc_open(
            "copy", 1, request_id="mine", **CPU
        ) as session:
            assert repr(session).startswith("<Session state='READY' host=")
            assert "<td>mine</td>" in session._repr_html_()
            for name in ("_repr_png_", "flow", "nothing"):
                with pytest.raises(AttributeError) as caught:
                    getattr(session, name)
                assert str(caught.value) == (
                    f"'Session' object has no attribute {name!r}"
                )

    asyncio.run(run())


def test_what_notebooks_show_is_escaped() -> None:
    _, report = client.run_buffer("copy", b"abc", **CPU)
    evil = dataclasses.replace(report, host="<script>alert(1)</script>")
    table = evil._repr_html_()
    assert "<caption>RunReport</caption>" in table
    assert "<td>&lt;script&gt;alert(1)&lt;/script&gt;</td>" in table
    assert "<script>" not in table


def test_an_api_shows_no_password() -> None:
    adapter = types.SimpleNamespace(
        endpoint_override="https://me:secret@api:8080/v1"
    )
    api = client.PoolApi(adapter)
    assert repr(api) == "<PoolApi url='https://api:8080/v1'>"
    assert "secret" not in api._repr_html_()
    assert "catalog" in repr(client.PoolApi(object()))


def test_a_block_shows_its_size() -> None:
    assert repr(client.Block(b"secret")) == "<Block bytes=6>"


def test_progress_has_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    client.run_buffer("copy", bytes(3 << 20), progress=True, **CPU)
    shown = capsys.readouterr().err
    assert "copy: 100%" in shown
    assert "3.00M/3.00M" in shown


def test_a_bar_needs_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(client.InvalidRequest, match=r"fpgapool\[progress\]"):
        client.run_buffer("copy", b"abc", progress=True, **CPU)
    with pytest.raises(client.InvalidRequest, match="a function, True"):
        client.run_buffer("copy", b"abc", progress="yes", **CPU)


def test_notebooks_show_amounts_as_people_read_them() -> None:
    _, report = client.run_buffer("copy", b"abc", **CPU)
    table = dataclasses.replace(
        report,
        ran_s=0.40501513900017017,
        input_bytes=30_000_000,
        bytes_per_s=74071305.27,
        cpu_energy_j=1.23456,
    )._repr_html_()
    for name, text in (
        ("ran_s", "0.405 s"),
        ("input_bytes", "30 MB"),
        ("bytes_per_s", "74.1 MB/s"),
        ("cpu_energy_j", "1.23 J"),
        ("reopens", "0"),
        ("local", "True"),
    ):
        assert f"<tr><th>{name}</th><td>{text}</td></tr>" in table


def test_notebooks_show_parameters_as_lines() -> None:
    schema = {
        "required": ["level"],
        "properties": {
            "level": {"type": "integer", "description": "<how> much"},
            "fast": {"type": "boolean", "default": False},
            "mode": {"enum": ["a", "b"], "default": "a"},
        },
    }
    one = client.Accelerator("x", "an x", schema, 1e9, 1.0, True, 16, 2, 1)
    assert (
        "<td>level: &lt;how&gt; much; integer<br>"
        "[fast]: boolean; default false<br>"
        "[mode]: one of a, b; default a</td>"
    ) in one._repr_html_()
