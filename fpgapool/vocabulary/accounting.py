# SPDX-License-Identifier: Apache-2.0

"""The resources that quotas limit, and the fields of usage and shares."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.vocabulary import fields
from fpgapool.vocabulary import units

#: The resources that quotas limit, and what each counts.
QUOTAS: typing.Final = {
    "sessions": "Sessions with a slot. Further sessions wait.",
    "queued": "Waiting requests. Further requests are refused.",
    "queued_bytes": "Total bytes that waiting requests claim.",
    "live_per_user": "Sessions of one user in the project, waiting or with a"
    " slot. Further requests of that user are refused; `in_use` is always 0.",
    "sessions_per_user": "Sessions of one user in the project with a slot."
    " Further sessions of that user wait; `in_use` is always 0.",
    "user_turns": "1: the users of the project take turns; 0: they do not;"
    " `in_use` is always 0.",
    "bitstream_bytes": "Total bytes of the project's bitstreams.",
    "groups": "Groups. Further groups are refused.",
    "group_slots": "Slots to which the project's groups may grow.",
    "group_clients": "Clients that the project has attached to groups.",
    "max_priority": "Maximum priority when sessions compete with those of"
    " other projects; `in_use` is always 0.",
    "reservation_slots": "Slots of the project's reservations that have not"
    " ended.",
    "reservation_times": "Times of the project's reservations that have not"
    " ended; one that recurs counts each time.",
}
#: Those that are 1 or 0 and limit nothing.
SWITCHES: typing.Final = frozenset({"user_turns"})
#: Versions of the REST API from which on it has a resource that 1.0 has not.
QUOTAS_SINCE: typing.Final = {
    "live_per_user": (1, 3),
    "sessions_per_user": (1, 3),
    "user_turns": (1, 3),
    "reservation_slots": (1, 3),
    "reservation_times": (1, 3),
}
#: The value of a limit that means unlimited.
UNLIMITED = -1
MAX_LIMIT = 2**63 - 1


def _key(name: str, kind: fields.Kind, about: str) -> fields.Field:
    return fields.stored(name, kind, about, default=None, column=True)


def _sum(
    name: str,
    about: str = "",
    title: str = "",
    kind: fields.Kind = fields.COUNT,
) -> fields.Field:
    default = kind.type()
    return fields.stored(
        name, kind, about, default=default, column=True, title=title
    )


#: A project's usage of an accelerator on a day, or the sum of several.
USAGE = fields.Fields(
    fields.shown("id", fields.TEXT, "Unique; used as the `marker` of a page."),
    _key(
        "day",
        fields.DAY,
        "UTC day on which the slots were released; null for the sum of several"
        " days.",
    ),
    _key("project_id", fields.NAME, "Null for the sum of several projects."),
    _key(
        "accelerator",
        fields.NAME,
        "Null for the sum of several accelerators.",
    ),
    _sum("sessions", "Ended sessions that had a slot."),
    _sum(
        "sessions_met",
        "Ended sessions that met their deadlines.",
        "Deadlines Met",
    ),
    _sum(
        "sessions_missed",
        "Ended sessions that missed their deadlines.",
        "Deadlines Missed",
    ),
    _sum(
        "slot_s",
        "Seconds for which slots were held, including group slots.",
        "Slot Seconds",
        fields.NUMBER,
    ),
    _sum(
        "group_busy_s",
        "Seconds for which the project's tasks and locks used group slots.",
        "Group Busy Seconds",
        fields.NUMBER,
    ),
    _sum(
        "group_idle_s",
        "Seconds for which slots of the project's groups had neither a task"
        " nor a lock.",
        "Group Idle Seconds",
        fields.NUMBER,
    ),
    _sum("input_bytes"),
    _sum("output_bytes"),
    fields.stored(
        "energy_j",
        fields.NUMBER,
        "Energy in joules, from the sessions' shares of the boards' power;"
        " null: not measured.",
        default=None,
        column=True,
        title="Energy (J)",
    ),
    fields.shown(
        "energy_j_per_sla",
        fields.NUMBER,
        "`energy_j` divided by the deadlines met; null: not measured, or no"
        " deadline was met.",
        default=None,
        column=True,
        title="Energy per Deadline Met (J)",
    ),
)

#: Days whose usage is shown with a share, with today.
USED_DAYS: typing.Final = 7

#: What decides between the sessions that compete for a slot.
CHOSEN_BY: typing.Final = {
    "order": "the first in the strategy's order gets the slot",
    "order_and_place": "the strategy's order and where the slot is decide",
    "joint": "the strategy compares pairs of sessions and slots; there is no"
    " order",
}


def _known(name: str, kind: fields.Kind, about: str) -> fields.Field:
    return fields.shown(name, kind, about)


def _fair(name: str, kind: fields.Kind, about: str) -> fields.Field:
    about += "; null: projects have no fair shares."
    return fields.shown(name, kind, about, default=None)


#: A project's share, at this moment.
SHARE = fields.Fields(
    _known("project_id", fields.NAME, "The project."),
    _known(
        "strategy",
        fields.NAME,
        "The scheduling strategy.",
    ),
    _known(
        "chosen_by",
        fields.NAME,
        "What decides between the sessions that compete for a slot: "
        + "; ".join(f"`{name}`: {text}" for name, text in CHOSEN_BY.items())
        + ".",
    ),
    _known("slots", fields.COUNT, "Slots that the project has."),
    _known(
        "at_limit",
        fields.FLAG,
        "Whether these are all that its quota of sessions, or its budget,"
        " allows.",
    ),
    _known(
        "waiting", fields.COUNT, "Sessions of the project that wait for slots."
    ),
    _known(
        "used_slot_s",
        fields.NUMBER,
        "Seconds for which the project held slots that it released on the"
        f" last {USED_DAYS} days (UTC), with today.",
    ),
    _known(
        "used_part",
        fields.NUMBER,
        "The part that this is of the seconds of all projects; 0 if nobody"
        " held a slot. The order does not depend on it.",
    ),
    _fair("weight", fields.NUMBER, "The project's weight"),
    _fair(
        "weights",
        fields.NUMBER,
        "The sum of its weight and those of all other projects that wait or"
        " have slots",
    ),
    _fair("round_bytes", fields.NUMBER, "Bytes that it may use in each round"),
    _fair(
        "score",
        fields.NUMBER,
        "The part of these bytes that it has left, less 1 for each round until"
        " its turn: above 0, it is its turn",
    ),
    _fair("projects", fields.COUNT, "Projects that wait"),
    _fair(
        "projects_before",
        fields.COUNT,
        "Those of them that get slots before it, without those at their limit",
    ),
    _fair(
        "projects_beside",
        fields.COUNT,
        "Those of them whose turn it is at the same time, so that the strategy"
        " chooses between their sessions and its own",
    ),
    _fair(
        "turn_bytes",
        fields.NUMBER,
        "Bytes that those before it may use until its turn; it is earlier if"
        " they need less",
    ),
    fields.shown(
        "turn_s",
        fields.NUMBER,
        "Seconds in which all slots that the project does not have cost so"
        " much; null: there are none, or projects have no fair shares.",
        default=None,
    ),
    fields.shown(
        "path",
        fields.OBJECTS,
        "Where the project is in the tree of domains and projects, beginning"
        " with itself; null: there is no tree, or projects have no fair"
        " shares.",
        default=None,
    ),
    fields.shown(
        "session",
        fields.OBJECT,
        "What gets slots before the session of the query; null: none was"
        " asked for.",
        default=None,
    ),
)


#: A project, domain or project above it, and its part of what those directly
#: below the next one have, or all domains.
PART = fields.Fields(
    fields.shown(
        "id",
        fields.NAME,
        "The project or domain; null: the projects that the tree does not"
        " have.",
        default=None,
    ),
    _known("weight", fields.NUMBER, "Its weight."),
    _known(
        "weights",
        fields.NUMBER,
        "The sum of its weight and those of the others beside it that wait,"
        " have slots or owe.",
    ),
)


def _before(name: str, about: str) -> fields.Field:
    return fields.shown(name, fields.COUNT, about)


def _ordered(name: str, about: str) -> fields.Field:
    about += "; null: the strategy has no order."
    return fields.shown(name, fields.COUNT, about, default=None)


#: What gets slots before a waiting session. Each session is counted once, and
#: only if some slot fits both.
BEFORE = fields.Fields(
    _known("id", fields.UUID, "The session."),
    _before(
        "urgent",
        "Sessions of other projects that have waited for so long that they go"
        " first.",
    ),
    _before(
        "higher_priority",
        "Sessions of its own project with a higher priority.",
    ),
    _before("better_share", "Sessions of projects whose turn is earlier."),
    _ordered(
        "own",
        "Other sessions of its own project that are earlier in the order",
    ),
    _ordered(
        "others",
        "Sessions of other projects whose turn it is, too, and that are"
        " earlier in the order",
    ),
    _before(
        "competing",
        "Sessions, with this one, between which the strategy chooses once the"
        " first three kinds have their slots.",
    ),
    _known(
        "complete",
        fields.FLAG,
        "Whether all were counted: if not, there are more of `own` or"
        " `others`.",
    ),
    fields.shown(
        "users_before",
        fields.COUNT,
        "Other users of its project whose turn is before that of its user;"
        " null: they take no turns.",
        default=None,
    ),
    fields.shown(
        "user_slots",
        fields.COUNT,
        "Slots of the project that its user has; null: the project neither"
        " limits its users nor lets them take turns.",
        default=None,
    ),
    fields.shown(
        "user_limit",
        fields.COUNT,
        "Slots that its user may have; null: no limit.",
        default=None,
    ),
)


def share_sentences(share: Mapping[str, typing.Any]) -> Iterator[str]:
    """Say what a share means.

    :param share: the members of :data:`SHARE`.
    """
    used = share["used_part"]
    yield (
        f"Its slots of the last {USED_DAYS} days:"
        f" {units.seconds_text(share['used_slot_s'])},"
        f" {used:.0%} of all."
    )
    if share["score"] is None:
        yield "Projects have no fair shares: only the order and limits count."
    else:
        yield from _turn_sentences(share)
    if share["at_limit"]:
        yield "It has all slots that its quota of sessions, or budget, allows."
    if share["session"] is not None:
        yield _before_sentence(share["session"])
        yield from _user_sentences(share["session"])
        yield f"{_capital(CHOSEN_BY[share['chosen_by']])}."


def _turn_sentences(share: Mapping[str, typing.Any]) -> Iterator[str]:
    weight, weights, score = share["weight"], share["weights"], share["score"]
    yield (
        f"Weight {weight:g} of {weights:g} ({weight / weights:.0%}): "
        f"{units.bytes_text(share['round_bytes'])} in each round."
    )
    yield from _path_sentences(share["path"] or [])
    if not share["waiting"]:
        yield "Nothing of it waits."
    if share["projects_before"]:
        place = share["projects_before"] + 1
        yield (
            f"Score {score:.2f}: place {place} of {share['projects']} waiting"
            f" projects. Its turn is when those before it have used"
            f" {units.bytes_text(share['turn_bytes'])}, or need no more"
            + (
                ""
                if share["turn_s"] is None
                else f": in {units.seconds_text(share['turn_s'])} if they have"
                " all other slots"
            )
            + "."
        )
        return
    beside = share["projects_beside"]
    yield (
        f"Score {score:.2f}: it is its turn"
        + (
            f", with {units.count_text(beside, 'other project')}"
            if beside
            else ""
        )
        + ". Others come first when it has used"
        f" {units.bytes_text(max(score, 0.0) * share['round_bytes'])}."
    )


def _path_sentences(
    path: Sequence[Mapping[str, typing.Any]],
) -> Iterator[str]:
    """Say what part each has of that of the next one."""
    for number, part in enumerate(path):
        of_what = "the pool"
        if number + 1 < len(path):
            above = path[number + 1]["id"]
            of_what = f"the part of {above or 'projects not in the tree'}"
        weight, weights = part["weight"], part["weights"]
        yield (
            f"{'That' if number else 'It'} has {weight:g} of {weights:g}"
            f" ({weight / weights:.0%}) of {of_what}."
        )


_KINDS: typing.Final = {
    "urgent": "urgent",
    "better_share": "of projects with a better share",
    "higher_priority": "of its project with a higher priority",
    "own": "of its project that came before in the order",
    "others": "of projects with as good a share that come before in the order",
}


def _before_sentence(before: Mapping[str, typing.Any]) -> str:
    """Say what is before a session."""
    counts = {name: before[name] or 0 for name in _KINDS}
    more = "" if before["complete"] else "more than "
    found = ", ".join(
        f"{count} {_KINDS[name]}" for name, count in counts.items() if count
    )
    total = sum(counts.values())
    text = (
        f"Before it: {more}{total} sessions: {found}."
        if found
        else ("No session is before it.")
    )
    if before["own"] is None:
        text += f" It competes with {before['competing'] - 1} others."
    return text


def _user_sentences(before: Mapping[str, typing.Any]) -> Iterator[str]:
    """Say where the user of a session stands among those of its project."""
    slots, limit = before.get("user_slots"), before.get("user_limit")
    if slots is None:
        return
    if limit is not None and slots >= limit:
        yield (
            f"Its user has {units.count_text(slots, 'slot')}, which is all"
            " that one user of the project may have."
        )
    elif before["users_before"] is not None:
        place = before["users_before"] + 1
        yield f"Users of its project take turns; its own is number {place}."


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
