# SPDX-License-Identifier: Apache-2.0

"""Options of the group [DEFAULT]: the identity of the host."""

import socket
import uuid

from oslo_config import cfg

from fpgapool.conf import groups

# The default UUID depends only on the host's name, so it does not change when
# the host is reinstalled.
HOST_NAMESPACE = uuid.UUID("6f1a2f0e-7d0c-5f0b-9c55-0f6b8a0c5d11")

UUID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"


def default_host_uuid(host_name: str) -> str:
    """Return the UUID of a host for which none is configured."""
    return str(uuid.uuid5(HOST_NAMESPACE, host_name))


default_opts = [
    cfg.StrOpt(
        "host_name",
        default=socket.gethostname(),
        sample_default="compute1.example.org",
        max_length=255,
        help="""
Name of this host, shown to operators and clients. It may contain letters,
digits and ``_.-``, and must begin with a letter or digit.

The default is the host's name in the operating system. Hosts may have the
same name, for example in different cells; ``host_uuid`` identifies a host.
""",
    ),
    cfg.StrOpt(
        "host_uuid",
        default=default_host_uuid(socket.gethostname()),
        sample_default="00000000-0000-0000-0000-000000000000",
        regex=UUID,
        ignore_case=True,
        help="""
UUID of this host.

On a host with nova-compute, set it to the UUID of the resource provider of
the compute node, which nova-compute keeps in the file ``compute_id`` in its
state directory. The default is derived from the host's name in the operating
system, and changes only if that name changes.
""",
    ),
    cfg.StrOpt(
        "state_path",
        default="/var/lib/fpgapool",
        help="""
Directory of files that must survive a restart: sockets of the workers, locks
and, unless another database is configured, the database.

It must be on a local file system and be owned by the user that runs the
service. The service removes all other users' access to it.
""",
    ),
]

OPTIONS = groups.Options("DEFAULT", default_opts)
