# SPDX-License-Identifier: Apache-2.0

"""Options of the group [scheduler]: the tuning of strategies."""

from oslo_config import cfg

from fpgapool.conf import groups
from fpgapool.vocabulary import scheduling

_group = cfg.OptGroup(
    "scheduler",
    title="Scheduler",
    help="""
Tuning of the strategy named by ``[conductor] strategy``. Options that the
chosen strategy does not use are ignored.
""",
)


def _shared_option(name: str) -> cfg.Opt:
    about = scheduling.FIELDS[name]
    bounds = dict(about.metadata)
    del bounds["conf"]
    unset = bounds.pop("unset")
    default = unset if about.default is None else about.default
    kind = scheduling.kind(name)
    if "choices" in bounds:
        kind, bounds["choices"] = str, list(bounds["choices"].items())
    elif kind is tuple:
        limits = {bound: bounds.pop(bound) for bound in ("min", "max")}
        bounds["item_type"] = cfg.types.Integer(**limits)
    elif name.endswith("_bytes"):
        kind, default = int, int(default)
    made: cfg.Opt = _KINDS[kind](
        scheduling.conf_name(name), default=default, **bounds
    )
    return made


_KINDS = {
    bool: cfg.BoolOpt,
    float: cfg.FloatOpt,
    int: cfg.IntOpt,
    str: cfg.StrOpt,
    tuple: cfg.ListOpt,
}

scheduler_opts = [
    *map(_shared_option, scheduling.FIELDS),
    cfg.DictOpt(
        "strategy_options",
        default={},
        help="""
Options of the chosen strategy that this group does not contain, as name:value
pairs: ``era``, ``auto``, ``hjf``, ``affinity`` and strategies from other
packages have such options. A value is a number, ``true``, ``false`` or text.
The conductor refuses to start if the strategy does not have one of these
options.
""",
    ),
    cfg.StrOpt(
        "preempt",
        default="none",
        choices=[
            ("none", "a session keeps its slot until it ends"),
            (
                "fine",
                "a stateless session may lose its slot to another session"
                " after each quantum of input",
            ),
        ],
        help="""
Whether waiting sessions may take slots from others.

With ``fine``, a session takes a slot from one of its own project that has a
lower priority, or, with the strategies ``edf`` and ``hjf``, from one with the
same priority and a less urgent deadline. With ``[conductor] fair_share`` it
may also take one from a project that has used up its share; between projects,
priorities count only up to ``[quota] max_priority``. The session that loses
its slot returns to its place in the queue, and continues in another slot from
the first missing byte.

Each project needs a queue of its own, which requires ``[conductor]
fair_share`` or a quota of sessions.
""",
    ),
    cfg.FloatOpt(
        "preempt_gain",
        default=0.25,
        min=0,
        max=1000,
        help="""
How much more urgent a session's deadline must be than that of the session
whose slot it takes. Urgency is the work left, divided by the time left; it
must be at least (1 + this value) times the other session's. A value above 0
keeps two sessions from taking a slot from each other in turn.
""",
    ),
    cfg.IntOpt(
        "preempt_quantum_bytes",
        default=64 * 2**20,
        min=2**16,
        max=2**50,
        help="""
Bytes of input after which a session may lose its slot to another, with
``preempt``. A slot that takes a long time to program changes hands less
often: it computes for at least ten times its programming time.
""",
    ),
    cfg.StrOpt(
        "elasticity",
        default="ahead",
        help="""
How elastic groups are sized: the name of an entry point in
``fpgapool.elasticity``.

``none`` leaves all sizes unchanged. ``nnls`` sizes groups by their waiting
work, and ``ahead`` by their waiting and expected work. For groups with goals,
``edf`` supports deadlines, ``throughput`` rates, and ``hybrid`` both;
``hybrid`` refuses goals that cannot be reached.
""",
    ),
    cfg.FloatOpt(
        "elasticity_period_s",
        default=0.0,
        min=0.0,
        max=86400.0,
        help="""
Interval in seconds at which the sizes of elastic groups are reviewed. 0 means
the policy's own interval: 10 for ``none``, ``nnls`` and ``ahead``, and 1 for
the others.

For the first three, it should be at least 10 times as long as it takes to
program a slot, and must be at least twice as long: otherwise slots would
spend most of their time changing groups.
""",
    ),
    cfg.DictOpt(
        "elasticity_options",
        default={},
        help="""
Options of the policy that ``elasticity`` selects, as name:value pairs; see
``strategy_options``.
""",
    ),
    cfg.IntOpt(
        "seed",
        default=0,
        min=0,
        max=2**63 - 1,
        help="""
Seed of random choices, so that a recorded run can be repeated exactly.
""",
    ),
]

OPTIONS = groups.Options(_group, scheduler_opts)
