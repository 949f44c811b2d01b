# SPDX-License-Identifier: Apache-2.0

"""A kernel that makes system calls finds nothing to read in its worker.

A trusted key has signed it, and nobody has refused its assembly.
"""

from __future__ import annotations

import os
import pathlib
import typing

import pytest

from tests.functional.opencl import harness

SECRET = b"only for the worker's user"
ROOM_BYTES = 64
#: Answers with the descriptor, the length and the contents of a file.
SOURCE = """
static long call(long number, long a, long b, long c)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result)
        : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}
kernel void run(global const uchar *in, global uchar *out, ulong n)
{
    uchar path[] = "%s";
    uchar room[64];
    for (int i = 0; i < 64; i++) room[i] = 0;
    long file = call(2, (long)path, 0, 0);
    long length = call(0, file, (long)room, 62);
    out[0] = (uchar)file;
    out[1] = (uchar)length;
    for (int i = 0; i < 62; i++) out[i + 2] = room[i];
}
"""


@pytest.mark.security
@pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="the assembly is another one's"
)
def test_a_signed_kernel_reads_no_file_of_its_user(
    start_device: typing.Any, directory: pathlib.Path
) -> None:
    secret = directory / "secret"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    worker = start_device()
    agent = worker.connect()
    order = harness.program(directory, SOURCE % secret)
    client = harness.open_session(worker, agent, **order)
    answer = client.run(bytes(ROOM_BYTES))
    agent.close()
    assert len(answer) == ROOM_BYTES
    assert SECRET not in answer
    # Numbers of errors: it has run, and was refused.
    assert min(answer[:2]) > 128
