# SPDX-License-Identifier: Apache-2.0

"""Bitstreams, as declarations for emulated boards."""

from __future__ import annotations

import hashlib
import json

from tempest import config
from tempest.lib import decorators
from tempest.lib.common.utils import data_utils

from fpgapool_tempest_plugin.tests import base

CONF = config.CONF

OCTETS = {"Content-Type": "application/octet-stream"}


class BitstreamsTest(base.PoolTest):
    """From the upload to a session that runs it."""

    feature = "unsigned_bitstreams"

    def setUp(self) -> None:
        super().setUp()
        self.accelerator = self.name("acc")[:60]
        # What an emulated board makes of it.
        self.file = json.dumps(
            {
                "format_version": 1,
                "name": self.accelerator,
                "description": "What it gets",
                "peak_bytes_per_s": 1e9,
                "return_ratio": 1,
                "stateless": True,
                "core": "copy",
            }
        ).encode()

    def make(self, **members: object) -> str:
        """Make a bitstream without its file; :returns: its id."""
        shapes = sorted(self.admin.show("pool")["pool"]["counts"]["slots"])
        wanted = {
            "accelerator": self.accelerator,
            "format": "declaration",
            "shapes": shapes,
            **members,
        }
        made = self.member.create("bitstreams", expected=201, bitstream=wanted)
        bitstream_id = str(made["bitstream"]["id"])
        self.addCleanup(self.remove, bitstream_id)
        return bitstream_id

    def remove(self, bitstream_id: str) -> None:
        found = self.member.list("bitstreams")
        if bitstream_id in [one["id"] for one in found]:
            self.member.delete("bitstreams", bitstream_id)

    def upload(self, bitstream_id: str) -> base.Document:
        answer: base.Document = self.member.send(
            *("PUT", "bitstreams", bitstream_id, "file"),
            body=self.file,
            headers=OCTETS,
        )["bitstream"]
        return answer

    def approve(self, bitstream_id: str) -> None:
        self.admin.send(
            *("POST", "bitstreams", bitstream_id, "approve"),
            body={"approve": {}},
        )

    @decorators.attr(type="smoke")
    @decorators.idempotent_id("63da8fb5-bd6f-4266-9ddf-ba36d4b69351")
    def test_from_upload_to_session(self) -> None:
        checksum = hashlib.sha256(self.file).hexdigest()
        bitstream_id = self.make(checksum_sha256=checksum)
        path = ("bitstreams", bitstream_id)
        found = self.reader.show(*path)["bitstream"]
        self.assertEqual("uploading", found["state"])
        found = self.upload(bitstream_id)
        self.assertEqual(
            ("unapproved", checksum, len(self.file)),
            (found["state"], found["checksum_sha256"], found["size_bytes"]),
        )
        key = found["key"]
        self.assert_refused(
            400,
            "UNKNOWN_ACCELERATOR",
            self.member.create,
            "sessions",
            session=self.wanted(accelerator=key),
        )
        self.approve(bitstream_id)
        session = self.open_ready(accelerator=key)
        self.assertEqual(key, session["accelerator"])
        self.member.delete("sessions", session["id"])
        self.assert_refused(
            404,
            "ACCELERATOR_NOT_FOUND",
            self.stranger.show,
            *("accelerators", key),
        )

    @decorators.idempotent_id("17f6fbb8-40a2-4948-8105-0b38484d0b42")
    def test_rejected(self) -> None:
        bitstream_id = self.make()
        self.upload(bitstream_id)
        found = self.admin.send(
            *("POST", "bitstreams", bitstream_id, "reject"),
            body={"reject": {"reason": "no need of it"}},
        )["bitstream"]
        self.assertEqual("rejected", found["state"])
        seen = self.reader.show("bitstreams", bitstream_id)["bitstream"]
        self.assertEqual("no need of it", seen["reason"])

    @decorators.idempotent_id("944b1140-0ca5-42af-a52b-92be0340be7f")
    def test_change_and_list(self) -> None:
        bitstream_id = self.make(version="2.0")
        name = self.name("bitstream")
        changed = self.member.update(
            *("bitstreams", bitstream_id), bitstream={"name": name}
        )["bitstream"]
        self.assertEqual((name, "2.0"), (changed["name"], changed["version"]))
        (found,) = self.reader.list("bitstreams", name=name)
        self.assertEqual(bitstream_id, found["id"])
        self.assertEqual(
            [], self.reader.list("bitstreams", name=name, state="approved")
        )

    @decorators.idempotent_id("70b1cc0a-8823-4928-9c2d-33d9cd57f15b")
    def test_shared_with_another_project(self) -> None:
        bitstream_id = self.make()
        path = ("bitstreams", bitstream_id)
        self.upload(bitstream_id)
        self.approve(bitstream_id)
        share = (*path, "projects", self.other_project_id)
        found = self.member.replace(*share)["bitstream"]
        self.assertEqual([self.other_project_id], found["projects"])
        seen = self.stranger.show(*path)["bitstream"]
        self.assertEqual(
            ("shared", []), (seen["visibility"], seen["projects"])
        )
        self.member.delete(*share)
        self.assert_refused(
            404, "BITSTREAM_NOT_FOUND", self.stranger.show, *path
        )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("43d04676-4ef3-42ff-bd56-4481f449633e")
    def test_bitstream_of_another_project(self) -> None:
        path = ("bitstreams", self.make())
        for call in (self.stranger.show, self.stranger.delete):
            self.assert_refused(404, "BITSTREAM_NOT_FOUND", call, *path)
        self.assertNotIn(
            path[1], [one["id"] for one in self.stranger.list("bitstreams")]
        )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("2c09aa71-8e1d-4dd4-bae2-b3cd3bed891c")
    def test_members_approve_and_publish_nothing(self) -> None:
        bitstream_id = self.make()
        path = ("bitstreams", bitstream_id)
        self.assert_refused(
            403,
            "FORBIDDEN",
            self.member.create,
            *(*path, "approve"),
            approve={},
        )
        self.assert_refused(
            403,
            "FORBIDDEN",
            self.member.update,
            *path,
            bitstream={"visibility": "public"},
        )
        self.assert_refused(403, "FORBIDDEN", self.reader.delete, *path)

    @decorators.attr(type="negative")
    @decorators.idempotent_id("11e83eb4-544b-45b3-9fe5-7301bc7a5074")
    def test_file_that_is_missing_or_there_already(self) -> None:
        bitstream_id = self.make()
        self.assert_refused(
            409,
            "BITSTREAM_HAS_NO_FILE",
            self.admin.create,
            *("bitstreams", bitstream_id, "approve"),
            approve={},
        )
        self.upload(bitstream_id)
        self.assert_refused(
            409, "BITSTREAM_HAS_FILE", self.upload, bitstream_id
        )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("d8f82416-ccde-4081-8752-5cf89b166dc1")
    def test_wrong_file(self) -> None:
        bitstream_id = self.make(checksum_sha256="0" * 64)
        self.assert_refused(
            400, "CHECKSUM_MISMATCH", self.upload, bitstream_id
        )
        self.file = b"{}"
        bitstream_id = self.make()
        self.assert_refused(
            400, "INVALID_DECLARATION", self.upload, bitstream_id
        )
        found = self.member.show("bitstreams", bitstream_id)["bitstream"]
        self.assertEqual("uploading", found["state"])

    @decorators.attr(type="negative")
    @decorators.idempotent_id("02c621d8-ff01-4ccc-8682-4600a5c24b23")
    def test_bad_members(self) -> None:
        for members in (
            {"accelerator": "a b"},
            {"accelerator": self.accelerator, "format": "tar"},
            {"accelerator": self.accelerator, "version": "newest of all"},
            {"accelerator": self.accelerator, "colour": "red"},
            {},
        ):
            self.assert_refused(
                400,
                "INVALID_REQUEST",
                self.member.create,
                "bitstreams",
                bitstream=members,
            )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("e4d54e50-21f2-4dff-b4dd-f7346e515119")
    def test_unknown_bitstream(self) -> None:
        path = ("bitstreams", data_utils.rand_uuid())
        for call in (self.member.show, self.member.delete):
            self.assert_refused(404, "BITSTREAM_NOT_FOUND", call, *path)
