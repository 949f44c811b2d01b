# SPDX-License-Identifier: Apache-2.0

"""Tasks of a group: what a relay costs, and what its members do."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from collections.abc import Callable
from collections.abc import Iterator

from tests.benchmarks import measure
from tests.benchmarks import plain_relay
from tests.benchmarks import usage
from tests.functional.worker import harness
from tests.functional.worker import members

TITLE = "Tasks through a group"
SERVICES = True
#: Values may be 0 or less.
DIFFERENCES = True

_LENGTH_BYTES = 64
_CLIENTS = 8
_MEMBERS = 4


def rows(plan: measure.Plan) -> Iterator[measure.Row]:
    """One task at a time, and eight clients at once."""
    yield from _latency(plan)
    yield from _throughput(plan)


def _latency(plan: measure.Plan) -> Iterator[measure.Row]:
    count = 50 if plan.tiny else 5000
    with plain_relay.Parts() as parts, _workers(parts, 1) as workers:
        direct = plain_relay.open_channel(parts.echo())
        relayed = plain_relay.open_channel(*parts.relay(1, [parts.echo()]))
        member = plain_relay.open_channel(*workers)
        by_name = {"direct": direct, "relayed": relayed, "member": member}
        samples: dict[str, list[measure.Sample]] = {
            name: [] for name in (*by_name, "added")
        }
        for _ in range(plan.repetitions):
            for name, channel in by_name.items():
                samples[name].append(
                    _sampled(
                        parts,
                        lambda channel=channel: plain_relay.one_at_a_time(
                            channel, _LENGTH_BYTES, count
                        ),
                    )
                )
            samples["added"].append(
                _difference(samples["relayed"][-1], samples["direct"][-1])
            )
        for channel in by_name.values():
            channel.close()
    size = f"{_LENGTH_BYTES} B, one at a time"
    yield measure.Row(f"{size}, bare relay", "µs/task", samples["relayed"])
    yield measure.Row(f"{size}, added by a relay", "µs/task", samples["added"])
    yield measure.Row(
        f"{size}, a worker itself",
        "µs/task",
        samples["member"],
        "a process that echoes",
        samples["direct"],
    )


def _throughput(plan: measure.Plan) -> Iterator[measure.Row]:
    count = 20 if plan.tiny else 5000
    with contextlib.ExitStack() as stack:
        floor = stack.enter_context(plain_relay.Parts())
        ours = stack.enter_context(plain_relay.Parts())
        echoes = [floor.echo() for _ in range(_MEMBERS)]
        workers = stack.enter_context(_workers(ours, _MEMBERS))
        clients = [
            [
                parts.client(end, _LENGTH_BYTES)
                for end in parts.relay(_CLIENTS, ends)
            ]
            for parts, ends in ((floor, echoes), (ours, workers))
        ]
        floors, samples = [], []
        for _ in range(plan.repetitions):
            floors.append(
                _sampled(floor, lambda: plain_relay.rate(clients[0], count))
            )
            samples.append(
                _sampled(ours, lambda: plain_relay.rate(clients[1], count))
            )
    name = f"{_CLIENTS} clients, bare relay, {_MEMBERS}"
    yield measure.Row(f"{name} processes that echo", "tasks/s", floors)
    yield measure.Row(
        f"{name} workers",
        "tasks/s",
        samples,
        "processes that echo",
        floors,
    )


def _sampled(
    parts: plain_relay.Parts, run: Callable[[], float]
) -> measure.Sample:
    meter = usage.Meter(*parts.pids)
    value = run()
    whole = meter.rate(1)
    return measure.Sample(value, whole.wall_s, whole.cpu_s)


def _difference(one: measure.Sample, two: measure.Sample) -> measure.Sample:
    return measure.Sample(one.value - two.value, one.wall_s, one.cpu_s)


@contextlib.contextmanager
def _workers(
    parts: plain_relay.Parts, count: int
) -> Iterator[list[list[int]]]:
    """Start workers that are members of one group.

    :returns: the desk's ends of their channels.
    """
    with (
        tempfile.TemporaryDirectory(prefix="fpgapool-") as name,
        contextlib.ExitStack() as stack,
    ):
        directory = pathlib.Path(name)
        desk = members.Desk(directory)
        stack.callback(desk.close)
        ends = []
        for slot in range(count):
            worker = harness.WorkerProcess(
                directory,
                worker_id=f"board0.{slot}",
                slot=slot,
                control_socket=str(directory / f"{slot}.sock"),
                data_socket=str(directory / f"{slot}.data.sock"),
                log_file=str(directory / f"{slot}.log"),
            )
            stack.callback(worker.kill)
            parts.pids.append(worker.process.pid)
            agent = worker.connect()
            stack.callback(agent.close)
            agent.assign(desk_socket=desk.path)
            near, far = parts.channel()
            desk.admit(far)
            # READY is the relay's to read, and no result.
            channel = plain_relay.open_channel(near)
            channel.wait()
            channel.get()
            channel.free()
            channel.close()
            ends.append(near)
        yield ends
