# SPDX-License-Identifier: Apache-2.0

"""Shares down a tree: what Keystone says in some worlds, and when."""

from __future__ import annotations

import typing
from collections.abc import Mapping

from fpgapool.clients import keystone_projects
from fpgapool.common import exception
from fpgapool.core.queues import share_tree
from tests.world import kernel as kernels
from tests.world import part
from tests.world import planting

#: From when on which projects are where; None: Keystone does not answer.
_ANSWERS: tuple[tuple[float, Mapping[str, str] | None], ...] = (
    (0.0, None),
    (4.0, {"p1": "team", "team": "one", "p2": "one"}),
    (12.0, None),
    (16.0, {"p1": "one", "p2": "p1"}),
    (24.0, {"p1": "one"}),
)


class _Keystone:
    """Says where projects are at the time of a world."""

    def __init__(self, kernel: kernels.Kernel) -> None:
        self._kernel = kernel

    def parents(self) -> Mapping[str, str]:
        found = None
        for begins_s, answer in _ANSWERS:
            if begins_s <= self._kernel.now_s:
                found = answer
        if found is None:
            raise exception.KeystoneUnavailable(reason="it is away")
        return found


def install(kernel: kernels.Kernel) -> None:
    """Let conductors ask this Keystone, for good."""

    def from_conf(_cls: type, _conf: object) -> typing.Any:
        return _Keystone(kernel)

    keystone_projects.Projects.from_conf = classmethod(from_conf)  # type: ignore


class ShareTrees(part.Part):
    """Shares follow a tree of projects."""

    NAME = "share-trees"
    HELP = "in which schedules shares follow a tree of projects"
    # The seeds at which planted bugs are known to show are not among them,
    # but for those of trees.
    SEEDS = (15, (10,))

    @classmethod
    def options(cls, _seed: int) -> dict[str, dict[str, object]]:
        return {
            "conductor": {"share_tree": "keystone"},
            "keystone": {"refresh_interval_s": 1.0},
        }

    @classmethod
    def prepare(cls, kernel: kernels.Kernel) -> None:
        install(kernel)


_bug = planting.of_part(ShareTrees.NAME)


@_bug("active below one")
def the_part_of_who_left_is_kept() -> None:
    share_tree.Node.exit = (  # type: ignore[method-assign]
        lambda _node, _units: None
    )
