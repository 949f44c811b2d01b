# SPDX-License-Identifier: Apache-2.0

"""The vocabulary of codes."""

from fpgapool.vocabulary import codes

SETS = (
    "BITSTREAM_FAULTS",
    "DEVICE_FAULTS",
    "REOPENABLE",
    "ROOM_IS_MADE",
    "SLOT_LOST",
    "TAKEN_BACK",
)


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
