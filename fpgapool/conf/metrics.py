# SPDX-License-Identifier: Apache-2.0

"""Options of the group [metrics]."""

from oslo_config import cfg

from fpgapool.conf import groups

metrics_group = cfg.OptGroup(
    "metrics",
    title="Metrics",
    help="What Prometheus reads; off unless a port is set.",
)

metrics_opts = [
    cfg.HostAddressOpt(
        "listen_address",
        default="127.0.0.1",
        help="""
Address on which services tell their metrics.

Nobody is asked who they are unless there is a ``client_ca_file``, and the
metrics name hosts and projects: use an address that only the monitoring
network reaches.
""",
    ),
    cfg.StrOpt(
        "cert_file",
        help="""
Certificate by which metrics are told by HTTPS, with those between it and the
authority; a PEM file. The default is none: they are told by HTTP.

The files are looked at for each connection, so that a renewed certificate
needs no restart.

Related options:

* ``key_file`` is needed, too.
""",
    ),
    cfg.StrOpt(
        "key_file",
        help="""
Key of ``cert_file``, a PEM file without a password.
""",
    ),
    cfg.StrOpt(
        "client_ca_file",
        help="""
Authority by which certificates of clients must be signed, a PEM file. Whoever
has none is not served. The default is none: nobody is asked.
""",
    ),
    cfg.PortOpt(
        "conductor_port",
        help="""
Port on which a conductor tells its metrics. The default is none. Several
conductors of one machine have a configuration file each, and a port in it.
""",
    ),
    cfg.PortOpt(
        "agent_port",
        help="""
Port on which an agent tells its metrics, or all agents of
``fpgapool-allinone`` together. The default is none.
""",
    ),
    cfg.PortOpt(
        "api_port",
        help="""
First of the ports on which the processes of the REST API tell their metrics,
each those of its own. The default is none. The API itself never tells them.
""",
    ),
    cfg.IntOpt(
        "api_processes",
        default=1,
        min=1,
        max=1024,
        help="""
How many ports from ``api_port`` on the processes of the REST API may use:
as many as the web server has processes on one machine. Each takes the first
that is free when it gets its first request.
""",
    ),
    cfg.IntOpt(
        "max_projects",
        default=20,
        min=0,
        max=10000,
        help="""
For how many projects the length of the queue is told one by one, those with
the longest ones. The rest is told together, as the project ``other``.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    groups.register(conf, metrics_group, metrics_opts)


def list_opts() -> dict[cfg.OptGroup, list[cfg.Opt]]:
    """Return the options of this group for the sample configuration."""
    return {metrics_group: metrics_opts}
