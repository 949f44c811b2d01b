# SPDX-License-Identifier: Apache-2.0

"""Record what has changed: ``python -m tests.unit.recorded.make``.

``--release 1.0.0`` writes that release's file instead, before it is released.
"""

import argparse
from collections.abc import Iterator
from typing import Any

from tests.unit import recorded
from tests.unit.recorded import making


def main() -> None:
    """Print what differs from the releases before, and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", help="write the file of this release")
    release = parser.parse_args().release
    file = recorded.HERE / f"{release or 'next'}.jsonl"
    before: recorded.Lines = {}
    for one in recorded.files():
        if one != file:
            before |= recorded.read(one)
    lines = recorded.to_lines(making.current())
    written = recorded.read(file) if file.exists() else {}
    new = {k: v for k, v in lines.items() if before.get(k, ...) != v}
    known = before | written
    for key, value in new.items():
        what = changes(known[key], value) if key in known else [": new"]
        for change in what:
            print(*key, change)  # noqa: T201
    if new or file.exists():
        recorded.write(file, new)


def changes(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield where a document differs from an older one."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in old.keys() | new.keys():
            if name not in new:
                yield f"{path}.{name}: gone"
            elif name not in old:
                yield f"{path}.{name}: new"
            else:
                yield from changes(old[name], new[name], f"{path}.{name}")
    elif old != new:
        yield f"{path}: {old!r:.60} -> {new!r:.60}"


if __name__ == "__main__":
    main()
