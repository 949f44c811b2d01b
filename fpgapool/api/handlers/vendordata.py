# SPDX-License-Identifier: Apache-2.0

"""Vendordata: Nova asks on behalf of an instance."""

from __future__ import annotations

from fpgapool.api import call as calls


def create(call: calls.Call) -> calls.Answer:
    """Return the vendordata of an instance, with its token; Nova asks."""
    desk = call.backends.vendordata
    answer = desk.answer(call.body, call.base_url) if desk else {}
    return calls.Answer(document=answer)
