# SPDX-License-Identifier: Apache-2.0

"""What instances are told, with Nova and the conductor as plain objects."""

import threading
import types
import uuid

import pytest

from fpgapool import objects
from fpgapool.api.backends import vendordata
from fpgapool.api.http import instances
from fpgapool.clients import nova
from fpgapool.common import exception
from fpgapool.conf import vendordata as conf
from fpgapool.db import api as db_api
from fpgapool.vocabulary import codes
from tests.harness import waiting
from tests.unit.api import fakes

VM = str(uuid.UUID(int=0xABC))
KEY, OLD_KEY = "k" * 32, "o" * 32
#: Nova's default of ``vendordata_dynamic_read_timeout``.
NOVA_WAITS_S = 5.0
ASKING = {"fpgapool:accelerators": "aes,fft", "fpgapool:max_sessions": "2"}

#: As Nova sends it.
BODY = {
    "project-id": "p1",
    "instance-id": VM,
    "image-id": str(uuid.UUID(int=5)),
    "user-data": None,
    "hostname": "web",
    "metadata": {"role": "web"},
    "boot-roles": "member,reader",
}
BASE = "http://api.example.org:8778"


class Conductor:
    """Keeps instances, and is their database."""

    def __init__(self) -> None:
        self.entries: dict[str, objects.InstanceEntry] = {}
        self.calls = 0
        self.deleted_at: float | None = None
        self.failure: Exception | None = None

    def admit_instance(self, entry, *, lost_hash=""):
        self.calls += 1
        if self.failure is not None:
            raise self.failure
        known = self.entries.get(entry.instance_id)
        if known is None or known.token_hash == lost_hash:
            self.entries[entry.instance_id] = entry
        return self.entries[entry.instance_id]

    def get_instance(self, instance_id):
        entry = self.entries.get(instance_id)
        return entry and db_api.InstanceRecord(
            id=1,
            instance_id=entry.instance_id,
            project_id=entry.project_id,
            name=entry.name,
            max_sessions=entry.max_sessions,
            token_nonce=entry.token_nonce,
            token_hash=entry.token_hash,
            token_revoked=entry.token_revoked,
            created_at=1.0,
            deleted_at=self.deleted_at,
        )


class Servers:
    """Nova; waits while it is frozen."""

    def __init__(self, specs=ASKING, status="ACTIVE") -> None:
        self.specs = specs
        self.status = status
        self.failure: Exception | None = None
        self.thawed = threading.Event()
        self.thawed.set()
        self.asked: list[str] = []

    def server(self, instance_id):
        self.asked.append(instance_id)
        assert self.thawed.wait(30)
        if self.failure is not None:
            raise self.failure
        if self.status == "":
            return None
        return nova.Server(
            id=instance_id,
            project_id="p1",
            name="web",
            status=self.status,
            extra_specs=self.specs,
        )


NO_NOVA = object()


def make_desk(servers=None, conductor=None, **options):
    conductor = conductor or Conductor()
    values = {
        option.name: option.default for option in conf.vendordata_opts
    } | {"token_keys": (KEY,), "lookup_timeout_s": 20.0}
    return vendordata.Vendordata(
        types.SimpleNamespace(**values | options),
        None if servers is NO_NOVA else servers or Servers(),
        conductor,
        conductor,
    )


def outcome(desk: vendordata.Vendordata) -> str:
    (found,) = desk.outcomes
    return found


def test_an_instance_whose_flavor_asks_gets_a_token():
    conductor = Conductor()
    desk = make_desk(conductor=conductor)
    answer = desk.answer(BODY, BASE)
    token = answer.pop("instance_token")
    assert answer == {"api_url": BASE, "accelerators": ["aes", "fft"]}
    entry = conductor.entries[VM]
    assert entry.token_hash == instances.hash_token(token)
    assert (entry.project_id, entry.max_sessions) == ("p1", 2)
    assert token not in repr(entry)
    assert desk.outcomes == {vendordata.GIVEN: 1}


def test_the_second_question_gets_the_same_token_without_the_conductor():
    conductor = Conductor()
    first, second = (
        make_desk(conductor=conductor).answer(BODY, BASE) for _ in range(2)
    )
    assert first == second
    assert conductor.calls == 1


def test_two_at_the_same_time_get_the_same_token():
    conductor = Conductor()
    conductor.get_instance = lambda instance_id: None
    answers = [
        make_desk(conductor=conductor).answer(BODY, BASE) for _ in range(2)
    ]
    assert answers[0] == answers[1] != {}
    assert conductor.calls == 2


