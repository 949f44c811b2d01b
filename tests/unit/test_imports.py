# SPDX-License-Identifier: Apache-2.0

"""Who may import whom. Reads the sources, so that nothing escapes by being
imported inside a function or under a condition."""

import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.harness import imports

ROOT = pathlib.Path(__file__).parents[2]

#: Package of fpgapool: the packages, or single modules, that it may import
#: besides itself (any: all of them); and why. A package without a line is an
#: error, so that a new one is thought about.
TABLE = """
vocabulary: # the words of all others
version: # what is installed
conf: vocabulary # options alone, so that any process can read them
policies: api # derive from its routes, for oslo.policy's tools
privsep: # runs with more rights, so it is small
core: vocabulary # decides; no I/O
strategies: core vocabulary # decide, as plug-ins of the core
protocol: vocabulary # bytes only, for both ends of a connection
accelerators: vocabulary # software cores, also for light clients
objects: vocabulary # payloads, for both ends of a call
common: conf protocol version vocabulary # set-up that services share
clients: conf common version # other services of OpenStack
rpcapi: objects common version # what can be asked by RPC
db: common core.health objects version vocabulary # rows, and the pool as
    # they show it; knows no decisions
drivers: accelerators bitstreams.signatures common.exception
    common.monitoring.ratelimit common.walls objects.declaration
    objects.untrusted vocabulary # boards; their helpers verify signatures
bitstreams: objects db conf common clients drivers.opencl.devices
    drivers.opencl.contents
    version vocabulary # the library, which reads what its files say
conductor.decisions: bitstreams.library clients.nova common conductor.counts
    core db objects vocabulary # pure: time comes in, effects go out
conductor: bitstreams core strategies objects db clients rpcapi conf common
    version vocabulary # runs the decisions
agent.child: protocol common.channels common.monitoring.lost_lines
    common.monitoring.ratelimit common.walls vocabulary # starts fast
agent.worker: agent.child drivers protocol common.channels
    common.monitoring.ratelimit version vocabulary
    # starts fast; its agent takes over buffers
agent.groupdesk: agent.child protocol common.channels
    common.monitoring.ratelimit vocabulary # starts fast
agent: drivers objects protocol rpcapi conf common privsep bitstreams.files
    bitstreams.signatures version vocabulary # never the database
api: bitstreams core objects db clients rpcapi conf common policies version
    vocabulary # reads the database, asks the conductor
wsgi: api conf common version # what web servers load
client: protocol accelerators common.channels version vocabulary # the
    # standard library is enough for it
osc: common.arguments common.interrupts version vocabulary # speaks to the
    # API only, as a user does
ml: client # estimators for programs
spark: client vocabulary # what programs and their executors import
yarn: vocabulary # labels of nodes; decides only
sim: accelerators.base client core strategies vocabulary # a cloud with the
    # pool's own decisions and rates
allinone: accelerators agent api common conductor conf db drivers rpcapi
    vocabulary # joins
cmd: any # starts all of them
"""


def _rows(table: str) -> Iterator[tuple[str, frozenset[str] | None]]:
    for row in re.split(r"\n(?=\w)", table.strip()):
        package, _, rest = row.partition(":")
        names = re.sub("#.*", "", rest).split()
        yield package, None if names == ["any"] else frozenset(names)


ALLOWED = dict(_rows(TABLE))

