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

"""The vocabulary of codes."""

from fpgapool.core import codes

SETS = ("BITSTREAM_FAULTS", "REOPENABLE", "SLOT_LOST")


def test_one_symbol_per_value_and_the_same_name() -> None:
    found = {
        name: value
        for name, value in vars(codes).items()
        if name.isupper() and name not in SETS
    }
    assert found
    for name, value in found.items():
        assert value == name


def test_sets_hold_codes() -> None:
    for name in SETS:
        assert all(vars(codes)[code] == code for code in vars(codes)[name])
