# SPDX-License-Identifier: Apache-2.0

"""Accelerators, hosts, devices, slots, the pool and the services."""

import dataclasses
import json
import uuid

import oslo_messaging as messaging
import pytest

from fpgapool.api.http import microversion
from fpgapool.db import api as db_api
from fpgapool.objects import bounds
from fpgapool.objects import identity
from fpgapool.vocabulary import codes
from tests.unit.api import fakes


def test_accelerators_show_what_clients_need(world):
    document = world.ask("GET", "/v1/accelerators").json
    assert [one["name"] for one in document["accelerators"]] == [
        "aes",
        "copy",
        "fft",
    ]
    one = world.ask("GET", "/v1/accelerators/copy").json["accelerator"]
    assert one["peak_bytes_per_s"] == 1e9
    assert one["core"] == "copy"


def test_accelerators_have_the_shapes_that_can_run_them(world):
    world.conductor.builtins = {"medium": {"copy": {}}, "large": None}
    document = world.ask("GET", "/v1/accelerators").json
    shapes = {one["name"]: one["shapes"] for one in document["accelerators"]}
    assert shapes == {"aes": ["large"], "copy": [], "fft": ["large"]}
    one = world.ask("GET", "/v1/accelerators/aes").json["accelerator"]
    assert one["shapes"] == ["large"]


def test_accelerators_are_listed_without_a_leader(world):
    world.conductor.failure = messaging.MessagingTimeout()
    document = world.ask("GET", "/v1/accelerators").json
    assert {tuple(one["shapes"]) for one in document["accelerators"]} == {()}


def test_an_unknown_accelerator_is_answered_with_the_known_ones(world):
    answer = world.ask("GET", "/v1/accelerators/coppy", check=False)
    detail = answer.json["errors"][0]["detail"]
    assert detail.startswith(
        "unknown accelerator 'coppy'; did you mean copy? available: "
    )


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/v1/accelerators/none", codes.ACCELERATOR_NOT_FOUND),
        ("/v1/accelerators/%00%ff", codes.ACCELERATOR_NOT_FOUND),
        ("/v1/hosts/none", codes.HOST_NOT_FOUND),
        ("/v1/devices/none", codes.DEVICE_NOT_FOUND),
        ("/v1/slots/none", codes.SLOT_NOT_FOUND),
        ("/v1/sessions/none", codes.SESSION_NOT_FOUND),
    ],
)
def test_what_is_not_there(world, path, code):
    assert world.error("GET", path, fakes.ADMIN) == (404, code)


def test_lists_lead_to_their_members(world):
    for name in ("accelerators", "hosts", "devices", "slots"):
        members = world.ask("GET", f"/v1/{name}", fakes.ADMIN).json[name]
        assert members
        for member in members:
            (link,) = member["links"]
            path = link["href"].partition("localhost")[2]
            (shown,) = world.ask("GET", path, fakes.ADMIN).json.values()
            assert shown == member


def test_lists_are_paged_and_sorted(world):
    pages = world.pages("/v1/accelerators?limit=2&sort_dir=desc")
    names = [[one["name"] for one in page] for page in pages]
    assert names == [["fft", "copy"], ["aes"]]


def test_a_page_starts_where_a_marker_was_that_is_gone(world):
    for query, names in (
        ("marker=bz", ["copy", "fft"]),
        ("marker=bz&sort_dir=desc", ["aes"]),
        ("marker=zz", []),
    ):
        found = world.ask("GET", f"/v1/accelerators?{query}").json
        assert [one["name"] for one in found["accelerators"]] == names


def test_a_marker_that_is_gone_has_no_place_in_another_order(world):
    path = "/v1/slots?sort_key=number&marker=none"
    assert world.error("GET", path, fakes.ADMIN)[0] == 400


def test_hosts_are_for_services_and_administrators(world):
    for token in (fakes.ADMIN, fakes.SERVICE):
        document = world.ask("GET", "/v1/hosts?up=true", token).json
        (host,) = document["hosts"]
        assert (host["name"], host["devices"], host["slots"]) == (
            "compute1",
            1,
            4,
        )
    assert world.error("GET", "/v1/hosts") == (403, codes.FORBIDDEN)
    refused = world.ask("GET", "/v1/hosts").json["errors"][0]["detail"]
    assert refused == (
        "the policy fpgapool:hosts:list does not allow this request; it needs"
        " one of the roles admin, service; the token has: member, reader"
    )


