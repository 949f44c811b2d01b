# SPDX-License-Identifier: Apache-2.0

"""The pool as a service of a cloud."""

from __future__ import annotations

from openstack import connection as connections
from openstack import service_description

from fpgapool.osc.sdk import proxy

SERVICE_TYPE = "fpgapool"


# Bare: the class takes a parameter in the newest releases only.
class FpgapoolService(service_description.ServiceDescription):
    """How the service is found, and what speaks with it."""

    supported_versions = {"1": proxy.Proxy}


def proxy_of(connection: connections.Connection) -> proxy.Proxy:
    """Return what speaks with the pool of a cloud.

    ``Connection.add_service`` would give an attribute to the class, and so to
    all connections of the program, those to clouds without a pool, too. This
    changes the one connection only.

    :param connection: to the cloud.
    :returns: the same proxy at every call.
    """
    connection.config.enable_service(SERVICE_TYPE)
    description = FpgapoolService(SERVICE_TYPE)
    return description.__get__(connection, type(connection))
