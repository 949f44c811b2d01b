# SPDX-License-Identifier: Apache-2.0

import concurrent.futures
import dataclasses
import inspect
import queue
import threading
import types
from unittest import mock

import oslo_messaging as messaging
import pytest
from kombu import serialization
from oslo_config import cfg
from oslo_messaging._drivers import amqpdriver
from oslo_messaging._drivers import common as drivers_common

from fpgapool import conf as fpgapool_conf
from fpgapool import objects
from fpgapool.agent import manager as agent_manager
from fpgapool.common import exception
from fpgapool.common.messaging import codec
from fpgapool.common.messaging import rpc
from fpgapool.common.messaging import signing
from fpgapool.conductor import rpc as conductor_rpc
from fpgapool.conductor.calls import base
from fpgapool.rpcapi import agent as agent_api
from fpgapool.rpcapi import conductor as conductor_api

WAIT_S = 30


@pytest.fixture
def transport():
    """Give the process a transport within its memory."""
    rpc.cleanup()
    cfg.CONF([], default_config_files=[])
    rpc.init(url="fake://")
    yield
    rpc.cleanup()
    cfg.CONF.reset()


@pytest.fixture
def serve(transport):
    """Give a function that serves an endpoint until the test ends."""
    servers = []

    def serve_(topic: str, name: str, endpoint: object) -> None:
        server = rpc.get_server(topic, name, [endpoint])
        server.start()
        servers.append(server)

    yield serve_
    for server in servers:
        server.stop()
        server.wait()


def _view(session_id: str = "s1") -> objects.SessionView:
    return objects.SessionView(
        session_id=session_id,
        request_id="r1",
        project_id="p1",
        state="READY",
        accelerator="aes",
        claimed_bytes=1,
        endpoints=(objects.Endpoint("data", "2001:db8::1", 4000),),
        secret="c0ffee",
    )


class _Recorder:
    """An endpoint that keeps what it was asked, whatever it was."""

    target = messaging.Target(version=conductor_api.VERSION)

    def __init__(self) -> None:
        self.received: queue.Queue = queue.Queue()

    def __getattr__(self, name: str):
        def method(ctxt, **kwargs):
            self.received.put((name, ctxt, kwargs))

        return method


CLIENT = objects.AttachClient(
    client_id="c",
    group_id="g",
    project_id="p",
    user_id="u",
    secret_hash="0" * 64,
)


