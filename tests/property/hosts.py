# SPDX-License-Identifier: Apache-2.0

"""Hosts and accelerators that random events are about."""

import numpy

from fpgapool.core import model

SHAPES = ("large", "small")
ACCELERATORS = tuple(
    model.Accelerator(
        name=name, peak_bytes_per_s=1e9, shapes=shapes, stateless=stateless
    )
    for name, shapes, stateless in (
        ("aes", frozenset[str](), True),
        ("fft", frozenset({"large"}), True),
        ("sha", frozenset({"small", "large"}), False),
    )
)
HOSTS = range(4)
DEVICES_PER_HOST = 2
SLOTS_PER_DEVICE = 3


def make_host(host_id: int, random: numpy.random.Generator) -> model.HostSpec:
    """A host with up to two boards; its ids are always the same."""
    return model.HostSpec(
        id=host_id,
        name=f"host{host_id}",
        nic_bytes_per_s=1e9,
        devices=tuple(
            make_device(host_id, place, random)
            for place in range(random.integers(DEVICES_PER_HOST + 1))
        ),
    )


def make_device(
    host_id: int, place: int, random: numpy.random.Generator
) -> model.DeviceSpec:
    """One of a host's boards."""
    device_id = host_id * DEVICES_PER_HOST + place
    return model.DeviceSpec(
        id=device_id,
        host_id=host_id,
        name=f"board{place}",
        dma_bytes_per_s=2e9,
        healthy=bool(random.random() < 0.9),
        slots=tuple(
            model.SlotSpec(
                id=device_id * SLOTS_PER_DEVICE + number,
                device_id=device_id,
                host_id=host_id,
                number=place * SLOTS_PER_DEVICE + number,
                shape=str(random.choice(SHAPES)),
                programmed=random.choice([None, "aes", "fft", "sha"]),
                programming_time_s=float(random.choice([0.0, 0.5])),
            )
            for number in range(random.integers(1, SLOTS_PER_DEVICE + 1))
        ),
    )
