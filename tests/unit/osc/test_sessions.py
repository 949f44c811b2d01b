# SPDX-License-Identifier: Apache-2.0

"""Commands for sessions."""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Iterable
from importlib import metadata
from typing import Any
from unittest import mock

import pytest
from keystoneauth1 import exceptions as auth_exceptions
from osc_lib import exceptions

from fpgapool.api.schemas import sessions as schemas
from fpgapool.osc.sdk import session as sdk
from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import session
from fpgapool.osc.v1 import waiting
from fpgapool.vocabulary import states
from tests.unit.osc import fakes

NOT_FOUND = ("SESSION_NOT_FOUND", "there is no session 'x'")


def _app(
    created: sdk.Session, later: Iterable[sdk.Session | Exception] = ()
) -> fakes.App:
    app = fakes.App()
    app.client.create_session.side_effect = [created]
    app.client.get_session.side_effect = later
    return app


def test_states_are_those_of_the_service() -> None:
    assert set(session._STATES) == states.ALL


# create


def test_create() -> None:
    """What is not said is left to the service, but for the request's id."""
    app = _app(fakes.session(state="QUEUED"))
    assert app.rows(session.CreateSession, "aes", "1000")["state"] == "QUEUED"
    (call,) = app.client.create_session.mock_calls
    request_id = call.kwargs.pop("request_id")
    assert request_id.startswith("req-")
    assert len(request_id) == 40
    assert call.kwargs == {"accelerator": "aes", "claimed_bytes": 1000}
    app.client.get_session.assert_not_called()


def test_create_with_options() -> None:
    app = _app(fakes.session())
    app.rows(
        session.CreateSession,
        *("aes", "1", "--request-id", "r", "--priority", "-3"),
        *("--wait-timeout", "1.5"),
    )
    app.client.create_session.assert_called_once_with(
        accelerator="aes",
        claimed_bytes=1,
        request_id="r",
        priority=-3,
        wait_timeout_s=1.5,
    )


def test_create_dry_run() -> None:
    app = _app(fakes.session())
    app.client.dry_run_session.return_value = {
        "state": "QUEUED",
        "reasons": [{"code": "NO_IDLE_SLOT", "message": "All are in use."}],
        "expected_wait_s": 7.5,
    }
    rows = app.rows(
        session.CreateSession, "aes", "1k", "--dry-run", "--deadline", "9"
    )
    assert (rows["state"], rows["expected_wait_s"]) == ("QUEUED", 7.5)
    assert rows["reasons"][0]["code"] == "NO_IDLE_SLOT"
    app.client.dry_run_session.assert_called_once_with(
        accelerator="aes", claimed_bytes=1000, deadline_s=9.0
    )
    app.client.create_session.assert_not_called()


def test_what_is_created_is_what_the_api_takes() -> None:
    wanted = set(schemas.CREATE["properties"]["session"]["properties"])
    attributes = sdk.Session._body_mapping()
    assert wanted <= set(attributes)


@pytest.mark.parametrize("size", ["0", "-5", "0x10"])
def test_create_with_a_wrong_size(
    size: str, capsys: pytest.CaptureFixture[str]
) -> None:
    app = fakes.App()
    with pytest.raises(SystemExit):
        app.run(session.CreateSession, "--", "aes", size)
    assert "is not a size" in capsys.readouterr().err
    app.client.create_session.assert_not_called()


@pytest.mark.parametrize(
    "class_", [session.CreateSession, session.ShowSession]
)
@pytest.mark.parametrize("format_", ["json", "table", "yaml", "shell"])
def test_the_secret_is_hidden(class_: Any, format_: str) -> None:
    arguments = ["aes", "1"] if class_ is session.CreateSession else ["x"]
    for options, shown in (([], False), (["--show-secret"], True)):
        app = _app(fakes.session(), [fakes.session()])
        app.run(class_, *arguments, *options, "-f", format_)
        output = app.stdout.getvalue()
        assert (fakes.SECRET in output) == shown
        assert "secret" not in app.stderr.getvalue()


