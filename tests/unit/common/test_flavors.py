# SPDX-License-Identifier: Apache-2.0

"""What flavors say of accelerators."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.common import flavors


@pytest.mark.parametrize(
    ("specs", "asks", "accelerators"),
    [
        ({}, False, ()),
        ({"hw:cpu_policy": "dedicated"}, False, ()),
        ({"fpgapool:accelerators": ""}, False, ()),
        ({"fpgapool:accelerators": "aes, fft ,"}, True, ("aes", "fft")),
        ({"fpgapool:affinity": "preferred"}, True, ()),
        ({"fpgapool:affinity": "required"}, True, ()),
        ({"fpgapool:affinity": " Avoid "}, False, ()),
        ({"fpgapool:sla": "High"}, True, ()),
        ({"fpgapool:sla": "soft"}, False, ()),
        (
            {"fpgapool:sla": "soft", "fpgapool:accelerators": "aes"},
            True,
            ("aes",),
        ),
        (
            {"fpgapool:affinity": "avoid", "fpgapool:accelerators": "aes"},
            True,
            ("aes",),
        ),
    ],
)
def test_who_asks(specs, asks, accelerators):
    wish = flavors.read(specs)
    assert (wish.asks, wish.accelerators) == (asks, accelerators)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        (None, None),
        ("3", 3),
        (" 0 ", 0),
        (7, 7),
        ("9" * 30, 2**31 - 1),
        # A mistake does not take a limit away.
        ("many", 0),
        ("-1", 0),
        ("1.5", 0),
        ("", 0),
        ("٣", 0),
    ],
)
def test_limits(text, limit):
    specs = {} if text is None else {"fpgapool:max_sessions": text}
    assert flavors.read(specs).max_sessions == limit


@given(
    st.dictionaries(
        st.sampled_from(
            [
                flavors.ACCELERATORS,
                flavors.AFFINITY,
                flavors.SLA,
                flavors.MAX_SESSIONS,
            ]
        ),
        st.text(max_size=20) | st.integers() | st.none(),
    )
)
def test_anything_can_be_read(specs):
    limit = flavors.read(specs).max_sessions
    assert limit is None or 0 <= limit < 2**31
