# SPDX-License-Identifier: Apache-2.0

"""From a flavor to data, and to the end of the instance."""

from __future__ import annotations

from tempest import config
from tempest.common import utils
from tempest.lib import decorators
from tempest.lib import exceptions

from fpgapool_tempest_plugin import data
from fpgapool_tempest_plugin.tests.scenario import instances

CONF = config.CONF


class InstanceLifeTest(instances.InstanceTest):
    """Instances whose flavors ask for the accelerator."""

    def specs(self, **others: str) -> dict[str, str]:
        accelerator = CONF.fpgapool.accelerator
        return {"fpgapool:accelerators": accelerator, **others}

    @decorators.attr(type="smoke")
    @utils.services("compute", "image")
    @decorators.idempotent_id("0a401ec3-f300-4f78-8863-3c355e73096e")
    def test_life(self) -> None:
        server = self.boot(**self.specs(**{"fpgapool:max_sessions": "1"}))
        told = self.told(server)
        guest = self.guest(server)
        self.assertEqual([CONF.fpgapool.accelerator], told["accelerators"])
        request_id = self.name("request")
        stream = data.Stream(
            self.member, request_id=request_id, token=told["instance_token"]
        )
        self.addCleanup(stream.abort)
        stream.send(len(data.INPUT) // 2)
        (session,) = guest.list("sessions")
        self.assertEqual(request_id, session["request_id"])
        self.wait_session(session, "ACTIVE", guest)
        # The flavor allows one session.
        self.assert_refused(
            429,
            "INSTANCE_SESSION_LIMIT",
            guest.create,
            "sessions",
            session=self.wanted(),
        )
        stream.finish()
        self.wait_session(session, "CLOSED", guest)
        left = self.open_session(guest)
        self.wait_session(left, "READY", guest)
        self.destroy(server["id"])
        self.wait_until(
            lambda: self.member.show("sessions", left["id"])["session"][
                "finished_at"
            ],
            "its session has ended",
        )
        ended = self.member.show("sessions", left["id"])["session"]
        self.assertEqual("INSTANCE_DELETED", ended["reason"])
        self.assert_refused(401, "UNAUTHORIZED", guest.list, "sessions")

    @utils.services("compute", "image")
    @decorators.idempotent_id("8505daf4-17d0-470e-9c76-62f0c60de5d4")
    def test_instance_sees_its_own_sessions_only(self) -> None:
        guest = self.guest(self.boot(**self.specs()))
        others = self.open_session()
        own = self.open_session(guest)
        self.assertEqual(
            [own["id"]], [one["id"] for one in guest.list("sessions")]
        )
        self.assert_refused(
            404, "SESSION_NOT_FOUND", guest.show, "sessions", others["id"]
        )
        for path in ("pool", "quotas", "bitstreams", "slots"):
            self.assert_refused(403, "FORBIDDEN", guest.show, path)
        # Members of its project see them all.
        found = [one["id"] for one in self.reader.list("sessions")]
        self.assertIn(own["id"], found)
        self.assertIn(others["id"], found)

    @utils.services("compute", "image")
    @decorators.idempotent_id("5e772c25-d226-4824-a36a-8ab4a4922845")
    def test_revoked_token(self) -> None:
        server = self.boot(**self.specs())
        guest = self.guest(server)
        (listed,) = [
            one
            for one in self.member.list("instances")
            if one["id"] == server["id"]
        ]
        self.assertEqual("valid", listed["token"])
        path = ("instances", server["id"], "token")
        self.assert_refused(
            404, "INSTANCE_NOT_FOUND", self.stranger.delete, *path
        )
        self.assert_refused(403, "FORBIDDEN", self.reader.delete, *path)
        self.member.delete(*path)
        self.assert_refused(401, "UNAUTHORIZED", guest.list, "sessions")
        self.assertEqual({}, dict(self.told(server)))

    @utils.services("compute", "image")
    @decorators.idempotent_id("02165e5e-68db-4fc0-b13e-4cea42d6aa57")
    def test_instance_that_does_not_ask_gets_no_token(self) -> None:
        server = self.boot(**{"fpgapool:affinity": "avoid"})
        self.assertEqual({}, dict(self.told(server)))

    @decorators.attr(type="negative")
    @utils.services("compute", "image")
    @decorators.idempotent_id("b3c5f798-41f1-48ac-9802-974921a37540")
    def test_nova_refuses_bad_extra_specs(self) -> None:
        flavor_id = self.make_flavor(**self.specs())
        for specs in (
            {"fpgapool:affinity": "sometimes"},
            {"fpgapool:max_sessions": "many"},
            {"fpgapool:colour": "red"},
        ):
            self.assertRaises(
                exceptions.BadRequest,
                self.flavors.set_flavor_extra_spec,
                flavor_id,
                **specs,
            )