def test_another_flavor_changes_the_limit_and_not_the_token():
    conductor = Conductor()
    servers = Servers()
    desk = make_desk(servers, conductor)
    first = desk.answer(BODY, BASE)
    servers.specs = {**ASKING, "fpgapool:max_sessions": "9"}
    assert desk.answer(BODY, BASE) == first
    waiting.wait_until(lambda: conductor.calls == 2, "the limit changed")


def test_a_lookup_has_most_of_the_time_that_nova_waits():
    (option,) = (
        option
        for option in conf.vendordata_opts
        if option.name == "lookup_timeout_s"
    )
    assert NOVA_WAITS_S / 2 < option.default < NOVA_WAITS_S
    assert option.type.max < NOVA_WAITS_S


def test_an_unknown_instance_is_looked_up_while_nova_waits():
    servers = Servers()
    servers.thawed.clear()
    desk = make_desk(servers)
    answers = []
    thread = threading.Thread(
        target=lambda: answers.append(desk.answer(BODY, BASE))
    )
    thread.start()
    waiting.wait_until(lambda: servers.asked, "Nova was asked")
    assert not answers
    servers.thawed.set()
    thread.join()
    assert answers[0]["instance_token"]


def test_an_instance_that_was_given_a_token_does_not_wait_for_nova():
    servers = Servers()
    desk = make_desk(servers)
    first = desk.answer(BODY, BASE)
    servers.thawed.clear()
    assert [desk.answer(BODY, BASE) for _ in range(5)] == [first] * 5
    assert desk.outcomes == {vendordata.GIVEN: 6}
    servers.thawed.set()


def test_what_nova_says_afterwards_counts_for_the_next_answer():
    servers = Servers()
    desk = make_desk(servers)
    first = desk.answer(BODY, BASE)
    servers.specs = {**ASKING, "fpgapool:accelerators": "sha"}
    assert desk.answer(BODY, BASE) == first
    waiting.wait_until(
        lambda: desk.answer(BODY, BASE)["accelerators"] == ["sha"],
        "the other flavor counts",
    )
    servers.specs = {}
    waiting.wait_until(
        lambda: desk.answer(BODY, BASE) == {}, "its flavor asks no longer"
    )


def test_keys_can_be_replaced():
    conductor = Conductor()
    old = make_desk(conductor=conductor, token_keys=(OLD_KEY,))
    first = old.answer(BODY, BASE)
    both = make_desk(conductor=conductor, token_keys=(KEY, OLD_KEY))
    assert both.answer(BODY, BASE) == first
    # Without the old key, there is a new token, and then that.
    new = make_desk(conductor=conductor)
    second = new.answer(BODY, BASE)
    assert second["instance_token"] != first["instance_token"]
    assert new.answer(BODY, BASE) == second


def test_what_operators_say_of_the_api():
    desk = make_desk(api_url="https://fpga.example.org")
    answer = desk.answer(BODY, BASE)
    assert answer["api_url"] == "https://fpga.example.org"
    assert "ca_cert" not in answer


@pytest.mark.parametrize(
    ("servers", "settings", "expected"),
    [
        (Servers({}), {}, vendordata.NOT_WANTED),
        (Servers(None), {}, vendordata.NOT_WANTED),
        (
            Servers({"fpgapool:affinity": "avoid"}),
            {},
            vendordata.NOT_WANTED,
        ),
        (Servers({}), {"all_instances": True}, vendordata.GIVEN),
        (
            Servers({"fpgapool:affinity": "required"}),
            {},
            vendordata.GIVEN,
        ),
        (Servers(status=""), {}, vendordata.UNKNOWN),
        (Servers(status="DELETED"), {}, vendordata.UNKNOWN),
        (Servers(), {"token_keys": ()}, vendordata.NOT_CONFIGURED),
    ],
)
def test_who_gets_one(servers, settings, expected):
    desk = make_desk(servers, **settings)
    answer = desk.answer(BODY, BASE)
    assert outcome(desk) == expected
    assert bool(answer) == (expected == vendordata.GIVEN)


def test_without_a_way_to_nova():
    desk = make_desk(NO_NOVA)
    assert desk.answer(BODY, BASE) == {}
    assert outcome(desk) == vendordata.NOT_CONFIGURED


