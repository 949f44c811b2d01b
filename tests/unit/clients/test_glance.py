# SPDX-License-Identifier: Apache-2.0

"""Images as files, without Glance."""

from unittest import mock

import pytest
from requests import exceptions as requests_exceptions

from fpgapool.clients import glance
from fpgapool.common import exception


class Answer:
    """The answer to a download."""

    status_code = 200

    def __init__(self, *parts: bytes, fails: bool = False) -> None:
        self.closed = False
        self._parts = parts
        self._fails = fails

    def close(self) -> None:
        self.closed = True

    def iter_content(self, chunk_bytes: int):
        yield from self._parts
        if self._fails:
            raise requests_exceptions.ConnectionError


def download(answer: Answer):
    client = object.__new__(glance.Glance)
    client._images = mock.Mock(get=mock.Mock(return_value=answer))
    return client.download("image", 1)


def test_a_download_that_is_never_read_can_be_closed() -> None:
    answer = Answer(b"1")
    download(answer).close()
    assert answer.closed


def test_a_download_closes_at_its_end() -> None:
    answer = Answer(b"1", b"2")
    assert [*download(answer)] == [b"1", b"2"]
    assert answer.closed


def test_a_download_that_fails_closes() -> None:
    answer = Answer(b"1", fails=True)
    parts = download(answer)
    assert next(parts) == b"1"
    with pytest.raises(exception.StoreUnavailable):
        next(parts)
    assert answer.closed