#: What reads a clock, chance, files or the network, or starts anything.
IMPURE = frozenset(
    "asyncio concurrent contextvars ctypes datetime fcntl getpass glob http"
    " io logging mmap multiprocessing os pathlib platform queue random"
    " sched secrets select selectors shutil signal socket socketserver"
    " sqlite3 ssl subprocess sys tempfile threading time urllib uuid"
    " warnings zoneinfo".split()
)
PURE = ("core", "strategies", "vocabulary", "yarn")
#: Pure but for the names that they give, and for answers that others await.
DECIDES = ("conductor.decisions",)
NAMES_AND_FUTURES = frozenset({"concurrent", "datetime", "uuid"})
#: Frames, messages and streams are bytes; whoever uses them does the I/O.
BYTES_ONLY = ("protocol",)
#: Processes that an agent starts.
PROCESSES = ("agent.child", "agent.worker", "agent.groupdesk")
OSLO_PREFIX = "oslo_"
#: Top-level names outside the standard library, for those that are limited.
THIRD_PARTY: dict[str, frozenset[str]] = {
    "accelerators": frozenset(
        "cryptography dtaidistance jsonschema numpy pyeclib scipy yaml".split()
    ),
    # NumPy only by programs with arrays, greenlet only by those with asyncio,
    # the last two only by those that go through the API.
    "client": frozenset(
        "cryptography greenlet jsonschema numpy tqdm"
        " keystoneauth1 openstack".split()
    ),
    # What mypy and mypyc read; nothing imports it while it runs.
    "core": frozenset({"mypy_extensions", "numpy"}),
    "ml": frozenset({"numpy", "scipy", "sklearn"}),
    "objects": frozenset(),
    "osc": frozenset("keystoneauth1 openstack osc_lib".split()),
    "protocol": frozenset(),
    "spark": frozenset({"numpy", "pyarrow", "pyspark"}),
    "strategies": frozenset({"numpy"}),
    "version": frozenset(),
    "vocabulary": frozenset(),
}
FOR_ASYNCIO = "fpgapool.client.aio"
#: What only one package imports.
ONLY_IN = {
    "pyarrow": "fpgapool.spark",
    "pyopencl": "fpgapool.drivers.opencl",
    "pyspark": "fpgapool.spark",
    "greenlet": FOR_ASYNCIO,
    "sklearn": "fpgapool.ml",
    "opentelemetry": (
        "fpgapool.common.monitoring.tracing",
        "fpgapool.cmd.running.tracing",
    ),
}
NOVA_SIDE = frozenset({"keystoneauth1", "nova"})
#: Of the product, the plugin uses what programs use.
TEMPEST_SIDE = frozenset({"keystoneauth1", "oslo_config", "tempest"})
#: Of the product, the panels use what asks the API, and its words.
DASHBOARD_SIDE = frozenset(
    "django horizon keystoneauth1 openstack openstack_auth"
    " openstack_dashboard".split()
)
#: Of the product, Heat's resources use the same.
HEAT_SIDE = frozenset({"heat", "openstack"})
#: And so does Blazar's plugin.
BLAZAR_SIDE = frozenset({"blazar", "keystoneauth1", "openstack"})
ASKS_THE_API = frozenset({"fpgapool.osc.sdk", "fpgapool.vocabulary"})
#: What stands beside the product, and is not installed.
BESIDE = frozenset({"demo", "reproduction", "tests"})
#: Concurrency in this project is threads, but for programs that use asyncio.
BANNED = frozenset({"asyncio", "eventlet"})


def _layer(module: str) -> str:
    """Return the row of ALLOWED that a module of fpgapool falls under."""
    path = module.removeprefix("fpgapool.")
    rows = [path, *reversed(imports.parents(path))]
    return next((row for row in rows if row in ALLOWED), path.split(".")[0])


def _within(path: str, names: frozenset[str]) -> bool:
    return path in names or any(
        parent in names for parent in imports.parents(path)
    )


def _direction_is_allowed(layer: str, target: str) -> bool:
    allowed = ALLOWED[layer]
    if allowed is None or target == "fpgapool":
        return True
    path = target.removeprefix("fpgapool.")
    # A package may import its parts; they have rows of their own because they
    # may not import the rest of it.
    same = _layer(target) == layer or _layer(target).startswith(f"{layer}.")
    return same or _within(path, allowed)


def _impure_for(layer: str) -> frozenset[str]:
    if layer in PURE + BYTES_ONLY:
        return IMPURE
    return IMPURE - NAMES_AND_FUTURES if layer in DECIDES else frozenset()


def _problem_in_fpgapool(item: imports.Import) -> str | None:
    layer = _layer(item.importer)
    root = item.target.split(".")[0]
    if item.importer == "fpgapool":
        return "the root package stays empty"
    if layer not in ALLOWED:
        return f"package {layer} has no row in ALLOWED"
    if root == "fpgapool":
        if not _direction_is_allowed(layer, item.target):
            return f"{layer} may not import it"
    elif (layer in PURE + BYTES_ONLY and root in IMPURE) or (
        layer in DECIDES and root in IMPURE - NAMES_AND_FUTURES
    ):
        return f"{layer} does no I/O and reads no clock"
    elif root in ONLY_IN and not item.importer.startswith(ONLY_IN[root]):
        return f"only {ONLY_IN[root]} imports it"
    elif layer in PROCESSES and root.startswith(OSLO_PREFIX):
        return "the processes beside the agent do without oslo"
    elif (
        layer in THIRD_PARTY
        and root not in sys.stdlib_module_names
        and root not in THIRD_PARTY[layer]
    ):
        return f"{layer} does without this library"
    return None


