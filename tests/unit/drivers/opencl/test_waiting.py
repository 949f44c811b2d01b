# SPDX-License-Identifier: Apache-2.0

"""Waiting for commands that end, fail, or never end."""

import threading

import pytest

from fpgapool.drivers import base
from fpgapool.drivers.opencl import waiting


class Event:
    """A command that a test ends."""

    def __init__(self):
        self.command_execution_status = 3
        self._ended = threading.Event()

    def end(self, status=0):
        self.command_execution_status = status
        self._ended.set()

    def wait(self):
        self._ended.wait()
        if self.command_execution_status < 0:
            raise RuntimeError("the device is on fire")


def test_a_command_that_has_ended():
    event = Event()
    event.end()
    waiting.Waiter(0.001).wait(event)


def test_a_command_that_ends_later():
    waiter, event = waiting.Waiter(60), Event()
    for _ in range(2):
        threading.Timer(0.01, event.end).start()
        waiter.wait(event)
        event = Event()
    assert waiter.fault is None


@pytest.mark.parametrize("is_late", [False, True])
def test_a_command_that_fails(is_late):
    event = Event()
    if is_late:
        threading.Timer(0.01, event.end, [-5]).start()
    else:
        event.end(-5)
    waiter = waiting.Waiter(60)
    with pytest.raises(RuntimeError, match="on fire"):
        waiter.wait(event)
    assert waiter.fault is None


def test_a_command_that_never_ends():
    waiter, event = waiting.Waiter(60), Event()
    waiter.set_limit(0.01)
    with pytest.raises(base.DriverError) as caught:
        waiter.wait(event)
    assert caught.value.code == "KERNEL_HUNG"
    # The device is lost to this process, even if it comes back.
    event.end()
    for again in (event, Event()):
        with pytest.raises(base.DriverError) as caught:
            waiter.wait(again)
        assert caught.value.code == "KERNEL_HUNG"
    assert "0.01 s" in waiter.fault