class _Conductor:
    target = messaging.Target(version=conductor_api.VERSION)

    def changed_sessions(self, ctxt, revisions, host_uuid=""):
        if host_uuid == "h1":
            return {"changed": [], "unknown": []}
        if -1 in revisions.values():
            names = revisions
            return {
                "changed": [_view(one).to_primitive() for one in names],
                "unknown": [],
            }
        changed = [_view(one).to_primitive() for one in sorted(revisions)]
        return {"changed": changed[:1], "unknown": sorted(revisions)[1:]}

    def stage_endpoints(
        self, ctxt, host_uuid, project_id, session_id, generation
    ):
        known = host_uuid, project_id, session_id, generation
        if known != ("h1", "p1", "s1", 7):
            return []
        return [{"address": "192.0.2.1", "port": 4000}]

    def session_now(self, ctxt, session_id, project_id):
        assert project_id == "p1"
        return _view("a").to_primitive() if session_id == "a" else None

    def submit_sessions(self, ctxt, requests):
        wanted = map(objects.OpenRequest.from_primitive, requests)
        return [_view(one.request_id).to_primitive() for one in wanted]

    def end_sessions(self, ctxt, ends):
        views = _view("r"), None
        return [view and view.to_primitive() for view in views]

    def dry_run(self, ctxt, request):
        wanted = objects.OpenRequest.from_primitive(request)
        return objects.DryRun(
            state="QUEUED", reasons=(wanted.accelerator,)
        ).to_primitive()

    def reopen_session(
        self, ctxt, project_id, session_id, generation, host_uuid
    ):
        assert (project_id, generation, host_uuid) == ("p1", 7, "h1")
        return _view().to_primitive() if session_id == "s1" else None

    def list_accelerators(self, ctxt):
        profile = objects.AcceleratorProfile(
            name="aes",
            peak_bytes_per_s=1.2e9,
            return_ratio=1.0,
            stateless=True,
            core="aes",
        )
        return [profile.to_primitive()]

    def change_bitstream(self, ctxt, change):
        objects.DeleteBitstream.from_primitive(change)

    def change_group(self, ctxt, change):
        objects.DeleteGroup.from_primitive(change)
        raise exception.GroupRefused("text", code="GROUP_NAME_TAKEN")

    def get_groups(self, ctxt, group_ids):
        view = objects.GroupView(
            group_id=group_ids[0],
            name="render",
            project_id="p",
            accelerator="aes",
            state="ACTIVE",
            size=1,
            min_size=1,
            max_size=1,
            created_at=1.0,
        )
        return [view.to_primitive()]

    def find_groups(self, ctxt, project_id, name):
        assert (project_id, name) == ("p", "render")
        return self.get_groups(ctxt, ["g"])

    def attach_client(self, ctxt, client):
        assert objects.AttachClient.from_primitive(client) == CLIENT

    def detach_client(self, ctxt, project_id, group_id, client_id):
        assert (project_id, group_id) == ("p", "g")
        raise exception.GroupRefused("text", code="GROUP_CLIENT_NOT_FOUND")

    def admit_instance(self, ctxt, entry, lost_hash):
        return objects.InstanceEntry.from_primitive(entry).to_primitive()

    def revoke_instance_token(self, ctxt, instance_id):
        return None

    def pool_now(self, ctxt):
        return {"hosts": {}}

    def administer(
        self, ctxt, host_uuid, device, state, reason, drain_within_s
    ):
        return None

    def set_reservable_slots(self, ctxt, host_uuid, device, slots):
        raise exception.FewerThanReserved(reserved=slots + 1, device=device)

    @messaging.expected_exceptions(exception.SlotNotTested)
    def test_slot(self, ctxt, host_uuid, device, slot, accelerator):
        if accelerator:
            raise exception.SlotNotTested(code="SLOT_IN_USE", reason="r")

    def audit(self, ctxt):
        found = objects.Finding(kind="k", subject="s", detail="d")
        return [found.to_primitive()]

    def repair(self, ctxt, finding):
        return objects.Finding.from_primitive(finding).kind == "k"

    def get_quota(self, ctxt, project_id):
        return {"sessions": {"limit": 3}}

    def set_quota(self, ctxt, project_id, limits):
        return None

    def get_share(self, ctxt, project_id, session_id):
        return {"project_id": project_id, "session_id": session_id}

    def get_budget(self, ctxt, project_id):
        return {"project_id": project_id} if project_id == "p1" else None

    def budgets_after(self, ctxt, project_id):
        return [] if project_id else [{"project_id": "p1"}]

    def set_budget(self, ctxt, project_id, budget):
        assert (project_id, budget) in (("p1", {"bytes": 1}), ("p1", None))

    @messaging.expected_exceptions(exception.ReservationNotFound)
    def set_reservation(
        self, ctxt, reservation_id, wanted, project_id, user_id, exempt
    ):
        if wanted is None:
            raise exception.ReservationNotFound(reservation_id=reservation_id)
        assert (wanted, project_id, user_id) == ({"slots": 4}, "p1", "u")
        assert exempt

    @messaging.expected_exceptions(exception.NotLeader)
    def pool_summary(self, ctxt):
        raise exception.NotLeader(reason="epoch 3 is over")

    def group_now(self, ctxt, group_id):
        (found,) = self.get_groups(ctxt, [group_id])
        return found

    def usable_groups(self, ctxt, project_id, name, host_uuid):
        return self.find_groups(ctxt, project_id, name)

    def accelerators_after(self, ctxt, name):
        return self.list_accelerators(ctxt)

    def pool_counts(self, ctxt):
        return {"hosts": 1}

    def hosts_now(self, ctxt, host_uuids):
        return dict.fromkeys(host_uuids)

    def services_now(self, ctxt):
        return {"services": []}

    def pool_hosts(self, ctxt, after):
        return {"hosts": [], "next": after}

    def _hidden(self, ctxt):
        return "not for others"


def _order() -> objects.GroupOrder:
    return objects.GroupOrder(
        group_id="g1",
        revision=1,
        project_id="p1",
        accelerator="copy",
        arbitration="fifo",
        clear_between="clients",
        max_task_bytes=4096,
    )


