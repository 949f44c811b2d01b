# SPDX-License-Identifier: Apache-2.0

"""Options of the group [conductor]."""

import socket

from oslo_config import cfg

from fpgapool.conf import groups
from fpgapool.vocabulary import states

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

The default is the host's name. It must differ between conductors that share
a database: set it if two of them run on one host.
""",
    ),
    cfg.StrOpt(
        "strategy",
        default="wra",
        help="""
How waiting sessions are ordered and placed: the name of an entry point in
``fpgapool.strategies``.

``fifo`` serves in the order of arrival, ``sjf`` the smallest first, ``wa`` by
queues of similar size; ``ra`` and ``wra`` are ``fifo`` and ``wa`` with slots
chosen so that data stay on their host where possible. ``edf`` and ``hjf`` go
by deadlines. ``affinity`` avoids to program slots. The default, ``wra``, is
right for most clouds. Its options are in the group ``[scheduler]``.
""",
    ),
    cfg.FloatOpt(
        "report_timeout_s",
        default=15,
        min=1,
        max=3600,
        help="""
Seconds without a report after which a host counts as lost, and sessions that
were being prepared there go back to the queue.

It should be at least three times ``[agent] report_interval_s``, so that one
late report costs nothing. Sessions whose data may be flowing are never moved
for this reason.
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
the conductor gives it up late. A host that comes back earlier keeps its
sessions.
""",
    ),
    cfg.FloatOpt(
        "lease_s",
        default=6,
        min=1,
        max=300,
        help="""
Seconds after which a stand-by conductor takes over from a leader that does
not renew its lease in the database. The leader renews it every third of that
time.

Raise it if the database can be away for longer than that in normal
operation, for example during its own failover.
""",
    ),
    cfg.FloatOpt(
        "wait_timeout_s",
        default=3600,
        min=1,
        max=30 * 86400,
        help="""
Seconds that a session may wait in the queue before it is rejected with
``WAIT_TIMEOUT``. A request may ask for less, not for more.
""",
    ),
    cfg.StrOpt(
        "deadline_action",
        default=states.CONTINUE,
        choices=[
            (states.CONTINUE, "the session goes on"),
            (states.KILL, "the session ends with ``DEADLINE_PASSED``"),
            (
                states.EARLY,
                "as kill, and as soon as no slot could keep the deadline",
            ),
        ],
        help="""
What happens to a session at its deadline, if its request does not say it.
""",
    ),
    cfg.FloatOpt(
        "power_cap_w",
        min=0,
        help="""
Watts that all slots in use may take together, in addition to idle hosts and
boards. The pool gives no session a slot above it; sessions then wait with the
reason ``POWER_CAP``. A lower cap takes no slot away. Unset: no cap.

A slot in use counts with the highest ``active_w`` of the pool's own
accelerators in its shape (``platforms`` of their profiles), whatever its
session runs. Slots of a shape for which no accelerator has ``active_w`` count
with 0 W.
""",
    ),
    cfg.DictOpt(
        "host_power_caps_w",
        default={},
        help="""
Such caps for the slots of some hosts, as ``UUID:watts``, separated by commas.
""",
    ),
    cfg.FloatOpt(
        "connect_timeout_s",
        default=30,
        min=1,
        max=3600,
        help="""
Seconds that a prepared slot waits for its client to connect. A request may
ask for less, not for more.

The slot is idle during that time, so a high value lets clients that died in
the queue waste slots.

A client of a group ends if it has not connected to a desk for so long.
""",
    ),
    cfg.FloatOpt(
        "resume_grace_s",
        default=10,
        min=0,
        max=3600,
        help="""
Seconds that a slot is kept for a client whose connection broke. A request may
ask for less, not for more. 0 ends the session with its connection.

A client of a group ends when it has lost its connections to all desks for so
long.
""",
    ),
    cfg.FloatOpt(
        "idle_timeout_s",
        default=60,
        min=0,
        max=86400,
        help="""
Seconds after which a connected session whose client sends no new input and
receives no output ends as EXPIRED with ``IDLE_TIMEOUT``. 0 means never.

A connected client that does nothing keeps the slot from others. If the slot
has no result for a piece of input for so long, the session ends as FAILED with
``CORE_FAILED``.

A group loses a slot that computes for so long on one task. The task runs again
in another slot, and fails with ``WORKER_DIED`` when it has cost three.
""",
    ),
    cfg.FloatOpt(
        "max_hold_s",
        default=86400,
        min=0,
        max=30 * 86400,
        help="""
Seconds after its first connection at which a session ends as EXPIRED with
``HOLD_TIMEOUT``, whatever it does. 0 means never.
""",
    ),
    cfg.FloatOpt(
        "min_progress_bytes_per_s",
        default=1000,
        min=0,
        max=1e9,
        help="""
Lowest mean rate of a connected session's input, in bytes per second over each
minute. A slower session ends as EXPIRED with ``TOO_SLOW``. 0 means any rate.

It stops clients that keep a slot by sending a byte now and then, which
``idle_timeout_s`` does not detect.
""",
    ),
    cfg.FloatOpt(
        "prepare_timeout_s",
        default=60,
        min=1,
        max=3600,
        help="""
Seconds within which an agent must have prepared a slot; after that the
session gets another one.

