# SPDX-License-Identifier: Apache-2.0

"""Options of the group [bitstream_cache]."""

from __future__ import annotations

from oslo_config import cfg

from fpgapool.conf import groups
from fpgapool.conf import keystone_auth

GROUP = "bitstream_cache"

API = "api"
FILE = "file"

bitstream_cache_group = cfg.OptGroup(
    GROUP,
    title="Bitstream cache",
    help="""
How an agent gets the files of the library's bitstreams, and how many of them
it keeps, in the directory ``bitstream-cache`` of its ``state_path``.
""",
)

bitstream_cache_opts = [
    cfg.StrOpt(
        "source",
        default=API,
        choices=[
            (API, "The REST API, as a user of its own; see ``auth_type``."),
            (FILE, "The directory ``[bitstreams] store_dir``."),
        ],
        help="""
Where files come from. With ``file`` the agent reads the directory of the
API's file store by itself, because it is on the same machine or a shared file
system; with ``api`` it asks the service ``fpgapool`` of the catalog.

The user of ``api`` needs the role ``fpgapool:agent`` in any project. The API
is not asked before the first bitstream is needed.
""",
    ),
    cfg.IntOpt(
        "max_bytes",
        default=8 * 2**30,
        min=0,
        max=2**62,
        help="""
Size of the cache in bytes. Before a file is fetched, those that were used
least recently are removed until it has room. A file that a session needs
stays in any case, so that the cache can become larger than this for a while.
""",
    ),
    cfg.FloatOpt(
        "fetch_timeout_s",
        default=40,
        min=1,
        max=3600,
        help="""
Seconds within which a file must have been fetched, all tries included. After
that the session gets another slot, or ends with ``BITSTREAM_UNAVAILABLE``.

Fetching is a part of preparing a slot: this and the time that the slowest
board takes to be programmed must be less than ``[conductor]
prepare_timeout_s``.
""",
    ),
]

#: What keystoneauth would do otherwise.
_DEFAULTS = {
    "service_type": "fpgapool",
    "valid_interfaces": ["internal", "public"],
}


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group, but for those of keystoneauth.

    Only an agent that asks the API needs the rest.
    """
    groups.register(conf, bitstream_cache_group, bitstream_cache_opts)


def register_auth_opts(conf: cfg.ConfigOpts) -> None:
    """Register keystoneauth's options, so that the API can be asked."""
    keystone_auth.register(conf, GROUP, _DEFAULTS)


def list_opts() -> dict[cfg.OptGroup, list[cfg.Opt]]:
    """Return fpgapool's own options of this group."""
    return {bitstream_cache_group: bitstream_cache_opts}


def list_auth_opts() -> list[cfg.Opt]:
    """Return keystoneauth's options, for the sample configuration."""
    return keystone_auth.listed(_DEFAULTS)
