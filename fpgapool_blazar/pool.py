# SPDX-License-Identifier: Apache-2.0

"""The pool's API, for the owner of a lease and for Blazar itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from blazar import exceptions as blazar_exceptions
from blazar.utils.openstack import keystone
from keystoneauth1 import exceptions as auth_exceptions
from openstack import connection
from openstack import exceptions
from oslo_config import cfg
from oslo_log import log as logging

from fpgapool.osc.sdk import fpgapool_service
from fpgapool.osc.sdk import proxy as proxies
from fpgapool_blazar import wishes

CONF = cfg.CONF
LOG = logging.getLogger(__name__)


class UnavailableError(Exception):
    """Nobody knows whether the pool has done what it was asked for."""

    def __init__(self) -> None:
        super().__init__(
            "the FPGA pool cannot be asked now; try again, and if that fails"
            " again, tell an operator"
        )


def for_owner(trust_id: str) -> proxies.Proxy:
    """Return the API with the rights of whoever made a lease.

    :param trust_id: the trust of the lease, which Blazar's user uses.
    """
    return _proxy(trust_id=trust_id)


def for_blazar() -> proxies.Proxy:
    """Return the API with the rights of Blazar's own user."""
    return _proxy()


def _proxy(**trust: str) -> proxies.Proxy:
    with answered():
        session = keystone.BlazarKeystoneClient(**trust).session
        cloud = connection.Connection(
            session=session,
            region_name=CONF.os_region_name,
            interface=CONF[wishes.RESOURCE_TYPE].endpoint_type,
        )
        return fpgapool_service.proxy_of(cloud)


@contextlib.contextmanager
def answered() -> Iterator[None]:
    """Raise Blazar's errors instead of those of the SDK.

    They are Blazar's own classes: its API knows no others, and hides them.

    :raises InvalidInput: if the pool refuses; the text has its reason and its
        code. A lease that is not updated for this stays as it is.
    :raises UnavailableError: if it did not answer.
    """
    try:
        yield
    except exceptions.HttpException as error:
        response = error.response
        found = proxies.api_error(response)
        if response is None or found is None or response.status_code >= 500:
            LOG.warning("The pool has not answered: %s", error)
            raise UnavailableError from error
        text = f"{found['detail']} ({found['code']})"
        raise blazar_exceptions.InvalidInput(text) from error
    except (exceptions.SDKException, auth_exceptions.ClientException) as error:
        LOG.warning("The pool cannot be asked: %s", error)
        raise UnavailableError from error