def _agent_calls(api: agent_api.AgentAPI) -> dict:
    request = objects.AssignRequest(
        host_uuid="h1",
        device="board0",
        slot=1,
        session_id="s1",
        generation=7,
        project_id="p1",
        accelerator="aes",
        bitstream="builtin:aes",
        connect_timeout_s=30.0,
        resume_grace_s=10.0,
        claimed_bytes=1,
        local=False,
    )
    slot = ("board0", 1, "s1", 7)
    return {
        "assign": lambda: api.assign("h1", 3, request),
        "self_test": lambda: api.self_test("h1", 3, request),
        "release": lambda: api.release("h1", 3, *slot, "CANCELLED_BY_CLIENT"),
        "reissue_secret": lambda: api.reissue_secret("h1", 3, "board0", 1, 7),
        "session_changed": lambda: api.session_changed("h1", 3, [_view()]),
        "report_now": lambda: api.report_now("h1", 3),
        "keep_group": lambda: api.keep_group("h1", 3, _order()),
    }


def _conductor_casts(api: conductor_api.ConductorAPI) -> dict:
    report = objects.AgentReport(
        host_uuid="h1",
        host_name="n1",
        agent_boot_id="1-2",
        sequence=1,
        nic_bytes_per_s=1.0,
        driver="noop",
    )
    prepared = objects.Prepared(
        host_uuid="h1",
        device="board0",
        slot=1,
        session_id="s1",
        generation=7,
        secret="c0ffee",
        endpoints=(),
    )
    return {
        "report": lambda: api.report(report),
        "prepared": lambda: api.prepared(prepared),
        "cancel_session": lambda: api.cancel_session(
            "p1", request_id="r1", reason="CLIENT_GONE"
        ),
        "close_session": lambda: api.close_session(
            "p1",
            "s1",
            generation=1,
            input_bytes=7,
            output_bytes=7,
            confirmed=False,
        ),
        "renew_secret": lambda: api.renew_secret("s1"),
        "note_service": lambda: api.note_service(
            "b", "n", host="h", version="1.1.0", lives=True
        ),
        "report_progress": lambda: api.report_progress("p1", "s1", 7),
    }


def _public_methods(cls: type) -> set[str]:
    return {
        name
        for name, _ in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_")
    }


def test_agent_casts_arrive_with_the_epoch(serve):
    endpoint = _Recorder()
    serve(agent_api.TOPIC, "h1", endpoint)
    casts = _agent_calls(agent_api.AgentAPI())
    assert set(casts) | {"together"} == _public_methods(agent_api.AgentAPI)
    assert set(casts) == agent_manager.AgentManager.CASTS
    for method, cast in casts.items():
        cast()
        name, ctxt, kwargs = endpoint.received.get(timeout=WAIT_S)
        assert (name, kwargs["leader_epoch"]) == (method, 3)
        # No token of a user is on the bus.
        assert not ctxt


def test_agent_casts_go_to_one_host(serve):
    mine, other = _Recorder(), _Recorder()
    serve(agent_api.TOPIC, "h1", mine)
    serve(agent_api.TOPIC, "h2", other)
    api = agent_api.AgentAPI()
    for epoch in range(10):
        api.report_now("h1", epoch)
    api.report_now("h2", 99)
    for _ in range(10):
        mine.received.get(timeout=WAIT_S)
    _, _, kwargs = other.received.get(timeout=WAIT_S)
    assert kwargs == {"leader_epoch": 99}
    assert mine.received.empty()


class _Agent(rpc.Endpoint):
    """Takes requests for reports, but not from everybody."""

    target = messaging.Target(version=agent_api.VERSION)
    CASTS = frozenset({"report_now", "release"})

    def __init__(self) -> None:
        self.received: queue.Queue = queue.Queue()

    def report_now(self, ctxt, leader_epoch):
        if leader_epoch == 13:
            raise RuntimeError("not now")
        self.received.put(leader_epoch)


def test_casts_made_together_are_one_message_for_each_host(serve):
    endpoints = {name: _Recorder() for name in ("h1", "h2", "h3")}
    for name, endpoint in endpoints.items():
        serve(agent_api.TOPIC, name, endpoint)
    api = agent_api.AgentAPI()
    with api.together():
        for epoch in range(3):
            api.report_now("h1", epoch)
        api.report_now("h2", 7)
    name, _, kwargs = endpoints["h1"].received.get(timeout=WAIT_S)
    assert name == "several"
    assert kwargs["casts"] == [
        ["report_now", {"leader_epoch": epoch}] for epoch in range(3)
    ]
    name, _, kwargs = endpoints["h2"].received.get(timeout=WAIT_S)
    assert (name, kwargs) == ("report_now", {"leader_epoch": 7})
    api.report_now("h3", 8)
    assert endpoints["h3"].received.get(timeout=WAIT_S)[0] == "report_now"


