# SPDX-License-Identifier: Apache-2.0

"""Vendordata, which Nova requests for an instance."""

from __future__ import annotations

from fpgapool.api import call as calls


def create(call: calls.Call) -> calls.Answer:
    """Return an instance's vendordata, with its token, to Nova."""
    desk = call.backends.vendordata
    answer = desk.answer(call.body, call.base_url) if desk else {}
    return calls.Answer(document=answer)
