# SPDX-License-Identifier: Apache-2.0

"""Sessions of a project."""

from __future__ import annotations

from tempest.lib import decorators
from tempest.lib.common.utils import data_utils

from fpgapool_tempest_plugin.tests import base


class SessionsTest(base.PoolTest):
    """Open, show, list, wait, close."""

    @decorators.attr(type="smoke")
    @decorators.idempotent_id("9def3311-a2ec-46e8-a9ab-2d11dcaf8cf9")
    def test_open_until_ready_and_close(self) -> None:
        session = self.open_ready()
        self.assertEqual(self.project_id, session["project_id"])
        self.assertTrue(session["placement"]["device"])
        self.assertTrue(session["connection"]["secret"])
        self.assertTrue(session["connection"]["endpoints"])
        self.member.delete("sessions", session["id"])
        closed = self.member.show("sessions", session["id"])["session"]
        self.assertEqual(
            ("CANCELLED", "CANCELLED_BY_CLIENT"),
            (closed["state"], closed["reason"]),
        )
        self.assertTrue(closed["finished_at"])
        self.assertIsNone(closed["connection"])

    @decorators.idempotent_id("17a3bc69-3e44-4b17-b6a1-c39cf53da280")
    def test_location_names_the_session(self) -> None:
        request_id = self.name("request")
        wanted = self.wanted(request_id=request_id)
        answer = self.member.create("sessions", session=wanted)
        session = answer["session"]
        self.addCleanup(self.member.delete, "sessions", session["id"])
        location = answer.response["location"]
        self.assertTrue(location.endswith(f"/v1/sessions/{session['id']}"))

    @decorators.idempotent_id("c7ecf556-6308-4b23-b8f1-6e7e236bcff2")
    def test_repeated_request_gets_the_same_session(self) -> None:
        request_id = self.name("request")
        first = self.open_session(request_id=request_id)
        again = self.open_session(request_id=request_id)
        self.assertEqual(first["id"], again["id"])

    @decorators.idempotent_id("5fbfdeca-4e4f-4049-bad4-7832338a36fd")
    def test_close_again_changes_nothing(self) -> None:
        session = self.open_session()
        self.member.delete("sessions", session["id"])
        first = self.member.show("sessions", session["id"])["session"]
        self.member.delete("sessions", session["id"])
        again = self.member.show("sessions", session["id"])["session"]
        for member in ("state", "reason", "finished_at"):
            self.assertEqual(first[member], again[member])

    @decorators.idempotent_id("5c6bc5d6-97d0-4ea7-8bd7-e54c900ca380")
    def test_wait_for_a_change(self) -> None:
        session = self.open_ready()
        # Nobody connects, so that nothing changes.
        found = self.member.show(
            "sessions", session["id"], wait_s=1, revision=session["revision"]
        )["session"]
        self.assertEqual(session["revision"], found["revision"])
        self.member.delete("sessions", session["id"])
        found = self.member.show(
            "sessions", session["id"], wait_s=60, revision=session["revision"]
        )["session"]
        self.assertGreater(found["revision"], session["revision"])

    @decorators.idempotent_id("ef7c5d86-7174-4d4e-8582-0260cecaf5d5")
    def test_unchanged_session_is_not_sent_again(self) -> None:
        path = ("GET", "sessions", self.open_ready()["id"])
        tag = self.member.send(*path).response["etag"]
        self.member.send(*path, headers={"If-None-Match": tag}, expected=304)

    @decorators.idempotent_id("15a48418-931f-48f7-b359-c2bb01d8953e")
    def test_renewed_secret(self) -> None:
        session = self.open_ready()
        renewed = self.member.send(
            *("POST", "sessions", session["id"], "renew-secret"), expected=202
        )["session"]
        before = session["connection"]["secret"]
        self.assertNotIn(renewed["connection"]["secret"], (None, before))

    @decorators.idempotent_id("9d9d5fe4-a18f-444c-8b96-9abd483be7a0")
    def test_dry_run_opens_nothing(self) -> None:
        request_id = self.name("request")
        found = self.member.send(
            *("POST", "sessions"),
            body={"session": self.wanted(request_id=request_id)},
            dry_run=True,
        )["dry_run"]
        self.assertIn(found["state"], ("PREPARING", "QUEUED"))
        listed = self.member.list("sessions", request_id=request_id)
        self.assertEqual([], listed)

    @decorators.idempotent_id("bbe1007e-4426-4904-a5d6-98acedbff3fb")
    def test_options_are_shown(self) -> None:
        options = {
            "deadline_s": 3600,
            "deadline_action": "continue",
            "application": "tempest",
        }
        session = self.open_session(priority=-7, **options)
        self.assertEqual(options, {name: session[name] for name in options})
        self.assertTrue(session["deadline_at"])

    @decorators.idempotent_id("40ebaf27-9209-4995-b5a4-8c81eded8b57")
    def test_reader_sees_no_secret(self) -> None:
        session = self.open_ready()
        seen = self.reader.show("sessions", session["id"])["session"]
        self.assertEqual("READY", seen["state"])
        self.assertIsNone(seen["connection"])