def test_each_of_several_casts_is_handled_by_itself(serve):
    endpoint = _Agent()
    serve(agent_api.TOPIC, "h1", endpoint)
    api = agent_api.AgentAPI()
    with api.together():
        api.report_now("h1", 1)
        api.report_now("h1", 13)
        # There is no such method, and one that is not for casts.
        api.release("h1", 1, "board0", 0, "s1", 1, "R")
        api.session_changed("h1", 1, [])
        api.report_now("h1", 2)
    assert endpoint.received.get(timeout=WAIT_S) == 1
    assert endpoint.received.get(timeout=WAIT_S) == 2


@pytest.mark.parametrize(
    "casts",
    [
        None,
        7,
        "x",
        [7],
        [["a"]],
        [[[], {}]],
        [["report_now", 7]],
        [["report_now", {}]],
        [["report_now", {"leader_epoch": 1, "other": 2}]],
        [["several", {"casts": []}]],
    ],
)
def test_several_casts_that_are_none(casts, caplog):
    """They are dropped in one line; a traceback would tell of a bug."""
    endpoint = _Agent()
    endpoint.several(None, casts)
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.exc_info is None
    assert endpoint.received.empty()


def _cast_and_fail(api: agent_api.AgentAPI) -> None:
    with api.together():
        api.report_now("h1", 1)
        raise RuntimeError


def test_casts_made_together_are_not_sent_if_their_making_fails(serve):
    endpoint = _Agent()
    serve(agent_api.TOPIC, "h1", endpoint)
    api = agent_api.AgentAPI()
    with pytest.raises(RuntimeError):
        _cast_and_fail(api)
    api.report_now("h1", 2)
    assert endpoint.received.get(timeout=WAIT_S) == 2


def test_conductor_casts_arrive(serve):
    endpoint = _Recorder()
    serve(conductor_api.TOPIC, "c1", endpoint)
    casts = _conductor_casts(conductor_api.ConductorAPI())
    calls = _public_methods(_Conductor)
    assert set(casts) | calls | {
        "get_sessions",
        "address_leader",
        "together",
    } == _public_methods(conductor_api.ConductorAPI)
    # No host asks for new secrets, or may tell that services live.
    together = set(casts) - {"note_service", "renew_secret"}
    assert together == conductor_rpc.ConductorManager.CASTS
    for method, cast in casts.items():
        cast()
        name, _, _ = endpoint.received.get(timeout=WAIT_S)
        assert name == method


def test_budgets_and_shares_cross_the_bus(serve):
    serve(conductor_api.TOPIC, "c1", _Conductor())
    api = conductor_api.ConductorAPI()
    assert api.get_share("p1", session_id="s1")["session_id"] == "s1"
    api.set_budget("p1", {"bytes": 1})
    api.set_budget("p1", None)
    assert api.get_budget("p1") == {"project_id": "p1"}
    assert api.get_budget("p2") is None
    assert api.budgets_after("") == [{"project_id": "p1"}]
    assert api.budgets_after("p1") == []


def test_endpoints_of_stages_cross_the_bus(serve):
    serve(conductor_api.TOPIC, "c1", _Conductor())
    api = conductor_api.ConductorAPI()
    assert api.stage_endpoints("h1", "p1", "s1", 7) == [
        {"address": "192.0.2.1", "port": 4000}
    ]
    assert api.stage_endpoints("h1", "p1", "s1", 8) == []


def test_reservations_cross_the_bus(serve):
    serve(conductor_api.TOPIC, "c1", _Conductor())
    api = conductor_api.ConductorAPI()
    api.set_reservation(
        "r1", {"slots": 4}, project_id="p1", user_id="u", exempt=True
    )
    with pytest.raises(exception.ReservationNotFound):
        api.set_reservation("r1", None)


def test_findings_cross_the_bus(serve):
    serve(conductor_api.TOPIC, "c1", _Conductor())
    api = conductor_api.ConductorAPI()
    (found,) = api.audit()
    assert found.kind == "k"
    assert api.repair(found) is True


