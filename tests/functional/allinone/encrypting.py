# SPDX-License-Identifier: Apache-2.0

"""A program that needs a slot."""

import random

from fpgapool import client
from tests.functional.allinone import harness
from tests.harness import programs

KEY, IV = programs.KEY, programs.IV
#: More than one chunk, and not a whole number of them.
DATA = random.Random(5).randbytes(9_000_001)


def encrypt(front_door: str, data: bytes = DATA) -> client.RunReport:
    """Encrypt in the pool, check the output, and return the report."""
    output, report = client.run_buffer(
        "aes",
        data,
        params={"key": KEY, "iv": IV},
        front_door=front_door,
        timeout_s=harness.LIMIT_S,
    )
    assert output == programs.encrypted(data)
    return report
