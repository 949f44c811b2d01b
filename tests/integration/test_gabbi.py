# SPDX-License-Identifier: Apache-2.0

"""The API as ``gabbits/*.yaml`` describe it, request by request."""

from __future__ import annotations

import gc
import pathlib
import unittest
from collections.abc import Iterator
from collections.abc import Mapping

import pytest
from gabbi import driver

from tests.integration import server
from tests.services import process

DIRECTORY = pathlib.Path(__file__).parent / "gabbits"
HOST = process.LOOPBACK
NAMES = sorted(path.stem for path in DIRECTORY.glob("*.yaml"))


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Close what gabbi leaves open: pytest would blame another test."""
    yield
    gc.collect()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_described(
    api: server.Server,
    tokens: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    for persona in ("member", "stranger"):
        variable = f"FPGAPOOL_TEST_{persona.upper()}"
        monkeypatch.setenv(variable, tokens[persona])
    suite = driver.build_tests(
        str(DIRECTORY), unittest.TestLoader(), host=HOST, port=api.port
    )
    wanted = [
        one for one in suite if f"_{name}_" in type(next(iter(one))).__name__
    ]
    assert len(wanted) == 1
    result = unittest.TestResult()
    for one in wanted:
        one.run(result)
    assert result.testsRun > 0
    problems = [text for _, text in (*result.failures, *result.errors)]
    assert not problems, "\n".join(problems)
    assert not result.unexpectedSuccesses
    assert not result.skipped
