# SPDX-License-Identifier: Apache-2.0

"""Owners' properties of a bitstream, which the pool itself does not use."""

#: From Cyborg's specification of bitstreams' metadata, without those that the
#: pool knows itself.
MEANINGS = {
    "vendor": "Maker of the board.",
    "board": "Model of the board.",
    "shell_id": "Identifier of the shell that the file needs.",
    "driver": "Name of the driver.",
    "driver_ver": "Version of the driver.",
    "driver_path": "Where the driver is.",
    "topology": "How the functions are connected.",
    "region_uuid": "UUID of the type of region.",
    "function_uuid": "UUID of the function.",
    "function_name": "Name of the function.",
}
NAMES = tuple(MEANINGS)