def test_repeat_after_an_error() -> None:
    """With the same id the same session is meant; it is in the message."""
    for error in (
        fakes.refusal(503, "CONDUCTOR_UNAVAILABLE", "nobody answers", "7"),
        auth_exceptions.ConnectFailure("nobody listens"),
    ):
        app = fakes.App()
        app.client.create_session.side_effect = error
        with pytest.raises(exceptions.CommandError) as caught:
            app.run(session.CreateSession, "aes", "1")
        (call,) = app.client.create_session.mock_calls
        request_id = call.kwargs["request_id"]
        assert f"'--request-id {request_id}'" in str(caught.value)
        assert "nobody" in str(caught.value)


def test_no_repeat_if_it_is_refused() -> None:
    app = fakes.App()
    app.client.create_session.side_effect = fakes.refusal(
        400, "UNKNOWN_ACCELERATOR", "there is no accelerator 'x'"
    )
    with pytest.raises(exceptions.CommandError) as caught:
        app.run(session.CreateSession, "x", "1")
    assert str(caught.value) == (
        "there is no accelerator 'x'; see 'openstack fpga accelerator list'"
        " (UNKNOWN_ACCELERATOR)"
    )


# create --wait


def test_wait() -> None:
    """Each change is a line; what does not change is not repeated."""
    queued = fakes.session(
        state="QUEUED",
        queue_position=2,
        expected_wait_s=12.0,
        expected_wait_low_s=1.4,
        expected_wait_high_s=130.0,
        pending_reasons=[{"code": "C", "message": "All are in use."}],
    )
    again = fakes.session(
        state="QUEUED",
        queue_position=2,
        expected_wait_s=12.0,
        expected_wait_low_s=1.4,
        expected_wait_high_s=130.0,
        pending_reasons=[{"code": "C", "message": "All are in use."}],
        revision=4,
    )
    preparing = fakes.session(state="PREPARING", revision=5)
    ready = fakes.session(revision=6)
    app = _app(queued, [again, preparing, ready])
    assert app.rows(session.CreateSession, "aes", "1", "--wait")
    name = f"session {fakes.SESSION_ID}"
    assert app.stderr.getvalue().splitlines() == [
        f"{name}: QUEUED, 2 before it, about 12 s (9 of 10: 1.4 to 130 s)."
        " All are in use.",
        f"{name}: PREPARING",
        f"{name}: READY",
    ]
    assert [
        call.kwargs["revision"] for call in app.client.get_session.mock_calls
    ] == [3, 4, 5]


def test_wait_for_what_ends() -> None:
    ended = fakes.session(
        state="EXPIRED",
        reason="WAIT_TIMEOUT",
        message="waited too long",
        revision=4,
    )
    app = _app(fakes.session(state="QUEUED"), [ended])
    with pytest.raises(exceptions.CommandError) as caught:
        app.run(session.CreateSession, "aes", "1", "--wait")
    assert str(caught.value) == (
        f"session {fakes.SESSION_ID} is EXPIRED: waited too long"
        " (WAIT_TIMEOUT)"
    )
    assert app.stdout.getvalue() == ""


@pytest.mark.parametrize(
    "error",
    [
        fakes.refusal(503, "DATABASE_UNAVAILABLE", "nobody answers"),
        auth_exceptions.ConnectFailure("nobody listens"),
    ],
)
def test_wait_is_broken_off(error: Exception) -> None:
    """The session is there all the same, and has to be ended."""
    app = _app(fakes.session(state="QUEUED"), [error])
    with pytest.raises(exceptions.CommandError) as caught:
        app.run(session.CreateSession, "aes", "1", "--wait")
    assert f"'openstack fpga session close {fakes.SESSION_ID}'" in str(
        caught.value
    )


def test_wait_is_interrupted() -> None:
    app = fakes.App()
    app.client.create_session.side_effect = [fakes.session(state="QUEUED")]
    app.client.get_session.side_effect = KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        app.run(session.CreateSession, "aes", "1", "--wait")
    assert f"session close {fakes.SESSION_ID}" in app.stderr.getvalue()


def test_service_that_does_not_let_wait() -> None:
    """Who is answered at once asks again when the service says."""
    same = fakes.session(state="QUEUED")
    same._header.attributes["Retry-After"] = "17"
    client = _app(same, [same, fakes.session(revision=4)]).client
    with mock.patch.object(time, "sleep", autospec=True) as sleep:
        waiting.until_ready(client, same, lambda text: None)
    sleep.assert_called_once_with(17)


