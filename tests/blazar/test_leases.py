# SPDX-License-Identifier: Apache-2.0

"""Leases of slots, as the manual shows them."""

from __future__ import annotations

import datetime
import functools
import re
import typing
import uuid
from collections.abc import Callable
from collections.abc import Iterator

import pytest

from fpgapool_blazar import wishes
from tests.blazar import conftest
from tests.blazar import service
from tests.harness import waiting
from tests.services import openstack

EXAMPLE = openstack.ROOT / "doc" / "examples" / "blazar" / "lease.py"
#: Leases begin and end at whole minutes, and Blazar looks every 10 s.
MINUTES_LIMIT_S = 300.0


def at(minutes: int) -> str:
    """Return a time from now on, as Blazar's clients take it."""
    now = datetime.datetime.now(datetime.UTC)
    later = now + datetime.timedelta(minutes=minutes)
    return later.strftime("%Y-%m-%d %H:%M")


class Tenant:
    """A member of a project of its own, which may reserve slots."""

    def __init__(self, site: conftest.Site, name: str, quota: int) -> None:
        project = site.accounts.create_project(name)
        user = site.accounts.create_user(name, project, "member")
        self.project_id = project.id
        self._token = site.accounts.token(user).text
        self._operator = site.accounts.token(site.accounts.admin()).text
        options = site.stack.keystone.auth_options(name, name)
        self._person = service.Person(options)
        self._api = site.api
        self._ask = functools.partial(site.blazar.ask, token=self._token)
        self.set_quota(quota)

    def set_quota(self, slots: int) -> None:
        """Let the project reserve so many slots."""
        answer = self._api.ask(
            "PUT",
            f"/v1/quotas/{self.project_id}",
            self._operator,
            {"quota": {"reservation_slots": slots}},
        )
        assert answer.status == 200, answer

    # Blazar.

    def lease(
        self, amount: int, start: str, end: str, accelerator: str = "copy"
    ) -> service.Result:
        """Ask for a lease, by the example of the manual."""
        name = f"lease-{uuid.uuid4().hex[:8]}"
        return self._person.run(
            *("python", str(EXAMPLE), name, accelerator, str(amount)),
            *(start, end),
        )

    def leased(self, amount: int, start: str, end: str) -> str:
        """Make a lease; return its identifier."""
        done = self.lease(amount, start, end)
        assert done.status == 0, done
        return done.output.strip()

    def command(self, verb: str, *arguments: str) -> service.Result:
        """Run ``openstack reservation lease``."""
        return self._person.run(
            "openstack", "reservation", "lease", verb, *arguments
        )

    def lease_shown(self, lease_id: str) -> dict[str, typing.Any]:
        """Return what Blazar knows of a lease."""
        path = f"/leases/{lease_id}"
        shown: dict[str, typing.Any] = self._ask("GET", path)["lease"]
        return shown

    def await_lease(self, lease_id: str, status: str) -> None:
        """Wait until a lease has a status."""
        waiting.wait_until(
            lambda: self.lease_shown(lease_id)["status"] == status,
            lambda: f"{status}: {self.lease_shown(lease_id)}",
            MINUTES_LIMIT_S,
        )

    def leases(self) -> list[dict[str, typing.Any]]:
        """Return all leases of the project."""
        found: list[dict[str, typing.Any]] = self._ask("GET", "/leases")[
            "leases"
        ]
        return found

    def delete_all(self) -> None:
        """Delete all leases of the project."""
        for lease in self.leases():
            self._ask("DELETE", f"/leases/{lease['id']}")

    def create(self, *reservations: object) -> None:
        """Ask for a lease of several reservations, without a client.

        :raises RefusedError: if it is refused.
        """
        body = {
            "name": f"lease-{uuid.uuid4().hex[:8]}",
            "start_date": at(60),
            "end_date": at(120),
            "reservations": reservations,
        }
        self._ask("POST", "/leases", body=body)

    # The pool.

    def reservations(self) -> list[dict[str, typing.Any]]:
        """Return the project's reservations in the pool."""
        answer = self._api.ask("GET", "/v1/reservations", self._token)
        found: list[dict[str, typing.Any]] = answer.document["reservations"]
        return found

    def live(self) -> list[dict[str, typing.Any]]:
        """Return those that are not over."""
        return [one for one in self.reservations() if one["state"] != "ended"]

    def reserve(self, **members: object) -> None:
        """Make a reservation behind Blazar's back."""
        body = {"reservation": {"accelerator": "copy", **members}}
        path = "/v1/reservations"
        answer = self._api.ask("POST", path, self._token, body)
        assert answer.status == 201, answer

    def delete_reservation(self, reservation_id: str) -> None:
        """Delete a reservation behind Blazar's back."""
        path = f"/v1/reservations/{reservation_id}"
        assert self._api.ask("DELETE", path, self._token).status == 204

    def open(self) -> dict[str, typing.Any]:
        """Ask for a session."""
        return self._api.open(self._token).session

    def state(self, session: dict[str, typing.Any]) -> str:
        """Return a session's state."""
        shown = self._api.show(session["id"], self._token)
        return str(shown.session["state"])

    def wait(self, session: dict[str, typing.Any], state: str) -> None:
        """Wait until a session is in a state."""
        waiting.wait_until(
            lambda: self.state(session) == state,
            lambda: f"{state}; it is {self.state(session)}",
        )

    def waits_for(self, session: dict[str, typing.Any]) -> set[str]:
        """Return the codes of what a session waits for."""
        shown = self._api.show(session["id"], self._token).session
        return {one["code"] for one in shown["pending_reasons"]}

    def close(self, session: dict[str, typing.Any]) -> None:
        """Close a session."""
        self._api.close(session["id"], self._token)