def test_why_a_group_is_refused_crosses_the_bus(serve):
    serve(conductor_api.TOPIC, "c1", _Conductor())
    api = conductor_api.ConductorAPI()
    assert [view.name for view in api.get_groups(["g"])] == ["render"]
    with pytest.raises(exception.GroupRefused) as caught:
        api.change_group(objects.DeleteGroup(group_id="g"))
    assert caught.value.code == "GROUP_NAME_TAKEN"
    assert caught.value.message == "text"


def test_what_front_doors_ask_about_groups_crosses_the_bus(serve):
    serve(conductor_api.TOPIC, "c1", _Conductor())
    api = conductor_api.ConductorAPI()
    (found,) = api.find_groups("p", "render")
    assert found.group_id == "g"
    api.attach_client(CLIENT)
    with pytest.raises(exception.GroupRefused) as caught:
        api.detach_client("p", group_id="g", client_id="c")
    assert caught.value.code == "GROUP_CLIENT_NOT_FOUND"


def test_why_a_slot_is_not_tested_crosses_the_bus(serve):
    serve(conductor_api.TOPIC, "c1", _Conductor())
    api = conductor_api.ConductorAPI()
    assert api.test_slot("h1", "board0", 1) is None
    with pytest.raises(exception.SlotNotTested) as caught:
        api.test_slot("h1", "board0", 1, "aes")
    assert caught.value.code == "SLOT_IN_USE"


def _received(*endpoints: _Recorder) -> list[int]:
    return [endpoint.received.qsize() for endpoint in endpoints]


def test_the_leader_is_addressed_by_name(serve):
    """A former leader that still listens takes nothing from the new one."""
    former, leader = _Recorder(), _Recorder()
    serve(conductor_api.TOPIC, conductor_api.server_name(3), former)
    serve(conductor_api.TOPIC, conductor_api.server_name(4), leader)
    api = conductor_api.ConductorAPI()
    api.address_leader(4)
    api.address_leader(3)
    for number in range(10):
        api.renew_secret(f"s{number}")
    for _ in range(10):
        leader.received.get(timeout=WAIT_S)
    assert _received(former, leader) == [0, 0]


def test_a_leader_that_is_silent_is_not_addressed(serve):
    """Any conductor gets what the leader that is known does not answer."""
    serve(conductor_api.TOPIC, conductor_api.server_name(4), _Conductor())
    api = conductor_api.ConductorAPI(call_timeout_s=2)
    api.address_leader(3)
    with pytest.raises(messaging.MessagingTimeout):
        api.get_sessions(["a"])
    assert api.get_sessions(["a"]) == [_view("a")]


def test_the_next_leader_is_addressed_though_the_former_does_not_answer(
    monkeypatch,
):
    """It was elected, and heard, while a call waited for the former one."""
    now_s, servers = 100.0, []
    clock = types.SimpleNamespace(monotonic=lambda: now_s)
    monkeypatch.setattr(conductor_api, "time", clock)

    def call(_method, *, server, timeout_s, **_arguments):
        nonlocal now_s
        servers.append(server)
        if server == conductor_api.server_name(4):
            return {"changed": [], "unknown": []}
        now_s += timeout_s / 10
        api.address_leader(4)
        now_s += timeout_s
        raise messaging.MessagingTimeout

    with mock.patch.object(rpc, "Client") as made:
        made.return_value.call = call
        api = conductor_api.ConductorAPI(call_timeout_s=30)
    api.address_leader(3)
    assert api.get_sessions(["a"]) == []
    assert servers == [conductor_api.server_name(n) for n in (3, 4)]


def test_names_of_leaders_come_round_again():
    names = {conductor_api.server_name(epoch) for epoch in range(1, 1000)}
    assert len(names) < 20
    again = next(
        epoch
        for epoch in range(8, 1000)
        if conductor_api.server_name(epoch) == conductor_api.server_name(7)
    )
    assert conductor_api.is_outdated(7, again)
    assert not conductor_api.is_outdated(8, again)
    assert not conductor_api.is_outdated(0, again)


def test_payloads_survive_the_bus(serve):
    endpoint = _Recorder()
    serve(agent_api.TOPIC, "h1", endpoint)
    agent_api.AgentAPI().session_changed("h1", 3, [_view()])
    _, _, kwargs = endpoint.received.get(timeout=WAIT_S)
    (view,) = kwargs["views"]
    assert objects.SessionView.from_primitive(view) == _view()


