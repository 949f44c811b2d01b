# SPDX-License-Identifier: Apache-2.0

"""Options of the group [bitstream_cache]."""

from __future__ import annotations

from oslo_config import cfg

from fpgapool.conf import groups

GROUP = "bitstream_cache"

API = "api"
FILE = "file"

_group = cfg.OptGroup(
    GROUP,
    title="Bitstream cache",
    help="""
How an agent fetches bitstream files from the library, and how many it keeps
in the directory ``bitstream-cache`` of its ``state_path``.
""",
)

bitstream_cache_opts = [
    cfg.StrOpt(
        "source",
        default=API,
        choices=[
            (API, "The REST API, as the user of this group's ``auth_type``."),
            (FILE, "The directory ``[bitstreams] store_dir``."),
        ],
        help="""
Where an agent gets the files. With ``file`` it reads the directory of the
API's file store, which must be on the same machine or a shared file system.
With ``api`` it downloads them from the service ``fpgapool`` in the catalog.

The user of ``api`` needs the role ``fpgapool:agent`` in any project. The
agent does not contact the API until it needs the first bitstream.
""",
    ),
    cfg.IntOpt(
        "max_bytes",
        default=8 * 2**30,
        min=0,
        max=2**62,
        help="""
Size of the cache in bytes. Before the agent fetches a file, it removes the
least recently used files until there is room. It never removes a file that a
session needs, so the cache can temporarily exceed this size.
""",
    ),
    cfg.FloatOpt(
        "fetch_timeout_s",
        default=40,
        min=1,
        max=3600,
        help="""
Seconds within which a file must have been fetched, including retries. After
that the session gets another slot, or ends with ``BITSTREAM_UNAVAILABLE``.

Fetching is a part of preparing a slot: this and the time to program the
slowest board must be less than ``[conductor] prepare_timeout_s``.
""",
    ),
]

OPTIONS = groups.Options(
    _group, bitstream_cache_opts, groups.internal("fpgapool")
)