def _problem_in_nova_filters(item: imports.Import) -> str | None:
    root = item.target.split(".")[0]
    known = NOVA_SIDE | sys.stdlib_module_names | {"fpgapool_nova_filters"}
    if root in known or root.startswith(OSLO_PREFIX):
        return None
    return "nova, keystoneauth1, oslo and itself only"


def _problem_beside(item: imports.Import, side: frozenset[str]) -> str | None:
    """Judge what asks the API from within another service."""
    root = item.target.split(".")[0]
    if root == "fpgapool":
        if _within(item.target, ASKS_THE_API):
            return None
        return "only the SDK and the words of fpgapool"
    itself = item.importer.split(".")[0]
    if root in side | sys.stdlib_module_names | {itself}:
        return None
    # Only Blazar's options are its own, and oslo's.
    if side is BLAZAR_SIDE and root.startswith(OSLO_PREFIX):
        return None
    return "what that service has, the SDK and itself only"


def _problem_in_tempest_plugin(item: imports.Import) -> str | None:
    root = item.target.split(".")[0]
    if root == "fpgapool":
        is_client = _within(item.target, frozenset({"fpgapool.client"}))
        return None if is_client else "only the client library of fpgapool"
    known = TEMPEST_SIDE | sys.stdlib_module_names
    if root in known or root == "fpgapool_tempest_plugin":
        return None
    return "tempest, keystoneauth1, oslo.config and itself only"


def _problem(item: imports.Import) -> str | None:
    root = item.target.split(".")[0]
    if root in BESIDE:
        return "that is not a part of the product"
    if root in BANNED and item.importer != FOR_ASYNCIO:
        return "concurrency is threads"
    if item.importer.split(".")[0] == "fpgapool_nova_filters":
        return _problem_in_nova_filters(item)
    if item.importer.split(".")[0] == "fpgapool_dashboard":
        return _problem_beside(item, DASHBOARD_SIDE)
    if item.importer.split(".")[0] == "fpgapool_heat":
        return _problem_beside(item, HEAT_SIDE)
    if item.importer.split(".")[0] == "fpgapool_blazar":
        return _problem_beside(item, BLAZAR_SIDE)
    if item.importer.split(".")[0] == "fpgapool_tempest_plugin":
        return _problem_in_tempest_plugin(item)
    return _problem_in_fpgapool(item)


def _is_heavy(item: imports.Import) -> bool:
    root = item.target.split(".")[0]
    return root != "fpgapool" and root not in sys.stdlib_module_names


def violations(root: pathlib.Path) -> list[str]:
    """Return what is wrong with the imports below a directory."""
    tree = imports.Tree(root)
    found = [
        f"{item}: {problem}"
        for items in tree.imports.values()
        for item in items
        if (problem := _problem(item))
    ]
    found += [
        f"{item}, and that when the client library is imported"
        for item in tree.loaded_with("fpgapool.client")
        if _is_heavy(item)
    ]
    found += [
        f"{item}, which a worker process imports"
        for module in tree.paths
        if _layer(module) == "agent.worker"
        for item in tree.loaded_with(module)
        if item.target.startswith(OSLO_PREFIX)
    ]
    return sorted(set(found))


def test_imports_follow_the_layers() -> None:
    assert violations(ROOT) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert imports.circles(ROOT) == []


@pytest.mark.parametrize(
    "way_back",
    [
        "from fpgapool.core import a",
        "def f():\n    from fpgapool.core import a",
        "import typing\nif typing.TYPE_CHECKING:\n    import fpgapool.core.a",
    ],
    ids=["at import", "inside a function", "for types only"],
)
def test_planted_circle_is_found(
    innocent_tree: pathlib.Path, way_back: str
) -> None:
    _plant(innocent_tree, "core/a.py", "from fpgapool.core import c")
    _plant(innocent_tree, "core/c.py", "from fpgapool.core import d")
    _plant(innocent_tree, "core/d.py", way_back)
    assert imports.circles(innocent_tree) == [
        ["fpgapool.core.a", "fpgapool.core.c", "fpgapool.core.d"]
    ]


