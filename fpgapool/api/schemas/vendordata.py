# SPDX-License-Identifier: Apache-2.0

"""Vendordata: Nova asks, and the instance reads the answer."""

from fpgapool.api.schemas import common

_ANY_TEXT = {"type": ["string", "null"]}

#: As ``nova/api/metadata`` sends it. Unknown members of later versions are
#: allowed: a boot must not lack an accelerator because of them.
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
        common.TEXT,
        "URL by which the instance reaches this API, without `/v1`.",
    ),
    instance_token=common.described(
        common.TEXT, "Token for sessions; it lives as long as the instance."
    ),
    accelerators=common.described(
        {"type": "array", "items": common.TEXT},
        "The accelerators of the instance's flavor.",
    ),
    ca_cert=common.described(
        common.TEXT, "Certificates to verify the API's; PEM."
    ),
)
