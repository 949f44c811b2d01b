# SPDX-License-Identifier: Apache-2.0

"""Sessions of the built-in kernels: parameters and inputs of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy

from fpgapool.accelerators import base
from tests.unit.accelerators import runs

KEY = bytes(range(32)).hex()
# Its counter overflows in both halves soon.
IV = "ff" * 15 + "f0"


@dataclasses.dataclass(frozen=True)
class Session:
    """A session of a kernel.

    :ivar unit_bytes: a block of the kernel.
    :ivar stateless: whether pieces may come from anywhere in the input.
    :ivar rest: whether the input may end within a block.
    :ivar record_bytes: the input ends with one of this length.
    :ivar is_argued: whether it has all arguments that it needs.
    """

    name: str
    params: Mapping[str, Any]
    unit_bytes: int
    stateless: bool = True
    rest: bool = False
    record_bytes: int = 1
    is_argued: bool = True

    @property
    def arguments(self) -> list[bytes]:
        """The session's arguments, from number 1."""
        if self.name not in ("lr", "km") or not self.is_argued:
            return []
        rows = self.params.get("labels", self.params.get("centres", 1))
        size = rows * self.params["features"]
        generator = numpy.random.default_rng(size)
        return [generator.standard_normal(size).astype("<f4").tobytes()]

    @property
    def number_type(self) -> str | None:
        """The type of the numbers of its input; None if these are whole."""
        if self.name not in ("dtw", "fft", "km", "lr"):
            return None
        return "<f8" if self.params.get("dtype") == "float64" else "<f4"

    def core(self) -> base.Core:
        """Make the software core."""
        core = runs.load(self.name, **self.params)
        base.set_arguments(core, self.arguments)
        return core

    def __str__(self) -> str:
        """Return a name for pytest."""
        shown = [str(v) for v in self.params.values() if v not in (KEY, IV)]
        return "-".join([self.name, *shown])

    def input(self, seed: int, size_bytes: int) -> bytes:
        """Make an input.

        :param seed: of the noise in it.
        :param size_bytes: about how long; whole blocks if they have to be.
        """
        generator = numpy.random.default_rng([seed, size_bytes])
        if not self.rest:
            size_bytes -= size_bytes % self.unit_bytes
        size_bytes -= size_bytes % self.record_bytes
        if self.name in ("lr", "km"):
            return self._numbers(generator, size_bytes)
        if (sort := self.number_type) is not None:
            count = size_bytes // numpy.dtype(sort).itemsize
            return generator.standard_normal(count).astype(sort).tobytes()
        if self.name == "aes-cbc":
            # The padding makes it a block longer.
            data = generator.bytes(max(0, size_bytes - 1))
            core = runs.load(
                "aes-cbc", **{**self.params, "direction": "encrypt"}
            )
            return runs.run(core, data)
        data = generator.bytes(size_bytes)
        if self.params.get("mode") == "reconstruct":
            return self._records(data)
        return data

    def _numbers(
        self, generator: numpy.random.Generator, size_bytes: int
    ) -> bytes:
        columns = self.record_bytes // 4
        shape = (size_bytes // self.record_bytes, columns)
        numbers = generator.standard_normal(shape)
        if self.name == "lr":
            labels = max(self.params.get("labels", 1), 2)
            numbers[:, 0] = generator.integers(labels, size=len(numbers))
        return numbers.astype("<f4").tobytes()

    def _records(self, data: bytes) -> bytes:
        """Encode data without the fragments that are missing."""
        k, m = self.params["k"], self.params["m"]
        stripe_bytes = self.params["stripe_bytes"]
        core = runs.load("ec", k=k, m=m, stripe_bytes=stripe_bytes)
        kept = []
        for start in range(0, len(data), stripe_bytes):
            record = runs.process(core, data[start : start + stripe_bytes])
            size = (len(record) - 16) // (k + m)
            kept.append(record[:16])
            kept += [
                record[16 + i * size : 16 + (i + 1) * size]
                for i in range(k + m)
                if i not in self.params["missing"]
            ]
        return b"".join(kept)

    def assert_same(self, found: bytes, expected: bytes) -> None:
        """Compare a kernel's output with the software core's."""
        if self.name == "fft":
            shape = (-1, self.params["frame_samples"])
            right = numpy.frombuffer(expected, "<c8").reshape(shape)
            there = numpy.frombuffer(found, "<c8").reshape(shape)
            is_number = ~numpy.isnan(right)
            assert (is_number == ~numpy.isnan(there)).all()
            error = numpy.abs(there - right).max(1, initial=0, where=is_number)
            largest = numpy.abs(right).max(1, initial=0, where=is_number)
            # To the largest value of each frame.
            assert (error <= 1e-5 * largest).all()
        elif self.name in ("lr", "km"):
            right = numpy.frombuffer(expected, "<f8")
            there = numpy.frombuffer(found, "<f8")
            # Sums may be near 0, what is added up is not.
            numpy.testing.assert_allclose(there, right, rtol=1e-9, atol=1e-9)
        elif self.name == "dtw":
            right = numpy.frombuffer(expected, "<f8")
            there = numpy.frombuffer(found, "<f8")
            numpy.testing.assert_allclose(there, right, rtol=1e-12)
        else:
            assert found == expected


def _ec(k: int, m: int, stripe_bytes: int, **more: Any) -> Session:
    params = {"k": k, "m": m, "stripe_bytes": stripe_bytes, **more}
    unit_bytes = stripe_bytes
    if more:
        present = k + m - len(more["missing"])
        unit_bytes = 16 + present * -(-stripe_bytes // k)
    return Session("ec", params, unit_bytes, rest=True)


def _fft(frame_samples: int, inverse: bool, norm: str) -> Session:
    params = {"frame_samples": frame_samples, "inverse": inverse, "norm": norm}
    return Session("fft", params, 8 * frame_samples)


def _dtw(length_samples: int, dtype: str, **more: Any) -> Session:
    params = {"length_samples": length_samples, "dtype": dtype, **more}
    size = 8 if dtype == "float64" else 4
    return Session("dtw", params, 2 * length_samples * size)


def _lr(features: int, **more: int) -> Session:
    params = {"features": features, **more}
    return _of_blocks("lr", params, 4 * (features + 1))


def _km(features: int, centres: int, **more: int) -> Session:
    params = {"features": features, "centres": centres, **more}
    return _of_blocks("km", params, 4 * features)


def _of_blocks(name: str, params: dict[str, int], size: int) -> Session:
    unit_bytes = size * params.get("block_records", 256)
    return Session(name, params, unit_bytes, rest=True, record_bytes=size)


SESSIONS = [
    Session("copy", {}, 1, rest=True),
    Session("aes", {"key": KEY[:32], "iv": IV}, 1, rest=True),
    Session("aes", {"key": KEY[:48], "iv": "00" * 16}, 1, rest=True),
    Session("aes", {"key": KEY, "iv": IV}, 1, rest=True),
    *(
        Session(
            "aes-cbc",
            {"key": KEY[: 2 * size], "iv": IV, "direction": "decrypt"},
            16,
            stateless=False,
        )
        for size in (16, 32)
    ),
    Session("sha", {}, 64, stateless=False, rest=True),
    _fft(1, True, "backward"),
    _fft(2, False, "forward"),
    _fft(97, True, "ortho"),
    _fft(1000, False, "backward"),
    _fft(2048, True, "backward"),
    _dtw(1, "float32"),
    _dtw(50, "float64", window_samples=3),
    _dtw(64, "float32", window_samples=0),
    _dtw(30, "float32"),
    _ec(4, 2, 65536),
    _ec(5, 3, 1000),
    _ec(1, 1, 256),
    _ec(5, 3, 1000, mode="reconstruct", missing=[0, 6, 3]),
    _ec(4, 2, 4096, mode="reconstruct", missing=[]),
    _ec(8, 24, 4099, mode="reconstruct", missing=list(range(24))),
    Session("sobel", {}, 640 * 480),
    _lr(1),
    _lr(17, labels=5, block_records=64),
    _km(32, 8),
    _km(5, 40, block_records=100),
]
#: The largest frames and stripes, and everything else once.
LARGE = [
    *(each for each in SESSIONS if each.name in ("copy", "sobel")),
    *(each for each in SESSIONS if each.params.get("key") == KEY),
    *(each for each in SESSIONS if each.name == "sha"),
    _fft(131072, False, "backward"),
    _fft(65537, True, "ortho"),
    _dtw(50, "float32", window_samples=3),
    _ec(4, 2, 65536),
    _ec(4, 2, 1 << 20, mode="reconstruct", missing=[0, 5]),
    _lr(64, labels=3),
    _km(64, 4),
]
