# SPDX-License-Identifier: Apache-2.0

"""Version documents and the OpenAPI document."""

from fpgapool.api.schemas import common

VERSION = common.record(
    id=common.described(common.TEXT, "Name of the version: `v1`."),
    status=common.one_of("CURRENT"),
    min_version=common.TEXT,
    version=common.TEXT,
    max_version=common.TEXT,
    links=common.LINKS,
)

LIST = common.record(versions={"type": "array", "items": VERSION})
SHOW = common.record(version=VERSION)
DOCUMENT = {
    "type": "object",
    "required": ["openapi", "info", "paths"],
    "additionalProperties": True,
}