def test_slots_do_not_tell_tenants_of_each_other(opened):
    shown = {}
    for token in (fakes.READER, fakes.STRANGER, fakes.SERVICE, fakes.ADMIN):
        slots = opened.ask("GET", "/v1/slots?sort_key=number", token).json
        shown[token] = [one["session_id"] for one in slots["slots"]]
        assert [one["state"] for one in slots["slots"]] == [
            "active",
            "active",
            "idle",
            "faulty",
        ]
    first, second = (str(uuid.UUID(int=number)) for number in (1, 2))
    assert shown == {
        fakes.READER: [first, None, None, None],
        fakes.STRANGER: [None, second, None, None],
        fakes.SERVICE: [None, None, None, None],
        fakes.ADMIN: [first, second, None, None],
    }


def put_on_probation(world, level, target_id):
    fault = db_api.FaultRecord(
        id=1,
        level=level,
        target_id=target_id,
        reason=codes.PROGRAM_FAILED,
        failures=3,
        since=1.0,
        tests=2,
        last_test="PROGRAM_FAILED: /dev/xdma0",
        next_test_at=60.5,
    )
    world.database.change_inventory(faults=[fault])


def probation_of(member):
    return (
        member["failures"],
        member["self_tests"],
        member["last_self_test"],
        member["next_self_test_at"],
    )


NO_FAULT = (0, 0, "", None)
FAULT = (3, 2, "PROGRAM_FAILED: /dev/xdma0", "1970-01-01T00:01:00.500000Z")


def test_a_slot_on_probation_says_what_was_tried(opened):
    put_on_probation(opened, "slot", 4)
    path = "/v1/slots?sort_key=number"
    slots = opened.ask("GET", path, fakes.ADMIN).json["slots"]
    assert [probation_of(one) for one in slots] == [NO_FAULT] * 3 + [FAULT]
    # What a host says is not for tenants.
    slots = opened.ask("GET", path).json["slots"]
    assert probation_of(slots[3]) == (*FAULT[:2], "", FAULT[3])
    (device,) = opened.ask("GET", "/v1/devices").json["devices"]
    assert (device["state"], probation_of(device)) == ("up", NO_FAULT)


def test_a_device_on_probation_says_so_for_its_slots(world):
    put_on_probation(world, "device", 1)
    (device,) = world.ask("GET", "/v1/devices", fakes.ADMIN).json["devices"]
    assert (device["state"], device["fault_reason"]) == (
        "faulty",
        codes.PROGRAM_FAILED,
    )
    assert probation_of(device) == FAULT
    path = "/v1/slots?sort_key=number"
    slots = world.ask("GET", path, fakes.ADMIN).json["slots"]
    assert [probation_of(one) for one in slots] == [FAULT] * 4
    assert [one["state"] for one in slots[2:]] == ["faulty"] * 2


def test_a_host_says_which_accelerators_are_kept_off_it(world):
    put_on_probation(world, "accelerator", 1)
    (fault,) = world.database.inventory().faults
    fault = dataclasses.replace(fault, accelerator="aes")
    world.database.change_inventory(faults=[fault])
    hosts = world.ask("GET", "/v1/hosts", fakes.ADMIN).json["hosts"]
    found = {one["name"]: one["faulty_accelerators"] for one in hosts}
    assert found["compute2"] == []
    (one,) = found["compute1"]
    assert (one["accelerator"], one["reason"]) == ("aes", codes.PROGRAM_FAILED)
    assert probation_of(one) == FAULT


def test_slots_are_filtered(world):
    device = identity.device_id(fakes.HOST, "board0")
    for query, numbers in (
        (f"host={fakes.HOST}&state=active", [0, 1]),
        (f"device={device}&state=faulty", [3]),
        ("accelerator=copy", [0, 1]),
        (f"device={uuid.UUID(int=5)}", []),
    ):
        path = f"/v1/slots?sort_key=number&{query}"
        slots = world.ask("GET", path, fakes.ADMIN).json["slots"]
        assert [one["number"] for one in slots] == numbers


def let_p1_use_its_own(world):
    """Slot 0 is used by p1 for what is its own, slot 2 was."""
    pool = world.database.inventory()
    holder = dataclasses.replace(pool.holders[0], accelerator="mine@p1")
    slots = list(pool.slots)
    for number in (0, 2):
        slots[number] = dataclasses.replace(
            slots[number], programmed="mine@p1"
        )
    slots[1] = dataclasses.replace(slots[1], programmed="copy")
    world.database.change_inventory(
        slots=slots, holders=[holder, *pool.holders[1:]]
    )


