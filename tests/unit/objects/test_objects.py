# SPDX-License-Identifier: Apache-2.0

import dataclasses
import inspect
import json
import math
import types
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool import objects
from fpgapool.objects import base
from fpgapool.vocabulary import states

PAYLOADS = [
    one
    for one in vars(objects).values()
    if isinstance(one, type) and one is not objects.Payload
]


def _values(type_) -> st.SearchStrategy:
    origin = typing.get_origin(type_)
    if origin in (types.UnionType, typing.Union):
        return st.one_of(*(_values(t) for t in typing.get_args(type_)))
    if origin is tuple:
        item = _values(typing.get_args(type_)[0])
        return st.lists(item, max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(st.text(max_size=5), st.integers(), max_size=2)
    if type_ is types.NoneType:
        return st.none()
    if type_ is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    if issubclass(type_, objects.Payload):
        return _payloads(type_)
    return st.from_type(type_)


def _payloads(cls) -> st.SearchStrategy:
    values = {name: _values(t) for name, t in base.members(cls).items()}
    return st.builds(cls, **values)


def _example(cls) -> objects.Payload:
    values = {
        str: "x",
        int: 1,
        float: 1.5,
        bool: True,
    }
    arguments = {}
    for name, type_ in base.members(cls).items():
        if typing.get_origin(type_) is tuple:
            arguments[name] = ()
        elif typing.get_origin(type_) is dict:
            arguments[name] = {}
        elif type(None) in typing.get_args(type_):
            arguments[name] = None
        else:
            arguments[name] = values[type_]
    return cls(**arguments)


def test_all_payloads_are_exported():
    found = {
        cls.__name__
        for module in vars(objects).values()
        if inspect.ismodule(module)
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, objects.Payload)
    }
    assert found == {"Payload", *(one.__name__ for one in PAYLOADS)}


@given(st.data())
def test_round_trip_through_json(data):
    cls = data.draw(st.sampled_from(PAYLOADS))
    payload = data.draw(_payloads(cls))
    wire = json.loads(json.dumps(payload.to_primitive()))
    assert cls.from_primitive(wire) == payload


