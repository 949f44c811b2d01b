# SPDX-License-Identifier: Apache-2.0

"""Run an accelerator on the same records, step by step."""

from __future__ import annotations

import contextlib
import inspect
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import numpy
import sklearn.base

from fpgapool import client
from fpgapool.client import options as session_options
from fpgapool.client.groups import group as groups

Array: typing.TypeAlias = numpy.typing.NDArray[Any]

#: Type of the numbers in records and arguments.
NUMBER_TYPE = numpy.dtype("<f4")
RESULT_TYPE = numpy.dtype("<f8")
#: Blocks of records have about this many bytes: members of a group cache
#: several, and each takes longer to compute than to request.
_BLOCK_BYTES = 1 << 20
#: Bounds of the accelerators on a block.
_MOST_BLOCK_BYTES = 1 << 22
_MOST_BLOCK_RECORDS = 1 << 16
_MOST_RESULT_RATIO = 4

# Arguments that the estimators give themselves.
_OWN = {"accelerator", "arguments", "name", "params", "size_bytes"}

#: How long leaving a group may take.
_CLOSE_S = groups.CLOSE_TIMEOUT_S


class PoolEstimator(sklearn.base.BaseEstimator):
    """What all estimators have in common.

    :ivar group: name of a group, or an open one; None: use sessions.
    :ivar options: options of sessions or of opening the group, by name.
    """

    group: str | client.Group | None
    options: Mapping[str, Any] | None

    def __sklearn_clone__(self) -> typing.Self:
        """Return an unfitted copy, which shares an open group."""
        params = self.get_params(deep=False)
        shared = {name: params.pop(name) for name in ("group", "options")}
        copied = {
            name: sklearn.base.clone(value, safe=False)
            for name, value in params.items()
        }
        return type(self)(**copied, **shared)

    @contextlib.contextmanager
    def _place(self, accelerator: str) -> Iterator[Place]:
        """Open the group, if any, for the time of one fit or prediction."""
        options = dict(self.options or {})
        if self.group is None:
            _check(options, client.acc_open)
            yield Place(accelerator, None, options)
        elif isinstance(self.group, client.Group):
            yield Place(accelerator, self.group, options)
        else:
            _check(options, client.group_open)
            with client.group_open(
                self.group, accelerator=accelerator, **options
            ) as group:
                yield Place(accelerator, group, options)


def _check(options: Mapping[str, Any], opening: Callable[..., Any]) -> None:
    """Refuse options that a function does not take.

    :raises TypeError: naming the first, and the nearest that there is.
    """
    known = inspect.signature(opening).parameters.keys() - _OWN
    for name in options:
        if name not in known:
            raise session_options.unknown(
                "options: unknown option", name, known
            )


class Place(typing.NamedTuple):
    """Where an accelerator computes: a group, or sessions."""

    accelerator: str
    group: client.Group | None
    options: dict[str, Any]

    def outputs(
        self,
        pieces: Iterable[bytes | memoryview],
        size_bytes: int,
        **params: Any,
    ) -> Iterator[bytes]:
        """Yield the output of each piece.

        :param size_bytes: length of all pieces together.
        :param params: parameters of the accelerator.
        """
        if self.group is not None:
            yield from self.group.map(pieces, params=params)
            return
        with client.acc_open(
            self.accelerator,
            size_bytes,
            params=params,
            **self.options,
        ) as session:
            for piece in pieces:
                session.pin[: len(piece)] = piece
                yield bytes(session.run(len(piece)))


class Steps:
    """Records that stay the same while an argument changes.

    In a group, members cache the records in blocks, so that a step sends only
    the argument. Without one, each step is a session and sends all of them.

    :param records: two dimensions, of :data:`NUMBER_TYPE`.
    :param result_numbers: numbers of a block's result.
    :param params: parameters of the accelerator.
    """

    def __init__(
        self,
        place: Place,
        records: Array,
        result_numbers: int,
        **params: Any,
    ) -> None:
        self._place = place
        self._records = numpy.ascontiguousarray(records, NUMBER_TYPE)
        self._result_numbers = result_numbers
        block_records = _block_records(self._records, result_numbers)
        self._params = {**params, "block_records": block_records}
        self._blocks: list[client.Block] = []
        if place.group is not None:
            self._blocks = [
                client.Block(self._records[start : start + block_records])
                for start in range(0, len(self._records), block_records)
            ]

    def sum(self, argument: Array) -> Array:
        """Return the sum of all blocks' results.

        :param argument: the accelerator's argument 1.
        """
        given = numpy.ascontiguousarray(argument, NUMBER_TYPE)
        results = numpy.frombuffer(self._run(given), RESULT_TYPE)
        total: Array = results.reshape(-1, self._result_numbers).sum(axis=0)
        return total

    def _run(self, argument: Array) -> bytes | bytearray:
        place = self._place
        arguments = {1: client.Block(argument)}
        if place.group is not None:
            return b"".join(
                place.group.map(
                    self._blocks, params=self._params, arguments=arguments
                )
            )
        output, _ = client.run_buffer(
            place.accelerator,
            self._records.reshape(-1).view(numpy.uint8).data,
            params=self._params,
            arguments=arguments,
            **place.options,
        )
        return output


def _block_records(records: Array, result_numbers: int) -> int:
    """Return how many records a block has, within the accelerator's bounds."""
    record_bytes = records.shape[1] * records.itemsize
    result_bytes = result_numbers * RESULT_TYPE.itemsize
    least = -(-result_bytes // (_MOST_RESULT_RATIO * record_bytes))
    most = min(_MOST_BLOCK_RECORDS, _MOST_BLOCK_BYTES // record_bytes)
    wanted = min(_BLOCK_BYTES // record_bytes, len(records))
    return max(1, min(max(wanted, least), most))


def as_numbers(array: Array) -> Array:
    """Convert to single precision.

    :raises ValueError: if a number is too large for it.
    """
    with numpy.errstate(over="ignore"):
        converted = array.astype(NUMBER_TYPE)
    if not numpy.isfinite(converted).all():
        raise ValueError(
            "Input X contains a value too large for dtype('float32'), the "
            "type of the accelerator's numbers."
        )
    return converted
