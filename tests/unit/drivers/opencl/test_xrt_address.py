# SPDX-License-Identifier: Apache-2.0

"""The address on the PCI bus of a board with XRT."""

import types

import pytest


@pytest.fixture
def address_of(monkeypatch):
    """Give what asks a board that answers with a status and a text."""
    from fpgapool.drivers.opencl import platforms

    def ask(status, text, platform="Xilinx"):
        def answer(device, what, size, room, written):
            assert (device.value, what.value) == (1234, 0x1120)
            assert len(text) < size.value
            room.value = text
            return status

        library = types.SimpleNamespace(clGetDeviceInfo=answer)
        monkeypatch.setattr(platforms.ctypes, "CDLL", lambda name: library)
        return platforms._address(
            types.SimpleNamespace(
                platform=types.SimpleNamespace(name=platform), int_ptr=1234
            )
        )

    return ask


def test_a_board_that_tells_its_address(address_of):
    assert address_of(0, b"0000:3B:00.1") == "0000:3b:00.1"


@pytest.mark.parametrize(
    ("status", "text"),
    [(-6, b""), (0, b""), (0, b"../../etc"), (0, b"\xff")],
)
def test_a_board_that_does_not(address_of, status, text):
    assert address_of(status, text) is None


def test_others_are_not_asked(address_of):
    assert address_of(0, b"0000:3b:00.1", platform="Another") is None
