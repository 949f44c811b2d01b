# SPDX-License-Identifier: Apache-2.0

"""Keystone's tokens, and responses while Keystone is unavailable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import webob.exc
from keystoneauth1 import exceptions as auth_exceptions
from keystonemiddleware import auth_token
from keystonemiddleware import opts
from oslo_config import cfg
from oslo_log import log as logging

from fpgapool.api.http import errors
from fpgapool.api.http import middleware
from fpgapool.vocabulary import codes

LOG = logging.getLogger(__name__)

_AWAY = (
    auth_exceptions.ConnectionError,
    auth_exceptions.DiscoveryFailure,
    auth_exceptions.RequestTimeout,
    auth_token.ServiceError,
)


# The library has no default timeout: if Keystone hung, all threads of this
# service would be blocked.
_DEFAULTS = {
    "http_connect_timeout": 10,
    "http_request_max_retries": 1,
    # Application credentials may be restricted to service types.
    "service_type": "fpgapool",
}


class _KeystoneAway(Exception):
    """Keystone is unavailable, so a token cannot be checked."""


class Authenticated:
    """Authenticates callers with Keystone.

    The inner application refuses callers without a valid token, in this API's
    format. This class answers while Keystone is unavailable: the token may be
    valid, so clients must not discard it.
    """

    def __init__(
        self, app: middleware.Application, conf: cfg.ConfigOpts
    ) -> None:
        _set_defaults(conf)
        options = {"oslo_config_config": conf, "delay_auth_decision": True}
        self._app: middleware.Application = _Protocol(app, options)
        self._retry_after_s = conf.api.retry_after_s

    def __call__(
        self,
        environ: middleware.Environ,
        start_response: middleware.StartResponse,
    ) -> Iterable[bytes]:
        try:
            return self._app(environ, start_response)
        # Looking up Keystone's endpoints raises errors of the second kind.
        except (_KeystoneAway, *_AWAY):
            reason = "Keystone is unavailable"
        except auth_exceptions.MissingAuthPlugin:
            # The library notices this only with the first token.
            LOG.error(
                "Tokens cannot be checked: set the options of"
                " [keystone_authtoken], such as auth_type"
            )
            reason = "this API has no Keystone user for checking tokens"
        error = errors.ApiError(
            codes.KEYSTONE_UNAVAILABLE,
            f"the token cannot be checked: {reason}",
            headers={"Retry-After": str(self._retry_after_s)},
        )
        return middleware.refuse(environ, start_response, error)


def _set_defaults(conf: cfg.ConfigOpts) -> None:
    for group, options in opts.list_auth_token_opts():
        conf.register_opts(options, group=group)
        for name, value in _DEFAULTS.items():
            conf.set_default(name, value, group=group)


class _Protocol(auth_token.AuthProtocol):  # type: ignore[misc]
    """Distinguishes invalid tokens from those that cannot be checked."""

    def fetch_token(self, token: str, **kwargs: Any) -> Any:
        try:
            return super().fetch_token(token, **kwargs)
        except auth_token.InvalidToken as error:
            if isinstance(error.__context__, _AWAY):
                raise _KeystoneAway from error
            raise
        except (
            webob.exc.HTTPServiceUnavailable,
            auth_exceptions.EndpointNotFound,
        ) as error:
            raise _KeystoneAway from error
