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

"""Who may see which instances have tokens, and take them away."""

from oslo_policy import policy

from fpgapool.policies import base

LIST = "fpgapool:instances:list"
LIST_ALL = "fpgapool:instances:list:all_projects"
ALL_PROJECTS = "fpgapool:instances:all_projects"
REVOKE_TOKEN = "fpgapool:instances:revoke_token"

_COLLECTION = "/v1/instances"
_TOKEN = "/v1/instances/{instance_id}/token"


def list_rules() -> list[policy.RuleDefault]:
    """Return the rules of these operations."""
    return [
        base.rule(
            LIST,
            base.PROJECT_READER_OR_ADMIN,
            "List the instances of one's own project that have tokens.",
            "GET",
            _COLLECTION,
        ),
        base.rule(
            LIST_ALL,
            base.ADMIN,
            "List the instances of all projects that have tokens.",
            "GET",
            f"{_COLLECTION}?all_projects=true",
        ),
        base.rule(
            ALL_PROJECTS,
            base.ADMIN,
            "Take tokens of instances of other projects away, too.",
            "DELETE",
            _TOKEN,
        ),
        base.rule(
            REVOKE_TOKEN,
            base.PROJECT_MEMBER_OR_ADMIN,
            "Take the token of an instance away.",
            "DELETE",
            _TOKEN,
        ),
    ]
