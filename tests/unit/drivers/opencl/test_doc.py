# SPDX-License-Identifier: Apache-2.0

"""What the page about kernels says is so: its example runs, and it names all
that a manifest may have."""

import pathlib
import re
import textwrap

import numpy

from fpgapool.drivers.opencl import kernels
from fpgapool.drivers.opencl.contents import manifest
from fpgapool.drivers.opencl.contents import params
from fpgapool.drivers.opencl.contents import preparers
from tests.harness import pocl
from tests.unit.accelerators import runs

ROOT = pathlib.Path(__file__).parents[4]
TEXT = (
    ROOT / "doc" / "source" / "contributor" / "opencl-kernels.rst"
).read_text()


def example(name):
    """Return the block of code with this caption."""
    pattern = rf"   :caption: {re.escape(name)}\n\n((?:   .*\n|\n)+)"
    (block,) = re.findall(pattern, TEXT)
    return textwrap.dedent(block).encode()


def test_the_example_runs(device):
    from fpgapool.drivers.opencl import runner

    found = manifest.parse(example("scale.json"))
    binary = pocl.binary(device, example("scale.cl"))
    program = runner.programs.Program(device, found, binary)
    values = numpy.arange(1000, dtype="<f4")
    kernel = runner.Runner(program, {"gain": -0.5}, values.nbytes)
    output = runs.run(kernel, values.tobytes(), [1, 7, 600], 4)
    assert output[:-8] == (values * numpy.float32(-0.5)).tobytes()
    assert int.from_bytes(output[-8:], "little") == 999 * 500


def test_the_page_names_everything():
    names = [
        *kernels.names(),
        *preparers.PREPARERS,
        *manifest.LAUNCH_NAMES,
        *params.MEMBERS,
        *(member for names in params.MEMBERS.values() for member in names),
    ]
    for name in names:
        assert f"``{name}``" in TEXT, name
    for each in preparers.PREPARERS.values():
        for name, kind in each.params.items():
            assert f"``{name}``" in TEXT
            assert f"``{kind}``" in TEXT
