# SPDX-License-Identifier: Apache-2.0

"""Commands for shares."""

from __future__ import annotations

import argparse

from openstack import resource

from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import columns
from fpgapool.osc.v1 import projects
from fpgapool.vocabulary import accounting


class ShowShare(base.ShowCommand):
    """Show a project's share, and what is before one of its sessions."""

    described = accounting.SHARE
    hidden = ("id", "name")
    arguments = (
        *projects.one(
            "show the share of this project (name or ID); default is your own"
        ),
        base.option(
            "session",
            "also show what gets slots before this waiting session (ID)",
            type=base.session_id,
        ),
    )

    def act(self, parsed_args: argparse.Namespace) -> resource.Resource:
        return self.client.get_share(
            **projects.query(self, parsed_args),
            **base.given(session_id=parsed_args.session),
        )

    def shown(self, found: resource.Resource) -> base.Table:
        names, values = super().shown(found)
        said = columns.Lines(list(accounting.share_sentences(found)))
        return ("meaning", *names), (said, *values)
