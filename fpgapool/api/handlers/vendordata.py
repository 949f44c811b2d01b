# SPDX-License-Identifier: Apache-2.0

"""Vendordata: Nova asks on behalf of an instance."""

from __future__ import annotations

from fpgapool.api import call as calls


def create(call: calls.Call) -> calls.Answer:
    """Return the data by which an instance reaches the pool."""
    desk = call.backends.vendordata
    answer = desk.answer(call.body, call.base_url) if desk else {}
    return calls.Answer(document=answer)
