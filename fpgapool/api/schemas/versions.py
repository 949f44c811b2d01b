#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Version documents and the OpenAPI document."""

from fpgapool.api.schemas import common

VERSION = common.record(
    id=common.TEXT,
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