@pytest.fixture
def tenant(site: conftest.Site) -> Iterator[Callable[..., Tenant]]:
    """Give what makes tenants; afterwards the pool has nothing of theirs."""
    made: list[Tenant] = []

    def make(quota: int = conftest.SLOTS) -> Tenant:
        one = Tenant(site, f"tenant-{uuid.uuid4().hex[:8]}", quota)
        made.append(one)
        return one

    yield make
    for one in made:
        one.delete_all()
        assert one.live() == []


def _end(reservation: dict[str, typing.Any]) -> datetime.datetime:
    return datetime.datetime.fromisoformat(reservation["end_at"])


def test_a_lease_has_its_slots(tenant: Callable[..., Tenant]) -> None:
    """Others wait from now on, its owner does not; its end frees them."""
    owner, other = tenant(), tenant()
    lease_id = owner.leased(conftest.SLOTS, "now", at(120))
    (kept,) = owner.reservations()
    assert (kept["accelerator"], kept["slots"]) == ("copy", conftest.SLOTS)
    waiting.wait_until(
        lambda: owner.reservations()[0]["state"] == "active", "it is active"
    )
    owner.await_lease(lease_id, "ACTIVE")
    (shown,) = owner.lease_shown(lease_id)["reservations"]
    assert shown["resource_type"] == wishes.RESOURCE_TYPE
    assert shown["resource_id"] == kept["id"]
    assert kept["name"] == wishes.name_of(shown["id"])
    assert kept["id"] in owner.command("show", lease_id).output

    waits = other.open()
    waiting.wait_until(
        lambda: "SLOTS_RESERVED" in other.waits_for(waits), "it waits"
    )
    own = owner.open()
    owner.wait(own, "READY")
    assert other.state(waits) == "QUEUED"
    owner.close(own)

    longer = owner.command("set", lease_id, "--prolong-for", "1h")
    assert longer.status == 0, longer
    (extended,) = owner.reservations()
    assert _end(extended) - _end(kept) == datetime.timedelta(hours=1)
    assert extended["id"] == kept["id"]

    assert owner.command("delete", lease_id).status == 0
    assert owner.live() == []
    other.wait(waits, "READY")
    other.close(waits)


