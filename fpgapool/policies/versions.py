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

"""Who may see what the API can: anybody, without a token.

These requests are not authenticated, so that a configured rule cannot make
them any less public.
"""

from oslo_policy import policy

from fpgapool.policies import base

LIST = "fpgapool:versions:list"
GET = "fpgapool:versions:get"
DOCUMENT = "fpgapool:openapi:get"


def list_rules() -> list[policy.RuleDefault]:
    """Return the rules of these operations."""
    return [
        base.rule(LIST, base.PUBLIC, "List the API's versions.", "GET", "/"),
        base.rule(GET, base.PUBLIC, "Show an API version.", "GET", "/v1"),
        base.rule(
            DOCUMENT,
            base.PUBLIC,
            "Show the API's OpenAPI document.",
            "GET",
            "/v1/openapi.json",
        ),
    ]
