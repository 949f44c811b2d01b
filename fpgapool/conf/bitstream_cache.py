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
How an agent fetches bitstream files from the library, and the maximum size of
its cache, which is the directory ``bitstream-cache`` in ``state_path``.
""",
)

bitstream_cache_opts = [
    cfg.StrOpt(
        "source",
        default=API,
        choices=[
            (API, "From the REST API, with this group's credentials."),
            (FILE, "From the directory ``[bitstreams] store_dir``."),
        ],
        help="""
Where an agent gets the files. With ``file`` it reads the directory of the
API's file store, which must be on the same machine or on a shared file
system. With ``api`` it downloads them from the service ``fpgapool`` in
Keystone's catalog.

With ``api``, the user of this group's ``auth_type`` needs the role
``fpgapool:agent`` in any project. The agent does not contact the API until it
needs the first bitstream.
""",
    ),
    cfg.IntOpt(
        "max_bytes",
        default=8 * 2**30,
        min=0,
        max=2**62,
        help="""
Maximum size of the cache in bytes. Before an agent fetches a file, it removes
the least recently used files until there is room. It never removes a file
that a session needs, so the cache can temporarily exceed this size.
""",
    ),
    cfg.FloatOpt(
        "fetch_timeout_s",
        default=40,
        min=1,
        max=3600,
        help="""
Maximum time in seconds for fetching a file, including retries. After that,
the session gets another slot, or ends with ``BITSTREAM_UNAVAILABLE``.

A file is fetched while its slot is prepared: the sum of this time and the
time to program the slowest board must be less than ``[conductor]
prepare_timeout_s``.
""",
    ),
]

OPTIONS = groups.Options(
    _group, bitstream_cache_opts, groups.internal("fpgapool")
)
