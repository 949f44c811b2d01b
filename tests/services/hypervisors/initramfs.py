# SPDX-License-Identifier: Apache-2.0

"""The files with which a Linux kernel starts."""

from __future__ import annotations

from collections.abc import Iterable


def archive(files: Iterable[tuple[str, int, bytes]]) -> bytes:
    """Return an archive for the kernel: cpio, in the format newc."""
    parts = []
    for number, (name, mode, data) in enumerate(
        [*files, ("TRAILER!!!", 0, b"")], 1
    ):
        path = name.encode() + b"\0"
        fields = (
            *(number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0),
            *(len(path), 0),
        )
        head = b"070701" + b"".join(b"%08X" % field for field in fields)
        for part in (head + path, data):
            parts.append(part + b"\0" * (-len(part) % 4))
    return b"".join(parts)
