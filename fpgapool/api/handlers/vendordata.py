# SPDX-License-Identifier: Apache-2.0

"""Vendordata: what Nova asks for on behalf of an instance."""

from __future__ import annotations

from fpgapool.api import call as calls


def create(call: calls.Call) -> calls.Answer:
    """Tell an instance how to reach the pool; nothing if it has no token."""
    desk = call.backends.vendordata
    answer = desk.answer(call.body, call.base_url) if desk else {}
    return calls.Answer(document=answer)