def test_every_module_is_looked_at() -> None:
    found = set(imports.Tree(ROOT).paths)
    assert {"fpgapool", "fpgapool.version", "fpgapool_nova_filters"} <= found
    assert "fpgapool_tempest_plugin.plugin" in found
    assert "fpgapool_dashboard.content.pool.tabs" in found
    assert "fpgapool_heat.resources" in found
    assert "fpgapool_blazar.plugin" in found
    assert {"fpgapool.core.state", "fpgapool.agent.worker"} <= found


PLANTED = {
    "core to the clock": ("core/a.py", "import time"),
    "core to files": ("core/a.py", "from os import path"),
    "core to a library": ("core/a.py", "import yaml"),
    "core upwards": ("core/a.py", "from fpgapool.strategies import fifo"),
    "core upwards, from the root": (
        "core/a.py",
        "from fpgapool import conductor",
    ),
    "core upwards, relative": ("core/a.py", "from ..db import api"),
    "core, relative, from a package": (
        "core/__init__.py",
        "from ..db import api",
    ),
    "inside a function": ("core/a.py", "def f():\n    import random"),
    "in a condition": ("core/a.py", "if f():\n    import threading"),
    "for types only": (
        "core/a.py",
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import fpgapool.db",
    ),
    "strategies to logging": ("strategies/a.py", "import logging"),
    "protocol to sockets": ("protocol/a.py", "import socket"),
    "protocol to another": (
        "protocol/a.py",
        "import fpgapool.common.channels.channel",
    ),
    "agent to the database": ("agent/a.py", "from fpgapool.db import api"),
    "agent to cores": ("agent/a.py", "import fpgapool.accelerators.aes"),
    "worker to oslo": ("agent/worker/a.py", "from oslo_log import log"),
    "worker to conf": ("agent/worker/a.py", "import fpgapool.conf"),
    "worker to the agent": (
        "agent/worker/a.py",
        "import fpgapool.agent.supervision.workers",
    ),
    "worker to oslo, through another": (
        "agent/worker/a.py",
        "import fpgapool.common.channels.channel",
    ),
    "OpenCL elsewhere": ("drivers/a.py", "import pyopencl as cl"),
    "conductor to drivers": ("conductor/a.py", "import fpgapool.drivers.base"),
    "conductor's decisions to the clock": (
        "conductor/decisions/a.py",
        "import time",
    ),
    "conductor's decisions to its threads": (
        "conductor/decisions/a.py",
        "import fpgapool.conductor.runtime.pump",
    ),
    "conductor to sim": ("conductor/a.py", "import fpgapool.sim"),
    "client to the agent": ("client/a.py", "import fpgapool.agent"),
    "client to common": (
        "client/a.py",
        "import fpgapool.common.messaging.rpc",
    ),
    "client to oslo, late": (
        "client/a.py",
        "def f():\n    from oslo_config import cfg",
    ),
    "client heavy": ("client/__init__.py", "import jsonschema"),
    "client heavy, through another": (
        "client/__init__.py",
        "from fpgapool.accelerators import heavy",
    ),
    "commands to the client": ("osc/a.py", "import fpgapool.client"),
    "commands to oslo": ("osc/a.py", "from oslo_config import cfg"),
    "eventlet": ("cmd/a.py", "import eventlet.green"),
    "asyncio": ("agent/a.py", "import asyncio"),
    "tests": ("cmd/a.py", "from tests import harness"),
    "the laboratory": ("sim/a.py", "from reproduction import models"),
    "a package without a row": ("novelty/a.py", "import json"),
    "root package": ("__init__.py", "from fpgapool import version"),
    "filters to fpgapool": (
        "../fpgapool_nova_filters/a.py",
        "from fpgapool import version",
    ),
    "filters to others": (
        "../fpgapool_nova_filters/a.py",
        "import requests",
    ),
    "panels to the rest of fpgapool": (
        "../fpgapool_dashboard/a.py",
        "from fpgapool.client import errors",
    ),
    "panels to others": ("../fpgapool_dashboard/a.py", "import requests"),
    "Heat's resources to the rest of fpgapool": (
        "../fpgapool_heat/a.py",
        "from fpgapool.client import errors",
    ),
    "Heat's resources to others": (
        "../fpgapool_heat/a.py",
        "import requests",
    ),
    "Blazar's plugin to the rest of fpgapool": (
        "../fpgapool_blazar/a.py",
        "from fpgapool.client import errors",
    ),
    "Blazar's plugin to others": (
        "../fpgapool_blazar/a.py",
        "import requests",
    ),
    "Tempest's plugin to the rest of fpgapool": (
        "../fpgapool_tempest_plugin/a.py",
        "from fpgapool.vocabulary import codes",
    ),
    "Tempest's plugin to others": (
        "../fpgapool_tempest_plugin/a.py",
        "import openstack",
    ),
}

