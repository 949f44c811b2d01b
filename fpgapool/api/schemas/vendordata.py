# SPDX-License-Identifier: Apache-2.0

"""Vendordata, which Nova requests and the instance reads."""

from fpgapool.api.schemas import common


def _text(description: str) -> common.Schema:
    return {"type": ["string", "null"], "description": description}


#: The request that ``nova/api/metadata`` sends. Unknown members are allowed:
#: if a later Nova adds some, instances still get their accelerators.
CREATE = {
    "type": "object",
    "properties": {
        "instance-id": common.described(common.UUID, "UUID of the instance."),
        "project-id": _text("The instance's project."),
        "image-id": _text("The instance's image."),
        "user-data": _text("The instance's user data."),
        "hostname": _text("The instance's host name."),
        "metadata": {
            "type": ["object", "null"],
            "description": "The instance's metadata.",
        },
        "boot-roles": _text("Roles of the user who boots it."),
    },
    "patternProperties": {"^[a-z][a-z0-9-]*$": {}},
    "required": ["instance-id"],
    "additionalProperties": False,
}

SHOW = common.record(
    optional=["api_url", "instance_token", "accelerators", "ca_cert"],
    api_url=common.described(
        common.TEXT,
        "URL at which the instance reaches this API, without `/v1`.",
    ),
    instance_token=common.described(
        common.TEXT,
        "Token for opening sessions; valid until the instance is deleted.",
    ),
    accelerators=common.described(
        {"type": "array", "items": common.TEXT},
        "The accelerators of the instance's flavor.",
    ),
    ca_cert=common.described(
        common.TEXT,
        "CA certificates that verify the API's certificate, in PEM.",
    ),
)
