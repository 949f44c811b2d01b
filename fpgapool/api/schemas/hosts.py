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

"""Hosts of the pool."""

from fpgapool.api.schemas import administration
from fpgapool.api.schemas import common
from fpgapool.api.schemas import probation

HOST = common.record(
    uuid=common.UUID,
    name=common.NAME,
    up=common.described(common.FLAG, "Whether its agent reports."),
    nic_bytes_per_s=common.described(
        common.NUMBER, "Rate of its network card, in each direction."
    ),
    admin_state=administration.STATE,
    admin_reason=administration.REASON,
    drain_deadline_at=administration.DEADLINE,
    devices=common.described(common.COUNT, "How many boards it has."),
    slots=common.described(common.COUNT, "How many slots they have."),
    sessions=common.described(common.COUNT, "How many of them sessions have."),
    faulty_accelerators=probation.ACCELERATORS,
    links=common.LINKS,
)

LIST_QUERY = common.list_query(
    ["name", "uuid"], name=common.NAME, up=common.FLAG
)
LIST = common.page_of("hosts", HOST)
SHOW = common.record(host=HOST)
CHANGE = administration.CHANGE
