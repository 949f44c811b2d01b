# SPDX-License-Identifier: Apache-2.0

"""Waits for descriptors."""

import fcntl
import os
import resource

import pytest

from fpgapool.common.channels import descriptors

BEYOND_SELECT = 1024


@pytest.fixture
def pipe():
    read_fd, write_fd = os.pipe()
    with (
        open(read_fd, "rb", buffering=0) as reader,
        open(write_fd, "wb", buffering=0) as writer,
    ):
        yield reader, writer


def test_the_end_of_a_pipe_is_readable(pipe):
    reader, writer = pipe
    assert not descriptors.is_readable(reader, 0)
    writer.close()
    assert descriptors.is_readable(reader, None)


def test_a_closed_file_is_an_error(pipe):
    reader, _ = pipe
    reader.close()
    with pytest.raises(ValueError, match="closed"):
        descriptors.is_readable(reader, 0)


def test_lines_come_whole_and_what_is_left_at_the_end(pipe):
    reader, writer = pipe
    writer.write(b"ready\n")
    assert descriptors.read_line(reader, 10) == b"ready\n"
    writer.write(b"rea")
    assert descriptors.read_line(reader, 0.01) == b"rea"
    writer.write(b"dy")
    writer.close()
    assert descriptors.read_line(reader, 10) == b"dy"


def test_numbers_that_select_does_not_know(pipe):
    reader, writer = pipe
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        high = fcntl.fcntl(reader, fcntl.F_DUPFD_CLOEXEC, BEYOND_SELECT)
        with open(high, "rb", buffering=0) as far:
            assert not descriptors.is_readable(far, 0)
            writer.write(b"x\n")
            assert descriptors.read_line(far, 10) == b"x\n"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
