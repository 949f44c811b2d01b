# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-yarn-labels``: label YARN's nodes with their accelerators.

It watches the pool, and runs ``yarn rmadmin`` when a node's label must change.
If either fails, it prints the error and retries. It runs until a signal.
"""

from __future__ import annotations

import argparse
import collections.abc
import signal
import subprocess
import sys
import threading
import time
import typing

from fpgapool import client
from fpgapool import version
from fpgapool.client.doors import asking
from fpgapool.cmd import launch
from fpgapool.common import arguments
from fpgapool.yarn import labels

PROGRAM = "fpgapool-yarn-labels"
#: Time limits for the pool's response and for YARN's command.
POOL_S = 10.0
YARN_S = 60.0

Hosts: typing.TypeAlias = list[dict[str, typing.Any]]


def main(argv: collections.abc.Sequence[str] | None = None) -> int:
    """Run until a signal arrives.

    :returns: 0 after SIGTERM, 130 after SIGINT, 1 if the pool cannot be found.
    """
    given = parser().parse_args(argv)
    ended = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        front_door: str | client.PoolApi | None = given.socket
        if given.os_cloud is not None:
            front_door = client.PoolApi.from_cloud(given.os_cloud)
        elif given.api_url is not None:
            front_door = client.PoolApi.at(given.api_url)
        watcher = Watcher(
            lambda: hosts(front_door), Yarn(given.yarn).set_labels
        )
        while not ended.is_set():
            watcher.step(time.monotonic())
            ended.wait(given.interval)
    except client.FpgapoolError as exc:
        _tell(str(exc))
        return launch.FAILURE
    except KeyboardInterrupt:
        return launch.INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


class Watcher:
    """Compares the pool with YARN's labels.

    :param set_labels: sets the labels of YARN's nodes, by node name.
    """

    def __init__(
        self,
        hosts: collections.abc.Callable[[], Hosts],
        set_labels: collections.abc.Callable[[dict[str, str | None]], None],
    ) -> None:
        self._hosts = hosts
        self._set_labels = set_labels
        self._labels = labels.Labels()

    def step(self, now_s: float) -> None:
        """Compare once.

        :param now_s: time of a monotonic clock.
        """
        try:
            changes = self._labels.decide(self._hosts(), now_s)
        except client.FpgapoolError as exc:
            _tell(f"the pool does not respond, so labels are unchanged: {exc}")
            return
        if not changes:
            return
        try:
            self._set_labels(changes)
        except (OSError, subprocess.SubprocessError) as exc:
            _tell(f"cannot set the labels; retrying: {exc}")
            return
        for node, label in changes.items():
            self._labels.applied(node, label)
            print(f"{node}: {label or 'no label'}", flush=True)


class Yarn:
    """YARN's administration command.

    :param path: path of the command, or its name in ``PATH``.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._known: set[str] = set()

    def set_labels(self, wanted: dict[str, str | None]) -> None:
        """Give nodes their labels.

        :param wanted: labels by node; None means no label.
        :raises OSError: if the command cannot be run.
        :raises subprocess.SubprocessError: if it fails, or takes too long.
        """
        new = sorted(
            {label for label in wanted.values() if label} - self._known
        )
        if new:
            # Not exclusive: containers without a label may use the node, too.
            self._run(
                "-addToClusterNodeLabels",
                ",".join(f"{label}(exclusive=false)" for label in new),
            )
            self._known.update(new)
        self._run(
            "-replaceLabelsOnNode",
            " ".join(
                # Without "=", a node loses its label.
                f"{node}={label}" if label else node
                for node, label in sorted(wanted.items())
            ),
        )

    def _run(self, *arguments: str) -> None:
        subprocess.run(
            [self._path, "rmadmin", *arguments],
            stdin=subprocess.DEVNULL,
            timeout=YARN_S,
            check=True,
        )


def hosts(front_door: str | client.PoolApi | None) -> Hosts:
    """Return the hosts of the pool.

    :param front_door: how to reach the pool; None lets the environment decide.
    :raises client.FpgapoolError: if the pool does not respond.
    """
    (pool,) = asking.ask(
        [("pool", {})], front_door=front_door, timeout_s=POOL_S
    )
    found: Hosts = pool["summary"]["hosts"]
    return found


def _tell(text: str) -> None:
    print(f"{PROGRAM}: {text}", file=sys.stderr, flush=True)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        PROGRAM,
        description="Label each Hadoop YARN node with the accelerator that"
        " occupies the largest number of its healthy slots.",
    )
    made.add_argument(
        "--version", action="version", version=version.version_string()
    )
    made.add_argument(
        "--yarn",
        metavar="PATH",
        default="yarn",
        help="YARN's command; the default is yarn in PATH",
    )
    made.add_argument(
        "--interval",
        type=arguments.number(
            float, "a number of seconds from 0.1 to 30", 0.1, labels.STABLE_S
        ),
        metavar="SECONDS",
        default=2.0,
        help="polling interval; the default is 2",
    )
    pool = made.add_argument_group(
        "the pool", "by default, the front door or API from the environment"
    )
    where = pool.add_mutually_exclusive_group()
    where.add_argument(
        "--socket", metavar="PATH", help="socket of a front door"
    )
    where.add_argument(
        "--api-url", metavar="URL", help="URL of an API without authentication"
    )
    where.add_argument(
        "--os-cloud", metavar="NAME", help="name of the cloud in clouds.yaml"
    )
    return made


if __name__ == "__main__":
    sys.exit(launch.guarded(PROGRAM, main))
