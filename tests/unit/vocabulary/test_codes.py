# SPDX-License-Identifier: Apache-2.0

"""The vocabulary of codes."""

import http
import string

from fpgapool.vocabulary import codes


def test_one_symbol_per_code_and_the_same_name() -> None:
    found = {
        name: value
        for name, value in vars(codes).items()
        if name.isupper() and isinstance(value, str)
    }
    assert found == {code: code for code in codes.ERRORS}


def test_codes_have_a_sentence_and_a_status_of_http() -> None:
    allowed = set(string.ascii_uppercase + string.digits + "_")
    for code, error in codes.ERRORS.items():
        assert set(code) <= allowed
        assert error.sentence[0].isupper()
        assert error.sentence.endswith(".")
        if error.status is not None:
            assert http.HTTPStatus(error.status) >= http.HTTPStatus.BAD_REQUEST


def test_sets_hold_codes() -> None:
    sets = [one for one in vars(codes).values() if isinstance(one, frozenset)]
    assert len(sets) == 10
    assert set().union(*sets) < codes.ERRORS.keys()
