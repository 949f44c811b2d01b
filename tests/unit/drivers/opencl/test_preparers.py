# SPDX-License-Identifier: Apache-2.0

"""What the host computes for kernels."""

import numpy
import pytest

from fpgapool.accelerators import base
from fpgapool.drivers.opencl.contents import preparers

SOUND = {
    "aes-encryption": {"key": bytes(16)},
    "aes-decryption": {"key": bytes(32)},
    "ec-encoding": {"k": 4, "m": 2},
    "ec-decoding": {"k": 4, "m": 2, "missing": [0, 5]},
    "fft-plan": {"frame_samples": 6, "inverse": False, "norm": "ortho"},
}


def prepared(name, **changes):
    values = {**SOUND[name], **changes}
    return preparers.PREPARERS[name].compute(values)


def test_every_preparer_has_a_case():
    assert set(SOUND) == set(preparers.PREPARERS)
    for name, values in SOUND.items():
        assert set(values) == set(preparers.PREPARERS[name].params)


def test_key_schedule_of_the_standard():
    # FIPS 197, A.1 and A.3: the last column.
    for key, last in (
        ("2b7e151628aed2a6abf7158809cf4f3c", "b6630ca6"),
        (
            "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
            "706c631e",
        ),
    ):
        contents = prepared("aes-encryption", key=bytes.fromhex(key))
        assert contents[1024 : 1024 + len(key) // 2].hex() == key
        assert contents[-4:].hex() == last


def test_fragments_that_are_there_decode_to_themselves():
    identity = bytes(int(i % 5 == 0) for i in range(16))
    assert prepared("ec-decoding", missing=[4, 5]) == identity


def test_plan_of_a_power_of_two():
    plan = numpy.frombuffer(
        prepared("fft-plan", frame_samples=4, norm="forward"), "<c8"
    ).reshape(4, 4)
    assert plan[0] == pytest.approx(numpy.array([1, -1j, -1, 1j]))
    assert (plan[1:3] == 1).all()
    assert (plan[3] == 0.25).all()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        # A manifest may allow more than a preparer can do.
        ("aes-encryption", {"key": b""}),
        ("aes-encryption", {"key": bytes(4096)}),
        ("aes-decryption", {"key": bytes(17)}),
        ("ec-encoding", {"k": 0}),
        ("ec-encoding", {"m": 0}),
        ("ec-encoding", {"k": 2**32 - 1}),
        ("ec-encoding", {"m": 29}),
        ("ec-decoding", {"m": 2**32 - 1}),
        ("ec-decoding", {"missing": [6]}),
        ("ec-decoding", {"missing": [1, 1]}),
        ("ec-decoding", {"missing": [0, 1, 2]}),
        ("fft-plan", {"frame_samples": 0}),
        ("fft-plan", {"frame_samples": (1 << 17) + 1}),
        ("fft-plan", {"frame_samples": 2**32 - 1}),
    ],
)
def test_impossible_parameters_are_refused(name, changes):
    assert prepared(name)
    with pytest.raises(base.InvalidParams) as caught:
        prepared(name, **changes)
    assert caught.value.code == "INVALID_PARAMS"