def test_a_token_that_was_taken_away_does_not_come_back():
    conductor = Conductor()
    desk = make_desk(conductor=conductor)
    desk.answer(BODY, BASE)
    entry = conductor.entries[VM]
    values = {**vars(entry), "token_revoked": True}
    conductor.entries[VM] = objects.InstanceEntry(**values)
    # Neither with another flavor, nor with another key.
    servers = Servers({**ASKING, "fpgapool:max_sessions": "7"})
    for settings in ({}, {"token_keys": ("n" * 32,)}):
        desk = make_desk(servers, conductor, **settings)
        assert desk.answer(BODY, BASE) == {}
        assert outcome(desk) == vendordata.REVOKED


def test_a_deleted_instance_gets_nothing():
    conductor = Conductor()
    make_desk(conductor=conductor).answer(BODY, BASE)
    conductor.deleted_at = 5.0
    desk = make_desk(conductor=conductor)
    assert desk.answer(BODY, BASE) == {}
    assert outcome(desk) == vendordata.UNKNOWN


@pytest.mark.parametrize(
    "failure",
    [
        exception.NovaUnavailable(reason="away"),
        exception.DatabaseUnavailable(reason="away"),
        RuntimeError("a bug"),
    ],
)
@pytest.mark.parametrize("where", ["nova", "conductor"])
def test_whatever_fails_nothing_is_given(failure, where):
    servers, conductor = Servers(), Conductor()
    broken = servers if where == "nova" else conductor
    broken.failure = failure
    desk = make_desk(servers, conductor)
    assert desk.answer(BODY, BASE) == {}
    assert outcome(desk) == vendordata.FAILED


@pytest.mark.parametrize("name", ["", "x", "../../flavors", "1" * 500])
def test_what_is_no_instance(name):
    servers = Servers()
    desk = make_desk(servers)
    assert desk.answer({**BODY, "instance-id": name}, BASE) == {}
    assert not servers.asked


def test_a_frozen_nova_holds_up_nobody_and_is_not_asked_endlessly():
    servers = Servers()
    servers.thawed.clear()
    desk = make_desk(servers, lookup_timeout_s=0.05, max_lookups=2)
    for expected in (vendordata.TIMEOUT, vendordata.TIMEOUT, vendordata.BUSY):
        before = desk.outcomes.get(expected, 0)
        assert desk.answer(BODY, BASE) == {}
        assert desk.outcomes[expected] == before + 1
    assert len(servers.asked) == 2
    servers.thawed.set()
    # Those that wait come to an end; then there is room again.
    for _ in range(1000):
        if desk.answer(BODY, BASE):
            break
    assert desk.outcomes[vendordata.GIVEN] == 1


def _known() -> tuple[Conductor, str]:
    """Return the conductor of an instance that has a token, and that."""
    conductor = Conductor()
    answer = make_desk(conductor=conductor).answer(BODY, BASE)
    return conductor, answer["instance_token"]


def test_a_known_instance_keeps_its_token_while_nova_is_slow():
    """It was answered before: the database knows what it has."""
    conductor, token = _known()
    servers = Servers()
    servers.thawed.clear()
    desk = make_desk(servers, conductor, lookup_timeout_s=1.0, max_lookups=1)
    # The second one finds no room to ask Nova.
    for _ in range(2):
        assert desk.answer(BODY, BASE) == {
            "api_url": BASE,
            "instance_token": token,
        }
    assert desk.outcomes == {vendordata.REMEMBERED: 2}
    assert len(servers.asked) == 1
    servers.thawed.set()


def test_a_known_instance_keeps_its_token_while_nova_fails():
    conductor, token = _known()
    servers = Servers()
    servers.failure = exception.NovaUnavailable(reason="away")
    desk = make_desk(servers, conductor)
    assert desk.answer(BODY, BASE)["instance_token"] == token
    assert outcome(desk) == vendordata.REMEMBERED


@pytest.mark.security
@pytest.mark.parametrize("why", ["revoked", "deleted", "key"])
def test_what_has_no_token_gets_none_while_nova_is_slow(why):
    conductor, _ = _known()
    if why == "revoked":
        values = {**vars(conductor.entries[VM]), "token_revoked": True}
        conductor.entries[VM] = objects.InstanceEntry(**values)
    if why == "deleted":
        conductor.deleted_at = 5.0
    keys = ("n" * 32,) if why == "key" else (KEY,)
    servers = Servers()
    servers.thawed.clear()
    desk = make_desk(
        servers, conductor, lookup_timeout_s=0.05, token_keys=keys
    )
    assert desk.answer(BODY, BASE) == {}
    assert outcome(desk) == vendordata.TIMEOUT
    servers.thawed.set()


