# SPDX-License-Identifier: Apache-2.0

"""Options of the group [bitstreams]."""

from oslo_config import cfg

from fpgapool.conf import groups

FILE = "file"
GLANCE = "glance"

_group = cfg.OptGroup(
    "bitstreams",
    title="Bitstream library",
    help="""
Where bitstream files are stored, and which bitstreams are accepted. The API,
the conductor and the agents read different options of this group.
""",
)

bitstreams_opts = [
    cfg.StrOpt(
        "store",
        default=FILE,
        choices=[
            (FILE, "In a directory; see ``store_dir``."),
            (GLANCE, "In Glance images; see the group [glance]."),
        ],
        help="""
Where the API keeps the files. With ``file``, all processes of the API on all
machines must see the same directory.

After this option is changed, files in the previous store cannot be read: copy
them to the new store first, or upload them again.
""",
    ),
    cfg.StrOpt(
        "store_dir",
        default="$state_path/bitstreams",
        help="""
Directory of the files, if ``store`` is ``file``. It is created if it does not
exist. Each file is named after its SHA-256 hash.
""",
    ),
    cfg.StrOpt(
        "pool_name",
        default="fpgapool",
        help="""
Name that marks this pool's images in Glance. Pools that keep their bitstreams
in the same project of one Glance need different names, because each pool
removes the images with its name that do not belong to its bitstreams.
""",
    ),
    cfg.IntOpt(
        "max_size_bytes",
        default=256 * 2**20,
        min=1,
        max=2**40,
        help="""
Maximum size of a bitstream's file, in bytes. A larger upload is refused with
``BITSTREAM_TOO_LARGE``.
""",
    ),
    cfg.IntOpt(
        "max_uploads",
        default=4,
        min=1,
        max=1000,
        help="""
Maximum number of concurrent uploads in each API process; one project may have
at most half of them. Further uploads are refused with ``TOO_MANY_UPLOADS``.
The process must have more threads than this: otherwise slow uploads would
block all other requests.
""",
    ),
    cfg.FloatOpt(
        "upload_timeout_s",
        default=1800.0,
        min=1.0,
        help="""
Maximum duration of an upload in seconds. A slower upload is refused with
``UPLOAD_INCOMPLETE``.
""",
    ),
    cfg.IntOpt(
        "max_per_project",
        default=200,
        min=-1,
        max=10**6,
        help="""
Maximum number of bitstreams of a project, whatever their sizes; -1 means
unlimited. The conductor enforces this limit.
""",
    ),
    cfg.BoolOpt(
        "signature_required",
        default=True,
        help="""
Whether a bitstream must be signed with a key of ``trusted_keys_dir``. The API
verifies the signature when a file is uploaded and when it is approved. An
agent verifies it every time before it programs a slot, with the keys on its
own host.

If this is disabled, the API still refuses wrong signatures, but agents verify
none. Bitstreams in the formats ``opencl-source`` and ``opencl-binary`` always
need a signature, because they can contain native code.

A bitstream controls what a board does on its bus. Leave this enabled if
projects that do not trust each other share boards.
""",
    ),
    cfg.StrOpt(
        "trusted_keys_dir",
        default="/etc/fpgapool/trusted-keys",
        help="""
Directory of the public keys and certificates that verify signatures: files
whose names end with ``.pem``, ``.crt`` or ``.pub``. They are read for each
verification, so removing a key takes effect immediately. API machines and
hosts with boards need this directory.
""",
    ),
    cfg.IntOpt(
        "orphan_age_s",
        default=86400,
        min=60,
        help="""
Seconds after which a file in the store that belongs to no bitstream is
removed. This must be longer than any upload takes.
""",
    ),
]

OPTIONS = groups.Options(_group, bitstreams_opts)
#: Access to Glance, which is needed only if it is the store.
GLANCE_OPTIONS = groups.Options(GLANCE, [], {"service_type": "image"})
