# SPDX-License-Identifier: Apache-2.0

"""Readings of the network device from a kernel made up for the test."""

from __future__ import annotations

import pytest

from fpgapool.agent.host import monitor


class Kernel:
    def __init__(
        self,
        device: str | None = "eth0",
        speed_bytes_per_s: float | None = 5e9,
        failing: str | None = None,
    ) -> None:
        self.device = device
        self.speed = speed_bytes_per_s
        self.failing = failing
        self.asked: list[str] = []
        self.bytes = (10, 20)

    def _ask(self, question: str) -> None:
        self.asked.append(question)
        if self.failing == question:
            raise OSError("netlink says no")

    def find_device(self, address: str | None) -> str | None:
        self._ask("device")
        return self.device

    def counters(self, device: str) -> tuple[int, int]:
        self._ask("counters")
        return self.bytes

    def speed_bytes_per_s(self, device: str) -> float | None:
        self._ask("speed")
        return self.speed


def read(kernel: Kernel, **settings: object) -> monitor.NicReading:
    nic = monitor.NicMonitor(interval_s=1.0, kernel=kernel, **settings)
    nic.read(0.0)
    return nic.reading


def test_the_kernel_knows():
    assert read(Kernel()) == monitor.NicReading("eth0", 5e9, 10, 20)


def test_the_operator_knows_better():
    kernel = Kernel()
    reading = read(kernel, device="eth7", bytes_per_s=2e9)
    assert reading == monitor.NicReading("eth7", 2e9, 10, 20)
    assert kernel.asked == ["counters"]


@pytest.mark.parametrize(
    "kernel",
    [
        Kernel(device="lo"),
        Kernel(device=None),
        Kernel(speed_bytes_per_s=None),
        Kernel(failing="speed"),
        Kernel(failing="device"),
    ],
)
def test_an_unknown_rate_is_assumed_and_said(kernel, caplog):
    reading = read(kernel)
    assert reading.bytes_per_s == monitor.UNKNOWN_NIC_BYTES_PER_S
    assert "Network device" in caplog.text


def test_the_speed_is_asked_for_less_often_than_the_counters():
    kernel = Kernel()
    nic = monitor.NicMonitor(interval_s=1.0, kernel=kernel)
    for now in (0.0, 1.0, monitor.SPEED_INTERVAL_S - 1):
        nic.read(now)
    assert kernel.asked.count("speed") == 1
    assert kernel.asked.count("counters") == 3
    nic.read(monitor.SPEED_INTERVAL_S)
    assert kernel.asked.count("speed") == 2


def test_failing_counters_keep_the_last_reading(caplog):
    kernel = Kernel()
    nic = monitor.NicMonitor(interval_s=1.0, kernel=kernel)
    nic.read(0.0)
    kernel.failing = "counters"
    nic.read(1.0)
    nic.read(2.0)
    assert nic.reading == monitor.NicReading("eth0", 5e9, 10, 20)
    assert caplog.text.count("cannot be read") == 1


def test_the_real_kernel_counts_the_loopback():
    kernel = monitor.NetlinkKernel()
    assert kernel.find_device("127.0.0.1") == "lo"
    received_bytes, sent_bytes = kernel.counters("lo")
    assert received_bytes == sent_bytes
