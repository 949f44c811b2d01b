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

Callers are not authenticated unless there is a ``client_ca_file``, and the
metrics name hosts and projects: use an address that only the monitoring
network reaches.
""",
    ),
    cfg.StrOpt(
        "cert_file",
        help="""
Certificate for serving metrics by HTTPS, with the certificates between it and
the authority; a PEM file. The default is none: HTTP.

The files are read for each connection, so that a renewed certificate needs no
restart.

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
Authority that must have signed the certificates of clients, a PEM file.
Clients without one are refused. The default is none: no certificate is
required.
""",
    ),
    cfg.PortOpt(
        "conductor_port",
        help="""
Port on which a conductor serves its metrics. The default is none. Several
conductors of one machine need a configuration file each, with a port in it.
""",
    ),
    cfg.PortOpt(
        "agent_port",
        help="""
Port on which an agent serves its metrics, or all agents of
``fpgapool-allinone`` together. The default is none.
""",
    ),
    cfg.PortOpt(
        "api_port",
        help="""
First of the ports on which the processes of the REST API serve their metrics,
each its own. The default is none. The API itself never serves metrics.
""",
    ),
    cfg.IntOpt(
        "api_processes",
        default=1,
        min=1,
        max=1024,
        help="""
Number of ports, from ``api_port`` on, that the processes of the REST API may
use: as many as the web server has processes on one machine. Each takes the
first free one when it gets its first request.
""",
    ),
    cfg.IntOpt(
        "max_projects",
        default=20,
        min=0,
        max=10000,
        help="""
Number of projects with a queue length of their own, those with the longest
queues. The rest is counted together, as the project ``other``.
""",
    ),
    cfg.IntOpt(
        "max_groups",
        default=50,
        min=0,
        max=10000,
        help="""
Number of groups with metrics of their own, those with the most slots. The rest
is counted together, as the group ``other``.
""",
    ),
]

OPTIONS = groups.Options(_group, metrics_opts)
