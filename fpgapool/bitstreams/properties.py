# SPDX-License-Identifier: Apache-2.0

"""Properties that owners set on bitstreams; the pool itself ignores them."""

#: From Cyborg's specification of bitstream metadata, without the properties
#: that the pool sets.
MEANINGS = {
    "vendor": "Manufacturer of the board.",
    "board": "Model of the board.",
    "shell_id": "Identifier of the shell that the file requires.",
    "driver": "Name of the driver.",
    "driver_ver": "Version of the driver.",
    "driver_path": "Path of the driver.",
    "topology": "How the functions are connected.",
    "region_uuid": "UUID of the region type.",
    "function_uuid": "UUID of the function.",
    "function_name": "Name of the function.",
}
NAMES = tuple(MEANINGS)
