# SPDX-License-Identifier: Apache-2.0

"""Options of the group [metrics]."""

from oslo_config import cfg

from fpgapool.conf import groups

_group = cfg.OptGroup(
    "metrics",
    title="Metrics",
    help="Metrics for Prometheus; off unless a port is set.",
)

metrics_opts = [
    cfg.HostAddressOpt(
        "listen_address",
        default="127.0.0.1",
        help="""
Address on which services serve their metrics.

Callers are not authenticated unless ``client_ca_file`` is set, and the
metrics name hosts and projects: use an address that only the monitoring
network reaches.
""",
    ),
    cfg.StrOpt(
        "cert_file",
        help="""
PEM file with the certificate for serving metrics by HTTPS, followed by its
intermediate certificates. The default is none: metrics are served by HTTP.

The files are read for each connection, so a renewed certificate needs no
restart.

Related options:

* ``key_file`` is needed, too.
""",
    ),
    cfg.StrOpt(
        "key_file",
        help="""
PEM file with the key of ``cert_file``, without a password.
""",
    ),
    cfg.StrOpt(
        "client_ca_file",
        help="""
PEM file with the CA that must have signed the certificates of clients.
Clients without such a certificate are refused. The default is none: clients
need no certificate.
""",
    ),
    cfg.PortOpt(
        "conductor_port",
        help="""
Port on which a conductor serves its metrics. The default is none. Conductors
on the same machine need a configuration file each, with different ports.
""",
    ),
    cfg.PortOpt(
        "agent_port",
        help="""
Port on which an agent serves its metrics. ``fpgapool-allinone`` serves those
of all its agents there. The default is none.
""",
    ),
    cfg.PortOpt(
        "api_port",
        help="""
First of the ports on which the processes of the REST API serve their metrics,
each on its own port. The default is none. The API itself never serves
metrics.
""",
    ),
    cfg.IntOpt(
        "api_processes",
        default=1,
        min=1,
        max=1024,
        help="""
Number of ports, from ``api_port`` on, for the processes of the REST API: as
many as the web server has processes on one machine. Each process takes the
first free port when it receives its first request.
""",
    ),
    cfg.IntOpt(
        "max_projects",
        default=20,
        min=0,
        max=10000,
        help="""
Number of projects with metrics of their own: those with the longest queues.
The others are summed as the project ``other``, which bounds the number of
time series.
""",
    ),
    cfg.IntOpt(
        "max_groups",
        default=50,
        min=0,
        max=10000,
        help="""
Number of groups with metrics of their own: those with the most slots. The
others are summed as the group ``other``.
""",
    ),
]

OPTIONS = groups.Options(_group, metrics_opts)
