# SPDX-License-Identifier: Apache-2.0

"""Options of the group [cors], which oslo.middleware defines."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "cors"

_SENT = (
    *("X-Auth-Token", "Content-Type", "If-None-Match"),
    *("OpenStack-API-Version", "X-OpenStack-Request-Id"),
)
_READ = (
    *("ETag", "Location", "Retry-After", "OpenStack-API-Version"),
    *("OpenStack-fpgapool-Source", "X-OpenStack-Request-Id"),
)
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def list_opts() -> list[cfg.Opt]:
    """Return the library's options, with defaults for the API."""
    # Only the API installs the library.
    from oslo_middleware import cors

    cors.set_defaults(
        allow_headers=list(_SENT),
        expose_headers=list(_READ),
        allow_methods=list(_METHODS),
    )
    options: list[cfg.Opt] = cors.OPTS
    return options


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(list_opts(), group=GROUP)
