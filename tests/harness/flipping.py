# SPDX-License-Identifier: Apache-2.0

"""Memory of a peer that changes whatever was read, before the next look."""

from __future__ import annotations

import typing


class Memory:
    """Bytes that are others as soon as they were read.

    It has no buffer: code that reads it otherwise than by one copy fails.

    :param data: what the first look sees.
    """

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = data if isinstance(data, bytearray) else bytearray(data)
        self._place = range(len(self._data))

    def __len__(self) -> int:
        return len(self._place)

    def __getitem__(self, place: slice) -> Memory:
        part = Memory(self._data)
        part._place = self._place[place]
        return part

    def __bytes__(self) -> bytes:
        place = slice(self._place.start, self._place.stop)
        seen = bytes(self._data[place])
        self._data[place] = bytes(one ^ 0xFF for one in seen)
        return seen


class Words:
    """Words that are others as soon as they were read.

    :param lies: what stands there afterwards, in turn.
    """

    def __init__(self, words: memoryview, lies: typing.Iterator[int]) -> None:
        self._words = words
        self._lies = lies

    def __getitem__(self, place: int) -> int:
        seen: int = self._words[place]
        self._words[place] = next(self._lies)
        return seen

    def __setitem__(self, place: int, word: int) -> None:
        self._words[place] = word
