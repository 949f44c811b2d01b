# SPDX-License-Identifier: Apache-2.0

"""Options of the group [agent]."""

from oslo_config import cfg

from fpgapool.conf import groups

_group = cfg.OptGroup(
    "agent",
    title="Agent",
    help="The service on each host that runs its boards, workers and front"
    " door.",
)

agent_opts = [
    cfg.StrOpt(
        "driver",
        default="emulator",
        help="""
Driver of the host's boards: the name of an entry point in
``fpgapool.drivers``.

``emulator``, the default, computes real results at a modelled speed on the
boards that ``[emulator] boards_file`` describes. ``opencl`` uses the OpenCL
devices that ``[opencl] boards_file`` selects. ``noop`` is for hosts without
boards, which need only a front door.
""",
    ),
    cfg.DictOpt(
        "front_door_sockets",
        default={},
        help="""
Unix sockets through which programs on this host reach the pool, as
``project_id:path`` pairs separated by commas.

Any process that can open a socket can act on behalf of the socket's project.
Restrict access with the permissions of its directory, or mount it only into
the project's containers. By default there are no sockets, and programs on
this host cannot open sessions.
""",
    ),
    cfg.IntOpt(
        "max_front_door_connections",
        default=1000,
        min=1,
        max=100000,
        help="""
Maximum number of clients connected to the front door of this host, on all
sockets together. Further clients are refused with ``TOO_MANY_CONNECTIONS``.
""",
    ),
    cfg.IntOpt(
        "max_front_door_project_connections",
        default=0,
        min=0,
        max=100000,
        help="""
Maximum number of clients of one project connected to the front door of this
host. Further clients are refused with ``TOO_MANY_CONNECTIONS``.

With the default, 0, each of the ``front_door_sockets`` gets an equal share of
``max_front_door_connections``, so that no project uses up another's share. A
project may exceed its share while a quarter of all connections is free.
""",
    ),
    cfg.IntOpt(
        "max_front_door_project_sessions",
        default=20000,
        min=1,
        max=10000000,
        help="""
Maximum number of sessions of one project that programs on this host wait for
or use through the front door, including those that the front door is
cancelling. Further sessions are refused with ``QUOTA_EXCEEDED``.

This limits the agent's memory, of which a session takes about 2 kB. The
limits of projects in the whole pool are in ``[quota]``.
""",
    ),
    cfg.IPOpt(
        "data_address",
        help="""
Address on which the workers of this host accept clients from other hosts and
virtual machines.

There is deliberately no default: use an address on a network that is meant
for this traffic, not on the management network. Without an address, only
programs on this host can use its boards.
""",
    ),
    cfg.StrOpt(
        "data_network",
        default="data",
        max_length=64,
        # "local" is the name of the path through the front door.
        regex=r"^(?!local$)[A-Za-z0-9_.-]+$",
        help="""
Name of the network of ``data_address``. Clients receive it with the address.
""",
    ),
    cfg.StrOpt(
        "data_ports",
        default="0",
        regex=r"^[0-9]{1,5}(-[0-9]{1,5})?$",
        help="""
TCP port or range of ports, such as ``49152-49999``, on which workers accept
clients. A host needs one port per slot.

With the default, ``0``, the operating system chooses the ports. Set a range
if a firewall or a security group must allow them.
""",
    ),
    cfg.BoolOpt(
        "tls",
        default=True,
        help="""
Whether connections from clients on other hosts are encrypted with TLS. Clients
check the worker's certificate against a fingerprint that they receive with
their session, so there are no certificates to install.

Disable this only on a network that nobody else can eavesdrop on.
""",
    ),
    cfg.FloatOpt(
        "report_interval_s",
        default=5,
        min=0.1,
        max=1200,
        help="""
Seconds between two reports of the host's slots to the conductor. The agent
also reports every change immediately.

Related options:

* ``[conductor] report_timeout_s`` should be at least three times as long.
""",
    ),
    cfg.FloatOpt(
        "open_timeout_s",
        default=10,
        min=1,
        max=3600,
        help="""
Seconds that a program's request to open a session waits for the conductor.
After that the request fails with ``CONDUCTOR_UNAVAILABLE``.
""",
    ),
    cfg.FloatOpt(
        "session_poll_interval_s",
        default=5,
        min=0.1,
        max=3600,
        help="""
If the agent receives no message about a waiting session for this many
seconds, its next report names the session, because the broker may have lost a
message. After twelve times as long, it queries the conductor.
""",
    ),
    cfg.BoolOpt(
        "workers_outlive_agent",
        default=True,
        help="""
Whether workers and their sessions continue when the agent stops. The next
agent then takes them over. Otherwise they end with the agent.
""",
    ),
    cfg.StrOpt(
        "nic_device",
        help="""
Network device whose rate and counters the agent reports. The default is the
device that carries ``data_address`` or, without it, the default route.
""",
    ),
    cfg.FloatOpt(
        "nic_bytes_per_s",
        default=0,
        min=0,
        help="""
Rate of the network device in each direction, in bytes per second. The
default, 0, means the rate that the kernel reports.

Set it if the kernel reports no rate, as in most virtual machines, or if
fpgapool may use only part of the link.
""",
    ),
    cfg.FloatOpt(
        "data_share_percent",
        default=0,
        min=0,
        max=100,
        help="""
Maximum share of the network device's rate that the data plane may use in each
direction, in percent. The rest of the link is left for management and for
virtual machines. The default, 0, means no cap.

The cap requires CAP_NET_ADMIN, for a small process that oslo.privsep starts.
If the device has a queueing discipline that fpgapool did not create, or if
the process cannot be started, the agent logs this and continues without a
cap.

Related options:

* ``data_address`` and a range of ``data_ports`` select the packets.
* ``nic_device`` and ``nic_bytes_per_s`` set the network device and its rate.
* ``data_rate_bytes_per_s`` sets a rate instead of a share.
""",
    ),
    cfg.FloatOpt(
        "data_rate_bytes_per_s",
        default=0,
        min=0,
        help="""
Like ``data_share_percent``, but in bytes per second. The minimum is 125000.
The default, 0, means no cap.
""",
    ),
    cfg.BoolOpt(
        "data_share_remove_at_stop",
        default=False,
        help="""
Whether the cap on the data plane is removed when the agent stops. By default
it stays, because workers outlive the agent. An agent that starts without a
cap always removes an earlier one.
""",
    ),
    cfg.IntOpt(
        "chunk_bytes",
        default=4 * 1024 * 1024,
        # Below a page the overhead of frames dominates; above 64 MiB one chunk
        # occupies a connection for so long that nothing overlaps.
        min=4096,
        max=64 * 1024 * 1024,
        help="""
Size in bytes of the chunks in which data passes through a slot. Larger chunks
have less overhead, but need more memory.

Related options:

* Each slot needs memory for ``window_chunks`` chunks in each direction.
""",
    ),
    cfg.IntOpt(
        "window_chunks",
        default=8,
        # With one chunk, transfer and processing never overlap.
        min=2,
        max=64,
        help="""
Number of chunks that may be in flight in each direction, so that transfer,
processing and return overlap. Four are enough on fast networks.
""",
    ),
    cfg.IntOpt(
        "block_cache_bytes",
        default=256 * 1024 * 1024,
        min=0,
        max=2**50,
        help="""
Maximum memory in bytes that each slot's worker uses to keep data that
programs use repeatedly, so that it crosses the network only once. The memory
is allocated as needed, and cleared when the slot is released. With 0, all
data is sent every time.

The limit applies to each slot: a host with eight slots may need eight times
as much.
""",
    ),
    cfg.IntOpt(
        "max_group_project_connections",
        default=64,
        min=1,
        max=100000,
        help="""
Maximum number of programs of one project connected to one group on this host.
Further programs are refused with ``QUOTA_EXCEEDED``. A program on another host
counts towards the limit of every host whose desk it connects to.

Each connection takes up to five file descriptors, 33 MiB of memory, charged
to the agent's systemd unit, and one thread, or two if the program is on
another host. Most take far less memory: only programs that are slow to read
large results need all of it.
""",
    ),
    cfg.FloatOpt(
        "hello_timeout_s",
        default=5,
        min=0.1,
        max=300,
        help="""
Seconds within which a new data connection must prove that it belongs to the
slot's session. After that, the worker closes it.
""",
    ),
    cfg.StrOpt(
        "isolation",
        default="preferred",
        choices=[
            ("none", "Workers and desks can reach what the agent's user can."),
            (
                "preferred",
                "They give up what this machine lets them give up.",
            ),
            ("required", "The agent does not serve if that is not all."),
        ],
        help="""
Whether workers and desks give up, before they serve tenants, all files, system
calls and capabilities that they do not need. The agent says at its start, in
its metrics and to the conductor what this machine lacks for it.
""",
    ),
    cfg.FloatOpt(
        "worker_orphan_s",
        default=600,
        min=1,
        max=7 * 86400,
        help="""
Seconds after which a worker exits if it has neither an agent nor a session.
""",
    ),
    cfg.FloatOpt(
        "worker_timeout_s",
        default=10,
        # Workers are asked every second.
        min=2,
        max=3600,
        help="""
Seconds within which a worker must answer its agent. If a worker hangs or does
not answer for another reason, the agent kills and replaces it.

If the client has not connected yet, the worker's session gets another slot.
Otherwise the session ends with ``WORKER_DIED``, and if it is stateless, the
client reopens it in another slot.
""",
    ),
    cfg.IntOpt(
        "worker_memory_bytes",
        default=0,
        min=0,
        max=2**50,
        help="""
Maximum memory in bytes that one slot's worker may use, with its sessions'
buffers, its block cache, and what its driver needs. If it needs more, the
kernel ends it, and its session ends with ``OUT_OF_MEMORY``; nothing else on
the host does.

With the default, 0, a worker may use all that the agent's systemd unit may. If
that is used up, the kernel ends the process that uses most. To keep one tenant
from taking the memory of all, set a limit that the largest accelerator needs,
at least 512 MiB: buffers take up to 2 × ``window_chunks`` × ``chunk_bytes``,
and cached blocks ``block_cache_bytes``.

This requires cgroup v2, and ``Delegate=memory pids cpu`` in the unit. Without,
only what a worker allocates for itself is limited, with the stacks of its
threads, and a session that needs more ends with ``OUT_OF_MEMORY``, too.
""",
    ),
    cfg.IntOpt(
        "desk_memory_bytes",
        default=0,
        min=0,
        max=2**50,
        help="""
Maximum memory in bytes that one group's desk may use for its clients' waiting
tasks and results. If it needs more, the kernel ends it; its clients connect to
a new one. The default, 0, means the same as for ``worker_memory_bytes``.
""",
    ),
    cfg.IntOpt(
        "worker_pids_max",
        default=2048,
        min=0,
        max=2**22,
        help="""
Maximum number of processes and threads of one worker or desk. A worker has
about a dozen threads, in addition to those of its driver, and a desk up to two
for each program. 0 means the limit of the agent's systemd unit.
""",
    ),
    cfg.IntOpt(
        "worker_cpu_weight",
        default=100,
        min=1,
        max=10000,
        help="""
Weight of one worker's processor time, while processors are busy, relative to
other workers, desks and the agent, which have 100.
""",
    ),
]

OPTIONS = groups.Options(_group, agent_opts)
