# SPDX-License-Identifier: Apache-2.0

"""The plug-ins of the documentation, installed and used as it says."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from PIL import Image
from PIL import ImageSequence

from fpgapool import client
from fpgapool.accelerators import sobel
from fpgapool.cmd.developing import making
from tests.functional.allinone import encrypting
from tests.functional.allinone import harness
from tests.harness import cases
from tests.harness import programs

ROOT = pathlib.Path(__file__).parents[3]
EXAMPLES = ROOT / "doc" / "examples"
#: Kinds of plug-ins with the names that the pages give them.
PLUGINS = {"driver": "cpu", "strategy": "priority"}
OPTIONS = ("--hosts=2", "--boards=1", "--driver=cpu", "--strategy=priority")


@pytest.fixture(scope="module", autouse=True)
def installed(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[pathlib.Path]:
    """Install the packages where processes that are started find them."""
    target = tmp_path_factory.mktemp("plugins")
    sources = tmp_path_factory.mktemp("sources")
    for kind, name in PLUGINS.items():
        making.make(kind, name, sources)
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check"),
            *("install", "--quiet", "--no-deps", "--no-build-isolation"),
            *("--no-index", "--target", target),
            *(sources / name for name in PLUGINS.values()),
        ],
        check=True,
    )
    inherited = os.environ.get("PYTHONPATH")
    search = os.pathsep.join(filter(None, (str(target), inherited)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", search)
        yield target


@pytest.fixture(scope="module")
def pool(installed: pathlib.Path) -> Iterator[harness.Pool]:
    """Give a pool with one slot of the example's driver."""
    config = installed / "cpu.conf"
    config.write_text(
        "[cpu]\nslots = 1\n[scheduler]\nstrategy_options = highest:6\n"
    )
    with harness.running_pool(*OPTIONS, f"--config-file={config}") as running:
        yield running


def test_the_driver_serves_programs_of_all_hosts(pool: harness.Pool) -> None:
    for door, local in (("node1", True), ("node2", False)):
        assert encrypting.encrypt(pool.front_door(door)).local is local
    summary = harness.ask_pool(pool.front_door())
    (device,) = summary["hosts"][0]["devices"]
    assert device["name"] == "cpu0"
    assert len(device["slots"]) == 1


def test_the_strategy_serves_the_highest_priority_first(
    pool: harness.Pool,
) -> None:
    assert harness.ask_pool(pool.front_door())["strategy"] == "priority"
    served: list[int] = []
    holder = _open(pool)
    waiting = []
    for priority in (0, 5, -5, 7, 10):
        queued = threading.Event()
        waiting.append(
            programs.Background(
                lambda priority=priority, queued=queued: _serve(
                    pool, priority, queued, served
                )
            )
        )
        assert queued.wait(harness.LIMIT_S)
    client.acc_close(holder)
    for call in waiting:
        call.result()
    # The option of the example has the first two count as one.
    assert served == [7, 10, 5, 0, -5]


def _serve(
    pool: harness.Pool,
    priority: int,
    queued: threading.Event,
    served: list[int],
) -> None:
    def on_state(view: client.SessionView) -> None:
        if view.state == "QUEUED":
            queued.set()

    with _open(pool, priority=priority, on_state=on_state):
        served.append(priority)


def _open(pool: harness.Pool, **request: object) -> client.Session:
    return client.acc_open(
        "copy",
        1000,
        front_door=pool.front_door(),
        timeout_s=harness.LIMIT_S,
        **request,
    )


@pytest.mark.long
def test_the_simulator_knows_the_strategy(tmp_path: pathlib.Path) -> None:
    scenario, output = tmp_path / "scenario.json", tmp_path / "out.json"
    _simulate(
        *("generate", "--hosts=4", "--boards=2", "--jobs-per-host=15"),
        *("--load=2", "--seed=1", f"--output={scenario}"),
    )
    document = json.loads(scenario.read_text())
    document["strategies"] = {"fifo": {}, "priority": {}, "sjf": {}}
    scenario.write_text(json.dumps(document))
    _simulate("run", str(scenario), f"--output={output}")
    results = json.loads(output.read_text())["results"]
    # No job of it has a priority.
    assert results["priority"] == results["fifo"] != results["sjf"]


