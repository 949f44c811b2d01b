# SPDX-License-Identifier: Apache-2.0

"""fpgapool-manage bitstream build, with a real compiler."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable

import pytest

from fpgapool.cmd import manage
from fpgapool.drivers.opencl.contents import package
from tests.harness import pocl
from tests.unit.drivers.opencl import packages

PLATFORM = f"--platform={pocl.PLATFORM}"


@pytest.fixture
def kernel(directory: pathlib.Path) -> pathlib.Path:
    """Give the path of a program with its manifest beside it."""
    path = directory / "mine.cl"
    path.write_bytes(packages.SOURCE)
    path.with_suffix(".json").write_bytes(packages.manifest())
    return path


@pytest.fixture
def build(directory, capsys) -> Callable[..., tuple[int, str]]:
    """Give what runs the command, on a machine without a database."""
    config = directory / "fpgapool.conf"
    config.write_text("[DEFAULT]\nstate_path = /nowhere\n")

    def run(*argv: object) -> tuple[int, str]:
        status = manage.main(
            [
                f"--config-file={config}",
                *("bitstream", "build", PLATFORM),
                *map(str, argv),
            ]
        )
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return run


def test_a_shipped_kernel_as_a_binary(build, directory) -> None:
    out = directory / "copy.package"
    status, printed = build("--kernel=copy", f"--out={out}")
    assert (status, "opencl-binary of copy" in printed) == (0, True)
    found = package.unpack(out.read_bytes())
    assert (found.kind, found.manifest.name) == ("opencl-binary", "copy")


def test_a_source_is_compiled_and_stays_a_source(
    build, kernel, directory
) -> None:
    out = directory / "mine.package"
    assert build(kernel, "--source", f"--out={out}")[0] == 0
    assert package.unpack(out.read_bytes()).payload == packages.SOURCE
    out.unlink()
    kernel.write_bytes(packages.SOURCE.replace(b"amount;", b"sum;"))
    status, printed = build(kernel, "--source", f"--out={out}")
    assert (status, "undeclared identifier 'sum'" in printed) == (1, True)
    assert "KERNEL_BUILD_FAILED" in printed
    assert re.search(r"\w+\.cl:\d+:\d+: ", printed)
    assert not out.exists()


def test_files_that_are_wrong(build, kernel, directory) -> None:
    out = f"--out={directory}/out"
    manifest = kernel.with_suffix(".json")
    manifest.write_bytes(packages.manifest(novelty=1))
    status, printed = build(kernel, out)
    assert (status, "INVALID_MANIFEST" in printed) == (1, True)
    manifest.unlink()
    status, printed = build(kernel, out)
    assert (status, str(manifest) in printed) == (2, True)
    status, printed = build("--kernel=copy", out, "--device=FPGA*")
    assert (status, "no OpenCL device matches" in printed) == (1, True)


def test_a_source_with_inline_assembly_needs_a_word_from_the_signer(
    build, kernel, directory
) -> None:
    out = directory / "mine.package"
    source = packages.SOURCE.replace(b"{\n", b'{\n    __asm__("nop");\n', 1)
    kernel.write_bytes(source)
    status, printed = build(kernel, f"--out={out}")
    assert (status, "SOURCE_REFUSED: line 4" in printed) == (1, True)
    assert not out.exists()
    assert build(kernel, "--allow-assembly", f"--out={out}")[0] == 0


def test_a_kernel_cannot_call_functions_of_its_process(
    build, kernel, directory
) -> None:
    # The check of a source does not look for them: compilers refuse them.
    source = packages.SOURCE.replace(b"input[i] + amount", b"getpid()")
    kernel.write_bytes(b"int getpid(void);\n" + source)
    status, printed = build(kernel, f"--out={directory / 'mine.package'}")
    assert (status, "KERNEL_BUILD_FAILED" in printed) == (1, True)
