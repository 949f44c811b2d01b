# SPDX-License-Identifier: Apache-2.0

"""The CPU's work, where what its cores need is not installed."""

import sys

import pytest

from fpgapool import client
from fpgapool.accelerators import base
from fpgapool.vocabulary import codes


@pytest.mark.parametrize(
    ("accelerator", "missing"), [("fft", "scipy"), ("copy", "yaml")]
)
def test_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path,
    accelerator: str,
    missing: str,
) -> None:
    base._read_version.cache_clear()
    base.load_core.cache_clear()
    for name in list(sys.modules):
        if name.startswith("fpgapool.accelerators.") and "base" not in name:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(client.InvalidRequest) as caught:
        client.acc_open(
            accelerator,
            1,
            front_door=str(tmp_path / "nobody"),
            timeout_s=5,
            fallback="cpu",
        )
    assert caught.value.code == codes.CORE_UNAVAILABLE
    assert "pip install 'fpgapool[emulator]'" in caught.value.message
    # Why the CPU was needed is not forgotten.
    assert "FRONT_DOOR_UNAVAILABLE" in caught.value.message
