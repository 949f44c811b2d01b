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

"""The pool at a glance."""

from fpgapool.api.schemas import common

_SLOT = common.record(
    slot=common.COUNT,
    shape=common.TEXT,
    state=common.TEXT,
    accelerator=common.nullable(common.NAME),
    programmed=common.nullable(common.NAME),
)
_DEVICE = common.record(
    name=common.NAME,
    healthy=common.FLAG,
    slots={"type": "array", "items": _SLOT},
)
_HOST = common.record(
    uuid=common.UUID,
    name=common.NAME,
    up=common.FLAG,
    devices={"type": "array", "items": _DEVICE},
)

SHOW = common.record(
    pool=common.record(
        strategy=common.described(common.NAME, "How sessions are scheduled."),
        waiting=common.described(
            common.COUNT, "How many sessions wait for a slot."
        ),
        sessions=common.described(
            {"type": "object", "additionalProperties": common.COUNT},
            "How many sessions of all projects are in each state, those"
            " that ended lately included.",
        ),
        hosts={"type": "array", "items": _HOST},
    )
)