class SessionListTest(base.PoolTest):
    """Lists of sessions, of which some have ended."""

    def setUp(self) -> None:
        super().setUp()
        self.ended = self.open_session()
        self.member.delete("sessions", self.ended["id"])
        self.request_id = self.name("request")
        self.live = self.open_ready(request_id=self.request_id)

    def listed(self, **query: object) -> list[str]:
        found = self.reader.list("sessions", **query)
        return [session["id"] for session in found]

    @decorators.idempotent_id("16d3ecef-fd88-47e1-af40-cad1c5e42987")
    def test_newest_first(self) -> None:
        self.assertEqual(
            [self.live["id"], self.ended["id"]], self.listed()[:2]
        )

    @decorators.idempotent_id("f04c89b9-3bee-48e3-93f6-3cabb0195198")
    def test_sorted(self) -> None:
        found = self.listed(sort_key="queued_at", sort_dir="asc")
        self.assertLess(
            found.index(self.ended["id"]), found.index(self.live["id"])
        )

    @decorators.idempotent_id("13e576ec-d910-4c3b-99ae-081747c08b46")
    def test_by_state(self) -> None:
        self.assertEqual([self.live["id"]], self.listed(state="READY"))
        ended = self.listed(state=["CANCELLED", "CLOSED"])
        self.assertIn(self.ended["id"], ended)
        self.assertNotIn(self.live["id"], ended)

    @decorators.idempotent_id("b3692bd8-526e-4efd-bee2-8bec97bc2da0")
    def test_by_request(self) -> None:
        found = self.listed(request_id=self.request_id)
        self.assertEqual([self.live["id"]], found)

    @decorators.idempotent_id("0a185b11-0484-42a1-a0c3-caefad745850")
    def test_by_accelerator(self) -> None:
        accelerator = self.live["accelerator"]
        self.assertIn(self.live["id"], self.listed(accelerator=accelerator))
        self.assertEqual([], self.listed(accelerator=f"{accelerator}-not"))

    @decorators.idempotent_id("4443e8de-b7b1-4942-ae78-4c2c854f9bce")
    def test_changes_since(self) -> None:
        since = {"changes-since": self.live["queued_at"]}
        self.assertIn(self.live["id"], self.listed(**since))
        self.assertEqual([], self.listed(**{"changes-since": "2999-01-01"}))

    @decorators.idempotent_id("8d9df599-9594-43b1-9726-326e23ae1d7e")
    def test_page_by_page(self) -> None:
        first = self.reader.show("sessions", limit=1)
        self.assertEqual(1, len(first["sessions"]))
        (link,) = first["sessions_links"]
        marker = first["sessions"][0]["id"]
        self.assertIn(f"marker={marker}", link["href"])
        self.assertEqual(self.listed()[1:], self.listed(marker=marker))

    @decorators.idempotent_id("6cee00f2-869c-4ae4-b7fa-0d16a12eb981")
    def test_of_all_projects(self) -> None:
        theirs = self.open_session(self.stranger)
        found = self.admin.list("sessions", all_projects=True)
        ids = [session["id"] for session in found]
        self.assertIn(theirs["id"], ids)
        self.assertIn(self.live["id"], ids)
        found = self.admin.list(
            "sessions", all_projects=True, project_id=self.other_project_id
        )
        self.assertEqual([theirs["id"]], [one["id"] for one in found])
        self.assertNotIn(theirs["id"], self.listed())

    @decorators.attr(type="negative")
    @decorators.idempotent_id("22b12639-67b2-4faa-963f-8c02855416c2")
    def test_of_all_projects_is_not_for_members(self) -> None:
        self.assert_refused(
            403, "FORBIDDEN", self.member.list, "sessions", all_projects=True
        )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("97935ff4-e824-4625-a145-33018422a328")
    def test_with_bad_parameters(self) -> None:
        theirs = self.open_session(self.stranger)
        for query in (
            {"state": "SLEEPING"},
            {"changes-since": "yesterday"},
            {"limit": -1},
            {"marker": data_utils.rand_uuid()},
            {"marker": theirs["id"]},
            {"project_id": self.other_project_id},
        ):
            self.assert_refused(
                400, "INVALID_REQUEST", self.member.list, "sessions", **query
            )
