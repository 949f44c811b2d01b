# SPDX-License-Identifier: Apache-2.0
"""What operators say of devices and hosts."""

from fpgapool.api.schemas import common

_ANY_STATE = common.one_of("enabled", "draining", "disabled")

STATE = common.described(
    _ANY_STATE,
    "What was said of it. `draining` becomes `disabled` when the last session"
    " has gone.",
)
REASON = common.described(common.TEXT, "Why, as was said.")
DEADLINE = common.described(
    common.nullable(common.TIME),
    "When it is taken from the sessions that still have it.",
)

#: What can be said with a state.
CHANGE_OPTIONS = ("reason", "drain_deadline_s")

CHANGE = common.record(
    optional=CHANGE_OPTIONS,
    state=common.described(
        _ANY_STATE,
        "`disabled`: no new sessions. `draining`: the same until the last"
        " session has gone, and then `disabled`. `enabled`: in use again, also"
        " where it was taken out of use for its failures.",
    ),
    reason=common.described(
        {"type": "string", "maxLength": 255}, "Why; for people."
    ),
    drain_deadline_s=common.described(
        {"type": "number", "minimum": 0, "maximum": 366 * 86400},
        "Only with `draining`: how long sessions may stay. Then those that"
        " have not begun go back to their places in the queue, those of"
        " stateless accelerators go on in other slots, and all others end.",
    ),
)
