# SPDX-License-Identifier: Apache-2.0

"""What owners can say of a bitstream, beyond what the pool needs."""

#: By the names of the properties in Cyborg's specification of bitstreams'
#: metadata. The others there are what the pool knows itself.
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
