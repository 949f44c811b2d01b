# SPDX-License-Identifier: Apache-2.0

import dataclasses
import hashlib
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
    getattr(objects, name)
    for name in objects.__all__
    if name not in ("Payload",)
]

# A payload whose members change needs a new VERSION, see base.Payload, and
# then its new fingerprint here.
FINGERPRINTS = {
    "AcceleratorProfile": "1.1-dfb16010d6f8b529",
    "AgentReport": "1.2-254d230120e9c2a3",
    "AssignRequest": "1.3-9fc2dbe70638195d",
    "BitstreamRef": "1.1-ff4d5de8bb3e080e",
    "CreateBitstream": "1.0-7c167a5867451ef6",
    "DecideBitstream": "1.0-8d6e4dac23fb61b9",
    "DeleteBitstream": "1.0-c504c3f9cf28ec24",
    "DevicePayload": "1.0-9a1229a654388aa7",
    "DeviceReport": "1.0-fee79a468627b861",
    "Endpoint": "1.0-b7a0141d0fb5fad9",
    "Finding": "1.0-5c4e2cbf6285483c",
    "HostPayload": "1.0-f8c9b99735aa8cbb",
    "InstanceEntry": "1.0-3d3436b15951a1c0",
    "OpenRequest": "1.0-6584660ae8ce3d29",
    "PlacePayload": "1.0-7026288970978db1",
    "Prepared": "1.1-145729ce47242323",
    "SessionPayload": "1.0-33722feff5b8b6b2",
    "SessionResult": "1.0-057ff492ad5587f1",
    "SessionView": "1.3-1d82d34a81be6cfc",
    "ShareBitstream": "1.0-a21186e8114a9e41",
    "SlotPayload": "1.0-c81dbfde75b02cb5",
    "SlotReport": "1.2-f339a72b06167a20",
    "UpdateBitstream": "1.0-76edc43a864514c8",
    "UploadBitstream": "1.0-7af2dd62216b0226",
}


def _fingerprint(cls: type[objects.Payload]) -> str:
    members = [
        f"{name}: {_type_name(type_)}"
        for name, type_ in base.members(cls).items()
    ]
    digest = hashlib.sha256("\n".join(members).encode()).hexdigest()
    return f"{cls.VERSION}-{digest[:16]}"


def _type_name(type_) -> str:
    arguments = ", ".join(_type_name(t) for t in typing.get_args(type_))
    origin = typing.get_origin(type_)
    if origin in (types.UnionType, typing.Union):
        return f"union[{arguments}]"
    name = "..." if type_ is ... else (origin or type_).__name__
    return f"{name}[{arguments}]" if arguments else name


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
    members = base.members(cls).items()
    return st.builds(cls, **{name: _values(t) for name, t in members})


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
    assert found == set(objects.__all__)


@pytest.mark.parametrize("cls", PAYLOADS)
def test_fingerprint(cls):
    assert FINGERPRINTS[cls.__name__] == _fingerprint(cls)


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


def test_older_reports_are_read():
    report = dataclasses.replace(_example(objects.AgentReport), sequence=7)
    primitive = report.to_primitive()
    primitive["version"] = "1.0"
    del primitive["data"]["link_message"]
    assert objects.AgentReport.from_primitive(primitive) == report
    # What the older version had must be there.
    del primitive["data"]["sequence"]
    with pytest.raises(ValueError, match="AgentReport: sequence is missing"):
        objects.AgentReport.from_primitive(primitive)


@pytest.mark.parametrize("version", ["1.1", "1.2", "1", "1.", "1.x", "1.-1"])
def test_only_older_reports_may_lack_what_is_new(version):
    primitive = _example(objects.AgentReport).to_primitive()
    primitive["version"] = version
    del primitive["data"]["link_message"]
    with pytest.raises(ValueError, match="link_message is missing"):
        objects.AgentReport.from_primitive(primitive)


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
    with pytest.raises(ValueError, match="Endpoint: not an object"):
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
        ("expires_at", True),
        ("expires_at", "1"),
        ("expires_at", math.nan),
        ("expires_at", math.inf),
        ("expires_at", 10**400),
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
        _request_with(expires_at=7, wait_timeout_s=None)
    )
    assert type(request.expires_at) is float
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
