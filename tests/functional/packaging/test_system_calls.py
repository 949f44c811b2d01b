# SPDX-License-Identifier: Apache-2.0

"""What services do is not among the system calls that units take away."""

import subprocess
import sys

import pytest

from tests.functional.allinone import encrypting
from tests.functional.allinone import harness
from tests.functional.packaging import uwsgi_server
from tests.harness import system_calls
from tests.unit import systemd

#: As an agent asks for the device of the data plane.
ASK_KERNEL = """
from fpgapool.agent.host import monitor
kernel = monitor.NetlinkKernel()
assert kernel.find_device("127.0.0.1") == "lo"
kernel.counters("lo")
"""


@pytest.fixture(scope="module")
def names() -> set[str]:
    """Give the system calls that all services may use."""
    found = [
        system_calls.allowed(
            systemd.read_unit(unit)["Service"]["SystemCallFilter"]
        )
        for unit in systemd.UNITS
    ]
    return set.intersection(*found)


def test_a_pool_needs_no_others(names):
    """Shared memory, TLS, workers that are started and ended: all works."""
    with harness.short_directory() as run_dir:
        launcher = system_calls.confined(names, [])
        with harness.Pool(run_dir, *harness.SMALL, launcher=launcher) as pool:
            pool.wait_until_ready()
            local = encrypting.encrypt(pool.front_door("node1"))
            remote = encrypting.encrypt(pool.front_door("node2"))
    assert (local.local, remote.local) == (True, False)
    assert pool.process.returncode == 0, pool.output


def test_the_kernel_is_asked_for_devices(names):
    command = [sys.executable, "-c", ASK_KERNEL]
    subprocess.run(system_calls.confined(names, command), check=True)


def test_uwsgi_needs_no_others(names, service_workspace):
    launcher = system_calls.confined(names, [])
    server = uwsgi_server.Uwsgi("confined", service_workspace, launcher)
    server.start()
    answer = uwsgi_server.ask(
        (0, uwsgi_server.GROUP_ID), server, uwsgi_server.REQUEST
    )
    assert answer.startswith(b"HTTP/1.0 200 ")
    server.kill()


@pytest.mark.security
def test_others_are_refused(names):
    """One of those that take over another process of the account."""
    program = "import ctypes\nprint(ctypes.CDLL(None).ptrace(0, 0, 0, 0))"
    result = subprocess.run(
        system_calls.confined(names, [sys.executable, "-c", program]),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert result.stdout == "-1\n"
