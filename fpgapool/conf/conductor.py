# SPDX-License-Identifier: Apache-2.0

"""Options of the group [conductor]."""

import socket

from oslo_config import cfg

from fpgapool.conf import groups
from fpgapool.vocabulary import states

#: Where :option:`share_tree` comes from.
NO_TREE = "none"
KEYSTONE_TREE = "keystone"

_group = cfg.OptGroup(
    "conductor",
    title="Conductor",
    help="The service that queues sessions and assigns slots to them.",
)

conductor_opts = [
    cfg.StrOpt(
        "name",
        default=socket.gethostname(),
        sample_default="controller1.example.org",
        regex=r"^\S",
        max_length=255,
        help="""
Name of this conductor in the election of the leader.

The default is the host's name. Conductors that share a database need
different names, so set this option if two of them run on one host.
""",
    ),
    cfg.StrOpt(
        "strategy",
        default="wra",
        help="""
How waiting sessions are ordered and placed: the name of an entry point in
``fpgapool.strategies``.

``fifo`` serves sessions in the order of arrival, ``sjf`` serves the smallest
first, and ``wa`` uses one queue for each range of sizes. ``ra`` and ``wra``
order like ``fifo`` and ``wa``, and keep data on its host where possible.
``era`` and ``auto`` compare pairs of sessions and boards by their rates;
``auto`` also counts programming, and needs no tuning for sizes.
``edf`` and ``hjf`` order by deadlines. ``affinity`` avoids reprogramming
slots.

The options of the default, ``wra``, are in the group ``[scheduler]``. It needs
thresholds that fit the sizes of the sessions: see ``[scheduler] queues``.
""",
    ),
    cfg.FloatOpt(
        "report_timeout_s",
        default=15,
        min=1,
        max=3600,
        help="""
Seconds without a report after which the conductor considers a host lost.
Sessions that were being prepared there return to the queue. Sessions whose
data may be flowing stay where they are; see ``lost_session_timeout_s``.

It should be at least three times ``[agent] report_interval_s``, so that one
late report has no consequences.
""",
    ),
    cfg.FloatOpt(
        "lost_session_timeout_s",
        default=600,
        min=1,
        max=7 * 86400,
        help="""
Seconds after which a connected session on a lost host ends as LOST.

Its data may still be flowing while only the host's reports are missing, so
the conductor waits a long time. If the host reports again within that time,
it keeps its sessions.
""",
    ),
    cfg.FloatOpt(
        "lease_s",
        default=6,
        min=1,
        max=300,
        help="""
Seconds after which a standby conductor takes over from a leader that does not
renew its lease in the database. The leader renews it three times in that
period.

Raise it if the database is regularly unavailable for longer than this, for
example during its own failover.
""",
    ),
    cfg.FloatOpt(
        "wait_timeout_s",
        default=3600,
        min=1,
        max=30 * 86400,
        help="""
Seconds that a session may wait in the queue. After that it is rejected with
``WAIT_TIMEOUT``. A request may set a shorter time, but not a longer one.
""",
    ),
    cfg.StrOpt(
        "deadline_action",
        default=states.CONTINUE,
        choices=[
            (states.CONTINUE, "the session continues"),
            (states.KILL, "the session ends with ``DEADLINE_PASSED``"),
            (
                states.EARLY,
                "the session ends with ``DEADLINE_PASSED`` as soon as no slot"
                " can meet the deadline",
            ),
        ],
        help="""
What happens to a session at its deadline, unless its request sets
``deadline_action``.
""",
    ),
    cfg.FloatOpt(
        "power_cap_w",
        min=0,
        help="""
Maximum total power, in watts, of all slots in use. The power of idle hosts and
boards is not included. The pool assigns no slot that would exceed the cap;
sessions then wait with the reason ``POWER_CAP``. Lowering the cap does not
take slots away from sessions. By default there is no cap.

A slot in use is charged the highest ``active_w`` that any of the pool's own
accelerators sets for the slot's shape (under ``platforms`` in its profile),
regardless of which accelerator the session uses. If no accelerator sets
``active_w`` for that shape, the slot counts as 0 W.
""",
    ),
    cfg.DictOpt(
        "host_power_caps_w",
        default={},
        help="""
Power caps of individual hosts, as ``UUID:watts`` pairs separated by commas.
The slots in use on such a host do not exceed its cap; ``power_cap_w`` also
applies. If the host's boards file also has a cap, the lower one applies.
""",
    ),
    cfg.FloatOpt(
        "connect_timeout_s",
        default=30,
        min=1,
        max=3600,
        help="""
Seconds that a prepared slot waits for its client to connect. A request may
set a shorter time, but not a longer one. A client of a group is removed if it
does not connect to a desk within this time.

The slot is idle meanwhile, so a high value wastes slots on clients that died
while they were queued.
""",
    ),
    cfg.FloatOpt(
        "resume_grace_s",
        default=10,
        min=0,
        max=3600,
        help="""
Seconds that a slot is kept for a client whose connection broke. A request may
set a shorter time, but not a longer one. With 0, a session ends when its
connection breaks.

A client of a group is removed when it has been disconnected from all desks
for this time.
""",
    ),
    cfg.FloatOpt(
        "idle_timeout_s",
        default=60,
        min=0,
        max=86400,
        help="""
Seconds after which a connected session whose client neither sends input nor
receives output ends as EXPIRED with ``IDLE_TIMEOUT``. 0 means never.

This keeps clients that do nothing from blocking a slot. If the slot itself
returns no result for a piece of input within this time, the session ends as
FAILED with ``CORE_FAILED``.

A slot of a group that computes a single task for this long is removed from
the group. The task is repeated in another slot; after three slots it fails
with ``WORKER_DIED``.
""",
    ),
    cfg.FloatOpt(
        "max_hold_s",
        default=86400,
        min=0,
        max=30 * 86400,
        help="""
A session ends as EXPIRED with ``HOLD_TIMEOUT`` this many seconds after its
first connection, even if it is active. 0 means never.
""",
    ),
    cfg.FloatOpt(
        "min_progress_bytes_per_s",
        default=1000,
        min=0,
        max=1e9,
        help="""
Minimum average rate of a connected session's input over each minute, in bytes
per second. A slower session ends as EXPIRED with ``TOO_SLOW``. 0 means that
any rate is allowed.

This ends sessions of clients that hold a slot by sending an occasional byte,
which ``idle_timeout_s`` does not detect.
""",
    ),
    cfg.FloatOpt(
        "prepare_timeout_s",
        default=60,
        min=1,
        max=3600,
        help="""
Maximum time in seconds that an agent may take to prepare a slot. After that,
the session gets another slot.

It must be longer than it takes to program the slowest board.
""",
    ),
    cfg.FloatOpt(
        "resend_interval_s",
        default=2,
        min=0.1,
        max=60,
        help="""
Seconds after which the conductor repeats an order to an agent whose reports
do not show its effect.
""",
    ),
    cfg.IntOpt(
        "accelerator_fault_limit",
        default=2,
        min=1,
        max=1000,
        help="""
Number of consecutive failures of an accelerator in one slot after which its
sessions avoid all of the host's slots of that shape, as long as another usable
slot fits. They also avoid these slots if, since the accelerator last worked
there, preparing it has failed in more than this many of them.

A failure is a slot that could not be prepared, or a session that ended
because the accelerator or its worker process failed. Keep this limit below
``slot_fault_limit``, and that one below ``device_fault_limit``: a slot or a
whole device then goes out of service only after more failures.
""",
    ),
    cfg.IntOpt(
        "slot_fault_limit",
        default=3,
        min=1,
        max=1000,
        help="""
Number of consecutive failures in a slot, with any accelerators, after which
the slot is faulty. A self-test or an operator returns it to service. See
``accelerator_fault_limit`` for the definition of a failure.
""",
    ),
    cfg.IntOpt(
        "device_fault_limit",
        default=6,
        min=1,
        max=1000,
        help="""
Number of consecutive failures on a device, in any of its slots, after which
the whole device is faulty. A self-test or an operator returns it to service.
""",
    ),
    cfg.FloatOpt(
        "self_test_after_s",
        default=60,
        min=0.1,
        max=30 * 86400,
        help="""
Seconds after which a faulty slot, device or accelerator is tested: the agent
programs a slot, runs a computation with a known result, and scrubs the slot.

If the test passes, the faulty part returns to service. Otherwise the time to
the next test doubles, up to ``self_test_max_s``.
""",
    ),
    cfg.FloatOpt(
        "self_test_max_s",
        default=21600,
        min=0.1,
        max=30 * 86400,
        help="""
Maximum time in seconds between two self-tests. Values below
``self_test_after_s`` are treated as ``self_test_after_s``.
""",
    ),
    cfg.IntOpt(
        "max_claimed_bytes",
        default=2**50,
        min=1,
        # The claim is in a signed 64-bit column.
        max=2**63 - 1,
        help="""
Maximum number of bytes that a session may claim to process. Larger requests
are refused with ``SIZE_TOO_LARGE``. The default is 1 PiB.
""",
    ),
    cfg.FloatOpt(
        "claim_slack",
        default=0.1,
        min=0,
        max=10,
        help="""
How much more than its claim a session may send, as a fraction of the claim.

Beyond that, the session keeps its slot only while no other session waits for
the slot. When one does, a stateless session returns to the queue and later
continues in another slot; a stateful one ends with ``CLAIM_EXCEEDED``.
""",
    ),
    cfg.IntOpt(
        "max_queued_sessions",
        default=200000,
        min=1,
        max=10000000,
        help="""
Maximum number of waiting sessions of all projects. Further requests are
refused with ``QUEUE_FULL``. A waiting session takes about 2 kB of the
conductor's memory.
""",
    ),
    cfg.IntOpt(
        "max_waiting_inputs",
        default=100000,
        min=100,
        max=10000000,
        help="""
Maximum number of client requests, cancellations and queries that wait for the
leader; one project may have at most a quarter of them. Agents' reports are
accepted until twice as many inputs, of both kinds, are waiting.

Above these limits, messages that agents repeat, which are most of them, are
dropped, and others are refused with ``RATE_LIMITED``. The leader handles
thousands per second, so this is rare; see the metric
``fpgapool_conductor_inputs_dropped_total``.
""",
    ),
    cfg.BoolOpt(
        "fair_share",
        default=False,
        help="""
Whether projects share the slots by weight, with deficit round robin: each
project is charged for the time that it holds a slot, times the slot's rate.
``strategy`` then orders the sessions within each project.

Without it, the project that submits the most work gets the most slots. Enable
it in every pool that more than one project uses; ``production.conf.sample``
does.

Related options:

* ``fair_share_quantum_bytes``, ``project_weights``, ``share_tree`` and
  ``max_wait_s``.
""",
    ),
    cfg.IntOpt(
        "fair_share_quantum_bytes",
        default=4 * 2**30,
        min=1,
        max=2**50,
        help="""
Bytes that a project of weight 1 may use in each round of ``fair_share``. A
session is charged for the capacity of its slot for as long as it holds the
slot, and at least for its claim.

A good value is about ten times the size of a typical session. A smaller
quantum shares more evenly in the short run, but gives ``strategy`` fewer
sessions to choose from, so that all sessions take longer.
""",
    ),
    cfg.Opt(
        "project_weights",
        type=cfg.types.Dict(cfg.types.Float(min=0.001, max=1000)),
        default={},
        sample_default={"5f0e6b7c9a1d4e2f8b3c7d9e0a1b2c3d": 2.0},
        help="""
Weights of projects under ``fair_share``, as ``project_id:weight`` pairs
separated by commas. A project of weight 2 gets twice the bytes of one of
weight 1, which is the default.

With ``share_tree``, an ID may also be that of a domain, and a weight counts
among those directly below the same domain or project.
""",
    ),
    cfg.StrOpt(
        "share_tree",
        default=NO_TREE,
        choices=[
            (NO_TREE, "All projects divide the slots among them."),
            (
                KEYSTONE_TREE,
                "Keystone's domains divide the slots, and the projects of a"
                " domain its part; requires the group [keystone].",
            ),
        ],
        help="""
How projects are grouped under ``fair_share``.

In a tree, the part of a project that needs nothing goes to the others below
the same domain or project first. A domain of weight 1 gets
``fair_share_quantum_bytes`` in each round, which its projects divide, so the
quantum should be larger than without a tree.
""",
    ),
    cfg.FloatOpt(
        "max_wait_s",
        default=0,
        min=0,
        max=30 * 86400,
        help="""
Seconds after which a waiting session is served before all others, regardless
of ``strategy`` and ``fair_share``, so that large sessions do not starve. 0,
the default, means never.

It should be well above the usual wait: sessions that wait longer are served
in the order of arrival, so a low value disables the strategy.
""",
    ),
]

OPTIONS = groups.Options(_group, conductor_opts)
