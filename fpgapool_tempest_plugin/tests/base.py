# SPDX-License-Identifier: Apache-2.0

"""What all tests of the pool share."""

from __future__ import annotations

import time
import typing
from collections.abc import Callable

from tempest import config
from tempest import test
from tempest.lib import exceptions
from tempest.lib.common.utils import data_utils
from tempest.lib.common.utils import test_utils

from fpgapool_tempest_plugin import client
from fpgapool_tempest_plugin import data

CONF = config.CONF

Document = dict[str, typing.Any]

_POLL_S = 10


class PoolTest(test.BaseTestCase):
    """A test with users of two projects, and the client of each.

    :cvar member: like the reader and the administrator, of one project.
    :cvar stranger: a member of another project.
    :cvar feature: an option of ``[fpgapool-feature-enabled]`` without which
        the tests are skipped.
    """

    credentials: typing.ClassVar[list[typing.Any]] = [
        "project_member",
        "project_reader",
        "project_admin",
        "project_alt_member",
    ]
    feature = ""

    @classmethod
    def skip_checks(cls) -> None:
        super().skip_checks()
        if not CONF.service_available.fpgapool:
            raise cls.skipException("[service_available] fpgapool is off")
        if cls.feature and not CONF.fpgapool_feature_enabled[cls.feature]:
            raise cls.skipException(
                f"[fpgapool-feature-enabled] {cls.feature} is off"
            )

    @classmethod
    def setup_credentials(cls) -> None:
        cls.set_network_resources()
        super().setup_credentials()

    @classmethod
    def setup_clients(cls) -> None:
        super().setup_clients()
        cls.member = cls.client_of(cls.os_project_member)
        cls.reader = cls.client_of(cls.os_project_reader)
        cls.admin = cls.client_of(cls.os_project_admin)
        cls.stranger = cls.client_of(cls.os_project_alt_member)

    @staticmethod
    def client_of(manager: typing.Any) -> client.PoolClient:
        """Return the pool's client of a user."""
        return typing.cast(client.PoolClient, manager.fpgapool.PoolClient())

    @property
    def project_id(self) -> str:
        """The project of all users but the stranger."""
        return str(self.os_project_member.credentials.project_id)

    @property
    def other_project_id(self) -> str:
        return str(self.os_project_alt_member.credentials.project_id)

    def name(self, kind: str) -> str:
        """Return a name that nothing else has."""
        return data_utils.rand_name(
            kind, prefix=CONF.resource_name_prefix
        ).replace(" ", "-")

    def assert_refused(
        self,
        status: int,
        code: str,
        call: Callable[..., object],
        *arguments: object,
        **options: object,
    ) -> None:
        """Check that a request fails, and with which code."""
        error = self.assertRaises(
            exceptions.RestClientException, call, *arguments, **options
        )
        self.assertEqual(
            (status, code), (error.resp.status, error.resp_body[0]["code"])
        )
        # People get help from it, and operators find it in their logs.
        self.assertTrue(error.resp_body[0]["detail"])
        self.assertTrue(error.resp_body[0]["request_id"])

    def wait_until(self, check: Callable[[], object], what: str) -> None:
        """Wait for what nobody reports."""
        if not test_utils.call_until_true(
            check, CONF.fpgapool.build_timeout, CONF.fpgapool.build_interval
        ):
            raise exceptions.TimeoutException(f"never: {what}")

    # Sessions.

    @staticmethod
    def wanted(**members: object) -> Document:
        """Return what a session is opened with."""
        return {
            "accelerator": CONF.fpgapool.accelerator,
            "claimed_bytes": len(data.INPUT),
            **members,
        }

    def open_session(
        self, pool: client.PoolClient | None = None, **members: object
    ) -> Document:
        """Open a session, which is closed at the end of the test."""
        pool = pool or self.member
        session = pool.create("sessions", session=self.wanted(**members))
        # The token of an instance may be worthless by then.
        closer = self.stranger if pool is self.stranger else self.member
        self.addCleanup(closer.delete, "sessions", session["session"]["id"])
        return typing.cast(Document, session["session"])

    def open_ready(self, **members: object) -> Document:
        """Open a session, and wait until its slot is ready."""
        return self.wait_session(self.open_session(**members), "READY")

    def wait_session(
        self,
        session: Document,
        state: str,
        pool: client.PoolClient | None = None,
    ) -> Document:
        """Wait until a session is in a state."""
        deadline_s = time.monotonic() + CONF.fpgapool.build_timeout
        query: dict[str, object] = {}
        while True:
            session = (pool or self.member).show(
                "sessions", session["id"], **query
            )["session"]
            if session["state"] == state:
                return session
            if session["finished_at"] or time.monotonic() > deadline_s:
                raise exceptions.TimeoutException(
                    f"session {session['id']} is {session['state']}, not"
                    f" {state}: {session['reason']} {session['message']}"
                    f" {session['pending_reasons']}"
                )
            query = {"wait_s": _POLL_S, "revision": session["revision"]}
