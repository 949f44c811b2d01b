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

"""Devices: FPGA boards of hosts."""

from fpgapool.api.schemas import common

DEVICE = common.record(
    id=common.described(
        common.UUID, "Made of the host's UUID and the board's name."
    ),
    name=common.NAME,
    host_uuid=common.UUID,
    host_name=common.NAME,
    model=common.TEXT,
    dma_bytes_per_s=common.described(
        common.NUMBER, "Rate that all its slots share."
    ),
    state=common.described(
        common.one_of("up", "down", "faulty", "disabled"),
        "`down` means that the host does not report.",
    ),
    fault_reason=common.TEXT,
    slots=common.described(common.COUNT, "How many slots it has."),
    links=common.LINKS,
)

LIST_QUERY = common.list_query(
    ["name", "id", "host_name"],
    host=common.described(common.UUID, "UUID of the host."),
    state=common.one_of("up", "down", "faulty", "disabled"),
)
LIST = common.page_of("devices", DEVICE)
SHOW = common.record(device=DEVICE)
