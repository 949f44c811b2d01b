# SPDX-License-Identifier: Apache-2.0

"""Vendordata: the question is Nova's, the answer what the instance reads."""

from fpgapool.api.schemas import common

_ANY_TEXT = {"type": ["string", "null"]}

#: As ``nova/api/metadata`` sends it. Members that later versions may add are
#: let pass: a boot must not lack an accelerator for them.
CREATE = {
    "type": "object",
    "properties": {
        "instance-id": common.UUID,
        "project-id": _ANY_TEXT,
        "image-id": _ANY_TEXT,
        "user-data": _ANY_TEXT,
        "hostname": _ANY_TEXT,
        "metadata": {"type": ["object", "null"]},
        "boot-roles": _ANY_TEXT,
    },
    "patternProperties": {"^[a-z][a-z0-9-]*$": {}},
    "required": ["instance-id"],
    "additionalProperties": False,
}

SHOW = common.record(
    optional=["api_url", "instance_token", "accelerators", "ca_cert"],
    api_url=common.described(
        common.TEXT, "Where the instance reaches this API, without `/v1`."
    ),
    instance_token=common.described(
        common.TEXT, "For sessions; it lives as long as the instance."
    ),
    accelerators=common.described(
        {"type": "array", "items": common.TEXT},
        "Those that the instance's flavor names.",
    ),
    ca_cert=common.described(
        common.TEXT, "By which the API's certificate can be verified; PEM."
    ),
)
