# SPDX-License-Identifier: Apache-2.0

"""Accelerators."""

from __future__ import annotations

from tempest import config
from tempest.lib import decorators

from fpgapool_tempest_plugin.tests import base

CONF = config.CONF


class AcceleratorsTest(base.PoolTest):
    """What sessions can run."""

    @decorators.attr(type="smoke")
    @decorators.idempotent_id("f6fbace6-30c6-4531-b6b8-ad5f0c2cab5e")
    def test_list(self) -> None:
        names = [one["name"] for one in self.reader.list("accelerators")]
        self.assertIn(CONF.fpgapool.accelerator, names)
        self.assertEqual(sorted(names), names)

    @decorators.idempotent_id("f614701f-4e43-4939-9c1a-a3edceaa1e03")
    def test_show(self) -> None:
        name = CONF.fpgapool.accelerator
        found = self.reader.show("accelerators", name)["accelerator"]
        self.assertEqual(name, found["name"])
        self.assertGreater(found["peak_bytes_per_s"], 0)

    @decorators.idempotent_id("0fd37fd6-1d77-431a-8ad3-b32c6d419bcb")
    def test_pages_make_up_the_list(self) -> None:
        whole = self.reader.list("accelerators", limit=1000)
        first = self.reader.show("accelerators", limit=1)
        self.assertEqual(whole[:1], first["accelerators"])
        (link,) = first["accelerators_links"]
        self.assertEqual("next", link["rel"])
        rest = self.reader.list("accelerators", marker=whole[0]["name"])
        self.assertEqual(whole[1:], rest)

    @decorators.idempotent_id("11380f3f-0a46-4ce6-9b17-3ba3b75fb1a0")
    def test_list_backwards(self) -> None:
        names = [one["name"] for one in self.reader.list("accelerators")]
        backwards = self.reader.list("accelerators", sort_dir="desc")
        self.assertEqual(names[::-1], [one["name"] for one in backwards])

    @decorators.attr(type="negative")
    @decorators.idempotent_id("000f1514-c534-46f1-81cd-469559cab005")
    def test_show_unknown(self) -> None:
        self.assert_refused(
            404,
            "ACCELERATOR_NOT_FOUND",
            self.reader.show,
            *("accelerators", self.name("accelerator")),
        )

    @decorators.attr(type="negative")
    @decorators.idempotent_id("37d53259-b2a3-4500-b953-a430337a7afb")
    def test_list_with_bad_parameters(self) -> None:
        for query in (
            {"limit": 0},
            {"limit": "many"},
            {"sort_key": "colour"},
            {"sort_dir": "up"},
        ):
            self.assert_refused(
                400,
                "INVALID_REQUEST",
                self.reader.list,
                "accelerators",
                **query,
            )
