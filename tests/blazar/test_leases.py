# SPDX-License-Identifier: Apache-2.0

"""Leases of slots, as the manual shows them."""

from __future__ import annotations

import datetime
import re
import typing
import uuid
from collections.abc import Callable
from collections.abc import Iterator

import pytest

from fpgapool_blazar import wishes
from tests.blazar import conftest
from tests.blazar import relay as relays
from tests.blazar import tenants
from tests.harness import waiting
from tests.services import openstack


@pytest.fixture
def tenant(site: conftest.Site) -> Iterator[Callable[..., tenants.Tenant]]:
    """Give what makes tenants; afterwards the pool has nothing of theirs."""
    made: list[tenants.Tenant] = []

    def make(quota: int = conftest.SLOTS) -> tenants.Tenant:
        one = tenants.Tenant(site, f"tenant-{uuid.uuid4().hex[:8]}", quota)
        made.append(one)
        return one

    yield make
    for one in made:
        one.delete_all()
        assert one.live() == []


def _end(reservation: dict[str, typing.Any]) -> datetime.datetime:
    return datetime.datetime.fromisoformat(reservation["end_at"])


def test_a_lease_has_its_slots(tenant: Callable[..., tenants.Tenant]) -> None:
    """Others wait from now on, its owner does not; its end frees them."""
    owner, other = tenant(), tenant()
    lease_id = owner.leased(conftest.SLOTS, "now", tenants.at(120))
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


def test_what_does_not_fit_is_refused(
    tenant: Callable[..., tenants.Tenant],
) -> None:
    """With the time that fits, and nothing is left of it."""
    first, second = tenant(), tenant()
    first.leased(conftest.SLOTS, tenants.at(60), tenants.at(120))
    refused = second.lease(1, tenants.at(90), tenants.at(150))
    assert refused.status != 0
    assert "it fits when it starts at" in refused.errors
    assert "(RESERVATION_CONFLICT)" in refused.errors
    assert second.leases() == []
    assert second.reservations() == []


def test_a_change_that_is_refused_changes_nothing(
    tenant: Callable[..., tenants.Tenant],
) -> None:
    first, second = tenant(), tenant()
    lease_id = first.leased(conftest.SLOTS, tenants.at(60), tenants.at(120))
    second.leased(conftest.SLOTS, tenants.at(120), tenants.at(180))
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
    tenant: Callable[..., tenants.Tenant],
) -> None:
    owner = tenant()
    lease_id = owner.leased(1, tenants.at(60), tenants.at(120))
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
    tenant: Callable[..., tenants.Tenant],
    members: dict[str, typing.Any],
    code: str,
) -> None:
    owner = tenant()
    wanted = {
        "amount": 1,
        "start": tenants.at(60),
        "end": tenants.at(120),
        **members,
    }
    refused = owner.lease(**wanted)
    assert refused.status != 0
    assert f"({code})" in refused.errors
    assert owner.leases() == []


def test_the_quota_of_the_project_holds(
    tenant: Callable[..., tenants.Tenant],
) -> None:
    """Blazar asks with the rights of the lease's owner, not with its own."""
    owner = tenant(quota=1)
    refused = owner.lease(2, tenants.at(60), tenants.at(120))
    assert refused.status != 0
    assert "(QUOTA_EXCEEDED)" in refused.errors
    owner.leased(1, tenants.at(60), tenants.at(120))
    assert owner.lease(1, tenants.at(180), tenants.at(240)).status != 0


def test_a_lease_ends_by_itself(tenant: Callable[..., tenants.Tenant]) -> None:
    """The pool keeps the reservation, with its use, for a while."""
    owner = tenant()
    lease_id = owner.leased(1, "now", tenants.at(2))
    owner.await_lease(lease_id, "TERMINATED")
    waiting.wait_until(lambda: owner.live() == [], "the reservation is over")


def test_a_lease_whose_reservation_is_gone_lacks_resources(
    tenant: Callable[..., tenants.Tenant],
) -> None:
    owner = tenant()
    lease_id = owner.leased(1, tenants.at(60), tenants.at(120))
    (kept,) = owner.reservations()
    owner.delete_reservation(kept["id"])

    def lacks() -> bool:
        shown = owner.lease_shown(lease_id)
        return bool(shown["reservations"][0]["missing_resources"])

    waiting.wait_until(lacks, "Blazar marks it")
    assert owner.lease_shown(lease_id)["degraded"]


def _later() -> dict[str, str]:
    """Return the times of a reservation that is made behind Blazar's back."""
    now = datetime.datetime.now(datetime.UTC)
    return {
        name: (now + datetime.timedelta(hours=hours)).isoformat()
        for hours, name in enumerate(("start_at", "end_at"), start=1)
    }