@pytest.mark.parametrize(
    ("token", "own"),
    [
        (fakes.READER, "mine@p1"),
        (fakes.ADMIN, "mine@p1"),
        (fakes.STRANGER, None),
    ],
)
def test_slots_hide_what_is_another_projects_own(opened, token, own):
    let_p1_use_its_own(opened)
    slots = opened.ask("GET", "/v1/slots?sort_key=number", token).json["slots"]
    found = [(one["accelerator"], one["programmed"]) for one in slots]
    assert found == [
        (own, own),
        ("copy", "copy"),
        (None, own),
        (None, None),
    ]
    (link,) = slots[0]["links"]
    path = link["href"].partition("localhost")[2]
    shown = opened.ask("GET", path, token).json["slot"]
    assert (shown["accelerator"], shown["programmed"]) == (own, own)
    # Nor can it be guessed.
    path = "/v1/slots?accelerator=mine%40p1"
    guessed = opened.ask("GET", path, token).json["slots"]
    assert [one["number"] for one in guessed] == ([0] if own else [])


@pytest.mark.parametrize(
    ("token", "own"),
    [
        (fakes.READER, "mine@p1"),
        (fakes.ADMIN, "mine@p1"),
        (fakes.STRANGER, None),
    ],
)
def test_the_pool_hides_what_is_another_projects_own(opened, token, own):
    let_p1_use_its_own(opened)
    hosts = opened.ask("GET", "/v1/pool/hosts", token).json["hosts"]
    (device,) = (one for host in hosts for one in host["devices"])
    assert [
        (one["accelerator"], one["programmed"]) for one in device["slots"]
    ] == [(own, own), ("copy", "copy"), (None, own), (None, None)]


def test_identifiers_stay_the_same():
    device = identity.device_id(str(uuid.UUID(int=7)), "board0")
    assert device == "398a29a4-84fc-59e3-87c7-c63af58c737f"
    assert identity.slot_id(device, 3) != identity.slot_id(device, 4)


def test_the_pool_is_shown_in_numbers(world):
    pool = world.ask("GET", "/v1/pool", fakes.READER).json["pool"]
    assert pool == {
        "strategy": "wra",
        "waiting": 3,
        "sessions": {"QUEUED": 3, "CLOSED": 2},
        "counts": {
            "hosts": 2,
            "hosts_up": 1,
            "devices": 1,
            "devices_healthy": 1,
            "slots": {"medium": {"active": 2, "faulty": 2}},
        },
    }


def test_old_clients_see_each_slot_of_the_pool(world):
    old = {microversion.HEADER: "fpgapool 1.0"}
    pool = world.ask("GET", "/v1/pool", fakes.ADMIN, headers=old).json["pool"]
    assert set(pool) == {"strategy", "waiting", "sessions", "hosts"}
    listed = world.ask("GET", "/v1/pool/hosts", fakes.ADMIN).json["hosts"]
    assert pool["hosts"] == listed
    assert world.error("GET", "/v1/pool/hosts", fakes.ADMIN, headers=old) == (
        404,
        codes.PATH_NOT_FOUND,
    )


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["compute1", "compute2"]),
        ("sort_dir=desc", ["compute2", "compute1"]),
        ("name_part=TE2", ["compute2"]),
        ("slot_state=idle", ["compute1"]),
        ("slot_state=down", []),
    ],
)
def test_hosts_of_the_pool_are_chosen(world, query, names):
    found = world.ask("GET", f"/v1/pool/hosts?{query}", fakes.ADMIN).json[
        "hosts"
    ]
    assert [one["name"] for one in found] == names
    pages = world.pages(
        f"/v1/pool/hosts?limit=1&{query}", fakes.ADMIN, name="hosts"
    )
    assert [one["name"] for page in pages for one in page] == names


@pytest.mark.parametrize("query", ["slot_state=idle", "name_part=te1"])
def test_hosts_follow_one_that_no_longer_matches(world, query):
    hosts = world.ask("GET", "/v1/pool/hosts", fakes.ADMIN).json["hosts"]
    (other,) = [one for one in hosts if one["name"] == "compute2"]
    path = f"/v1/pool/hosts?sort_dir=desc&marker={other['uuid']}&{query}"
    (found,) = world.ask("GET", path, fakes.ADMIN).json["hosts"]
    assert found["name"] == "compute1"


def test_a_page_ends_before_it_is_too_long(world):
    world.database.change_inventory(
        hosts=[
            db_api.HostRecord(
                id=number,
                uuid=str(uuid.UUID(int=number)),
                name=f"compute{number:03}",
                nic_bytes_per_s=1e9,
                admin_reason="x" * 255,
            )
            for number in range(1, 201)
        ]
    )
    pages = world.pages("/v1/hosts", fakes.ADMIN)
    assert len(pages) > 1
    assert [one["name"] for page in pages for one in page] == [
        f"compute{number:03}" for number in range(1, 201)
    ]
    for page in pages:
        assert len(json.dumps(page)) <= bounds.MAX_ANSWER_BYTES


