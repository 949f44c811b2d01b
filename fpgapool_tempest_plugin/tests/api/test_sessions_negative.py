# SPDX-License-Identifier: Apache-2.0

"""Requests for sessions that are refused, and change nothing."""

from __future__ import annotations

from tempest.lib import decorators
from tempest.lib.common.utils import data_utils

from fpgapool_tempest_plugin.tests import base


class SessionsNegativeTest(base.PoolTest):
    """Bad input, sessions of others, and users who may not."""

    def refused(self, status: int, code: str, **members: object) -> None:
        """Check that no session can be opened with such members."""
        self.assert_refused(
            status,
            code,
            self.member.create,
            "sessions",
            session=self.wanted(**members),
        )

    def tearDown(self) -> None:
        super().tearDown()
        for state in ("QUEUED", "PREPARING", "ACTIVE"):
            self.assertEqual([], self.member.list("sessions", state=state))

    @decorators.attr(type="negative")
    @decorators.idempotent_id("acc39fe9-d0e1-467a-8df1-bd72d02d83f6")
    def test_unknown_accelerator(self) -> None:
        self.refused(
            400, "UNKNOWN_ACCELERATOR", accelerator=self.name("accelerator")
        )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("872598f7-4a33-4ce9-80c2-807d95f21c31")
    def test_bad_size(self) -> None:
        for size in (0, -1):
            self.refused(400, "INVALID_SIZE", claimed_bytes=size)
        self.refused(413, "SIZE_TOO_LARGE", claimed_bytes=2**63)
        for size in ("4096", 0.5, None, [1]):
            self.refused(400, "INVALID_REQUEST", claimed_bytes=size)

    @decorators.attr(type="negative")
    @decorators.idempotent_id("725d00d7-f44a-419f-b04a-efee0a96c340")
    def test_bad_options(self) -> None:
        for members in (
            {"priority": 1001},
            {"deadline_action": "shout"},
            {"application": "a b"},
            {"colour": "red"},
            {"request_id": "a b"},
        ):
            self.refused(400, "INVALID_REQUEST", **members)

    @decorators.attr(type="negative")
    @decorators.idempotent_id("9a48ca13-c8a1-49b3-bd82-9df9a723b016")
    def test_missing_members(self) -> None:
        for body in ({}, {"session": {}}, {"session": {"claimed_bytes": 1}}):
            self.assert_refused(
                400, "INVALID_REQUEST", self.member.create, "sessions", **body
            )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("b7481b93-8265-485c-8213-275fec0f7ab6")
    def test_request_id_of_another_request(self) -> None:
        session = self.open_ready(request_id=self.name("request"))
        self.refused(
            409,
            "REQUEST_ID_REUSED",
            request_id=session["request_id"],
            claimed_bytes=session["claimed_bytes"] + 1,
        )
        self.member.delete("sessions", session["id"])

    @decorators.attr(type="negative")
    @decorators.idempotent_id("2f9ff1a4-244f-43fa-8ac3-1f81fa1da743")
    def test_unknown_session(self) -> None:
        for session_id in (data_utils.rand_uuid(), "x"):
            for call in (self.member.show, self.member.delete):
                self.assert_refused(
                    404, "SESSION_NOT_FOUND", call, "sessions", session_id
                )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("3257089a-297c-4237-b3be-ae97129822d2")
    def test_session_of_another_project(self) -> None:
        session = self.open_ready()
        path = ("sessions", session["id"])
        for call in (self.stranger.show, self.stranger.delete):
            self.assert_refused(404, "SESSION_NOT_FOUND", call, *path)
        self.assert_refused(
            404,
            "SESSION_NOT_FOUND",
            self.stranger.send,
            *("POST", *path, "renew-secret"),
        )
        listed = [one["id"] for one in self.stranger.list("sessions")]
        self.assertNotIn(session["id"], listed)
        now = self.member.show(*path)["session"]
        self.assertEqual(session["revision"], now["revision"])
        self.member.delete(*path)

    @decorators.attr(type="negative")
    @decorators.idempotent_id("3de16a77-3d4a-4e80-97ab-d1d449ce4d8a")
    def test_administrator_of_another_project_gets_no_secret(self) -> None:
        theirs = self.open_session(self.stranger)
        self.wait_session(theirs, "READY", self.stranger)
        path = ("sessions", theirs["id"])
        self.assertIsNone(self.admin.show(*path)["session"]["connection"])
        self.assert_refused(
            403,
            "FORBIDDEN",
            self.admin.send,
            *("POST", *path, "renew-secret"),
        )
        # But closes it.
        self.admin.delete(*path)
        self.assertTrue(self.stranger.show(*path)["session"]["finished_at"])

    @decorators.attr(type="negative")
    @decorators.idempotent_id("bba34811-e67b-4d0e-923c-c0bc445b1a20")
    def test_reader_changes_nothing(self) -> None:
        session = self.open_ready()
        self.assert_refused(
            403,
            "FORBIDDEN",
            self.reader.create,
            "sessions",
            session=self.wanted(),
        )
        path = ("sessions", session["id"])
        self.assert_refused(403, "FORBIDDEN", self.reader.delete, *path)
        self.assert_refused(
            403, "FORBIDDEN", self.reader.send, "POST", *path, "renew-secret"
        )
        self.member.delete(*path)

    @decorators.attr(type="negative")
    @decorators.idempotent_id("ba9f2d42-ca22-4f27-a672-8a8928d31d68")
    def test_session_that_has_ended(self) -> None:
        session = self.open_session()
        path = ("sessions", session["id"])
        self.member.delete(*path)
        self.assert_refused(
            409,
            "SESSION_NOT_READY",
            self.member.send,
            *("POST", *path, "renew-secret"),
        )
        generation = self.member.show(*path)["session"]["generation"]
        self.assert_refused(
            409,
            "SESSION_CLOSED",
            self.member.create,
            *(*path, "reopen"),
            reopen={"generation": generation},
        )
        self.assert_refused(
            409,
            "STALE_GENERATION",
            self.member.create,
            *(*path, "reopen"),
            reopen={"generation": generation + 1},
        )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("929f8c61-f88e-4019-8fb8-ba9601029ddb")
    def test_half_a_report_of_the_end(self) -> None:
        session = self.open_session()
        path = ("sessions", session["id"])
        self.assert_refused(
            400, "INVALID_REQUEST", self.member.delete, *path, input_bytes=1
        )
        self.member.delete(*path)
