#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Checking outputs with a program that fpgapool has no part in."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import shutil
import subprocess
import typing
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence

from fpgapool.demo import errors
from fpgapool.demo import workload

_READ_BYTES = 1024 * 1024

_Decrypted = Callable[
    [workload.Job], contextlib.AbstractContextManager[typing.BinaryIO]
]


def find_tool() -> str:
    """Return the name of what decrypts: openssl, or else a library."""
    return "openssl" if shutil.which("openssl") else "cryptography"


def check_outputs(
    jobs: Sequence[workload.Job], tool: str, on_checked: Callable[[], object]
) -> None:
    """Decrypt every output and compare it with its input.

    :param jobs: the jobs, done.
    :param tool: what :func:`find_tool` returned.
    :param on_checked: called after each output, in any thread.
    :raises DemoError: if an output is wrong.
    """
    decrypted = _by_openssl if tool == "openssl" else _by_cryptography

    def check(job: workload.Job) -> None:
        _check(job, decrypted)
        on_checked()

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as executor:
        futures = [executor.submit(check, job) for job in jobs]
        try:
            for future in futures:
                future.result()
        finally:
            executor.shutdown(cancel_futures=True)


def _check(job: workload.Job, decrypted: _Decrypted) -> None:
    with open(job.source, "rb") as source, decrypted(job) as output:
        if not _are_equal(source, output):
            raise errors.DemoError(
                errors.WRONG_OUTPUT,
                f"job {job.number}: the output does not decrypt to the input",
            )


def _are_equal(one: typing.BinaryIO, other: typing.BinaryIO) -> bool:
    while True:
        piece = one.read(_READ_BYTES)
        if piece != other.read(_READ_BYTES):
            return False
        if not piece:
            return True


@contextlib.contextmanager
def _by_openssl(job: workload.Job) -> Iterator[typing.BinaryIO]:
    # The key is in the list of processes for a moment; it was made for this
    # one file.
    command = ["openssl", "enc", "-d", "-aes-256-ctr"]
    command += ["-K", job.key.hex(), "-iv", job.iv.hex()]
    command += ["-in", str(job.output)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        yield typing.cast(typing.BinaryIO, process.stdout)
    if process.returncode:
        raise errors.DemoError(
            errors.WRONG_OUTPUT,
            f"job {job.number}: openssl failed with {process.returncode}",
        )


@contextlib.contextmanager
def _by_cryptography(job: workload.Job) -> Iterator[typing.BinaryIO]:
    with open(job.output, "rb") as stream:
        yield typing.cast(typing.BinaryIO, _Decryptor(stream, job))


class _Decryptor:
    """Reads a file and decrypts it on the way."""

    def __init__(self, stream: typing.BinaryIO, job: workload.Job) -> None:
        from cryptography.hazmat.primitives import ciphers
        from cryptography.hazmat.primitives.ciphers import algorithms
        from cryptography.hazmat.primitives.ciphers import modes

        self._stream = stream
        self._context = ciphers.Cipher(
            algorithms.AES(job.key), modes.CTR(job.iv)
        ).decryptor()

    def read(self, size_bytes: int) -> bytes:
        return self._context.update(self._stream.read(size_bytes))