def test_a_host_of_the_pool_has_devices_with_slots(world):
    host, _ = world.ask("GET", "/v1/pool/hosts", fakes.ADMIN).json["hosts"]
    (device,) = host["devices"]
    assert device["slots"][0] == {
        "slot": 0,
        "shape": "medium",
        "state": "active",
        "accelerator": "copy",
        "programmed": None,
    }


def test_slots_that_the_leader_does_not_use_are_faulty(world):
    host, _ = world.ask("GET", "/v1/pool/hosts", fakes.ADMIN).json["hosts"]
    (device,) = host["devices"]
    assert [one["state"] for one in device["slots"]] == [
        "active",
        "active",
        "faulty",
        "faulty",
    ]


def test_services_show_who_leads_and_who_reports(world):
    services = world.ask("GET", "/v1/services", fakes.SERVICE).json["services"]
    told = {one["binary"]: one for one in services}
    assert len(services) == 3
    assert told["fpgapool-conductor"]["id"] == "controller1"
    assert told["fpgapool-conductor"]["up"]
    agent, silent = (
        one for one in services if one["binary"] == "fpgapool-agent"
    )
    assert (agent["id"], agent["up"]) == (fakes.HOST, True)
    assert (silent["up"], silent["last_report_at"]) == (False, None)
    assert agent["last_report_at"] == "2023-11-14T22:13:20.000000Z"
    assert agent["message"] == "not capped"


def _alive(name, binary="fpgapool-api", *, up=True):
    return {
        "binary": binary,
        "name": name,
        "host": "controller1",
        "version": "1.1.0",
        "last_report_at": fakes.NOW - 5.0,
        "up": up,
    }


def test_all_services_show_their_last_sign_of_life(world):
    world.conductor.alive = [
        _alive("controller1", "fpgapool-conductor", up=False),
        _alive("controller2", "fpgapool-conductor"),
        _alive("controller1:7"),
        _alive("controller1:8", up=False),
    ]
    services = world.ask("GET", "/v1/services", fakes.ADMIN).json["services"]
    told = {
        one["id"]: (one["up"], one["last_report_at"], one["message"])
        for one in services
        if one["binary"] != "fpgapool-agent"
    }
    sign = "2023-11-14T22:13:15.000000Z"
    assert told == {
        # It answers, and the lease has its last sign.
        "controller1": (
            True,
            "2023-11-14T22:13:19.000000Z",
            "leader, epoch 4",
        ),
        "controller2": (True, sign, "stands by"),
        "controller1:7": (True, sign, ""),
        "controller1:8": (False, sign, ""),
    }
    assert {one["version"] for one in services} == {"1.1.0", ""}
    path = "/v1/services?binary=fpgapool-api&up=false"
    (down,) = world.ask("GET", path, fakes.ADMIN).json["services"]
    assert (down["id"], down["version"]) == ("controller1:8", "1.1.0")


def test_older_versions_list_the_services_that_they_knew(world):
    world.conductor.alive = [
        _alive("controller2", "fpgapool-conductor"),
        _alive("controller1:7"),
    ]
    old = {"OpenStack-API-Version": "fpgapool 1.1"}
    answer = world.ask("GET", "/v1/services", fakes.ADMIN, headers=old)
    services = answer.json["services"]
    assert [one["binary"] for one in services].count("fpgapool-api") == 0
    (leader,) = (
        one for one in services if one["binary"] == "fpgapool-conductor"
    )
    assert leader["id"] == "controller1"
    assert "version" not in leader
    path = "/v1/services?binary=fpgapool-api"
    error = world.error("GET", path, fakes.ADMIN, headers=old)
    assert error == (400, codes.INVALID_REQUEST)


def test_services_are_up_while_a_pin_forbids_to_ask_for_all(world):
    def services_now():
        raise messaging.RPCVersionCapError(version="1.1", version_cap="1.0")

    world.conductor.services_now = services_now
    services = world.ask("GET", "/v1/services", fakes.ADMIN).json["services"]
    told = {one["id"]: one for one in services}
    leader = told["controller1"]
    assert (leader["up"], leader["message"]) == (True, "leader, epoch 4")
    assert told[fakes.HOST]["up"]
    world.conductor.failure = messaging.MessagingTimeout()
    services = world.ask("GET", "/v1/services", fakes.ADMIN).json["services"]
    assert not any(one["up"] for one in services)


def test_services_are_shown_while_the_conductor_is_away(world):
    world.conductor.failure = messaging.MessagingTimeout()
    services = world.ask("GET", "/v1/services", fakes.ADMIN).json["services"]
    assert len(services) == 3
    assert not any(one["up"] for one in services)
    down = world.ask("GET", "/v1/services?up=true", fakes.ADMIN).json
    assert down == {"services": []}
