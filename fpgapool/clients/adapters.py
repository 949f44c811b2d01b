# SPDX-License-Identifier: Apache-2.0

"""Connect to other services with the options of a configuration group."""

from __future__ import annotations

from typing import Any

from oslo_config import cfg

from fpgapool.common import exception


def load(
    conf: cfg.ConfigOpts,
    group: str,
    timeout_s: float | None = None,
    **options: Any,
) -> Any:
    """Return a ``keystoneauth1.adapter.Adapter``; it connects when used.

    :param conf: the configuration, with keystoneauth's options for the group.
    :param timeout_s: timeout of Keystone requests; None keeps the configured
        one.
    :returns: None if the group does not configure authentication.
    :raises ConfigurationError: if the configuration is invalid.
    """
    if not (conf[group].auth_type or conf[group].auth_section):
        return None
    from keystoneauth1 import exceptions
    from keystoneauth1 import loading

    try:
        auth = loading.load_auth_from_conf_options(conf, group)
        session = _load_session(conf, group, auth)
        if timeout_s is not None:
            # Keystone may also hang.
            session.timeout = min(session.timeout or timeout_s, timeout_s)
        return loading.load_adapter_from_conf_options(
            conf, group, session=session, auth=auth, **options
        )
    except (exceptions.ClientException, cfg.Error, ValueError) as error:
        raise exception.ConfigurationError(
            reason=f"[{group}]: {error}"
        ) from error


def _load_session(conf: cfg.ConfigOpts, group: str, auth: Any) -> Any:
    from keystoneauth1 import exceptions
    from keystoneauth1 import session
    from keystoneauth1.loading import session as loaders

    class Session(session.Session):
        def request(self, *arguments: Any, **options: Any) -> Any:
            try:
                return super().request(*arguments, **options)
            except exceptions.EndpointNotFound:
                # The service may be newer than the catalog, which came with
                # the token: the next request gets another one.
                self.invalidate()
                raise

    class Loader(loaders.Session):
        plugin_class = Session

    return Loader().load_from_conf_options(conf, group, auth=auth)
