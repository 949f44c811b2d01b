# SPDX-License-Identifier: Apache-2.0

"""Compares what a pool computes with what is right, and measures the rate."""

from __future__ import annotations

import random
import typing
from collections.abc import Iterator
from collections.abc import Mapping

from fpgapool import client
from fpgapool.cmd.developing import answers
from fpgapool.cmd.developing import subjects
from fpgapool.cmd.managing import trials
from fpgapool.common import exception

#: What is cut into pieces of different lengths: that many blocks and bytes, at
#: least.
_BLOCKS = 64
_LEAST_BYTES = 1 << 16
_SEED = 1


class Check(typing.NamedTuple):
    """What a check found.

    :ivar outcome: passed, failed or absent.
    """

    outcome: str
    detail: str


class Checks:
    """Checks an accelerator in a pool.

    :param front_door: socket of the pool.
    :param timeout_s: for each session.
    :param size_bytes: input whose rate is measured, about.
    """

    def __init__(
        self,
        subject: subjects.Subject,
        front_door: str,
        timeout_s: float,
        size_bytes: int,
    ) -> None:
        self._subject = subject
        self._front_door = front_door
        self._timeout_s = timeout_s
        self._size_bytes = size_bytes
        first = subject.known[0] if subject.known else None
        self._params = first.params if first else {}
        self._arguments = first.arguments if first else ()
        self._multiple_bytes = 1
        self._whole = b""
        self._output = b""
        #: What the reference computes from the whole.
        self._right: bytes | None = None

    def vectors(self) -> Check:
        """Run each vector; say of those that differ which, and where."""
        known = self._subject.known
        if not known:
            return Check(
                trials.ABSENT,
                f"no vectors ({self._subject.vectors_path.name}): only ran",
            )
        wrong = []
        for number, vector in enumerate(known, start=1):
            output = self._run(vector.data, vector.params, vector.arguments)
            difference = trials.difference(
                output, vector.output, self._rounding
            )
            if difference:
                wrong.append(
                    f"vector {number}: {difference}: {_shown(output)} instead"
                    f" of {_shown(vector.output)}"
                )
        if wrong:
            return Check(trials.FAILED, "; ".join(wrong))
        return Check(trials.PASSED, f"{len(known)} of {len(known)} are right")

    def cuts(self) -> Check:
        """Compare one long piece of input with many short ones."""
        pieces = 0
        output = bytearray()
        with self._opened() as session:
            self._multiple_bytes = session.flow.chunk_multiple_bytes
            data = self._choose_input(
                max(self._multiple_bytes * _BLOCKS, _LEAST_BYTES)
            )
            position = 0
            for length in _lengths(
                len(data), self._multiple_bytes, len(session.pin)
            ):
                session.pin[:length] = data[position : position + length]
                output += session.run(length, timeout_s=self._timeout_s)
                position += length
                pieces += 1
            output += session.finish(timeout_s=self._timeout_s)
        self._output = self._run(data, self._params, self._arguments)
        difference = trials.difference(
            bytes(output), self._output, self._rounding
        )
        about = f"{len(data)} bytes in {pieces} pieces"
        if difference:
            return Check(
                trials.FAILED,
                f"{about}: the output depends on how the input is cut:"
                f" {difference}",
            )
        return Check(trials.PASSED, f"{about}: as in one")

    def reference(self) -> Check:
        """Compare with what the reference computes."""
        reference = self._subject.reference
        if reference is None:
            name = self._subject.path.with_suffix(".py").name
            return Check(trials.ABSENT, f"no reference ({name}): not compared")
        if self._right is None:
            self._right = self._referred(reference, self._whole)
        difference = trials.difference(
            self._output, self._right, self._rounding
        )
        if difference:
            return Check(trials.FAILED, f"{reference.source}: {difference}")
        return Check(
            trials.PASSED,
            f"{len(self._whole)} bytes: as {reference.source}",
        )

    def rate(self) -> Check:
        """Measure how fast a slot takes input."""
        data = trials.repeated(
            self._whole, self._multiple_bytes, self._size_bytes
        )
        _, report = client.run_buffer(
            self._subject.name, data, **self._options()
        )
        text = (
            f"{report.bytes_per_s / 1e6:.4g} MB/s of input, in"
            f" {report.ran_s:.3g} s"
        )
        declared = self._subject.declared_bytes_per_s
        if declared is None:
            text += (
                "; the manifest has no peak_bytes_per_s:"
                f" {report.bytes_per_s:.2g} would be right here"
            )
        else:
            text += f"; peak_bytes_per_s is {declared / 1e6:.4g} MB/s"
        return Check(trials.PASSED, text)

    @property
    def _rounding(self) -> tuple[str, float] | None:
        reference = self._subject.reference
        return None if reference is None else reference.rounding

    def _choose_input(self, size_bytes: int) -> bytes:
        """Return input of whole blocks: the most telling that is allowed.

        That is what the developer makes, or else random bytes, unless the
        reference refuses them: then the input of a vector, repeated.
        """
        reference, known = self._subject.reference, self._subject.known
        data = random.Random(_SEED).randbytes(size_bytes)
        if reference is not None and reference.make_input is not None:
            data = bytes(reference.make_input(size_bytes))
        elif known and not self._is_telling(reference, data):
            data = known[0].data
        self._whole = trials.repeated(data, self._multiple_bytes, size_bytes)
        return self._whole

    def _is_telling(
        self, reference: answers.Reference | None, data: bytes
    ) -> bool:
        if reference is None:
            return False
        whole = trials.repeated(data, self._multiple_bytes, len(data))
        try:
            self._right = self._referred(reference, whole)
        except exception.ConfigurationError:
            return False
        return True

    def _referred(self, reference: answers.Reference, data: bytes) -> bytes:
        try:
            return reference.compute(data, self._params, self._arguments)
        except Exception as error:
            # A developer's function may raise anything.
            raise exception.ConfigurationError(
                reason=f"{reference.source}: {type(error).__name__}: {error}"
            ) from error

    def _options(
        self,
        params: Mapping[str, object] | None = None,
        arguments: tuple[bytes, ...] | None = None,
    ) -> dict[str, typing.Any]:
        if arguments is None:
            arguments = self._arguments
        return {
            "params": dict(self._params if params is None else params),
            "arguments": dict(enumerate(arguments, start=1)),
            "front_door": self._front_door,
            "timeout_s": self._timeout_s,
        }

    def _opened(self) -> client.Session:
        return client.acc_open(
            self._subject.name, self._size_bytes, **self._options()
        )

    def _run(
        self,
        data: bytes,
        params: Mapping[str, object],
        arguments: tuple[bytes, ...],
    ) -> bytes:
        output, _ = client.run_buffer(
            self._subject.name, data, **self._options(params, arguments)
        )
        return bytes(output)


def _lengths(
    size_bytes: int, unit_bytes: int, most_bytes: int
) -> Iterator[int]:
    """Cut an input into pieces of 1, 2, 3, 5, 8 and so on units."""
    shorter, length = 1, 1
    while size_bytes > 0:
        piece = min(size_bytes, length * unit_bytes, most_bytes)
        if piece < size_bytes:
            piece -= piece % unit_bytes
        yield piece
        size_bytes -= piece
        shorter, length = length, shorter + length


def _shown(output: bytes) -> str:
    return f"{output[:16].hex()}{'...' if len(output) > 16 else ''}"
