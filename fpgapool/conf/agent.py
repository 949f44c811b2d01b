# SPDX-License-Identifier: Apache-2.0

"""Options of the group [agent]."""

from oslo_config import cfg

from fpgapool.conf import groups

_group = cfg.OptGroup(
    "agent",
    title="Agent",
    help="The service on each host: its boards, workers and front door.",
)

agent_opts = [
    cfg.StrOpt(
        "driver",
        default="emulator",
        help="""
Driver of the host's boards: the name of an entry point in
``fpgapool.drivers``.

``emulator``, the default, computes real results at a modelled speed, with
boards described by ``[emulator] boards_file``. ``opencl`` uses the OpenCL
devices selected by ``[opencl] boards_file``. ``noop`` is for hosts without
boards, which need only a front door.
""",
    ),
    cfg.DictOpt(
        "front_door_sockets",
        default={},
        help="""
Unix sockets through which programs on this host reach the pool, as a list of
``project_id:path``.

The path is the identity: any process that can open the socket acts for the
project. Restrict access by the permissions of its directory, or mount it into
the containers of that project only. The default is none: programs on this
host cannot open sessions.
""",
    ),
    cfg.IntOpt(
        "max_front_door_connections",
        default=1000,
        min=1,
        max=100000,
        help="""
Maximum number of clients connected to the front door of this host, over all
sockets. Further clients are refused with ``TOO_MANY_CONNECTIONS``.
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

The default, 0, is an equal share of ``max_front_door_connections`` for each
of ``front_door_sockets``, so that no project uses up another's share. A
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

It bounds the agent's memory: a session takes about 2 kB. The limits of
projects are in ``[quota]``.
""",
    ),
    cfg.IPOpt(
        "data_address",
        help="""
Address on which the workers of this host accept clients from other hosts and
virtual machines.

There is deliberately no default: use an address on a network for this
traffic, not on the management network. Without one, only programs on this
host can use its boards.
""",
    ),
    cfg.StrOpt(
        "data_network",
        default="data",
        max_length=64,
        # "local" is the name of the path through the front door.
        regex=r"^(?!local$)[A-Za-z0-9_.-]+$",
        help="""
Name of the network of ``data_address``. Clients get it with the address.
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
where a firewall or a security group has to admit them.
""",
    ),
    cfg.BoolOpt(
        "tls",
        default=True,
        help="""
Encrypt connections from clients on other hosts with TLS. Clients check the
worker's certificate against a fingerprint that they get with their session,
so there are no certificates to install.

Turn it off only on a network on which nobody else can listen.
""",
    ),
    cfg.FloatOpt(
        "report_interval_s",
        default=5,
        min=0.1,
        max=1200,
        help="""
Seconds between two reports of the host's slots to the conductor. The agent
also reports each change at once.

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
Seconds without news of a waiting session after which the agent queries the
conductor, because the broker may have lost a message.
""",
    ),
    cfg.BoolOpt(
        "workers_outlive_agent",
        default=True,
        help="""
Whether workers, and the sessions in them, continue when the agent stops; the
next agent takes them over. If it is off, they end with the agent.
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
Rate of the network device, in bytes per second and direction. The default, 0,
means the rate that the kernel reports.

Set it if the kernel reports none, as in most virtual machines, or if fpgapool
may use only a part of the link.
""",
    ),
    cfg.FloatOpt(
        "data_share_percent",
        default=0,
        min=0,
        max=100,
        help="""
Maximum share of the network device's rate, in percent and in each direction,
that the data plane may take. It leaves room on the link for management and
for virtual machines. The default, 0, means no cap.

It needs CAP_NET_ADMIN, for a small process that oslo.privsep starts. If the
device has a queueing discipline that fpgapool did not create, or the process
cannot be started, the agent logs that and continues without a cap.

Related options:

* ``data_address`` and a range of ``data_ports`` select the packets.
* ``nic_device``, ``nic_bytes_per_s``: the network device and its rate.
* ``data_rate_bytes_per_s`` sets a rate instead.
""",
    ),
    cfg.FloatOpt(
        "data_rate_bytes_per_s",
        default=0,
        min=0,
        help="""
Like ``data_share_percent``, but in bytes per second; at least 125000. The
default, 0, means no cap.
""",
    ),
    cfg.BoolOpt(
        "data_share_remove_at_stop",
        default=False,
        help="""
Whether the cap on the data plane is removed when the agent stops. By default
it stays, for the workers that outlive the agent. An agent that starts without
a cap always removes an earlier one.
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
Size in bytes of the chunks in which data goes through a slot. Larger chunks
cost less overhead, and more memory.

Related options:

* Each slot needs memory for ``window_chunks`` chunks, twice.
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
Memory of each slot's worker, in bytes, for data that programs use repeatedly,
so that it crosses the network only once. It is allocated as needed, and
cleared when the slot is released. With 0, all data is sent every time.

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
Further programs are refused with ``QUOTA_EXCEEDED``. Programs on other hosts
also count, on the hosts where the group has members.

Each takes up to five descriptors and 33 MiB of the memory of the agent's
unit, and one thread, or two if it comes from another host. Most take far less
memory: only programs that are slow to read large results need all of it.
""",
    ),
    cfg.FloatOpt(
        "hello_timeout_s",
        default=5,
        min=0.1,
        max=300,
        help="""
Seconds within which a new data connection must prove that it belongs to the
session of its slot. After that the worker closes it.
""",
    ),
    cfg.FloatOpt(
        "worker_orphan_s",
        default=600,
        min=1,
        max=7 * 86400,
        help="""
Seconds after which a worker that has neither an agent nor a session exits.
""",
    ),
    cfg.FloatOpt(
        "worker_timeout_s",
        default=10,
        # Workers are asked every second.
        min=2,
        max=3600,
        help="""
Seconds within which a worker must answer its agent. The agent kills and
replaces a worker that does not, for example because it is frozen.

Its session gets another slot if the client has not connected yet. Otherwise
it ends with ``WORKER_DIED``, and the client reopens a stateless one in
another slot.
""",
    ),
]

OPTIONS = groups.Options(_group, agent_opts)
