# SPDX-License-Identifier: Apache-2.0

"""Parameters that are accepted without jsonschema satisfy jsonschema."""

import jsonschema
from hypothesis import example
from hypothesis import given
from hypothesis import strategies as st

from fpgapool.client import checks

VALUES = st.sampled_from(
    [0, 1, 1.0, 2, 9, True, False, None, "", "a", "ab", "1", [], ["a"], {}]
)
FORMS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            ["string", "integer", "boolean", "number", ["string", "null"]]
        ),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "minimum": st.integers(0, 2),
        "maximum": st.integers(0, 2),
        "pattern": st.sampled_from(["a", "^a$", "^$"]),
        "maxLength": st.integers(0, 2),
        "description": st.just("text"),
    },
)
NAMES = st.sampled_from("xyz")
SCHEMAS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["object", "string", ["object"]]),
        "additionalProperties": st.booleans() | FORMS,
        "required": st.lists(NAMES, unique=True, max_size=2),
        "properties": st.dictionaries(NAMES, FORMS),
        "minProperties": st.integers(0, 2),
    },
)


@example({"x": "a"}, {"properties": {"x": {"type": ["string", "null"]}}})
@given(st.dictionaries(NAMES, VALUES), SCHEMAS)
def test_accepted_without_the_library(
    params: dict[str, object], schema: dict[str, object]
) -> None:
    if checks._certainly_satisfies(params, schema):
        jsonschema.validate(params, schema)