INNOCENT = {
    "core/b.py": "import math\n\nimport numpy\n\nfrom fpgapool.core import b",
    "common/__init__.py": "",
    "common/channels/channel.py": "from oslo_utils import units",
    "accelerators/heavy.py": "import numpy",
    "client/b.py": "def f():\n    import jsonschema",
    "cmd/b.py": "import fpgapool.agent.slots.table\nimport fpgapool.db.api",
    "agent/b.py": "from fpgapool.agent import worker\nimport oslo_log",
    "agent/workers.py": "from fpgapool.agent import b\nimport oslo_log",
    "osc/b.py": "import openstack\nfrom osc_lib import utils",
    "db/b.py": "from fpgapool.vocabulary import codes\nimport sqlalchemy",
    "../fpgapool_nova_filters/b.py": "from nova.scheduler import filters\n"
    "from oslo_config import cfg",
    "../fpgapool_heat/b.py": "from heat.engine import resource",
    "../fpgapool_blazar/b.py": "from blazar.plugins import base\n"
    "from oslo_config import cfg",
    "../fpgapool_tempest_plugin/b.py": "from fpgapool import client\n"
    "from tempest import test",
}


def _plant(root: pathlib.Path, path: str, source: str) -> None:
    target = (root / "fpgapool" / path).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(source + "\n")


@pytest.fixture
def innocent_tree(tmp_path: pathlib.Path) -> pathlib.Path:
    for path, source in INNOCENT.items():
        _plant(tmp_path, path, source)
    return tmp_path


def test_innocent_tree_passes(innocent_tree: pathlib.Path) -> None:
    assert violations(innocent_tree) == []


@pytest.mark.parametrize(
    ("path", "source"), PLANTED.values(), ids=PLANTED.keys()
)
def test_planted_violation_is_found(
    innocent_tree: pathlib.Path, path: str, source: str
) -> None:
    _plant(innocent_tree, path, source)
    assert violations(innocent_tree)


@pytest.mark.parametrize(
    ("module", "beforehand", "absent"),
    [
        # Programs pay for what they use, when they use it.
        ("fpgapool.client", "sys", "fpgapool.client.errors dataclasses"),
        (
            "fpgapool.client.transfers.transfer",
            "sys",
            "numpy oslo_config jsonschema yaml logging ssl urllib.parse"
            " concurrent.futures fpgapool.client.groups"
            " fpgapool.client.doors.apidoor",
        ),
        (
            "fpgapool.cmd.run",
            "sys",
            "fpgapool.client.sessions importlib.metadata tempfile logging",
        ),
        ("fpgapool.agent.worker", "sys", "oslo_config oslo_log eventlet"),
        # They start threads, and workers are forked after this import.
        ("fpgapool.drivers.opencl.driver", "sys", "numpy pyopencl"),
        (
            "fpgapool.osc.v1.session",
            "sys",
            "numpy oslo_config oslo_messaging oslo_db sqlalchemy falcon"
            " fpgapool.client",
        ),
        # What numpy itself loads does not count.
        ("fpgapool.core.state", "numpy", "oslo_config logging threading"),
    ],
)
def test_interpreter_does_not_load(
    module: str, beforehand: str, absent: str
) -> None:
    program = (
        f"import sys, {beforehand}\n"
        "before = set(sys.modules)\n"
        f"import {module}\n"
        "print(*(set(sys.modules) - before))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    loaded = set(result.stdout.split())
    assert module in loaded
    assert loaded.isdisjoint(absent.split())
