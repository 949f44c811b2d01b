# SPDX-License-Identifier: Apache-2.0

"""Versions, and what all requests have in common."""

from __future__ import annotations

from tempest.lib import decorators

from fpgapool_tempest_plugin.tests import base


class VersionsTest(base.PoolTest):
    """Versions, the description, and requests that nobody understands."""

    @decorators.attr(type="smoke")
    @decorators.idempotent_id("38e53ba6-7af0-4087-9cb7-39c3277af736")
    def test_versions_need_no_token(self) -> None:
        version = self.member.with_token("").show()["version"]
        self.assertEqual(("v1", "CURRENT"), (version["id"], version["status"]))
        self.assertEqual("1.0", version["min_version"])
        self.assertEqual(version["version"], version["max_version"])

    @decorators.idempotent_id("1d7ca3b8-7067-4a13-a8b3-b9451ea7985d")
    def test_description_has_the_operations(self) -> None:
        paths = self.member.with_token("").show("openapi.json")["paths"]
        for path in ("/v1/sessions", "/v1/sessions/{session_id}", "/v1/pool"):
            self.assertIn(path, paths)
        self.assertIn("post", paths["/v1/sessions"])

    @decorators.idempotent_id("aed5863f-1486-431b-9d5c-409815703323")
    def test_response_names_its_version(self) -> None:
        for asked in ("1.0", "1.1"):
            found = self.reader.at_version(asked).show("pool").response
            self.assertEqual(
                f"fpgapool {asked}", found["openstack-api-version"]
            )

    @decorators.idempotent_id("bb7854d2-1de8-49b4-b1fe-098b6d5fe58b")
    def test_latest_version_is_the_one_that_is_announced(self) -> None:
        newest = self.reader.show()["version"]["max_version"]
        found = self.reader.at_version("latest").show("pool").response
        self.assertEqual(f"fpgapool {newest}", found["openstack-api-version"])

    @decorators.idempotent_id("8c57405b-1c42-4fcf-a394-a9752115bc5f")
    def test_request_without_version_gets_the_oldest(self) -> None:
        pool = self.reader.at_version(None).show("pool")["pool"]
        self.assertNotIn("counts", pool)
        self.assertIn("hosts", pool)

    @decorators.attr(type="negative")
    @decorators.idempotent_id("537d9426-5a66-4eb9-a16d-efad749dc0c9")
    def test_unknown_version(self) -> None:
        for version in ("0.9", "1.9999", "2.0", "newest"):
            self.assert_refused(
                406,
                "VERSION_NOT_ACCEPTABLE",
                self.reader.at_version(version).show,
                "pool",
            )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("a62afa79-a7ef-4f00-9f1a-4baf4ace6cbd")
    def test_no_token_and_wrong_token(self) -> None:
        for token in ("", "wrong"):
            self.assert_refused(
                401, "UNAUTHORIZED", self.reader.with_token(token).show, "pool"
            )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("2aadce2f-0b4f-44c5-af38-8b9d51b34283")
    def test_unknown_path_and_method(self) -> None:
        self.assert_refused(404, "PATH_NOT_FOUND", self.reader.show, "boards")
        self.assert_refused(
            405, "METHOD_NOT_ALLOWED", self.reader.delete, "pool"
        )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("7ae33363-5e9f-439c-95f2-4e0b48b1da9f")
    def test_unknown_parameter(self) -> None:
        self.assert_refused(
            400, "INVALID_REQUEST", self.reader.show, "pool", colour="red"
        )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("4b3d8e3d-32ba-4fea-8400-0933de635e4c")
    def test_body_that_is_not_json(self) -> None:
        self.assert_refused(
            400,
            "INVALID_REQUEST",
            self.member.send,
            *("POST", "sessions"),
            body=b'{"session": ',
        )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("ec4d796f-ffb5-47e1-87c5-92afeec9f727")
    def test_body_of_another_type(self) -> None:
        self.assert_refused(
            415,
            "UNSUPPORTED_MEDIA_TYPE",
            self.member.send,
            *("POST", "sessions"),
            body=b"accelerator: copy",
            headers={"Content-Type": "text/yaml"},
        )