It must be longer than the time to program the slowest board.
""",
    ),
    cfg.FloatOpt(
        "resend_interval_s",
        default=2,
        min=0.1,
        max=60,
        help="""
Seconds after which the conductor repeats an order to an agent, if the agent's
report does not show its effect.
""",
    ),
    cfg.IntOpt(
        "accelerator_fault_limit",
        default=2,
        min=1,
        max=1000,
        help="""
Number of failures in a row of one accelerator in one slot after which the
pool no longer runs the accelerator in the host's slots of the same shape, as
long as others fit it. The same happens when more slots of the host than that,
in a row, could not be prepared with it.

A failure is a slot that could not be prepared, or a session that ended
because the accelerator or its worker process failed. Keep it below
``slot_fault_limit``, and that below ``device_fault_limit``: the pool then
stops using more only when more failures point to it.
""",
    ),
    cfg.IntOpt(
        "slot_fault_limit",
        default=3,
        min=1,
        max=1000,
        help="""
Number of failures in a row in a slot, with whichever accelerators, that make
the slot faulty. A self-test or the operator brings it back. See
``accelerator_fault_limit`` for the definition of a failure.
""",
    ),
    cfg.IntOpt(
        "device_fault_limit",
        default=6,
        min=1,
        max=1000,
        help="""
Number of failures in a row on a device, in whichever of its slots, that make
the whole device faulty. A self-test or the operator brings it back.
""",
    ),
    cfg.FloatOpt(
        "self_test_after_s",
        default=60,
        min=0.1,
        max=30 * 86400,
        help="""
Seconds after which a faulty slot, device or accelerator is tested: the agent
programs a slot, computes something with a known result, and scrubs the slot.

If the test passes, the pool uses it again. If not, the time to the next test
is doubled, up to ``self_test_max_s``.
""",
    ),
    cfg.FloatOpt(
        "self_test_max_s",
        default=21600,
        min=0.1,
        max=30 * 86400,
        help="""
Longest time in seconds between two self-tests. A value below
``self_test_after_s`` counts as that.
""",
    ),
    cfg.IntOpt(
        "max_claimed_bytes",
        default=2**50,
        min=1,
        # The claim is in a signed 64-bit column.
        max=2**63 - 1,
        help="""
Largest number of bytes that a session may claim to process. Larger requests
are refused with ``SIZE_TOO_LARGE``. The default is 1 PiB.
""",
    ),
    cfg.FloatOpt(
        "claim_slack",
        default=0.1,
        min=0,
        max=10,
        help="""
How much more than its claim a session may send, as a share of the claim.

Beyond that a session keeps its slot only while no other session waits for it.
A stateless one then continues in another slot later; a stateful one ends with
``CLAIM_EXCEEDED``.
""",
    ),
    cfg.IntOpt(
        "max_queued_sessions",
        default=200000,
        min=1,
        max=10000000,
        help="""
Largest number of sessions that may wait in all. Further requests are refused
with ``QUEUE_FULL``. A waiting session takes about 2 kB of the conductor's
memory.
""",
    ),
    cfg.IntOpt(
        "max_waiting_inputs",
        default=100000,
        min=100,
        max=10000000,
        help="""
Largest number of requests, cancellations and questions of clients that may
wait for the leader's decision, a quarter of them of one project. Reports of
agents may be twice as many.

Further ones are dropped if agents repeat them, as they usually do, and else
refused with ``RATE_LIMITED``. The leader decides thousands a second, so this
is rare; see the metric ``fpgapool_conductor_inputs_dropped_total``.
""",
    ),
    cfg.BoolOpt(
        "fair_share",
        default=False,
        help="""
Whether projects share the slots by weight (deficit round robin on the time
that slots are held, times their rate), whatever ``strategy`` orders the
sessions of each project.

Without it, the project that submits most gets most. Turn it on for every pool
that more than one project uses; ``production.conf.sample`` does. Related
options are ``fair_share_quantum_bytes``, ``project_weights`` and
``max_wait_s``.
""",
    ),
    cfg.IntOpt(
        "fair_share_quantum_bytes",
        default=4 * 2**30,
        min=1,
        max=2**50,
        help="""
Bytes that a project of weight 1 may use in each round of ``fair_share``: the
claims of its sessions, and the capacity of their slots while they are held.

A good value is several sessions, about ten, of their usual size. A smaller
quantum shares more evenly in the short run, but leaves fewer sessions that
are near a slot or first by ``strategy``, and all sessions take longer.
""",
    ),
    cfg.Opt(
        "project_weights",
        type=cfg.types.Dict(cfg.types.Float(min=0.001, max=1000)),
        default={},
        sample_default={"5f0e6b7c9a1d4e2f8b3c7d9e0a1b2c3d": 2.0},
        help="""
Weights of projects under ``fair_share``, as pairs of a project's ID and a
number. A project with the weight 2 gets twice the bytes of one with 1, which
is the default.
""",
    ),
    cfg.FloatOpt(
        "max_wait_s",
        default=0,
        min=0,
        max=30 * 86400,
        help="""
Seconds after which a waiting session goes before all others, whatever
``strategy`` and ``fair_share`` say, so that large ones do not starve. 0, the
default, means never.

It should be well above the usual wait: if most sessions have waited for so
long, it is first come, first served.
""",
    ),
]

OPTIONS = groups.Options(_group, conductor_opts)
