# SPDX-License-Identifier: Apache-2.0

"""What the compiler's process may read."""

from __future__ import annotations

import os
import pathlib
import pwd
import sys

import pytest

import fpgapool
from fpgapool.drivers.opencl.compiling import compiler


def test_it_reads_its_libraries_wherever_they_are(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "3.11.7"
    there.mkdir()
    link = tmp_path / "3.11"
    link.symlink_to(there)
    monkeypatch.setattr(sys, "base_prefix", str(link))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}/lib:{tmp_path}/none")
    (tmp_path / "lib").mkdir()
    found = compiler._libraries()
    # The process finds files by either name.
    assert {str(there), str(link), f"{tmp_path}/lib"} <= set(found)
    assert f"{tmp_path}/none" not in found
    assert str(pathlib.Path(fpgapool.__file__).parent) in found
    assert {sys.prefix, str(pathlib.Path(os.__file__).parent)} <= set(found)


@pytest.mark.security
def test_it_reads_nothing_else(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "user"
    home.mkdir()
    entry = pwd.struct_passwd(("user", "x", 1, 1, "", str(home), "sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: entry)
    wide = {"/", "/etc", "/home", "/var", str(tmp_path), str(home)}
    monkeypatch.setattr(sys, "path", [*wide, "", f"{home}/lib"])
    monkeypatch.setattr(sys, "prefix", "/")
    monkeypatch.setenv("LD_LIBRARY_PATH", ":/:/etc:")
    (home / "lib").mkdir()
    found = compiler._libraries()
    assert f"{home}/lib" in found
    assert wide.isdisjoint(found)
    assert os.getcwd() not in found