@pytest.mark.security
@pytest.mark.parametrize("why", ["revoked", "deleted"])
def test_what_lost_its_token_does_not_get_it_at_once(why):
    servers, conductor = Servers(), Conductor()
    desk = make_desk(servers, conductor)
    assert desk.answer(BODY, BASE)
    if why == "revoked":
        values = {**vars(conductor.entries[VM]), "token_revoked": True}
        conductor.entries[VM] = objects.InstanceEntry(**values)
    else:
        conductor.deleted_at = 5.0
    servers.failure = exception.NovaUnavailable(reason="away")
    assert desk.answer(BODY, BASE) == {}


def test_without_a_thread_nothing_is_given_and_the_place_is_free_again():
    desk = make_desk(max_lookups=1)

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    for _ in range(2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(vendordata.threading.Thread, "start", refuse)
            assert desk.answer(BODY, BASE) == {}
    assert desk.outcomes == {vendordata.BUSY: 2}
    assert desk.answer(BODY, BASE)["instance_token"]


# -- configuration -----------------------------------------------------------


def test_renewed_certificates_need_no_restart(tmp_path):
    path = tmp_path / "ca.pem"
    path.write_text("PEM")
    desk = make_desk(ca_file=str(path))
    assert desk.answer(BODY, BASE)["ca_cert"] == "PEM"
    path.write_text("renewed")
    assert desk.answer(BODY, BASE)["ca_cert"] == "renewed"
    path.unlink()
    assert desk.answer(BODY, BASE)["ca_cert"] == "PEM"


@pytest.mark.parametrize(
    "options", [{"token_keys": ["short"]}, {"ca_file": "/nowhere/ca.pem"}]
)
def test_options_that_make_no_sense(options):
    with pytest.raises(exception.ConfigurationError, match="vendordata"):
        make_desk(**options)


# -- the route ---------------------------------------------------------------


def _world(make_world, desk=None):
    world = make_world()
    object.__setattr__(world.backends, "vendordata", desk)
    return world


def test_nova_is_answered(make_world):
    world = _world(make_world, make_desk())
    answer = world.ask("POST", "/v1/vendordata", fakes.NOVA, body=BODY)
    assert answer.status_code == 200
    assert answer.json["instance_token"].startswith("fpi_")
    assert answer.json["api_url"].startswith("http://")


def test_nothing_is_an_empty_object(make_world):
    for desk in (None, make_desk(Servers({}))):
        world = _world(make_world, desk)
        answer = world.ask("POST", "/v1/vendordata", fakes.NOVA, body=BODY)
        assert (answer.status_code, answer.json) == (200, {})


@pytest.mark.security
@pytest.mark.parametrize(
    "token",
    [fakes.MEMBER, fakes.ADMIN, fakes.NOBODY, fakes.SERVICE, fakes.AGENT],
)
def test_only_nova_asks_for_tokens(make_world, token):
    world = _world(make_world, make_desk())
    found = world.error("POST", "/v1/vendordata", token, body=BODY)
    assert found == (403, codes.FORBIDDEN)


def test_bodies_of_other_versions_of_nova(make_world):
    world = _world(make_world, make_desk())
    large = {**BODY, "user-data": "A" * 90_000, "new-thing": {"a": [1]}}
    empty = {"instance-id": VM}
    for body in (large, empty, {**BODY, "image-id": "", "metadata": None}):
        answer = world.ask("POST", "/v1/vendordata", fakes.NOVA, body=body)
        assert answer.json["instance_token"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", (400, codes.INVALID_REQUEST)),
        (b"nonsense", (400, codes.INVALID_REQUEST)),
        ({}, (400, codes.INVALID_REQUEST)),
        ({"instance-id": "x"}, (400, codes.INVALID_REQUEST)),
        ({"instance-id": 5}, (400, codes.INVALID_REQUEST)),
        ({**BODY, "Instance_ID": "x"}, (400, codes.INVALID_REQUEST)),
        (
            {**BODY, "user-data": "A" * 1024 * 1024},
            (413, codes.BODY_TOO_LARGE),
        ),
    ],
)
def test_bodies_that_are_refused(make_world, body, expected):
    world = _world(make_world, make_desk())
    found = world.error("POST", "/v1/vendordata", fakes.NOVA, body=body)
    assert found == expected