def test_calls_return_payloads(serve):
    serve(conductor_api.TOPIC, "c1", _Conductor())
    api = conductor_api.ConductorAPI(call_timeout_s=WAIT_S)
    assert api.get_sessions(["a", "b"]) == [_view("a"), _view("b")]
    assert api.session_now("a", "p1") == _view("a")
    assert api.session_now("b", "p1") is None
    changed, unknown = api.changed_sessions({"a": 1, "b": 2})
    assert (changed, unknown) == ([_view("a")], ["b"])
    assert api.changed_sessions({"a": 1}, host_uuid="h1") == ([], [])
    for name, view in (("s1", _view()), ("s2", None)):
        again = api.reopen_session(
            "p1", session_id=name, generation=7, host_uuid="h1"
        )
        assert again == view
    request = objects.OpenRequest(
        request_id="r3",
        project_id="p1",
        user_id="u1",
        host_uuid=None,
        accelerator="aes",
        claimed_bytes=2**70,
    )
    other = dataclasses.replace(request, request_id="r4")
    assert api.submit_sessions([request, other]) == [_view("r3"), _view("r4")]
    end = objects.SessionEnd(project_id="p", session_id="s")
    assert api.end_sessions([end, end]) == [_view("r"), None]
    found = objects.DryRun(state="QUEUED", reasons=("aes",))
    assert api.dry_run(request) == found
    assert [one.name for one in api.list_accelerators()] == ["aes"]


def test_errors_arrive_with_their_code(serve):
    serve(conductor_api.TOPIC, "c1", _Conductor())
    api = conductor_api.ConductorAPI(call_timeout_s=WAIT_S)
    with pytest.raises(exception.NotLeader) as error:
        api.pool_summary()
    assert error.value.code == "NOT_LEADER"
    assert "epoch 3" in str(error.value)


def test_conductors_give_reasons_before_callers_give_up(transport):
    assert base.ANSWER_S < conductor_api.TRY_S <= rpc.CALL_TIMEOUT_S / 3
    assert base.CHANGE_S < rpc.CALL_TIMEOUT_S
    # What is asked in less time than that is asked once.
    assert conductor_api.ConductorAPI()._tries == 3
    assert conductor_api.ConductorAPI(call_timeout_s=5)._tries == 1


def test_underscored_methods_cannot_be_called(serve):
    serve(conductor_api.TOPIC, "c1", _Conductor())
    client = rpc.Client(
        messaging.Target(topic=conductor_api.TOPIC, version="1.0"),
        timeout_s=WAIT_S,
    )
    with pytest.raises(messaging.rpc.NoSuchMethod):
        client.call("_hidden")


def test_a_cancellation_must_name_something(transport):
    with pytest.raises(ValueError, match="session_id or request_id"):
        conductor_api.ConductorAPI().cancel_session("p1", reason="X")


def test_a_call_nobody_answers_times_out(transport):
    api = conductor_api.ConductorAPI(call_timeout_s=0.01)
    with pytest.raises(messaging.MessagingTimeout):
        api.pool_summary()


def test_calls_beyond_the_limit_wait_for_the_others(serve):
    """A burst is not refused by a conductor that answers so many at once."""
    under_way: queue.Queue = queue.Queue()
    go_on = threading.Semaphore(0)

    class Slow(rpc.Endpoint):
        target = messaging.Target(version=conductor_api.VERSION)

        def pool_summary(self, ctxt):
            under_way.put(1)
            assert go_on.acquire(timeout=WAIT_S)
            return {}

    serve(conductor_api.TOPIC, "c1", Slow())
    api = conductor_api.ConductorAPI(call_timeout_s=WAIT_S, max_calls=2)
    with concurrent.futures.ThreadPoolExecutor(4) as executor:
        calls = [executor.submit(api.pool_summary) for _ in range(4)]
        for _ in range(2):
            under_way.get(timeout=WAIT_S)
        hurried = conductor_api.ConductorAPI(call_timeout_s=0.01, max_calls=1)
        hurried._turns.get()
        with pytest.raises(messaging.MessagingTimeout):
            hurried.pool_summary()
        assert under_way.empty()
        for _ in calls:
            go_on.release()
        assert [one.result(WAIT_S) for one in calls] == [{}] * 4
    assert under_way.qsize() == 2


def test_a_client_needs_a_transport():
    rpc.cleanup()
    with pytest.raises(RuntimeError, match="init"):
        agent_api.AgentAPI()


