# SPDX-License-Identifier: Apache-2.0

"""Owners' properties of a bitstream, which the pool does not need."""

#: From Cyborg's specification of bitstreams' metadata, without those that the
#: pool knows itself.
NAMES = (
    "vendor",
    "board",
    "shell_id",
    "driver",
    "driver_ver",
    "driver_path",
    "topology",
    "region_uuid",
    "function_uuid",
    "function_name",
)
