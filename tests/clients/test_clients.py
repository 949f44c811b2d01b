# SPDX-License-Identifier: Apache-2.0

"""Clients in other languages, of ``doc/examples/clients``, in a real pool."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import random
import subprocess
from collections.abc import Iterator
from collections.abc import Sequence

import pytest

from tests.functional.allinone import harness
from tests.harness import programs
from tests.harness import waiting
from tests.services import process
from tests.unit.accelerators import runs

SOURCES = pathlib.Path(__file__).parents[2] / "doc" / "examples" / "clients"
#: More than a piece and less than three; no multiple of anything.
DATA = random.Random(3).randbytes(9_000_001)
EC = {"k": 1, "m": 3, "stripe_bytes": 1000}
AES = {"key": programs.KEY.hex(), "iv": programs.IV.hex()}
#: Pieces of a length that is no multiple of a worker's.
SMALL = "[agent]\nchunk_bytes = 65537\n"


@pytest.fixture(scope="session")
def commands(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, list[str]]:
    """Give how each client is started; the one in C is compiled."""
    program = tmp_path_factory.mktemp("clients") / "run"
    subprocess.run(
        [
            process.find_program("cc", "gcc"),
            *("-std=c11", "-Wall", "-Wextra", "-Werror", "-O2"),
            *("-fsanitize=address,undefined", "-o", program),
            SOURCES / "run.c",
        ],
        check=True,
    )
    node = process.find_program("node", "nodejs")
    return {"c": [str(program)], "node": [node, str(SOURCES / "run.mjs")]}


@pytest.fixture(scope="module", params=["", "tls"])
def pool(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[harness.Pool]:
    """Give a pool of one host, whose TCP ports have TLS or not."""
    config = tmp_path_factory.mktemp("pool") / "pool.conf"
    config.write_text(SMALL + ("tls = true\n" if request.param else ""))
    with harness.running_pool(
        *("--hosts=1", "--boards=1", "--slots=1", "--unlimited"),
        f"--config-file={config}",
    ) as running:
        yield running


def run(
    pool: harness.Pool,
    command: Sequence[str],
    accelerator: str,
    data: bytes,
    **params: object,
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*command, accelerator, json.dumps(params)],
        input=data,
        env={
            **os.environ,
            "FPGAPOOL_SOCKET": pool.front_door(),
            # It keeps its memory until its end.
            "ASAN_OPTIONS": "detect_leaks=0",
        },
        capture_output=True,
        check=False,
        timeout=waiting.COMMAND_LIMIT_S,
    )


@pytest.mark.parametrize("language", ["c", "node"])
@pytest.mark.parametrize(
    ("accelerator", "params", "data", "output"),
    [
        ("aes", AES, DATA, programs.encrypted(DATA)),
        ("aes", AES, b"hello", programs.encrypted(b"hello")),
        # All of its output comes after the last input.
        ("sha", {"algorithm": "sha256"}, DATA, hashlib.sha256(DATA).digest()),
        # Four times as much output, in pieces of whole stripes.
        ("ec", EC, DATA, runs.run(runs.load("ec", **EC), DATA)),
        ("sha", {"algorithm": "sha256"}, b"", hashlib.sha256().digest()),
    ],
    ids=["aes", "short", "sha", "ec", "empty"],
)
def test_the_output_is_right(
    pool: harness.Pool,
    commands: dict[str, list[str]],
    language: str,
    accelerator: str,
    params: dict[str, object],
    data: bytes,
    output: bytes,
) -> None:
    done = run(pool, commands[language], accelerator, data, **params)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == output


@pytest.mark.parametrize("language", ["c", "node"])
@pytest.mark.parametrize(
    ("accelerator", "params", "code"),
    [
        ("nonsense", {}, b"UNKNOWN_ACCELERATOR: "),
        ("sha", {"algorithm": "nonsense"}, b"INVALID_PARAMS: "),
    ],
)
def test_a_refusal_is_told_and_ends_the_client(
    pool: harness.Pool,
    commands: dict[str, list[str]],
    language: str,
    accelerator: str,
    params: dict[str, object],
    code: bytes,
) -> None:
    done = run(pool, commands[language], accelerator, b"data", **params)
    assert done.returncode == 1
    assert code in done.stderr
    assert done.stdout == b""
