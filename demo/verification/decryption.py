# SPDX-License-Identifier: Apache-2.0

"""AES-256-CTR: openssl, or else a library, decrypts the output again."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import typing
from collections.abc import Callable
from collections.abc import Iterator

from demo import workload

OPENSSL = "openssl"
CRYPTOGRAPHY = "cryptography"
#: The tool that decrypts on this machine.
TOOL = OPENSSL if shutil.which(OPENSSL) else CRYPTOGRAPHY

_READ_BYTES = 1024 * 1024

_Decrypted = Callable[
    [workload.Job], contextlib.AbstractContextManager[typing.BinaryIO]
]


class _Failed(Exception):
    """The tool could not decrypt the output."""


def is_right(job: workload.Job, tool: str = TOOL) -> bool:
    """Decrypt a job's output and compare it with its input.

    :param job: the job, done.
    :param tool: decrypts.
    :returns: whether they are equal.
    """
    decrypted = _by_openssl if tool == OPENSSL else _by_cryptography
    try:
        with open(job.source, "rb") as source, decrypted(job) as output:
            return _are_equal(source, output)
    except _Failed:
        return False


def _are_equal(one: typing.BinaryIO, other: typing.BinaryIO) -> bool:
    while True:
        piece = one.read(_READ_BYTES)
        if piece != other.read(_READ_BYTES):
            return False
        if not piece:
            return True


def _key_and_iv(job: workload.Job) -> tuple[bytes, bytes]:
    return (
        typing.cast(bytes, job.params["key"]),
        typing.cast(bytes, job.params["iv"]),
    )


@contextlib.contextmanager
def _by_openssl(job: workload.Job) -> Iterator[typing.BinaryIO]:
    # The list of processes shows the key for a moment; no other file uses it.
    key, iv = _key_and_iv(job)
    command = [OPENSSL, "enc", "-d", "-aes-256-ctr"]
    command += ["-K", key.hex(), "-iv", iv.hex(), "-in", str(job.output)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        yield typing.cast(typing.BinaryIO, process.stdout)
    if process.returncode:
        raise _Failed


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

        key, iv = _key_and_iv(job)
        self._stream = stream
        self._context = ciphers.Cipher(
            algorithms.AES(key), modes.CTR(iv)
        ).decryptor()

    def read(self, size_bytes: int) -> bytes:
        return self._context.update(self._stream.read(size_bytes))
