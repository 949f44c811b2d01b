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

"""Services: the conductor that leads, and the agents."""

from fpgapool.api.schemas import common

SERVICE = common.record(
    id=common.described(
        common.NAME, "Name of the conductor, UUID of an agent's host."
    ),
    binary=common.one_of("fpgapool-conductor", "fpgapool-agent"),
    host=common.described(common.TEXT, "Name of its host."),
    up=common.FLAG,
    last_report_at=common.described(
        common.nullable(common.TIME), "When an agent was last heard."
    ),
    message=common.described(
        common.TEXT, "What an operator should know about it."
    ),
)

LIST_QUERY = common.list_query(
    ["id", "binary", "host"],
    binary=common.one_of("fpgapool-conductor", "fpgapool-agent"),
    up=common.FLAG,
)
LIST = common.page_of("services", SERVICE)