def _simulate(*arguments: str) -> None:
    subprocess.run(
        harness.command("sim", *arguments),
        check=True,
        stdout=subprocess.DEVNULL,
    )


def test_programs_of_the_documentation_run(
    pool: harness.Pool, tmp_path: pathlib.Path
) -> None:
    environment = {**os.environ, "FPGAPOOL_SOCKET": pool.front_door()}
    (tmp_path / "plain").write_bytes(b"hello world")

    def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, EXAMPLES / name, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=harness.LIMIT_S,
        )

    short = programs.encrypted(b"hello", iv=bytes(16)).hex()
    done = run("first.py")
    told = f"it has 8 periods\n{short} from a slot of node1\n"
    assert done.stdout == told, done.stderr
    text = b"hello world"
    encrypted = programs.encrypted(text, iv=bytes(16)).hex()
    assert run("use_buffer.py").stdout == f"{encrypted} on node1\n"
    digest = hashlib.sha256(b"hello world").hexdigest()
    assert run("use_session.py").stdout == f"{digest}\n"
    old = hashlib.sha1(b"hello world").hexdigest()
    done = run("use_asyncio.py")
    assert done.stdout == f"{digest} {old}\nb'hello world'\n", done.stderr
    done = run("use_arrays.py")
    peaks = "8 " * 10
    assert done.stdout == f"complex64 (10, 1024) 8\nTrue\n{peaks}", done.stderr
    done = run("use_alignments.py")
    assert done.stdout == (
        "42 5M1D6M 0 11\nMKTAY-IAKQRQ\nMKTAYWIAKQRQ\n9 3M1I7M\n"
    ), done.stderr
    done = run("use_estimators.py")
    clusters, read = done.stdout.splitlines()
    assert clusters.startswith("1171289.22"), done.stderr
    assert float(read) > 0.95
    wrong = run("use_errors.py")
    assert wrong.returncode == 1
    assert "this will never do: INVALID_PARAMS" in wrong.stderr
    video = _video(count=3)
    video[0].save(
        tmp_path / "video.webp",
        save_all=True,
        append_images=video[1:],
        duration=[40, 80, 120],
        lossless=True,
    )
    done = run("video.py", "video.webp", "edges.webp")
    assert done.stdout == "3 frames: edges.webp\n", done.stderr
    with Image.open(tmp_path / "edges.webp") as edges:
        for frame, original in zip(
            ImageSequence.Iterator(edges), video, strict=True
        ):
            grey = original.convert("L")
            assert frame.convert("L").tobytes() == _edges(grey.tobytes())


def _video(count: int) -> list[Image.Image]:
    """Return frames with a square that moves."""
    frames = []
    for number in range(count):
        frame = Image.new("RGB", (640, 480), (20, 40, 60))
        left = 100 + 50 * number
        frame.paste((200, 180, 160), (left, 100, left + 150, 250))
        frames.append(frame)
    return frames


def _edges(frame: bytes) -> bytes:
    output = bytearray(len(frame))
    core = sobel.SobelCore({})
    core.process(memoryview(frame), memoryview(output), 0)
    return bytes(output)


@pytest.mark.parametrize(
    ("driver", "section", "text"),
    cases.first(
        ("none-such", "", "cpu, emulator, fpga_region, noop, opencl"),
        ("cpu", "[cpu]\nslots = many\n", "option slots"),
        ("cpu", "[cpu]\nslots = 0\n", "greater than or equal to 1"),
    ),
)
def test_what_is_wrong_is_explained(
    tmp_path: pathlib.Path, driver: str, section: str, text: str
) -> None:
    config = tmp_path / "cpu.conf"
    config.write_text(section)
    with harness.short_directory() as run_dir:
        result = subprocess.run(
            harness.command(
                *("allinone", f"--run-dir={run_dir}", f"--driver={driver}"),
                f"--config-file={config}",
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=harness.LIMIT_S,
        )
    assert result.returncode == 2, result.stdout
    assert "INVALID_CONFIGURATION" in result.stdout
    assert text in result.stdout
