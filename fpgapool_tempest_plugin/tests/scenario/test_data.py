# SPDX-License-Identifier: Apache-2.0

"""Data through an accelerator, as a program of a user."""

from __future__ import annotations

from tempest.lib import decorators

from fpgapool_tempest_plugin import data
from fpgapool_tempest_plugin.tests import base


class DataTest(base.PoolTest):
    """Programs outside instances."""

    def stream(self) -> tuple[data.Stream, base.Document]:
        """Open a stream, and find its session."""
        request_id = self.name("request")
        stream = data.Stream(self.member, request_id=request_id)
        self.addCleanup(stream.abort)
        (session,) = self.member.list("sessions", request_id=request_id)
        return stream, session

    @decorators.attr(type="smoke")
    @decorators.idempotent_id("f34200a3-2b78-4a48-bba9-25340239a2ac")
    def test_output_is_right(self) -> None:
        stream, session = self.stream()
        stream.finish()
        closed = self.wait_session(session, "CLOSED")
        self.assertEqual("OK", closed["reason"])
        self.assertEqual(len(data.INPUT), closed["input_bytes"])

    @decorators.idempotent_id("cb937f65-8bac-4ec7-baba-9c8abfc83f32")
    def test_session_is_active_while_it_is_used(self) -> None:
        stream, session = self.stream()
        stream.send(len(data.INPUT) // 2)
        self.wait_session(session, "ACTIVE")
        stream.finish()
        self.wait_session(session, "CLOSED")

    @decorators.idempotent_id("b19a530f-5429-4537-b635-3650efac3f0b")
    def test_user_closes_the_session_of_a_program(self) -> None:
        stream, session = self.stream()
        stream.send(len(data.INPUT) // 2)
        self.wait_session(session, "ACTIVE")
        self.member.delete("sessions", session["id"])
        ended = self.member.show("sessions", session["id"])["session"]
        self.assertEqual(
            ("CANCELLED", "CANCELLED_BY_CLIENT"),
            (ended["state"], ended["reason"]),
        )
