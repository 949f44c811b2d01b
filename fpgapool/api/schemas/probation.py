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


"""What is said of what is out of use for its failures."""

from fpgapool.api.schemas import common

MEMBERS = {
    "failures": common.described(
        common.COUNT, "In a row, that took it out of use; 0 if it is in use."
    ),
    "self_tests": common.described(
        common.COUNT, "That it has not passed since it is out of use."
    ),
    "last_self_test": common.described(
        common.TEXT,
        "What came of the last one, for who sees all projects.",
    ),
    "next_self_test_at": common.described(
        common.nullable(common.TIME),
        "When it is tested again. In the past: now, or as soon as it can be,"
        " such as when nobody has the slot.",
    ),
}

ACCELERATORS = common.described(
    {
        "type": "array",
        "items": common.record(
            accelerator=common.NAME, reason=common.TEXT, **MEMBERS
        ),
    },
    "Those that are kept off the host for their failures there, as long as"
    " another host has a slot for them.",
)
