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

"""Who may see what projects have used."""

from oslo_policy import policy

from fpgapool.policies import base

LIST = "fpgapool:usage:list"
LIST_ALL = "fpgapool:usage:list:all_projects"

_COLLECTION = "/v1/usage"


def list_rules() -> list[policy.RuleDefault]:
    """Return the rules of these operations."""
    return [
        base.rule(
            LIST,
            base.PROJECT_READER_OR_ADMIN,
            "List what a project has used.",
            "GET",
            _COLLECTION,
        ),
        base.rule(
            LIST_ALL,
            base.ADMIN,
            "List what all projects have used.",
            "GET",
            f"{_COLLECTION}?all_projects=true",
        ),
    ]