def test_service_that_lets_wait() -> None:
    same = fakes.session(state="QUEUED")
    client = _app(same, [same, fakes.session(revision=4)]).client
    with (
        mock.patch.object(time, "sleep", autospec=True) as sleep,
        mock.patch.object(
            time, "monotonic", autospec=True, side_effect=range(0, 1000, 10)
        ),
    ):
        waiting.until_ready(client, same, lambda text: None)
    sleep.assert_not_called()


# show, list


def test_show() -> None:
    app = _app(fakes.session(), [fakes.session()])
    shown = app.rows(session.ShowSession, fakes.SESSION_ID)
    names = set(schemas.SESSION["properties"]) - {"links", "host"}
    assert set(shown) == names | {"host_uuid"}
    assert shown["connection"] == {"endpoints": []}
    app.client.get_session.assert_called_once_with(fakes.SESSION_ID)


def test_show_without_a_connection() -> None:
    waits = fakes.session(connection_info=None, placement=None)
    for options in ([], ["--show-secret"]):
        app = _app(waits, [waits])
        shown = app.rows(session.ShowSession, "x", *options)
        assert shown["connection"] == shown["placement"] == {}


def test_unknown_state(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        fakes.App().run(session.ListSessions, "--state", "asleep")
    assert "invalid choice: 'ASLEEP'" in capsys.readouterr().err


# close


def test_close() -> None:
    app = fakes.App()
    assert app.run(session.CloseSession, "a", "b") == 0
    assert app.client.close_session.mock_calls == [
        mock.call("a", ignore_missing=False),
        mock.call("b", ignore_missing=False),
    ]
    assert app.stdout.getvalue() == ""


def test_close_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    app = fakes.App()
    app.client.close_session.side_effect = [
        fakes.refusal(404, *NOT_FOUND),
        None,
        fakes.refusal(403, "FORBIDDEN", "the policy p does not allow it"),
    ]
    with (
        caplog.at_level(logging.ERROR),
        pytest.raises(exceptions.CommandError) as caught,
    ):
        app.run(session.CloseSession, "x", "y", "z")
    assert str(caught.value) == "2 of 3 sessions were not closed: x, z"
    assert [record.getMessage() for record in caplog.records] == [
        "there is no session 'x'; see 'openstack fpga session list --all'"
        " (SESSION_NOT_FOUND)",
        "session z: the policy p does not allow it (FORBIDDEN)",
    ]
    assert app.client.close_session.call_count == 3


def test_an_error_about_one_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = fakes.App()
    app.client.close_session.side_effect = [
        fakes.refusal(404, *NOT_FOUND),
        fakes.refusal(403, "FORBIDDEN", "the policy p does not allow it"),
    ]
    for one, said in [
        (
            "x",
            "there is no session 'x'; see 'openstack fpga session list --all'"
            " (SESSION_NOT_FOUND)",
        ),
        ("y", "session y: the policy p does not allow it (FORBIDDEN)"),
    ]:
        with pytest.raises(exceptions.CommandError) as caught:
            app.run(session.CloseSession, one)
        assert str(caught.value) == said
    assert not caplog.records


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("1000", 1000),
        ("1K", 1000),
        ("1G", 10**9),
        ("1.5M", 1_500_000),
        ("4Ki", 4096),
        ("2GiB", 2 * 2**30),
        ("3TB", 3 * 10**12),
        ("7b", 7),
    ],
)
def test_sizes_have_units(text: str, size_bytes: int) -> None:
    assert base.size_bytes(text) == size_bytes


@pytest.mark.parametrize(
    "text",
    ["", "G", "1X", "-1", "0", "1.5", "1e3", "nan", "inf", "1 G", "1GG"],
)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="examples: 1000, 1G"):
        base.size_bytes(text)


def test_a_claim_in_gigabytes() -> None:
    app = fakes.App()
    app.client.create_session.side_effect = lambda **_: fakes.session()
    app.rows(session.CreateSession, "aes", "2G")
    call = app.client.create_session.call_args
    assert call.kwargs["claimed_bytes"] == 2 * 10**9


def test_delete_is_another_name_of_close() -> None:
    (entry_point,) = metadata.entry_points(
        group="openstack.fpgapool.v1", name="fpga_session_delete"
    )
    app = fakes.App()
    assert app.run(entry_point.load(), fakes.SESSION_ID) == 0
    app.client.close_session.assert_called_once_with(
        fakes.SESSION_ID, ignore_missing=False
    )