def test_what_does_not_fit_is_refused(tenant: Callable[..., Tenant]) -> None:
    """With the time that fits, and nothing is left of it."""
    first, second = tenant(), tenant()
    first.leased(conftest.SLOTS, at(60), at(120))
    refused = second.lease(1, at(90), at(150))
    assert refused.status != 0
    assert "it fits when it starts at" in refused.errors
    assert "(RESERVATION_CONFLICT)" in refused.errors
    assert second.leases() == []
    assert second.reservations() == []


def test_a_change_that_is_refused_changes_nothing(
    tenant: Callable[..., Tenant],
) -> None:
    first, second = tenant(), tenant()
    lease_id = first.leased(conftest.SLOTS, at(60), at(120))
    second.leased(conftest.SLOTS, at(120), at(180))
    before = first.lease_shown(lease_id)
    (kept,) = first.reservations()
    refused = first.command("set", lease_id, "--prolong-for", "30m")
    assert refused.status != 0
    assert "(RESERVATION_CONFLICT)" in refused.output + refused.errors
    assert first.lease_shown(lease_id)["status"] == "PENDING"
    assert first.lease_shown(lease_id)["end_date"] == before["end_date"]
    assert first.reservations() == [kept]
    shorter = first.command("set", lease_id, "--reduce-by", "30m")
    assert shorter.status == 0, shorter
    (less,) = first.reservations()
    assert _end(kept) - _end(less) == datetime.timedelta(minutes=30)


def test_a_lease_is_moved_and_gets_other_slots(
    tenant: Callable[..., Tenant],
) -> None:
    owner = tenant()
    lease_id = owner.leased(1, at(60), at(120))
    (reserved,) = owner.lease_shown(lease_id)["reservations"]
    more = owner.command(
        *("set", lease_id, "--reservation", f"id={reserved['id']},amount=2")
    )
    assert more.status == 0, more
    (kept,) = owner.reservations()
    assert kept["slots"] == 2
    later = owner.command(
        *("set", lease_id, "--defer-by", "3h", "--prolong-for", "3h")
    )
    assert later.status == 0, later
    (moved,) = owner.reservations()
    assert moved["id"] == kept["id"]
    for name in ("start_at", "end_at"):
        times = [
            datetime.datetime.fromisoformat(one[name]) for one in (kept, moved)
        ]
        assert times[1] - times[0] == datetime.timedelta(hours=3)


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"accelerator": "nonsense"}, "UNKNOWN_ACCELERATOR"),
        ({"amount": 0}, "INVALID_RESERVATION"),
    ],
    ids=["accelerator", "amount"],
)
def test_the_pool_says_what_is_wrong(
    tenant: Callable[..., Tenant], members: dict[str, typing.Any], code: str
) -> None:
    owner = tenant()
    wanted = {"amount": 1, "start": at(60), "end": at(120), **members}
    refused = owner.lease(**wanted)
    assert refused.status != 0
    assert f"({code})" in refused.errors
    assert owner.leases() == []


def test_the_quota_of_the_project_holds(
    tenant: Callable[..., Tenant],
) -> None:
    """Blazar asks with the rights of the lease's owner, not with its own."""
    owner = tenant(quota=1)
    refused = owner.lease(2, at(60), at(120))
    assert refused.status != 0
    assert "(QUOTA_EXCEEDED)" in refused.errors
    owner.leased(1, at(60), at(120))
    assert owner.lease(1, at(180), at(240)).status != 0


def test_a_lease_ends_by_itself(tenant: Callable[..., Tenant]) -> None:
    """The pool keeps the reservation, with its use, for a while."""
    owner = tenant()
    lease_id = owner.leased(1, "now", at(2))
    owner.await_lease(lease_id, "TERMINATED")
    waiting.wait_until(lambda: owner.live() == [], "the reservation is over")


