# SPDX-License-Identifier: Apache-2.0

"""The sample of the configuration, as the generator writes it."""

import functools
import pathlib
import subprocess
import sys
import tempfile

from tests.harness import processes

GENERATOR_CONFIG = "etc/fpgapool/fpgapool-config-generator.conf"

# A machine with another name: no default may be taken from this one.
_GENERATE = """
import socket, sys
socket.gethostname = socket.getfqdn = lambda *_: "some-other-machine"
from oslo_config import generator
generator.main(sys.argv[1:])
"""


@functools.cache
def configuration() -> str:
    """Return what the generator writes on some other machine."""
    with tempfile.TemporaryDirectory() as home:
        output = pathlib.Path(home) / "generated.conf"
        subprocess.run(
            [
                *(sys.executable, "-W", "ignore", "-c", _GENERATE),
                f"--config-file={GENERATOR_CONFIG}",
                f"--output-file={output}",
            ],
            cwd=processes.ROOT,
            env={"HOME": home, "XDG_RUNTIME_DIR": home, "USER": "any"},
            check=True,
        )
        return output.read_text()
