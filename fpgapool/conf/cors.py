#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Options of the group [cors], which are oslo.middleware's."""

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
    """Return the library's options, with defaults that fit the API."""
    # Only the API has the library.
    from oslo_middleware import cors

    cors.set_defaults(
        allow_headers=list(_SENT),
        expose_headers=list(_READ),
        allow_methods=list(_METHODS),
    )
    options: list[cfg.Opt] = cors.OPTS
    return options


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_opts(list_opts(), group=GROUP)
