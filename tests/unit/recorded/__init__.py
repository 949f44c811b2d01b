# SPDX-License-Identifier: Apache-2.0

"""Messages that services have sent, and rows that they have kept.

``1.0.0.jsonl`` has those of release 1.0.0, and the file of each later release
those that differ from the release before. A file never changes after its
release. Every later state of the code must understand all of them, until no
service of that release may run beside the present ones; then the file of the
next release takes over what is left of it.

A line is ``[part, name, value]``. ``{"recorded": "Name"}`` in a message stands
for that payload as its own line has it.

``python -m tests.unit.recorded.make`` prints what has changed since the last
release, and writes it to ``next.jsonl``; commit that with the change.
Whoever releases renames ``next.jsonl``.
"""

import collections
import json
import pathlib
from typing import Any

from fpgapool.objects import base

HERE = pathlib.Path(__file__).parent
NEXT = HERE / "next.jsonl"

Recording = dict[str, Any]
#: By part and name.
Lines = dict[tuple[str, str], Any]

_REFERENCE = "recorded"


def files() -> list[pathlib.Path]:
    """Return the files of all releases, oldest first, and the next one's."""
    released = [one for one in HERE.glob("*.jsonl") if one != NEXT]
    released.sort(key=lambda one: [*map(int, one.stem.split("."))])
    return released + [NEXT] * NEXT.exists()


def read(file: pathlib.Path) -> Lines:
    """Return the lines of one file."""
    lines = map(json.loads, file.read_text().splitlines())
    return {(part, name): value for part, name, value in lines}


def write(file: pathlib.Path, lines: Lines) -> None:
    """Write a file; a message is a line."""
    documents = [[*key, value] for key, value in sorted(lines.items())]
    file.write_text("".join(f"{json.dumps(one)}\n" for one in documents))


def load_all() -> dict[str, Recording]:
    """Return the recordings of all releases and of the next one, in order."""
    lines: Lines = {}
    found = {}
    for file in files():
        lines |= read(file)
        found[file.stem] = to_recording(lines)
    return found


def to_lines(recording: Recording) -> Lines:
    """Return a recording as lines, with payloads once."""
    forms = {k: one["form"] for k, one in recording["payloads"].items()}
    lines: Lines = {}
    count: collections.Counter[str] = collections.Counter()
    for name, payload in recording["payloads"].items():
        data = _referring(payload["form"][base.DATA_KEY], forms)
        form = {**payload["form"], base.DATA_KEY: data}
        lines["payloads", name] = {**payload, "form": form}
    for topic, interface in recording["rpc"].items():
        lines["rpc", topic] = interface["version"]
        for message in interface["messages"]:
            name = f"{topic} {message['method']}"
            count[name] += 1
            if count[name] > 1:
                name += f" {count[name]}"
            lines["messages", name] = _referring(message, forms)
    for direction, messages in recording["control"].items():
        for number, message in enumerate(messages, start=1):
            lines["control", f"{direction} {number}"] = message
    for part in ("frames", "rest", "rows"):
        for name, value in recording[part].items():
            lines[part, name] = value
    lines["migration", ""] = recording["migration"]
    return lines


def to_recording(lines: Lines) -> Recording:
    """Return what :func:`to_lines` has made lines of."""

    def part(name: str) -> dict[str, Any]:
        return {
            key: value for (one, key), value in lines.items() if one == name
        }

    def several(name: str, owner: str) -> list[Any]:
        found = part(name).items()
        return [value for key, value in found if key.split()[0] == owner]

    payloads = part("payloads")
    forms = {name: one["form"] for name, one in payloads.items()}
    return {
        "payloads": _resolved(payloads, forms),
        "rpc": {
            topic: {
                "version": version,
                "messages": _resolved(several("messages", topic), forms),
            }
            for topic, version in part("rpc").items()
        },
        "control": {
            direction: several("control", direction)
            for direction in ("requests", "answers")
        },
        "frames": part("frames"),
        "rest": part("rest"),
        "rows": part("rows"),
        "migration": part("migration")[""],
    }


def _referring(value: Any, forms: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_referring(one, forms) for one in value]
    if not isinstance(value, dict):
        return value
    name = value.get(base.NAME_KEY)
    if name is not None and value == forms.get(name):
        return {_REFERENCE: name}
    return {key: _referring(one, forms) for key, one in value.items()}


def _resolved(value: Any, forms: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_resolved(one, forms) for one in value]
    if not isinstance(value, dict):
        return value
    if list(value) == [_REFERENCE]:
        return _resolved(forms[value[_REFERENCE]], forms)
    return {key: _resolved(one, forms) for key, one in value.items()}