def test_a_lease_whose_reservation_is_gone_lacks_resources(
    tenant: Callable[..., Tenant],
) -> None:
    owner = tenant()
    lease_id = owner.leased(1, at(60), at(120))
    (kept,) = owner.reservations()
    owner.delete_reservation(kept["id"])

    def lacks() -> bool:
        shown = owner.lease_shown(lease_id)
        return bool(shown["reservations"][0]["missing_resources"])

    waiting.wait_until(lacks, "Blazar marks it")
    assert owner.lease_shown(lease_id)["degraded"]


def test_what_no_lease_needs_is_deleted(
    tenant: Callable[..., Tenant],
) -> None:
    """As after a stop of Blazar; reservations of others stay."""
    owner = tenant()
    times = {
        "start_at": (
            datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
        ).isoformat(),
        "end_at": (
            datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=2)
        ).isoformat(),
    }
    owner.reserve(slots=1, name="mine", **times)
    owner.leased(1, at(60), at(120))
    left_over = wishes.name_of(str(uuid.uuid4()))
    owner.reserve(slots=1, name=left_over, **times)
    waiting.wait_until(
        lambda: left_over not in {one["name"] for one in owner.live()},
        "what is left over is deleted",
    )
    (mine,) = [one for one in owner.live() if one["name"] == "mine"]
    assert len(owner.live()) == 2
    owner.delete_reservation(mine["id"])


def test_while_the_pool_is_away(
    site: conftest.Site, tenant: Callable[..., Tenant]
) -> None:
    """Nothing is made, and what is there stays; later it is as always."""
    owner = tenant()
    lease_id = owner.leased(1, at(60), at(120))
    site.api.stop()
    try:
        refused = owner.lease(1, at(60), at(120))
        unchanged = owner.command("set", lease_id, "--prolong-for", "1h")
        kept = owner.command("delete", lease_id)
    finally:
        site.api.start()
    for done in (refused, unchanged):
        assert done.status != 0
        text = done.output + done.errors
        assert re.search(r"the FPGA pool cannot be asked now", text), text
    assert kept.status != 0
    assert [one["id"] for one in owner.leases()] == [lease_id]
    assert len(owner.live()) == 1
    assert owner.command("delete", lease_id).status == 0
    assert owner.live() == []


def test_an_answer_that_is_lost(
    site: conftest.Site, tenant: Callable[..., Tenant]
) -> None:
    """What was made is found again; what was changed is not changed twice."""
    owner = tenant()
    site.relay.lose_answer("POST")
    lease_id = owner.leased(1, at(60), at(120))
    (kept,) = owner.live()
    (shown,) = owner.lease_shown(lease_id)["reservations"]
    assert shown["resource_id"] == kept["id"]

    longer = ("set", lease_id, "--end-date", at(180))
    site.relay.lose_answer("PATCH")
    failed = owner.command(*longer)
    assert "cannot be asked now" in failed.output + failed.errors
    (changed,) = owner.live()
    assert _end(changed) > _end(kept)
    assert owner.lease_shown(lease_id)["status"] == "PENDING"
    again = owner.command(*longer)
    assert again.status == 0, again
    assert owner.live() == [changed]


def test_what_another_reservation_of_the_lease_leaves(
    tenant: Callable[..., Tenant],
) -> None:
    """Blazar forgets the first when the second is refused."""
    owner, other = tenant(), tenant()
    other.leased(conftest.SLOTS - 1, at(60), at(120))
    wanted = {
        "resource_type": wishes.RESOURCE_TYPE,
        "accelerator": "copy",
        "amount": 1,
    }
    with pytest.raises(openstack.RefusedError, match="RESERVATION_CONFLICT"):
        owner.create(wanted, wanted)
    assert owner.leases() == []
    waiting.wait_until(lambda: owner.live() == [], "nothing is left")
