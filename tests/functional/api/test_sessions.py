# SPDX-License-Identifier: Apache-2.0

"""Sessions by the REST API, on a pool of real processes."""

from __future__ import annotations

import concurrent.futures
import itertools

import pytest

from fpgapool import client
from tests.functional.api import harness
from tests.harness import cloud as clouds
from tests.harness import processes

POLLS = 200
MAX_WAITERS = 8


def _fill(api: harness.Server) -> list[dict]:
    """Take both slots."""
    return [api.open_until_ready() for _ in range(2)]


def test_a_session_from_its_opening_to_its_end(api, cloud, rng) -> None:
    data = rng.randbytes(50_000)
    answer = api.open()
    assert answer.status == 202
    name = answer.session["request_id"]
    # Nobody asks meanwhile: it waits for its client.
    harness.wait_for(
        lambda: cloud.session_record(name).state == "READY", "READY"
    )
    session = api.show(answer.session["id"]).session
    board = cloud.hosts["board"]
    assert session["placement"]["host_name"] == board.name_for_tenants
    assert session["placement"]["local"] is False
    connected = harness.connect(session)
    assert connected.run(data) == data
    active = api.wait(session, "ACTIVE")
    assert active["connection"] is None
    connected.close_session()
    ended = api.wait(active, "CLOSED")
    assert (ended["input_bytes"], ended["output_bytes"]) == (50_000, 50_000)
    assert ended["finished_at"] > ended["started_at"] > ended["queued_at"]
    assert api.close(session["id"]) == 204


def test_a_request_that_waits_can_be_cancelled_before_it_is_served(
    api,
) -> None:
    _fill(api)
    waiting = api.open().session
    assert waiting["state"] == "QUEUED"
    assert waiting["queue_position"] == 0
    shown = api.show(waiting["id"])
    assert shown.headers["retry-after"]
    assert [one["code"] for one in shown.session["pending_reasons"]]
    assert api.close(waiting["id"]) == 204
    ended = api.show(waiting["id"]).session
    assert (ended["state"], ended["reason"]) == (
        "CANCELLED",
        "CANCELLED_BY_CLIENT",
    )


def test_pieces_of_the_cpu_are_as_long_as_those_of_the_workers(
    api, rng
) -> None:
    held = _fill(api)
    data, output = b"", b""
    with client.acc_open(
        "copy",
        10**9,
        front_door=harness.pool_api(api),
        timeout_s=60,
        meanwhile="cpu",
    ) as session:
        assert len(session.pin) == clouds.CHUNK_BYTES

        def run() -> str:
            nonlocal data, output
            piece = rng.randbytes(clouds.CHUNK_BYTES)
            session.pin[:] = piece
            output += session.run(len(piece), timeout_s=60)
            data += piece
            return session.transport

        assert run() == "cpu"
        assert api.close(held[0]["id"]) == 204
        harness.wait_for(lambda: run() != "cpu", "a slot")
        output += session.finish(timeout_s=60)
    assert output == data


def test_many_long_polls_take_few_threads(api) -> None:
    _fill(api)
    waiting = api.open().session
    path = (
        f"/v1/sessions/{waiting['id']}?wait_s=30"
        f"&revision={waiting['revision']}"
    )
    with concurrent.futures.ThreadPoolExecutor(POLLS) as executor:
        polls = [executor.submit(api.ask, "GET", path) for _ in range(POLLS)]
        done = itertools.islice(
            concurrent.futures.as_completed(polls, harness.TIMEOUT_S),
            POLLS - MAX_WAITERS,
        )
        for poll in done:
            answer = poll.result()
            assert answer.session["state"] == "QUEUED"
            assert answer.headers["retry-after"]
        children = processes.thread_count(api.serving_pid())
        assert children < harness.THREADS + 30
        assert sum(not poll.done() for poll in polls) == MAX_WAITERS
        assert api.close(waiting["id"]) == 204
        states = [poll.result().session["state"] for poll in polls]
    assert states.count("CANCELLED") == MAX_WAITERS


