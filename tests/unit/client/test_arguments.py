# SPDX-License-Identifier: Apache-2.0

"""Arguments of the client library and of its command."""

import ast
import hashlib
import inspect
import json
import pathlib
import subprocess
import sys
import threading
import typing

import numpy as np
import pytest

from fpgapool import client
from fpgapool.accelerators import base
from fpgapool.client import arrays
from fpgapool.client import cancel
from fpgapool.client import checks
from fpgapool.client import errors
from fpgapool.client import options
from fpgapool.client.doors import view
from fpgapool.protocol import frames
from fpgapool.vocabulary import session

SCHEMA = {
    "type": "object",
    "properties": {
        "key": {"type": "string", "pattern": "^[0-9a-f]{4}$"},
        "rounds": {"type": "integer"},
    },
    "required": ["key"],
    "additionalProperties": False,
}


def _code(function, *arguments) -> str:
    with pytest.raises(errors.InvalidRequest) as caught:
        function(*arguments)
    return caught.value.code


def _open(name, value) -> None:
    client.acc_open("copy", 1, front_door="/nonexistent", **{name: value})


@pytest.mark.parametrize("value", ["", "a b", "a" * 65, "ä", "a\n", 7, b"a"])
def test_wrong_applications(value):
    assert _code(_open, "application", value) == "INVALID_REQUEST"
    with pytest.raises(errors.InvalidRequest):
        client.acc_dry_run("copy", 1, application=value)


@pytest.mark.parametrize("name", ["", "a" * 256, "a" * 100_000, 7])
def test_wrong_names(name):
    """Also those that no message could hold."""
    for function in (
        client.group_open,
        lambda name: client.group_open("g", accelerator=name),
        lambda name: client.acc_open(name, 1),
        lambda name: client.acc_dry_run(name, 1),
        lambda name: client.run_array(name, np.zeros(1), rounds=1),
    ):
        assert _code(function, name) == "INVALID_REQUEST"


@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_that_python_does_not_write(sign):
    size_bytes = sign * 10**5000
    assert _code(client.acc_open, "copy", size_bytes) == "INVALID_SIZE"


def test_import_is_light():
    script = (
        "import sys, fpgapool.client; print([name for name in sys.modules if "
        "name.split('.')[0] in ('numpy', 'jsonschema', 'cryptography', "
        "'yaml', 'rich', 'ssl') or name.startswith('oslo')])"
    )
    output = subprocess.check_output([sys.executable, "-c", script])
    assert output.strip() == b"[]"


@pytest.mark.parametrize(
    "size_bytes", [0, -1, 2**63, 2**70, True, 1.0, "1", None]
)
def test_wrong_sizes(size_bytes):
    assert _code(checks.size, size_bytes) == "INVALID_SIZE"
    assert _code(client.acc_open, "copy", size_bytes) == "INVALID_SIZE"


@pytest.mark.parametrize("size_bytes", [1, 2**63 - 1])
def test_sizes(size_bytes):
    assert checks.size(size_bytes) == size_bytes


@pytest.mark.parametrize("value", ["", "a" * 65, "ä", "a b", "a\n", 1])
def test_wrong_request_ids(value):
    assert _code(_open, "request_id", value) == "INVALID_REQUEST_ID"


def test_request_ids():
    """It is as it should be: there is no front door to ask."""
    with pytest.raises(errors.FrontDoorUnavailable):
        _open("request_id", "A-z_0.9:x")


@pytest.mark.parametrize(
    "value", [0, -1, float("nan"), float("inf"), True, "1", 1e10]
)
def test_wrong_times(value):
    assert _code(checks.seconds, value, "timeout_s") == "INVALID_TIMEOUT"


def test_times():
    assert checks.seconds(None, "timeout_s") is None
    assert checks.seconds(1.5, "timeout_s") == 1.5


@pytest.mark.parametrize("value", [1001, -1001, True, 1.0, None])
def test_wrong_priorities(value):
    assert _code(_open, "priority", value) == "INVALID_REQUEST"


@pytest.mark.parametrize("name", ["", None, 1])
def test_wrong_accelerator(name):
    assert _code(client.acc_open, name, 1) == "INVALID_REQUEST"


