# SPDX-License-Identifier: Apache-2.0

"""Amounts as people read them."""

from __future__ import annotations

_SIZE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_MINUTE_S = 60
_HOUR_S = 3600
_DAY_S = 86400
# Shorter times have a fraction.
_WHOLE_FROM_S = 9.95


def bytes_text(value_bytes: float) -> str:
    """Return an amount of data, such as ``1.2 GB``."""
    unit = 0
    while value_bytes >= 999.5 and unit < len(_SIZE_UNITS) - 1:
        value_bytes /= 1000
        unit += 1
    return f"{value_bytes:.3g} {_SIZE_UNITS[unit]}"


def count_text(count: int, name: str) -> str:
    """Return a number of things, such as ``1 board`` or ``2 boards``."""
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def seconds_text(value_s: float) -> str:
    """Return a time, such as ``0.8 s``, ``23 min 29 s`` or ``2 d 3 h``."""
    if value_s < _WHOLE_FROM_S:
        return f"{value_s:.1f} s"
    whole = round(value_s)
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
    return f"{whole // _DAY_S} d {whole % _DAY_S // _HOUR_S} h"