def test_what_no_lease_needs_is_deleted(
    tenant: Callable[..., tenants.Tenant],
) -> None:
    """As after a stop of Blazar; reservations of others stay."""
    owner = tenant()
    owner.reserve(slots=1, name="mine", **_later())
    owner.leased(1, tenants.at(60), tenants.at(120))
    left_over = wishes.name_of(str(uuid.uuid4()))
    owner.reserve(slots=1, name=left_over, **_later())
    waiting.wait_until(
        lambda: left_over not in {one["name"] for one in owner.live()},
        "what is left over is deleted",
    )
    (mine,) = [one for one in owner.live() if one["name"] == "mine"]
    assert len(owner.live()) == 2
    owner.delete_reservation(mine["id"])


def test_while_the_pool_is_away(
    site: conftest.Site, tenant: Callable[..., tenants.Tenant]
) -> None:
    """Nothing is made, and what is there stays; later it is as always."""
    owner = tenant()
    lease_id = owner.leased(1, tenants.at(60), tenants.at(120))
    site.api.stop()
    try:
        refused = owner.lease(1, tenants.at(60), tenants.at(120))
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
    site: conftest.Site, tenant: Callable[..., tenants.Tenant]
) -> None:
    """What was made is found again; what was changed is not changed twice."""
    owner = tenant()
    site.relay.lose_answer("POST")
    lease_id = owner.leased(1, tenants.at(60), tenants.at(120))
    (kept,) = owner.live()
    (shown,) = owner.lease_shown(lease_id)["reservations"]
    assert shown["resource_id"] == kept["id"]

    longer = ("set", lease_id, "--end-date", tenants.at(180))
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
    tenant: Callable[..., tenants.Tenant],
) -> None:
    """Blazar forgets the first when the second is refused."""
    owner, other = tenant(), tenant()
    other.leased(conftest.SLOTS - 1, tenants.at(60), tenants.at(120))
    wanted = {
        "resource_type": wishes.RESOURCE_TYPE,
        "accelerator": "copy",
        "amount": 1,
    }
    with pytest.raises(openstack.RefusedError, match="RESERVATION_CONFLICT"):
        owner.create(wanted, wanted)
    assert owner.leases() == []
    waiting.wait_until(lambda: owner.live() == [], "nothing is left")


def test_what_cannot_be_deleted_keeps_nothing_else(
    site: conftest.Site, tenant: Callable[..., tenants.Tenant]
) -> None:
    """It is told, and tried again."""
    owner = tenant()
    site.relay.keeps.add("")
    for _ in range(3):
        name = wishes.name_of(str(uuid.uuid4()))
        owner.reserve(slots=1, name=name, **_later())
    first, *_ = (one["id"] for one in owner.live())
    site.relay.keeps = {first}
    waiting.wait_until(
        lambda: [one["id"] for one in owner.live()] == [first],
        lambda: f"only {first} is left of {owner.live()}",
    )
    waiting.wait_until(
        lambda: any(
            first in line and relays.REFUSED_CODE in line
            for line in site.manager.log_path.read_text().splitlines()
        ),
        "it is told",
    )
    site.relay.keeps = set()
    waiting.wait_until(lambda: owner.live() == [], "it is tried again")


def test_a_manager_that_is_killed_within_a_lease(
    site: conftest.Site, tenant: Callable[..., tenants.Tenant]
) -> None:
    """The pool has made the reservation, and Blazar has not noted it."""
    owner, other = tenant(), tenant()
    site.relay.lose_answer("POST", site.manager.kill)
    failed = owner.lease(conftest.SLOTS, tenants.at(60), tenants.at(120))
    assert failed.status != 0
    (made,) = owner.live()
    assert made["slots"] == conftest.SLOTS
    site.manager.start()
    (lease,) = owner.leases()
    assert lease["status"] == "CREATING"
    waiting.wait_until(
        lambda: owner.live() == [],
        lambda: f"nothing is left of {owner.live()}",
        tenants.MINUTES_LIMIT_S,
    )
    other.leased(conftest.SLOTS, tenants.at(60), tenants.at(120))


def test_version_2_of_the_api(tenant: Callable[..., tenants.Tenant]) -> None:
    """Blazar 18 makes and deletes the lease, but can show none by it."""
    owner = tenant()
    with pytest.raises(openstack.RefusedError, match="reservations"):
        owner.lease_by_version_2(1)
    (lease,) = owner.leases()
    (kept,) = owner.live()
    (shown,) = lease["reservations"]
    assert (lease["status"], kept["slots"]) == ("PENDING", 1)
    assert shown["resource_id"] == kept["id"]
    owner.delete_by_version_2(lease["id"])
    assert owner.live() == []