class _Threads(rpc.Endpoint):
    """Notes which threads run its methods."""

    CASTS = frozenset({"quick"})

    def __init__(self) -> None:
        self.received: queue.Queue = queue.Queue()

    def quick(self, ctxt, slow=None):
        self.received.put(("quick", threading.current_thread()))

    def slow(self, ctxt, quick=None):
        self.received.put(("slow", threading.current_thread()))

    def next(self) -> tuple[str, threading.Thread]:
        return self.received.get(timeout=WAIT_S)


@pytest.mark.parametrize("keys", [None, signing.Keys("control", (b"k" * 32,))])
def test_only_quick_casts_run_in_the_thread_that_receives(transport, keys):
    endpoint = _Threads()
    server = rpc.get_server("t", "s", [endpoint], keys=keys)
    server.start()
    client = rpc.Client(messaging.Target(topic="t"), keys=keys)
    try:
        client.cast("quick", server="s", slow=["slow"])
        (_, receiver) = endpoint.next()
        with client.together():
            client.cast("quick", server="s")
            client.cast("quick", server="s")
        assert endpoint.next() == endpoint.next() == ("quick", receiver)
        client.cast("slow", server="s", quick=["quick"])
        name, other = endpoint.next()
        assert name == "slow"
        assert other is not receiver
    finally:
        server.stop()
        server.wait()


def test_a_server_has_no_thread_for_each_message(serve):
    """Those of the library's executor would stay, and wake up for nothing."""
    endpoint = _Threads()
    serve("t", "s", endpoint)
    client = rpc.Client(messaging.Target(topic="t"))
    for _ in range(20):
        client.call("slow", server="s")
    assert len({endpoint.next()[1] for _ in range(20)}) < 10


@pytest.mark.parametrize(
    ("message", "method"),
    [
        ({"method": "report"}, "report"),
        ({"method": ["report"]}, ""),
        ({}, ""),
        ({"method": "signed"}, "signed"),
        ({"method": "signed", "args": {"body": '["report", {}]'}}, "report"),
        ({"method": "signed", "args": {"body": '[ "x", ["report"]]'}}, ""),
        ({"method": "signed", "args": {"body": ["report"]}}, ""),
        ({"method": "signed", "args": {}}, ""),
    ],
)
def test_the_method_of_a_message_is_seen_without_reading_it(message, method):
    assert rpc._method_of(message) == method


def test_listeners_do_not_wake_up_between_messages(transport):
    name = "ACK_REQUEUE_EVERY_SECONDS_MIN"
    assert getattr(amqpdriver, name) >= 0.1
    # If the driver renames it, the setting has no effect.
    for reader in (
        amqpdriver.AMQPListener.__init__,
        amqpdriver.ReplyWaiter.poll,
    ):
        assert name in reader.__code__.co_names


def test_messages_are_encoded_quickly(transport):
    assert drivers_common.jsonutils is codec
    # If the driver calls it otherwise, the setting has no effect.
    for user in (drivers_common.serialize_msg, drivers_common.deserialize_msg):
        assert "jsonutils" in user.__code__.co_names
    _, _, body = serialization.dumps({"a": "ä"}, serializer="json")
    assert body == '{"a":"ä"}'


def test_a_dead_broker_is_noticed_quickly():
    rpc.cleanup()
    cfg.CONF([], default_config_files=[])
    try:
        rpc.init(url="rabbit://g:g@127.0.0.1:1/")
        rabbit = cfg.CONF.oslo_messaging_rabbit
        assert rabbit.heartbeat_timeout_threshold == 15
        with pytest.raises(messaging.MessageDeliveryFailure):
            agent_api.AgentAPI().report_now("h1", 1)
    finally:
        rpc.cleanup()
        cfg.CONF.reset()


def test_a_call_does_not_wait_for_a_broker_that_was_never_there():
    rpc.cleanup()
    cfg.CONF([], default_config_files=[])
    try:
        rpc.init(url="rabbit://g:g@127.0.0.1:1/")
        api = conductor_api.ConductorAPI(call_timeout_s=0.01)
        failures: queue.Queue = queue.Queue()

        def ask() -> None:
            with pytest.raises(messaging.MessageDeliveryFailure) as caught:
                api.pool_summary()
            failures.put(caught.value)

        # One that waits for ever must not keep the process.
        threading.Thread(target=ask, daemon=True).start()
        assert failures.get(timeout=WAIT_S)
    finally:
        rpc.cleanup()
        cfg.CONF.reset()


