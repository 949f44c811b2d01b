# SPDX-License-Identifier: Apache-2.0

"""Documents about platforms of an accelerator."""

import jsonschema
import pytest

from fpgapool.accelerators import base
from fpgapool.bitstreams import library
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import platforms

GOOD = {
    "large": {"peak_bytes_per_s": 2e9, "active_w": 40},
    "small": {"peak_bytes_per_s": 1},
}
WRONG = {
    "no mapping": ["large"],
    "empty shape": {"": {"peak_bytes_per_s": 1e9}},
    "long shape": {"x" * 256: {"peak_bytes_per_s": 1e9}},
    "no members": {"large": 1e9},
    "no rate": {"large": {"active_w": 1}},
    "no number": {"large": {"peak_bytes_per_s": "fast"}},
    "a flag": {"large": {"peak_bytes_per_s": True}},
    "too slow": {"large": {"peak_bytes_per_s": 0}},
    "infinite": {"large": {"peak_bytes_per_s": float("inf")}},
    "undefined": {"large": {"peak_bytes_per_s": float("nan")}},
    "negative power": {"large": {"peak_bytes_per_s": 1e9, "active_w": -1}},
    "unknown member": {"large": {"peak_bytes_per_s": 1e9, "idle_w": 1}},
    "too many": {str(n): {"peak_bytes_per_s": 1e9} for n in range(65)},
}


def test_members_are_read() -> None:
    assert platforms.read(GOOD) == {
        "large": platforms.Platform(2e9, 40.0),
        "small": platforms.Platform(1.0),
    }
    assert platforms.peaks(GOOD) == {"large": 2e9, "small": 1}
    assert platforms.active_w(GOOD, "large") == 40
    assert platforms.active_w(GOOD, "small") is None
    assert platforms.active_w(GOOD, "other") is None
    jsonschema.validate(GOOD, platforms.SCHEMA)


def test_the_cpu_is_no_slot() -> None:
    with_cpu = {**GOOD, platforms.CPU: {"peak_bytes_per_s": 5, "active_w": 9}}
    assert platforms.peaks(with_cpu) == platforms.peaks(GOOD)
    assert platforms.active_w(with_cpu, platforms.CPU) == 9
    assert platforms.active_w(GOOD, platforms.CPU) is None
    jsonschema.validate(with_cpu, platforms.SCHEMA)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_documents_are_refused(name: str) -> None:
    with pytest.raises(ValueError):
        platforms.read(WRONG[name])
    with pytest.raises(ValueError):
        library.check_profile({"platforms": WRONG[name]})
    profile = {
        "name": "copy",
        "description": "",
        "peak_bytes_per_s": 1e9,
        "return_ratio": 1,
        "stateless": True,
        "shapes": [],
        "params_schema": {},
        "core": "copy",
        "chunk_multiple_bytes": 1,
    }
    assert base.profile_from_document(profile, "here").platforms == {}
    with pytest.raises(base.AcceleratorError) as caught:
        base.profile_from_document(
            profile | {"platforms": WRONG[name]}, "here"
        )
    assert caught.value.code == codes.INVALID_PROFILE
    assert "platforms" in caught.value.message


def test_schema_refuses_what_is_refused() -> None:
    checker = jsonschema.Draft202012Validator(platforms.SCHEMA)
    # JSON has no numbers that are infinite or undefined.
    wrong = [name for name in WRONG if name not in ("infinite", "undefined")]
    assert [name for name in wrong if checker.is_valid(WRONG[name])] == []