def test_params_become_json():
    assert checks.params({"key": b"\x01\xff", "n": 1}) == {
        "key": "01ff",
        "n": 1,
    }
    assert checks.params(None) == {}


def test_params_of_numpy_become_json():
    found = checks.params(
        {
            "n": np.int64(8),
            "x": np.float32(0.5),
            "on": np.bool_(True),
            "text": np.str_("abc"),
            "missing": np.array([1, 2]),
            "nested": {"a": [np.uint8(3), (4, None)]},
        }
    )
    assert json.loads(json.dumps(found)) == {
        "n": 8,
        "x": 0.5,
        "on": True,
        "text": "abc",
        "missing": [1, 2],
        "nested": {"a": [3, [4, None]]},
    }
    assert type(found["n"]) is int
    assert type(found["on"]) is bool


@pytest.mark.parametrize("value", [object(), {1}, np.datetime64("2026-01-01")])
def test_params_that_are_not_json(value):
    with pytest.raises(errors.InvalidParams, match=r"params\.n: JSON cannot"):
        checks.params({"n": value})


@pytest.mark.parametrize(
    "value", [float("nan"), np.float32("-inf"), np.array([1.0, np.nan])]
)
def test_params_that_are_no_numbers_of_json(value):
    with pytest.raises(
        errors.InvalidParams, match=r"params\.n: not a finite number"
    ):
        checks.params({"n": value})


def test_params_that_are_too_long():
    assert _code(_open, "params", {"key": "x" * 65000}) == "INVALID_PARAMS"
    with pytest.raises(errors.FrontDoorUnavailable):
        _open("params", {"key": "x" * 64000})


def test_params_that_contain_themselves():
    value: list[object] = []
    value.append(value)
    with pytest.raises(errors.InvalidParams, match="nested too deeply"):
        checks.params({"n": value})


@pytest.mark.parametrize("value", [[], "x", {1: 2}])
def test_params_that_are_none(value):
    assert _code(checks.params, value) == "INVALID_PARAMS"


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({}, "missing: key"),
        ({"key": "c0ffee"}, "params.key: must satisfy pattern"),
        (
            {"key": "c0fe", "kee": 1},
            "params: unknown name 'kee'; did you mean key? known names: key,"
            " rounds",
        ),
        (
            {"key": "c0fe", "novel" * 99: 1},
            "novel'; known names: key, rounds",
        ),
        (
            {"key": "c0fe", "rounds": "c0ffee"},
            "params.rounds: must be an integer",
        ),
    ],
)
def test_params_against_schema(params, text):
    with pytest.raises(errors.InvalidParams) as caught:
        checks.params_schema(params, SCHEMA)
    assert text in caught.value.message
    assert "c0f" not in caught.value.message


def test_params_that_satisfy():
    checks.params_schema({"key": "c0fe"}, SCHEMA)
    checks.params_schema({"anything": 1}, {})


def test_plain_schemas_need_no_library(monkeypatch):
    """Its import takes longer than a short run."""
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    for name, params in {
        "aes": {"key": "00" * 16, "iv": "00" * 16},
        "copy": {},
        "fft": {"frame_samples": 8, "inverse": True, "norm": "ortho"},
        "gzip": {"level": 9},
        "sha": {"algorithm": "sha1"},
    }.items():
        checks.params_schema(params, base.load_profile(name).params_schema)


