# SPDX-License-Identifier: Apache-2.0

"""Signals that end a command."""

from __future__ import annotations

import signal

import pytest

from fpgapool.common import interrupts


@pytest.mark.parametrize("number", interrupts.SIGNALS)
def test_a_signal_interrupts(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interrupts.interruptible():
        signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts.interruptible():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
