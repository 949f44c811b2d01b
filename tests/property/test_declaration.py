# SPDX-License-Identifier: Apache-2.0

"""Whatever a tenant uploads, a declaration is read or refused."""

import json

from hypothesis import given
from hypothesis import strategies as st

from fpgapool.objects import declaration

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=12,
)
MEMBERS = st.sampled_from(
    "format_version name core description params params_schema"
    " peak_bytes_per_s return_ratio stateless chunk_multiple_bytes"
    " resources".split()
)
SCHEMAS = st.recursive(
    st.booleans() | st.just({}),
    lambda inner: st.dictionaries(
        st.sampled_from(
            "type properties items additionalProperties required enum"
            " minimum maxLength $ref pattern title".split()
        ),
        inner | VALUES | st.dictionaries(st.text(max_size=5), inner),
        max_size=4,
    ),
    max_leaves=10,
)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", fullmatch=True)


def refused_or_sound(data: bytes) -> None:
    try:
        found = declaration.parse(data)
    except ValueError:
        return
    profile = found.profile(["shape"])
    assert profile.from_primitive(profile.to_primitive()) == profile
    # What was read can be written down again.
    json.dumps(found.params | found.params_schema).encode("ascii")


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    refused_or_sound(data)


@given(VALUES)
def test_any_document(value: object) -> None:
    refused_or_sound(json.dumps(value).encode())


@given(st.dictionaries(MEMBERS, VALUES))
def test_the_right_members_with_any_value(
    members: dict[str, object],
) -> None:
    document = {
        "format_version": 1,
        "name": "mine",
        "core": "aes",
        "peak_bytes_per_s": 1e9,
        **members,
    }
    refused_or_sound(json.dumps(document).encode())


@given(SCHEMAS)
def test_any_schema(schema: object) -> None:
    document = {
        "format_version": 1,
        "name": "mine",
        "core": "aes",
        "peak_bytes_per_s": 1e9,
        "params_schema": {"type": "object", "properties": {"a": schema}},
    }
    refused_or_sound(json.dumps(document).encode())


@given(
    NAMES,
    NAMES,
    st.floats(1, 1e15),
    st.dictionaries(
        st.sampled_from(declaration.RESOURCES), st.integers(0, 10**9)
    ),
)
def test_what_is_right_comes_back(
    name: str, core: str, peak: float, resources: dict[str, int]
) -> None:
    found = declaration.parse(
        json.dumps(
            {
                "format_version": 1,
                "name": name,
                "core": core,
                "peak_bytes_per_s": peak,
                "resources": resources,
            }
        ).encode()
    )
    assert (found.name, found.core) == (name, core)
    assert found.peak_bytes_per_s == peak
    assert found.resources == resources


@given(
    st.dictionaries(
        st.sampled_from(declaration.RESOURCES), st.integers(0, 100)
    ),
    st.dictionaries(
        st.sampled_from("abcdef"),
        st.dictionaries(
            st.sampled_from(declaration.RESOURCES), st.integers(0, 100)
        ),
    ),
)
def test_a_shape_is_named_exactly_if_there_is_room(
    needed: dict[str, int], capacities: dict[str, dict[str, int]]
) -> None:
    found = declaration.Declaration(
        name="mine", core="aes", peak_bytes_per_s=1e9, resources=needed
    )
    fitting = {
        shape
        for shape, capacity in capacities.items()
        if all(
            capacity.get(name, 10**9) >= count
            for name, count in needed.items()
        )
    }
    assert set(found.shapes(capacities)) == fitting
