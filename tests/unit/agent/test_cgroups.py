# SPDX-License-Identifier: Apache-2.0

"""Cgroups as files; tests/walls has those of a kernel."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess

import pytest

from fpgapool.agent.child import memory
from fpgapool.agent.supervision import cgroups

HOST = "host"
MOUNT = "26 24 0:22 / {} rw,nosuid - cgroup2 cgroup2 rw\n"


class Tree:
    """A cgroup, and what the kernel says about this process."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.proc = directory / "proc"
        self.mount = directory / "cgroup"
        self.home = self.mount / "system.slice/agent.service"
        self.home.mkdir(parents=True)
        self.proc.mkdir()
        self.say(
            cgroup="0::/system.slice/agent.service\n",
            mountinfo=MOUNT.format(self.mount),
        )
        self.control("memory pids cpu", [os.getpid()])
        for name in ("agent", f"worker-{HOST}-board0.1"):
            (self.home / name).mkdir()
        (self.home / "agent/cgroup.procs").touch()
        self.group = self.home / f"worker-{HOST}-board0.1"
        for name in (
            "memory.max memory.oom.group memory.swap.max pids.max cpu.weight"
            " cgroup.kill cgroup.procs"
        ).split():
            (self.group / name).touch()
        self.kill(0)

    def say(self, **files: str) -> None:
        for name, text in files.items():
            (self.proc / name).write_text(text)

    def control(self, controllers: str, pids: list[int]) -> None:
        (self.home / "cgroup.controllers").write_text(controllers)
        (self.home / "cgroup.subtree_control").touch()
        (self.home / "cgroup.procs").write_text("\n".join(map(str, pids)))

    def kill(self, count: int) -> None:
        events = self.group / "memory.events"
        events.write_text(f"low 0\noom 9\noom_kill {count}\n")

    def start(self) -> cgroups.Cgroups:
        made = cgroups.Cgroups(HOST, self.proc)
        made.start()
        return made


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> Tree:
    return Tree(tmp_path)


def test_the_agent_leaves_its_cgroup_to_those_of_its_processes(tree):
    made = tree.start()
    assert made.missing() == []
    own = (tree.home / "agent/cgroup.procs").read_text()
    assert own == str(os.getpid())
    assert made.path("worker-board0.1") == str(tree.group)


def test_an_agent_that_is_in_its_own_cgroup_finds_the_others(tree):
    tree.say(cgroup="0::/system.slice/agent.service/agent\n")
    assert tree.start().path("desk-g") == str(tree.home / f"desk-{HOST}-g")


def test_a_container_sees_a_part_of_the_tree(tree):
    mount = MOUNT.replace(" / ", " /system.slice ")
    tree.say(mountinfo=mount.format(tree.mount / "system.slice"))
    assert tree.start().path("worker-board0.1") == str(tree.group)


def test_limits_are_those_of_the_options(tree):
    made = tree.start()
    made.make("worker-board0.1", cgroups.Limits(memory_bytes=5, cpu_weight=7))
    found = {
        path.name: path.read_text()
        for path in tree.group.iterdir()
        if path.name not in ("memory.events", "cgroup.kill", "cgroup.procs")
    }
    assert found == {
        "memory.max": "5",
        "memory.oom.group": "1",
        "memory.swap.max": "0",
        "pids.max": "max",
        "cpu.weight": "7",
    }


def test_kernels_without_swap_or_weights_limit_the_rest(tree):
    for name in ("memory.swap.max", "cpu.weight"):
        (tree.group / name).unlink()
    made = tree.start()
    made.make("worker-board0.1", cgroups.Limits(pids=9))
    assert (tree.group / "pids.max").read_text() == "9"
    assert not (tree.group / "cpu.weight").exists()


def test_only_what_is_killed_for_memory_has_run_out_of_it(tree):
    made = tree.start()
    # The last process of the same name.
    tree.kill(3)
    made.make("worker-board0.1", cgroups.Limits())
    assert not made.ran_out("worker-board0.1")
    tree.kill(4)
    assert made.ran_out("worker-board0.1")


def test_children_that_are_left_end_with_their_process(tree):
    made = tree.start()
    made.make("worker-board0.1", cgroups.Limits())
    made.remove("worker-board0.1")
    assert (tree.group / "cgroup.kill").read_text() == "1"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tree: tree.say(mountinfo=""), "unified_cgroup_hierarchy"),
        (lambda tree: tree.say(cgroup="3:memory:/\n0::/\n"), "unified_cgroup"),
        (lambda tree: tree.control("cpu pids", []), "no memory. Set Delegate"),
        (lambda tree: tree.control("memory pids", [1]), "a unit of its own"),
        (
            lambda tree: (tree.home / "cgroup.subtree_control").unlink(),
            r"cannot be divided \(No such file.*Set Delegate",
        ),
    ],
)
def test_what_is_missing_is_told_with_what_to_do(tree, change, words):
    change(tree)
    made = tree.start()
    (sentence,) = made.missing()
    assert re.search(words, sentence)
    # Then processes stay where they are.
    assert made.path("worker-board0.1") is None
    made.make("worker-board0.1", cgroups.Limits(pids=9))
    assert not made.ran_out("worker-board0.1")
    made.remove("worker-board0.1")
    assert (tree.group / "pids.max").read_text() == ""


def test_a_process_enters_the_cgroup_that_it_is_told(tree):
    with subprocess.Popen("cat", stdin=subprocess.PIPE) as helper:
        memory.enter(str(tree.group))
    found = (tree.group / "cgroup.procs").read_text().split()
    assert found[0] == "0"
    # What its helper uses is charged to it, too.
    assert str(helper.pid) in found


def test_a_process_enters_no_cgroup_that_is_not_there(tmp_path):
    with pytest.raises(OSError):
        memory.enter(str(tmp_path))
    assert not list(tmp_path.iterdir())
