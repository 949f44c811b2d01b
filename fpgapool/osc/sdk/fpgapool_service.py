# SPDX-License-Identifier: Apache-2.0

"""The pool as a service of a cloud."""

from __future__ import annotations

from openstack import connection as connections
from openstack import service_description

from fpgapool.osc.sdk import proxy

SERVICE_TYPE = "fpgapool"


# Not subscripted: the class is generic only in the newest releases.
class FpgapoolService(service_description.ServiceDescription):
    """The service's type in the catalog, and its proxy."""

    supported_versions = {"1": proxy.Proxy}


def proxy_of(connection: connections.Connection) -> proxy.Proxy:
    """Return the proxy of a cloud's pool.

    ``Connection.add_service`` would add an attribute to the class, and so to
    all connections of the program, even those to clouds without a pool. This
    function changes only one connection.

    :returns: the same proxy at every call.
    """
    connection.config.enable_service(SERVICE_TYPE)
    description = FpgapoolService(SERVICE_TYPE)
    return description.__get__(connection, type(connection))
