# SPDX-License-Identifier: Apache-2.0

"""The options that all strategies share, each declared once.

They are set in the configuration group ``[scheduler]``, or for a strategy in a
scenario file. A strategy ignores the options that it does not use.
"""

import dataclasses
import textwrap
import types
import typing

#: Number of sessions, the latest ones, whose claims strategies learn from.
RECENT_CLAIMS: typing.Final = 1000

#: Orders in which slots are used, with their descriptions.
SLOT_ORDERS: typing.Final = {
    "index": "by host, then by slot number; predictable",
    "random": "random, from ``seed``; spreads load without measuring it",
    "least_busy": "the hosts with the fewest busy slots first",
}

#: Which sizes the thresholds fit. The limits are the first and the last fixed
#: threshold, with the other options at their defaults.
FITTING_SIZES: typing.Final = (
    "wa and wra learn the thresholds of their queues from recent sizes, of "
    "any scale; fixed thresholds that start at 20 MB fit sizes of 20 MB to "
    "9.7 GB: smaller sizes all share the first queue, and larger ones the "
    "last, first come, first served"
)


def _option(
    default: object,
    help: str,
    *,
    conf: str | None = None,
    unset: object = None,
    **bounds: object,
) -> typing.Any:
    """Declare an option.

    :param conf: the option's name in the configuration, if it differs.
    :param unset: the value in the configuration that means None.
    :param bounds: ``min``, ``max`` and ``choices`` of the option in the
        configuration.
    """
    return dataclasses.field(
        default=default,
        metadata={"help": help, "conf": conf, "unset": unset, **bounds},
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SharedOptions:
    """The shared options; their help texts explain them.

    :raises ValueError: if an order of slots is unknown, or a limit or a time
        is negative.
    """

    queues: int = _option(
        20,
        """
Number of priority queues of ``wa`` and ``wra``. 1 means first in, first out.

Sessions are assigned to queues by size. The size limits of the queues, called
thresholds, are learnt from the latest 1000 sessions, whatever their sizes are:
each queue gets the same share of these, counting half by their number and half
by their bytes. A session stays in the queue of its arrival.

With ``first_threshold_bytes``, the thresholds are fixed. With
``thresholds_bytes``, they and their number are given.
""",
        # With more queues, the order is practically shortest job first.
        min=1,
        max=1000,
    )
    E_bytes: float | None = _option(
        None,
        f"""
Maximum size in bytes of the sessions in the first queue of ``wa`` and ``wra``.
0, the default, means that all thresholds are learnt; see ``queues``.

Otherwise the thresholds are fixed: they start at this size, grow by the factor
``threshold_ratio`` up to queue number ``geometric_queues``, by equal steps up
to queue number ``linear_queues_end``, and by the same factor after that. For
exponentially distributed sizes with a mean of 400 MB, use 20000000. For
heavy-tailed sizes (few sessions with most of the bytes) up to 10 GB, use
26000000, ``threshold_ratio = 1.8``, ``geometric_queues = 10`` and
``linear_queues_end = 11``.

{textwrap.fill(f"Check your sizes: {FITTING_SIZES}.", 79)}
``fpgapool-sim tune`` finds fixed thresholds for other sizes.
""",
        conf="first_threshold_bytes",
        unset=0,
        min=0,
        max=2**63 - 1,
    )
    q: float = _option(
        1.41,
        """
Ratio of each threshold to the previous one, except in the linear part. See
``first_threshold_bytes``.
""",
        conf="threshold_ratio",
        # At 1 or below, the thresholds would not grow.
        min=1.001,
        max=1000,
    )
    k1: int = _option(
        5,
        """
Number of the last queue of the first geometric part. See
``first_threshold_bytes``.
""",
        conf="geometric_queues",
        min=1,
        max=1000,
    )
    k2: int = _option(
        16,
        """
Number of the last queue of the linear part; must be larger than
``geometric_queues``. See ``first_threshold_bytes``.
""",
        conf="linear_queues_end",
        min=2,
        max=1000,
    )
    thresholds_bytes: tuple[float, ...] | None = _option(
        None,
        """
Upper size limits of the queues of ``wa`` and ``wra``, in bytes and ascending.
The last queue has no limit, so give one value less than there are queues. By
default the thresholds are learnt; see ``queues``.
""",
        unset=[],
        min=1,
        max=2**63 - 1,
    )
    remote_limit: int | None = _option(
        None,
        """
Maximum number of sessions from other hosts that ``ra`` and ``wra`` run on a
host while the data locality rule applies.

-1, the default, means half of the host's slots, but at least 1. The host keeps
the others for its own sessions, but not more than these need: that is its part
of the bytes of the latest 1000 sessions, times all slots. So a host opens its
slots to others where local sessions are scarce, and keeps them again when
there are more.

The higher it is, the more sessions compete for the host's network card.
""",
        unset=-1,
        min=-1,
        max=1000000,
    )
    skip_limit: int | None = _option(
        None,
        """
Number of times that a session whose own host has boards is passed over for
slots of other hosts before it may use one of them. -1, the default, means that
only its waiting time counts; see ``wait_s_per_byte``.
""",
        unset=-1,
        min=-1,
        max=1000000000,
    )
    wait_s_per_byte: float = _option(
        1e-8,
        """
Seconds per claimed byte that a session waits for a slot of its own host
before ``ra`` and ``wra`` let it use a slot of another host. The default is
0.01 s per megabyte.

A good value is a small multiple of the time that the hosts' network cards
need for a byte.
""",
        min=0,
        # A day per megabyte: any longer wait means never.
        max=0.1,
    )
    fallback: bool | None = _option(
        None,
        """
What happens to a slot that no waiting session may use because of the data
locality rule.
""",
        unset="auto",
        choices={
            "auto": "off for ``ra``; for ``wra``, give such a slot to the "
            "first session that fits once it has waited 10 times as long as "
            "it needs the slot, or a session of mean size does, or at once "
            "with fair shares, ``remote_limit`` or ``affinity``",
            "on": "give such a slot to the first session that fits at once",
            "off": "leave such a slot idle",
        },
    )
    slot_choice: str = _option(
        "least_busy",
        """
Which idle slot a session gets if the strategy has no preference.
""",
        choices=SLOT_ORDERS,
    )
    offer_order: str = _option(
        "least_busy",
        """
The order in which ``ra``, ``wra`` and ``affinity`` offer idle slots to waiting
sessions.
""",
        choices=SLOT_ORDERS,
    )
    affinity: bool = _option(
        False,
        """
Whether, with ``ra`` and ``wra``, sessions avoid slots of boards that run other
accelerators. This saves reprogramming where it takes a long time.

A session from another host takes a slot only if a large enough share of the
sessions on the board use its accelerator: at first all of them must, and the
required share falls to none as it waits; see ``affinity_wait_s``. It takes a
slot immediately if the slot holds its accelerator or needs no time to be
programmed, or if the board is idle. The strategy ``affinity`` always does
this, for all sessions and regardless of this option.
""",
    )
    affinity_wait_s: float | None = _option(
        None,
        """
With ``affinity``, seconds after which a session takes a slot of any board,
counted from its arrival, or from the last time that a session of the same
``application`` got a slot. Until then, slots may stay idle although sessions
wait. With 0, the other sessions on a board do not matter.

-1, the default, means that each session has a patience of its own: 20 times
the time to program the slot, times 1 + the sessions that waited when it came
per slot. No slot stays idle for it.
""",
        unset=-1,
        min=-1,
        max=86400,
    )

    def __post_init__(self) -> None:
        for name in ("slot_choice", "offer_order"):
            order = getattr(self, name)
            if order not in SLOT_ORDERS:
                raise ValueError(
                    f"{name} must be one of {', '.join(SLOT_ORDERS)}, "
                    f"not {order!r}"
                )
        # Infinite values are allowed: jobs then never leave their host, or
        # never take a slot on another accelerator's device, however long they
        # wait.
        for name in (
            "remote_limit",
            "skip_limit",
            "wait_s_per_byte",
            "affinity_wait_s",
        ):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} must not be negative, not {value}")


FIELDS: typing.Final = {
    each.name: each for each in dataclasses.fields(SharedOptions)
}
#: The options that thresholds_bytes replaces, which are the parameters of
#: :func:`fpgapool.core.queues.thresholds.hybrid_thresholds`.
HYBRID: typing.Final = ("E_bytes", "q", "k1", "k2", "queues")


def kind(name: str) -> type:
    """Return the type of an option's values other than None."""
    given: typing.Any = FIELDS[name].type
    if isinstance(given, types.UnionType):
        given = typing.get_args(given)[0]
    found: type = typing.get_origin(given) or given
    return found


def conf_name(name: str) -> str:
    """Return an option's name in the configuration."""
    return FIELDS[name].metadata["conf"] or name
