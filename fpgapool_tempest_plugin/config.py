# SPDX-License-Identifier: Apache-2.0

"""The plugin's options in ``tempest.conf``."""

from __future__ import annotations

from oslo_config import cfg

service_available = cfg.BoolOpt(
    "fpgapool",
    default=True,
    help="Whether the cloud has a pool. If not, all tests of it are skipped.",
)

group = cfg.OptGroup("fpgapool", "The pool")
options = [
    cfg.StrOpt(
        "catalog_type",
        default="fpgapool",
        help="Type of the service in the catalog.",
    ),
    cfg.StrOpt(
        "region",
        default="",
        help="Region of the service; by default that of ``[identity]``.",
    ),
    cfg.StrOpt(
        "endpoint_type",
        default="publicURL",
        choices=[
            *("public", "internal", "admin"),
            *("publicURL", "internalURL", "adminURL"),
        ],
        help="Which endpoint of the service the tests use.",
    ),
    cfg.IntOpt(
        "build_timeout",
        default=300,
        min=1,
        help="Seconds to wait for a slot, a group, or a change that Nova or"
        " Placement has to notice.",
    ),
    cfg.IntOpt(
        "build_interval",
        default=1,
        min=1,
        help="Seconds between two looks at what nobody reports.",
    ),
    cfg.StrOpt(
        "accelerator",
        default="copy",
        help="Accelerator of all sessions, which all projects may use.",
    ),
    cfg.StrOpt(
        "accelerator_params",
        default="{}",
        help="Parameters of the sessions, as JSON.",
    ),
    cfg.StrOpt(
        "output_sha256",
        default="",
        help="SHA-256, in hexadecimal digits, of the output for 4096 bytes of"
        " input: 16 times the bytes 0 to 255. Empty means that the output is"
        " the input.",
    ),
    cfg.StrOpt(
        "vendordata_role",
        default="fpgapool:vendordata",
        help="Role with which Nova asks for the tokens of instances.",
    ),
]

features_group = cfg.OptGroup(
    "fpgapool-feature-enabled", "What the pool allows"
)
features = [
    cfg.BoolOpt(
        "quotas",
        default=True,
        help="Whether quotas are set through the API; not so if they are in"
        " Keystone.",
    ),
    cfg.BoolOpt(
        "unsigned_bitstreams",
        default=False,
        help="Whether the pool accepts bitstreams without a signature, and"
        " declarations for emulated boards.",
    ),
    cfg.BoolOpt(
        "hardware_changes",
        default=False,
        help="Whether tests may drain a board for a moment, and test a slot."
        " Sessions of others then wait, or run elsewhere.",
    ),
    cfg.BoolOpt(
        "instance_tokens",
        default=False,
        help="Whether instances get tokens. A test then asks for one in the"
        " place of Nova, with ``vendordata_role``.",
    ),
    cfg.BoolOpt(
        "slot_reservation",
        default=False,
        help="Whether instances can reserve slots. A test then offers a slot"
        " of each of two boards, on different compute nodes. Needs"
        " ``hardware_changes`` and ``instance_tokens``.",
    ),
]
