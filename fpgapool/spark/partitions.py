# SPDX-License-Identifier: Apache-2.0

"""Computes one partition, in one attempt of an executor.

The whole input is encoded before a session is opened, because the pool needs
its exact size. The slot is released before Spark gets the first result, so it
does not matter how slowly Spark consumes them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import mmap
import os
import secrets
import tempfile
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any
from typing import BinaryIO
from typing import NamedTuple
from typing import cast

from fpgapool import client
from fpgapool.client.sessions import software
from fpgapool.client.transfers import transfer
from fpgapool.spark import accelerator as accelerators
from fpgapool.vocabulary import codes

LOG = logging.getLogger(__name__)

#: A partition's input or output is stored in a file if it is larger than this.
SPILL_BYTES = 64 * 1024 * 1024
#: Records are encoded together in batches of about this many bytes.
BATCH_BYTES = 1024 * 1024
MAX_BATCH_RECORDS = 4096
#: Environment variable with Spark's directories for such files.
DIRECTORIES_VARIABLE = "SPARK_LOCAL_DIRS"

#: Errors after which a partition is computed on the CPU instead: the pool
#: cannot serve it now, or a slot has failed. The program is not at fault.
UNSERVED = (
    software.FALLBACK_CODES
    | codes.SLOT_LOST
    | codes.DEVICE_FAULTS
    | {codes.CORE_FAILED, codes.CORE_UNAVAILABLE, codes.SESSION_LOST}
)

# The pool limits the length of request IDs, to which transfers append.
_LONGEST_NAME = 60


class Counts(NamedTuple):
    """Functions, one of which is called for each partition that is not empty.

    :ivar served: called if the pool computed it.
    :ivar fallback: called if this machine's CPU did.
    """

    served: Callable[[], object]
    fallback: Callable[[], object]


@dataclasses.dataclass
class Partition:
    """Computes one partition.

    :param group: the group to use; None: open a session.
    """

    accelerator: accelerators.Accelerator
    application: str
    group: str | None
    counts: Counts

    def run(self, records: Iterable[Any]) -> Iterator[Any]:
        """Yield the results of records, in the same order.

        :raises client.FpgapoolError: if neither the pool nor this machine can
            compute them.
        :raises ValueError: if the codec cannot encode or decode a record.
        """
        with _spool() as source, _spool() as destination:
            count, padding_bytes = self._encode(records, source)
            if not count:
                return
            try:
                computed_by = self._compute(source, destination)
            except client.FpgapoolError as exc:
                if exc.code not in UNSERVED or not self.accelerator.has_call:
                    raise
                computed_by = exc.code
                results = self._call(source, count)
            else:
                results = self._decode(destination, count, not padding_bytes)
            if computed_by is None:
                self.counts.served()
            else:
                LOG.warning(
                    "%s: a partition was computed on the CPU: %s",
                    self.accelerator.id,
                    computed_by,
                )
                self.counts.fallback()
            yield from results

    def _encode(
        self, records: Iterable[Any], source: BinaryIO
    ) -> tuple[int, int]:
        """Write the input.

        :returns: the number of records, and of padding bytes after them.
        """
        waiting = iter(records)
        count, batch_records = 0, 1
        while batch := list(itertools.islice(waiting, batch_records)):
            encoded = memoryview(self.accelerator.codec.encode(batch))
            source.write(encoded)
            count += len(batch)
            if encoded.nbytes < BATCH_BYTES:
                batch_records = min(2 * batch_records, MAX_BATCH_RECORDS)
            else:
                batch_records = max(batch_records // 2, 1)
        multiple_bytes = self.accelerator.chunk_multiple_bytes
        if self.accelerator.block_records > 1:
            multiple_bytes = 1
        padding_bytes = -source.tell() % multiple_bytes
        source.write(bytes(padding_bytes))
        return count, padding_bytes

    def _compute(self, source: BinaryIO, destination: BinaryIO) -> str | None:
        """Write the output.

        :returns: the code that explains why the CPU was used; None if a slot
            was.
        """
        if self.group is not None:
            try:
                self._compute_in_group(self.group, source, destination)
                return None
            except client.FpgapoolError as exc:
                if exc.code not in UNSERVED:
                    raise
                # Use a session instead, which may fall back to the CPU.
                LOG.warning("Group %s failed: %s", self.group, exc)
                destination.seek(0)
                destination.truncate()
        size_bytes = _size_bytes(source)
        source.seek(0)
        report = transfer.run_stream(
            self.accelerator.id,
            source,
            destination,
            size_bytes,
            params=self.accelerator.params,
            arguments=self.accelerator.arguments,
            request_id=_request_id(self.application),
            fallback="cpu",
        )
        return report.fallback_reason

    def _compute_in_group(
        self, name: str, source: BinaryIO, destination: BinaryIO
    ) -> None:
        size_bytes = _size_bytes(source)
        source.seek(0)
        accelerator = self.accelerator
        with client.group_open(name, accelerator=accelerator.id) as group:
            client.run_group_file(
                group,
                source,
                destination,
                params=accelerator.params,
                arguments=accelerator.arguments,
                size_bytes=size_bytes,
                chunk_multiple_bytes=accelerator.chunk_multiple_bytes,
            )

    def _call(self, source: BinaryIO, count: int) -> Iterator[Any]:
        records = self.accelerator.codec.decode(_whole(source), count)
        return map(self.accelerator.call, records)

    def _decode(
        self, destination: BinaryIO, count: int, exact: bool
    ) -> list[Any]:
        codec = self.accelerator.results or self.accelerator.codec
        blocks = -(-count // self.accelerator.block_records)
        found_bytes = _size_bytes(destination)
        if exact and codec.record_bytes not in (None, found_bytes / blocks):
            raise ValueError(
                f"{self.accelerator.id} returned {found_bytes} bytes instead "
                f"of {blocks} results of {codec.record_bytes} bytes"
            )
        return codec.decode(_whole(destination), blocks)


def _spool() -> contextlib.AbstractContextManager[BinaryIO]:
    directories = os.environ.get(DIRECTORIES_VARIABLE)
    return cast(
        "contextlib.AbstractContextManager[BinaryIO]",
        tempfile.SpooledTemporaryFile(
            SPILL_BYTES,
            prefix="fpgapool-",
            dir=directories.split(",")[0] if directories else None,
        ),
    )


def _size_bytes(stream: BinaryIO) -> int:
    return stream.seek(0, os.SEEK_END)


def _whole(stream: BinaryIO) -> bytes | mmap.mmap:
    """Return all data that was written; a file is mapped instead of read."""
    if _size_bytes(stream) <= SPILL_BYTES:
        stream.seek(0)
        return stream.read()
    stream.flush()
    return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


def _request_id(application: str) -> str:
    """Return a request ID for this attempt.

    Its end is random, because one attempt may use several accelerators, or one
    for two RDDs.
    """
    import pyspark

    context = pyspark.TaskContext.get()
    assert context is not None
    own = (
        f"-{context.stageId()}-{context.taskAttemptId()}"
        f"-{secrets.token_hex(3)}"
    )
    return f"spark-{application}"[: _LONGEST_NAME - len(own)] + own
