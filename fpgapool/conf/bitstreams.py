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
Where the files of bitstreams are stored, and which ones are accepted. The
API, the conductor and the agents read different options of this group.
""",
)

bitstreams_opts = [
    cfg.StrOpt(
        "store",
        default=FILE,
        choices=[
            (FILE, "A directory, see ``store_dir``."),
            (GLANCE, "Glance images, see the group [glance]."),
        ],
        help="""
Where the API keeps the files. With ``file``, all processes of the API on all
machines must see the same directory.

Files in the previous store cannot be read after a change of this option: copy
them first, or upload them again.
""",
    ),
    cfg.StrOpt(
        "store_dir",
        default="$state_path/bitstreams",
        help="""
Directory of the files with ``store = file``. It is created if it does not
exist. Files in it are named after their SHA-256.
""",
    ),
    cfg.StrOpt(
        "pool_name",
        default="fpgapool",
        help="""
Name of this pool in the images of Glance. Pools that keep their bitstreams in
the same project of one Glance need different names, because each removes
images that have its name and that it does not know.
""",
    ),
    cfg.IntOpt(
        "max_size_bytes",
        default=256 * 2**20,
        min=1,
        max=2**40,
        help="""
Maximum size of a bitstream's file. A larger upload is refused with
``BITSTREAM_TOO_LARGE``.
""",
    ),
    cfg.IntOpt(
        "max_uploads",
        default=4,
        min=1,
        max=1000,
        help="""
Maximum number of concurrent uploads in each process of the API; a project
gets half of them. Further uploads are refused with ``TOO_MANY_UPLOADS``. It
must be less than the number of the process's threads: otherwise slow uploads
would block all other requests.
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
Maximum number of bitstreams of a project, whatever their size; -1 means
unlimited. The conductor enforces it.
""",
    ),
    cfg.BoolOpt(
        "signature_required",
        default=True,
        help="""
Whether a bitstream must be signed with a key of ``trusted_keys_dir``. The API
verifies the signature when a file is uploaded and approved. An agent verifies
it each time before it programs a slot, with the keys of its own host.

If the option is off, the API still refuses wrong signatures, and agents
verify none. ``opencl-source`` and ``opencl-binary`` always need a signature,
because they can be native code.

A bitstream controls what a board does on its bus. Leave this on if projects
that do not trust each other share boards.
""",
    ),
    cfg.StrOpt(
        "trusted_keys_dir",
        default="/etc/fpgapool/trusted-keys",
        help="""
Directory of the public keys and certificates that verify signatures: files
whose names end with ``.pem``, ``.crt`` or ``.pub``. They are read at each
verification, so removing a key takes effect at once. The machines of the API
and the hosts with boards need it.
""",
    ),
    cfg.IntOpt(
        "orphan_age_s",
        default=86400,
        min=60,
        help="""
Seconds after which a file in the store that belongs to no bitstream is
removed. It must exceed the duration of the longest upload.
""",
    ),
]

OPTIONS = groups.Options(_group, bitstreams_opts)
#: Access to Glance, if that is the store.
GLANCE_OPTIONS = groups.Options(GLANCE, [], {"service_type": "image"})
