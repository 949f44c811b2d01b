# SPDX-License-Identifier: Apache-2.0

"""Add a recording: ``python -m tests.unit.recorded.make``."""

import json

from tests.unit import recorded
from tests.unit.recorded import making


def main() -> None:
    """Write the next file, if it would differ from the last one."""
    before = recorded.load_all()
    now = making.current()
    if before and now == list(before.values())[-1]:
        print(f"recording {list(before)[-1]} says all that there is")  # noqa: T201
        return
    number = max(map(int, before), default=0) + 1
    path = recorded.HERE / f"{number:03}.json"
    with path.open("x") as file:
        json.dump(now, file, indent=1)
        file.write("\n")
    print(f"wrote {path}")  # noqa: T201


if __name__ == "__main__":
    main()
