# SPDX-License-Identifier: Apache-2.0
"""Operators' settings of devices and hosts."""

from fpgapool.api.schemas import common

_STATE = common.one_of("enabled", "draining", "disabled")

#: Members that may accompany a state.
CHANGE_OPTIONS = ("reason", "drain_deadline_s")

CHANGE = common.record(
    optional=CHANGE_OPTIONS,
    state=common.described(
        _STATE,
        "`disabled`: no new sessions. `draining`: the same until the last"
        " session has ended, then `disabled`. `enabled`: in use again, also if"
        " it was faulty.",
    ),
    reason=common.described(
        {"type": "string", "maxLength": 255}, "The reason; for people."
    ),
    drain_deadline_s=common.described(
        {"type": "number", "minimum": 0, "maximum": 366 * 86400},
        "Only with `draining`: how long sessions may stay. Then sessions whose"
        " clients have not connected return to their places in the queue,"
        " those of stateless accelerators continue in other slots, and all"
        " others end.",
    ),
)
