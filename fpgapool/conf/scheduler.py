# SPDX-License-Identifier: Apache-2.0

"""Options of the group [scheduler]: the tuning of strategies."""

from oslo_config import cfg

from fpgapool.conf import groups

_group = cfg.OptGroup(
    "scheduler",
    title="Scheduler",
    help="""
Tuning of the strategy named by ``[conductor] strategy``. Options that the
chosen strategy does not use are ignored.
""",
)

_CHOICES = [
    ("index", "by host, then by slot number; predictable"),
    ("random", "seeded by ``seed``; spreads load without looking at it"),
    ("least_busy", "the host with the fewest busy slots first"),
]

scheduler_opts = [
    cfg.IntOpt(
        "queues",
        default=20,
        min=1,
        # More queues than this are no different from shortest job first.
        max=1000,
        help="""
Number of priority queues of ``wa`` and ``wra``. 1 means first in, first out.

Session sizes are sorted into these queues by thresholds that are computed
from ``first_threshold_bytes``, ``threshold_ratio``, ``geometric_queues`` and
``linear_queues_end``: they grow by the ratio up to the queue
``geometric_queues``, evenly up to the queue ``linear_queues_end``, and by the
ratio again after it. The defaults suit sizes that vary like an exponential
distribution; for heavy tails (few sessions with most of the bytes) use
``threshold_ratio = 1.8``, ``geometric_queues = 10``,
``linear_queues_end = 11``, ``first_threshold_bytes = 26000000``.

Related options:

* ``thresholds_bytes`` replaces all of these.
""",
    ),
    cfg.IntOpt(
        "first_threshold_bytes",
        default=20_000_000,
        min=1,
        max=2**63 - 1,
        help="""
Sessions of up to this many bytes are in the first queue of ``wa`` and
``wra``. See ``queues``.
""",
    ),
    cfg.FloatOpt(
        "threshold_ratio",
        default=1.41,
        # At 1 or below, the thresholds would not grow.
        min=1.001,
        max=1000,
        help="""
Ratio of a threshold to the one before it in the geometric parts. See
``queues``.
""",
    ),
    cfg.IntOpt(
        "geometric_queues",
        default=5,
        min=1,
        max=1000,
        help="""
Number of the last queue of the first geometric part. See ``queues``.
""",
    ),
    cfg.IntOpt(
        "linear_queues_end",
        default=16,
        min=2,
        max=1000,
        help="""
Number of the last queue of the linear part; must be larger than
``geometric_queues``. See ``queues``.
""",
    ),
    cfg.ListOpt(
        "thresholds_bytes",
        default=[],
        item_type=cfg.types.Integer(min=1, max=2**63 - 1),
        help="""
Upper limits in bytes of the queues of ``wa`` and ``wra``, ascending, without
the last queue, which has none. The default is empty: the thresholds are
computed, see ``queues``.
""",
    ),
    cfg.IntOpt(
        "remote_limit",
        default=-1,
        min=-1,
        max=1000000,
        help="""
Largest number of sessions from other hosts that ``ra`` and ``wra`` run on a
host while the rule of data locality applies. -1, the default, means half of
the host's slots, at least 1.

The higher it is, the more sessions compete for the host's network card.
""",
    ),
    cfg.IntOpt(
        "skip_limit",
        default=-1,
        min=-1,
        max=1000000000,
        help="""
How often slots of other hosts may pass over a session whose own host has
boards, before it may use one of them. -1, the default, means that only its
waiting time counts, see ``wait_s_per_byte``.
""",
    ),
    cfg.FloatOpt(
        "wait_s_per_byte",
        default=1e-8,
        min=0,
        # A day for a megabyte: beyond it the value means never.
        max=0.1,
        help="""
Seconds per claimed byte that a session waits for a slot of its own host
before ``ra`` and ``wra`` let it use one of another host. The default is
0.01 s for a megabyte.

A good value is a small multiple of the time that a byte takes on the hosts'
network cards.
""",
    ),
    cfg.StrOpt(
        "fallback",
        default="auto",
        choices=[
            ("auto", "on for ``wra``, off for ``ra``"),
            ("on", "give such a slot to the first session that fits"),
            ("off", "leave such a slot idle"),
        ],
        help="""
Use of a slot that no session may take by the rule of data locality while
sessions wait.
""",
    ),
    cfg.StrOpt(
        "slot_choice",
        default="least_busy",
        choices=_CHOICES,
        help="""
Which idle slot a session gets if the strategy leaves a choice.
""",
    ),
    cfg.StrOpt(
        "offer_order",
        default="least_busy",
        choices=_CHOICES,
        help="""
In which order ``ra``, ``wra`` and ``affinity`` offer idle slots to waiting
sessions.
""",
    ),
    cfg.BoolOpt(
        "affinity",
        default=False,
        help="""
Whether sessions avoid slots of boards that run other accelerators, with
``ra`` and ``wra``.

A session from another host than the slot's takes the slot only if the share of
its accelerator among the sessions that the board runs is large enough: all of
them at first, and none after ``affinity_wait_s``. It takes a slot at once that
holds its accelerator, that is programmed in no time, or whose board is idle.
So slots are programmed less often where that takes long. The strategy
``affinity`` always does so, whatever this option says, and for all sessions.
""",
    ),
    cfg.FloatOpt(
        "affinity_wait_s",
        default=10,
        min=0,
        max=86400,
        help="""
Seconds after which a session takes a slot of any board, with ``affinity``.
They count from its arrival, or from the last time that a session of the same
``application`` got a slot.

A good value is a few times as long as sessions and programming take. 0 means
that boards do not matter.
""",
    ),
    cfg.DictOpt(
        "strategy_options",
        default={},
        help="""
Options that only the chosen strategy has, by name: those of ``era``, ``hjf``
and ``affinity``, and of strategies from other packages. A value is a number,
``true``, ``false`` or text. The conductor does not start with an option that
the strategy lacks.
""",
    ),
    cfg.StrOpt(
        "preempt",
        default="none",
        choices=[
            ("none", "a session keeps its slot to its end"),
            (
                "fine",
                "after each quantum of input, a stateless session may have"
                " to leave its slot to another session",
            ),
        ],
        help="""
Whether waiting sessions may take slots from others.

With ``fine``, a session takes a slot from one of its own project that has a
lower priority, or, with the strategies ``edf`` and ``hjf``, from one with the
same priority and a less urgent deadline. With ``[conductor] fair_share`` it
may also take one from a project that has used up its share, with priorities
up to ``[quota] max_priority``. The session that loses its slot waits again at
its old place, and goes on in another slot with the first byte that is
missing. Its client must be of this release or later.

Projects need lanes of their own: ``[conductor] fair_share`` or a limit of
sessions.
""",
    ),
    cfg.FloatOpt(
        "preempt_gain",
        default=0.25,
        min=0,
        max=1000,
        help="""
How much more urgent a session's deadline must be than that of the session
whose slot it takes: 1 + this times the work left over the time left. It keeps
slots from going to and fro.
""",
    ),
    cfg.IntOpt(
        "preempt_quantum_bytes",
        default=64 * 2**20,
        min=2**16,
        max=2**50,
        help="""
Bytes of input after which a session may have to leave its slot, with
``preempt``. A slot that takes long to be programmed is left less often: it
always computes for ten times as long as that takes.
""",
    ),
    cfg.StrOpt(
        "elasticity",
        default="ahead",
        help="""
How elastic groups are sized: the name of an entry point in
``fpgapool.elasticity``.

``none`` leaves all sizes as they are, ``nnls`` follows the work that waits,
and ``ahead`` also the work that is expected. With goals, ``edf`` serves
deadlines, ``throughput`` rates, and ``hybrid`` both; it refuses goals that
cannot be reached.
""",
    ),
    cfg.FloatOpt(
        "elasticity_period_s",
        default=0.0,
        min=0.0,
        max=86400.0,
        help="""
Seconds from one look at the sizes of elastic groups to the next. 0 means the
period of the policy: 10 for ``none``, ``nnls`` and ``ahead``, and 1 for the
others. For the first three it should be at least 10 times as long as
programming a slot takes, and must be at least twice as long: otherwise slots
would do little but change groups.
""",
    ),
    cfg.DictOpt(
        "elasticity_options",
        default={},
        help="""
Options of the policy named by ``elasticity``, by name, as in
``strategy_options``.
""",
    ),
    cfg.IntOpt(
        "seed",
        default=0,
        min=0,
        max=2**63 - 1,
        help="""
Seed of the ``random`` choices, so that a recorded run can be repeated.
""",
    ),
]

OPTIONS = groups.Options(_group, scheduler_opts)