class _Slow:
    """Answers one method, and fails in another one."""

    def answer(self, ctxt):
        return 5

    def refuse(self, ctxt):
        raise exception.NotLeader(reason="planted")


def test_what_is_sent_is_watched(serve):
    seen = []
    serve("watched", "one", _Slow())
    client = rpc.Client(
        messaging.Target(topic="watched"),
        timeout_s=WAIT_S,
        watch=lambda method, taken_s, ok: seen.append(
            (method, taken_s >= 0, ok)
        ),
    )
    assert client.call("answer") == 5
    client.cast("answer")
    with client.together():
        client.cast("answer", server="one")
        client.cast("answer", server="one")
    # Whoever refuses has answered.
    with pytest.raises(exception.NotLeader):
        client.call("refuse")
    assert seen == [
        ("answer", True, True),
        ("answer", True, True),
        ("several", True, True),
        ("refuse", True, True),
    ]


def test_what_nobody_answers_has_failed(transport):
    seen = []
    client = rpc.Client(
        messaging.Target(topic="nobody"),
        timeout_s=0.1,
        watch=lambda *noted: seen.append(noted),
    )
    with pytest.raises(messaging.MessagingTimeout):
        client.call("answer")
    ((method, taken_s, ok),) = seen
    assert (method, ok) == ("answer", False)
    assert taken_s >= 0.1


# Pinned versions.


@pytest.fixture
def pin():
    """Give a function that speaks as [upgrade_levels] allows."""
    rpc.cleanup()
    fpgapool_conf.register_opts(cfg.CONF)
    cfg.CONF([], default_config_files=[])

    def pin_(**levels: str) -> None:
        for name, version in levels.items():
            cfg.CONF.set_override(name, version, group="upgrade_levels")
        rpc.init(url="fake://")

    yield pin_
    rpc.cleanup()
    cfg.CONF.reset()
    for name in ("agent", "conductor"):
        cfg.CONF.clear_override(name, group="upgrade_levels")


@pytest.fixture
def grown(monkeypatch):
    """Let the conductor's calls be those of a later version."""
    monkeypatch.setattr(conductor_api, "VERSION", "1.2")
    monkeypatch.setattr(conductor_api, "SINCE", {"pool_now": "1.2"})


def test_an_older_conductor_understands_who_is_pinned(pin, grown):
    class Older(_Recorder):
        target = messaging.Target(version="1.1")

    pin(conductor="1.1")
    endpoint = Older()
    server = rpc.get_server(conductor_api.TOPIC, "c1", [endpoint])
    server.start()
    try:
        conductor_api.ConductorAPI().renew_secret("s1")
        name, _ctxt, _kwargs = endpoint.received.get(timeout=WAIT_S)
        assert name == "renew_secret"
    finally:
        server.stop()
        server.wait()


def test_what_is_newer_than_the_pin_is_not_sent(pin, grown):
    pin(conductor="1.1")
    api = conductor_api.ConductorAPI()
    with pytest.raises(messaging.RPCVersionCapError, match=r"1\.1"):
        api.pool_now()


@pytest.mark.parametrize(
    ("level", "stamps"), [(None, True), ("1.0", False), ("1.1", True)]
)
def test_receivers_of_the_pinned_version_understand_stamps(pin, level, stamps):
    pin(conductor=level)
    target = messaging.Target(topic=conductor_api.TOPIC, version="1.1")
    keys = signing.Keys("control", (b"k" * 32,))
    client = rpc.Client(target, keys=keys)
    assert (client._stamps is not None) is stamps


def test_a_pin_above_what_is_known_changes_nothing(pin):
    pin(agent="1.9999")
    client = agent_api.AgentAPI()._client
    assert client._version == agent_api.VERSION


def test_a_pin_of_another_kind_is_refused(pin):
    pin(agent="2.0")
    with pytest.raises(exception.ConfigurationError, match="upgrade_levels"):
        agent_api.AgentAPI()


@pytest.mark.parametrize("value", ["1", "new", "1.0.0", ""])
def test_a_pin_is_a_version(pin, value):
    with pytest.raises(ValueError):
        pin(conductor=value)


@pytest.mark.parametrize("wrong", [{}, {"session_id": "s", "other": 1}])
def test_a_message_has_the_arguments_of_its_method(wrong):
    with pytest.raises(TypeError):
        conductor_api.ConductorAPI.renew_secret(object(), **wrong)
