# SPDX-License-Identifier: Apache-2.0

"""Options of the group [metrics]."""

from oslo_config import cfg

from fpgapool.conf import groups

_group = cfg.OptGroup(
    "metrics",
    title="Metrics",
    help="Metrics for Prometheus. They are served only if a port is set.",
)

metrics_opts = [
    cfg.HostAddressOpt(
        "listen_address",
        default="127.0.0.1",
        help="""
Address on which services serve their metrics.

Clients are not authenticated unless ``client_ca_file`` is set, and the
metrics contain the names of hosts and the IDs of projects: use an address
that is reachable only from the monitoring network.
""",
    ),
    cfg.StrOpt(
        "cert_file",
        help="""
PEM file with the certificate for serving metrics over HTTPS, followed by its
intermediate certificates. By default, metrics are served over HTTP.

The files are read for each connection, so a renewed certificate needs no
restart.

Related options:

* ``key_file`` is also needed.
""",
    ),
    cfg.StrOpt(
        "key_file",
        help="""
PEM file with the private key of ``cert_file``, without a password.
""",
    ),
    cfg.StrOpt(
        "client_ca_file",
        help="""
PEM file with the certificate of the CA that verifies the certificates of
clients. Clients without a valid certificate are refused. By default, clients
need no certificate.
""",
    ),
    cfg.PortOpt(
        "conductor_port",
        help="""
Port on which a conductor serves its metrics; by default it serves none.
Conductors on the same machine need separate configuration files with
different ports.
""",
    ),
    cfg.PortOpt(
        "agent_port",
        help="""
Port on which an agent serves its metrics; by default it serves none.
``fpgapool-allinone`` serves the metrics of all its agents there.
""",
    ),
    cfg.PortOpt(
        "api_port",
        help="""
First of the ports on which the processes of the REST API serve their metrics,
each on its own port; by default they serve none. The REST API itself does not
return metrics.
""",
    ),
    cfg.IntOpt(
        "api_processes",
        default=1,
        min=1,
        max=1024,
        help="""
Number of ports, starting with ``api_port``, for the processes of the REST
API. Set it to the number of processes that the web server has on one machine.
Each process takes the first free port when it receives its first request.
""",
    ),
    cfg.IntOpt(
        "max_projects",
        default=20,
        min=0,
        max=10000,
        help="""
Maximum number of projects with their own metrics: those with the longest
queues. To limit the number of time series, the metrics of the others are
summed as the project ``other``.
""",
    ),
    cfg.IntOpt(
        "max_groups",
        default=50,
        min=0,
        max=10000,
        help="""
Maximum number of groups with their own metrics: those with the most slots.
The metrics of the others are summed as the group ``other``.
""",
    ),
]

OPTIONS = groups.Options(_group, metrics_opts)
