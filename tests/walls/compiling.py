# SPDX-License-Identifier: Apache-2.0

"""A compiler that a source has got hold of.

With an argument it is the process that compiles, for example a worker: it
reads lines of names of attacks, and answers with how they went. Without any
it is the compiler, and the source has the attacks.
"""

from __future__ import annotations

import json
import sys
import typing
from collections.abc import Mapping

from fpgapool.drivers import base
from fpgapool.drivers.opencl.compiling import compiler
from tests.walls import attacks


def _compiled(request: Mapping[str, typing.Any]) -> bytes:
    source = json.loads(request["source"])
    outcomes = {
        name: attacks.outcome(name, source["scene"])
        for name in source["names"]
    }
    return json.dumps(outcomes).encode()


def _outcomes(
    names: list[str], scene: dict[str, typing.Any]
) -> dict[str, str]:
    """Have a compiler attack; if it ends, find the attack that ended it."""
    source = json.dumps({"names": names, "scene": scene}).encode()
    try:
        answer: dict[str, str] = json.loads(
            compiler.compile_source(source, (), "", "")
        )
    except base.DriverError as error:
        if len(names) == 1:
            return {names[0]: f"{attacks.BOUNDED}: {error}"}
        middle = len(names) // 2
        return _outcomes(names[:middle], scene) | _outcomes(
            names[middle:], scene
        )
    return answer


def main() -> None:
    """Be one of the two processes."""
    if len(sys.argv) == 1:
        compiler._compiled = _compiled
        sys.exit(compiler.main())
    # The compiler is started by the name of its module.
    compiler.__name__ = "tests.walls.compiling"
    scene = json.loads(sys.argv[1])
    for line in sys.stdin:
        answer = json.dumps(_outcomes(json.loads(line), scene))
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
