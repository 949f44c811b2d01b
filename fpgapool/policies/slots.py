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

"""Who may see the slots, and have them tested."""

from oslo_policy import policy

from fpgapool.policies import base

LIST = "fpgapool:slots:list"
GET = "fpgapool:slots:get"
TEST = "fpgapool:slots:test"


def list_rules() -> list[policy.RuleDefault]:
    """Return the rules of these operations."""
    return [
        base.rule(
            LIST, base.ANY_READER, "List the slots.", "GET", "/v1/slots"
        ),
        base.rule(
            GET, base.ANY_READER, "Show a slot.", "GET", "/v1/slots/{slot_id}"
        ),
        base.rule(
            TEST,
            base.ADMIN,
            "Have a slot tested now.",
            "POST",
            "/v1/slots/{slot_id}/test",
        ),
    ]