def test_public_names_come_from_their_modules():
    """Type checkers and the interpreter read different lists."""
    tree = ast.parse(pathlib.Path(client.__file__).read_text("utf-8"))
    listed = {
        alias.name: node.module.removeprefix("fpgapool.client").lstrip(".")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert listed == client._MODULES
    assert set(listed) <= set(dir(client))


PUBLIC = [
    *(getattr(client, name) for name in client.__all__),
    *(arrays.fft, arrays.dtw, arrays.sobel),
]
#: Names may be those of an accelerator's parameters, which the pool knows.
ASK_THE_POOL = {client.map, client.run_array, client.submit}


@pytest.mark.parametrize(
    "function",
    [
        each
        for each in PUBLIC
        if inspect.isfunction(each) and each not in ASK_THE_POOL
    ],
    ids=lambda function: function.__name__,
)
def test_misspelt_options_fail_at_once(tmp_path, monkeypatch, function):
    """With the name of the called function; nothing is opened or made."""
    monkeypatch.chdir(tmp_path)
    needed = [
        "here"
        for each in inspect.signature(function).parameters.values()
        if each.default is each.empty
    ]
    with pytest.raises(TypeError) as caught:
        function(*needed, prioritty=1)
    assert str(caught.value).startswith(f"{function.__name__}() got an ")
    assert "'prioritty'" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_signatures_show_all_options_of_sessions():
    shown = inspect.signature(client.acc_open).parameters
    hints = typing.get_type_hints(options.Options)
    assert {
        name: parameter.annotation
        for name, parameter in shown.items()
        if name not in ("accelerator", "size_bytes", "timeout_s")
    } == hints
    assert {
        name: shown[name].default
        for name in ("priority", "verify", "checksum", "wait_timeout_s")
    } == {
        "priority": 0,
        "verify": True,
        "checksum": False,
        "wait_timeout_s": None,
    }
    for name in hints:
        assert f":param {name}:" in client.acc_open.__doc__


def test_a_dry_run_takes_parameters_by_name():
    """They are its own argument, and no option."""
    with pytest.raises(errors.FrontDoorUnavailable):
        client.acc_dry_run(
            "copy", 1, params={"a": 1}, front_door="/nonexistent", priority=1
        )


def test_options_of_the_pool_are_described():
    described = {one.name: one for one in session.FIELDS.options}
    for name, hint in typing.get_type_hints(session.Options).items():
        kind = described[name].kind.type
        assert hint in (kind, kind | None)
        assert described[name].help


def test_token_follows_an_event():
    event = threading.Event()
    token = cancel.token_of(event)
    event.set()
    with pytest.raises(client.Cancelled):
        token.wait(60)
    with pytest.raises(client.Cancelled):
        cancel.token_of(event).check()
    cancel.release(token)


def test_token_of_something_else():
    assert _code(cancel.token_of, "stop") == "INVALID_REQUEST"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("WAIT_TIMEOUT", client.WaitTimeout),
        ("CANCELLED", client.Cancelled),
        ("CANCELLED_BY_CLIENT", client.Cancelled),
        ("INVALID_PARAMS", client.InvalidParams),
        ("QUEUE_FULL", client.RequestRejected),
    ],
)
def test_rejections(code, kind):
    error = errors.rejection(code, "text")
    assert type(error) is kind or isinstance(error, errors.PoolBusy)
    assert isinstance(error, kind)
    assert str(error).endswith(": text")


def test_view_ignores_what_it_does_not_know():
    read = view.SessionView.from_message(
        {"session_id": "s", "state": "QUEUED", "secret": "beef", "new": {}}
    )
    assert (read.state, read.endpoints, read.slot) == ("QUEUED", (), None)
    assert "beef" not in repr(read)


@pytest.mark.parametrize(
    "members",
    [
        None,
        [],
        {"state": "READY"},
        {"session_id": "s", "state": 1},
        {"session_id": "s", "state": "READY", "endpoints": [1]},
        {"session_id": "s", "state": "READY", "endpoints": [{}]},
        {"session_id": "s", "state": "READY", "slot": "x"},
    ],
)
def test_wrong_views(members):
    with pytest.raises(frames.ProtocolError):
        view.SessionView.from_message(members)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("hello", "data must be bytes; encode the text"),
        (7, "data must be bytes or a buffer, not int"),
        ([1, 2], "data must be bytes or a buffer, not list"),
        (np.array([None]), "data must be an array of numbers, not of object"),
    ],
)
def test_data_that_is_no_bytes(data, message):
    with pytest.raises(errors.InvalidRequest) as caught:
        client.run_buffer("sha", data, front_door="/none", fallback="cpu")
    assert caught.value.code == "INVALID_INPUT"
    assert caught.value.message == message


def test_empty_input_has_a_function_of_its_own():
    with pytest.raises(errors.InvalidRequest) as caught:
        client.acc_open("sha", 0)
    assert caught.value.code == "INVALID_SIZE"
    assert "for empty input use run_buffer" in caught.value.message
    output, _ = client.run_buffer(
        "sha", b"", front_door="/none", fallback="cpu"
    )
    assert output == hashlib.sha256().digest()