def test_a_change_and_no_clock_ends_a_wait(
    api, cloud, make_server, rabbitmq
) -> None:
    # The next look at the database comes after the request has timed out.
    slow = make_server(wait_interval_s=harness.TIMEOUT_S, max_wait_s=600)
    held = _fill(api)
    waiting = api.open().session
    path = (
        f"/v1/sessions/{waiting['id']}?wait_s=600"
        f"&revision={waiting['revision']}"
    )
    vhost = cloud.transport_url.rpartition("/")[2]

    def listeners() -> int:
        names = rabbitmq.queues(vhost)
        return sum(name.startswith("fpgapool-api_fanout") for name in names)

    before = listeners()
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        poll = executor.submit(slow.ask, "GET", path)
        harness.wait_for(lambda: listeners() > before, "a listener")
        assert slow.close(held[0]["id"]) == 204
        session = poll.result().session
    assert session["state"] == "READY"
    assert session["connection"]["secret"]


def test_without_a_conductor_there_are_clear_answers(api, cloud) -> None:
    session = api.open_until_ready()
    cloud.conductor.kill()
    path = f"/v1/sessions/{session['id']}"
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        # Each waits for its answer as long as a service may be away.
        for asked in (
            executor.submit(api.open),
            executor.submit(api.ask, "DELETE", path),
        ):
            answer = asked.result()
            assert (answer.status, answer.code) == (
                503,
                "CONDUCTOR_UNAVAILABLE",
            )
    shown = api.ask("GET", path)
    assert (shown.status, shown.is_recorded) == (200, True)
    # The secret is not recorded.
    assert shown.session["state"] == "READY"
    assert shown.session["connection"] is None
    for known in ("/v1/accelerators", "/v1/pool", "/v1/sessions"):
        assert api.ask("GET", known).status == 200
    services = api.ask("GET", "/v1/services", harness.ADMIN_TOKEN).document
    assert not any(one["up"] for one in services["services"])
    cloud.conductor.start()
    cloud.wait_ready()
    # The new one does not know the secret; it is asked for.
    assert api.ask("POST", f"{path}/renew-secret").status == 202

    def renewed() -> dict | None:
        shown = api.show(session["id"]).session
        assert shown["state"] == "READY"
        connection = shown["connection"]
        return shown if connection and connection["secret"] else None

    shown = harness.wait_for(renewed, "the secret has been renewed")
    secrets = {one["connection"]["secret"] for one in (shown, session)}
    assert len(secrets) == 2
    assert harness.connect(shown).run(b"data") == b"data"


@pytest.mark.security
def test_a_renewed_secret_replaces_the_first_one(api) -> None:
    session = api.open_until_ready()
    path = f"/v1/sessions/{session['id']}"
    renewed = api.ask("POST", f"{path}/renew-secret")
    assert renewed.status == 202
    assert api.show(session["id"]).session["state"] == "READY"
    first, second = (
        one["connection"]["secret"] for one in (session, renewed.session)
    )
    assert first != second
    assert harness.connect(renewed.session).run(b"data") == b"data"


def test_a_share_says_what_is_before_a_session(api) -> None:
    held = _fill(api)
    first, second = (api.open().session for _ in range(2))
    path = f"/v1/share?session_id={second['id']}"
    share = api.ask("GET", path).document["share"]
    assert (share["slots"], share["waiting"]) == (2, 2)
    found = share["session"]
    assert (found["own"], found["others"]) == (1, 0)
    # Of another project's sessions there is nothing to learn.
    answer = api.ask("GET", path, harness.OTHER_TOKEN)
    assert (answer.status, answer.code) == (404, "SESSION_NOT_FOUND")
    # Whoever has none before it is served.
    assert api.close(held[0]["id"]) == 204
    api.wait(first, "READY")
    share = api.ask("GET", path).document["share"]
    assert share["session"]["own"] == 0