@pytest.mark.parametrize("cls", PAYLOADS)
def test_payloads_are_frozen(cls):
    payload = _example(cls)
    name = next(iter(base.members(cls)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(payload, name, None)


@pytest.mark.parametrize("cls", PAYLOADS)
def test_each_missing_member_is_named(cls):
    for name in base.members(cls):
        primitive = _example(cls).to_primitive()
        del primitive["data"][name]
        with pytest.raises(ValueError, match=f"{cls.__name__}: {name} is"):
            cls.from_primitive(primitive)


@pytest.mark.parametrize("cls", PAYLOADS)
def test_each_member_of_a_wrong_type_is_named(cls):
    for name in base.members(cls):
        primitive = _example(cls).to_primitive()
        primitive["data"][name] = object()
        with pytest.raises(ValueError) as error:
            cls.from_primitive(primitive)
        assert str(error.value).startswith(f"{cls.__name__}.{name}: ")


@pytest.mark.parametrize("cls", PAYLOADS)
def test_unknown_members_are_ignored(cls):
    payload = _example(cls)
    primitive = payload.to_primitive()
    primitive["version"] = "1.7"
    primitive["data"]["future"] = {"a": 1}
    assert cls.from_primitive(primitive) == payload


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Grown(base.Payload):
    """As one is that the next release adds a member to."""

    VERSION = "1.1"

    first: int = 0
    new: str | None = base.added(1, default=None)


def test_an_older_version_is_read():
    primitive = _Grown(first=7).to_primitive()
    primitive["version"] = "1.0"
    del primitive["data"]["new"]
    assert _Grown.from_primitive(primitive) == _Grown(first=7)
    # What the older version had must be there.
    del primitive["data"]["first"]
    with pytest.raises(ValueError, match="_Grown: first is missing"):
        _Grown.from_primitive(primitive)


@pytest.mark.parametrize("version", ["1.1", "1.2", "1", "1.", "1.x", "1.-1"])
def test_only_an_older_version_may_lack_what_is_new(version):
    primitive = _Grown(first=7).to_primitive()
    primitive["version"] = version
    del primitive["data"]["new"]
    with pytest.raises(ValueError, match="new is missing"):
        _Grown.from_primitive(primitive)


@pytest.mark.parametrize(
    "change",
    [
        {"version": "2.0"},
        {"version": 1},
        {"version": None},
        {"fpgapool_object": "Something"},
        {"fpgapool_object": None},
        {"data": []},
    ],
)
def test_wrong_envelopes(change):
    primitive = {**objects.Endpoint("data", "::1", 7).to_primitive(), **change}
    with pytest.raises(ValueError, match="Endpoint"):
        objects.Endpoint.from_primitive(primitive)


@pytest.mark.parametrize("primitive", [None, [], "x", 7])
def test_not_an_envelope(primitive):
    with pytest.raises(ValueError, match="Endpoint: expected an object"):
        objects.Endpoint.from_primitive(primitive)


def _request_with(**members) -> dict:
    primitive = _example(objects.OpenRequest).to_primitive()
    primitive["data"].update(members)
    return primitive


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("claimed_bytes", True),
        ("claimed_bytes", 1.0),
        ("claimed_bytes", "1"),
        ("claimed_bytes", None),
        ("wait_timeout_s", True),
        ("wait_timeout_s", "1"),
        ("wait_timeout_s", math.nan),
        ("wait_timeout_s", math.inf),
        ("wait_timeout_s", 10**400),
        ("wait_timeout_s", "soon"),
        ("request_id", 7),
        ("host_uuid", 7),
    ],
)
def test_types_are_strict(name, value):
    with pytest.raises(ValueError, match=rf"OpenRequest\.{name}: expected"):
        objects.OpenRequest.from_primitive(_request_with(**{name: value}))


def test_an_integer_is_a_number():
    request = objects.OpenRequest.from_primitive(
        _request_with(resume_grace_s=7, wait_timeout_s=None)
    )
    assert type(request.resume_grace_s) is float
    assert request.wait_timeout_s is None


def test_errors_inside_lists_are_located():
    report = _example(objects.AgentReport).to_primitive()
    device = _example(objects.DeviceReport).to_primitive()
    device["data"]["healthy"] = 1
    report["data"]["devices"] = [
        _example(objects.DeviceReport).to_primitive(),
        device,
    ]
    with pytest.raises(
        ValueError,
        match=r"^AgentReport\.devices\[1\]: DeviceReport\.healthy: ",
    ):
        objects.AgentReport.from_primitive(report)
    report["data"]["devices"] = "board0"
    with pytest.raises(ValueError, match=r"AgentReport\.devices"):
        objects.AgentReport.from_primitive(report)


def test_errors_do_not_show_values():
    primitive = _example(objects.Prepared).to_primitive()
    primitive["data"]["secret"] = ["c0ffee"]
    with pytest.raises(ValueError) as error:
        objects.Prepared.from_primitive(primitive)
    assert "c0ffee" not in str(error.value)


@pytest.mark.parametrize("cls", [objects.SessionView, objects.Prepared])
def test_secrets_are_not_shown(cls):
    payload = dataclasses.replace(_example(cls), secret="c0ffee")
    assert "c0ffee" not in repr(payload)
    assert "c0ffee" not in str([payload])


def test_public_view_has_no_secret():
    view = dataclasses.replace(_example(objects.SessionView), secret="c0ffee")
    assert view.public().secret == ""
    assert dataclasses.replace(view.public(), secret="c0ffee") == view


def test_session_states_are_live_or_ended():
    assert states.LIVE.isdisjoint(states.TERMINAL)
    assert states.ASSIGNED < states.LIVE
    (extra,) = states.RESULTS - states.TERMINAL
    assert extra == states.PREPARE_FAILED
