# SPDX-License-Identifier: Apache-2.0

"""SHA-1 and SHA-256."""

from __future__ import annotations

import collections.abc
import hashlib

from fpgapool.accelerators import base
from fpgapool.accelerators import parameters

ALGORITHMS = ("sha1", "sha256")


class ShaCore(base.Core):
    """Returns the digest of the whole input after its end, stateful.

    :param params: ``algorithm``, ``sha256`` (the default) or ``sha1``.
    """

    known_answers = (
        base.KnownAnswer(
            {"algorithm": "sha256"}, b"abc", hashlib.sha256(b"abc").digest()
        ),
    )

    def __init__(self, params: collections.abc.Mapping[str, object]) -> None:
        values = parameters.checked(params, defaults={"algorithm": "sha256"})
        algorithm = parameters.choice(values, "algorithm", ALGORITHMS)
        # The digest identifies content. SHA-1 must work even where a system
        # policy forbids it for signatures.
        self._hash = hashlib.new(algorithm, usedforsecurity=False)

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        self._hash.update(chunk_in)
        return 0

    def finish(self, chunk_out: memoryview) -> int:
        chunk_out[: self._hash.digest_size] = self._hash.digest()
        return self._hash.digest_size

    def max_output_bytes(self, input_bytes: int) -> int:
        return 0 if input_bytes else self._hash.digest_size
