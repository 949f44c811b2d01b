# SPDX-License-Identifier: Apache-2.0

"""Emulated hosts with real workers, and clients that keep them busy."""

from __future__ import annotations

import dataclasses
import pathlib
import threading
import time
import typing
from collections.abc import Sequence

import yaml

from fpgapool.drivers.emulator import fairness
from fpgapool.protocol import frames
from tests.functional.worker import harness

RATE_SCALE = 0.01
DMA_BYTES_PER_S = 2.1e9
NIC_BYTES_PER_S = 1.25e9
#: How long streams run, and how much of that at first does not count.
RUN_S = 2.0
WARM_UP_S = 0.3

#: Accelerators of these tests: peak rate and return ratio.
ACCELERATORS = {
    "fast": (1.2e9, 0.0),
    "slow": (0.4e9, 0.0),
    "echo": (1.2e9, 1.0),
    "slow-echo": (0.4e9, 1.0),
}


def write_profiles(directory: pathlib.Path) -> None:
    for name, (peak_bytes_per_s, return_ratio) in ACCELERATORS.items():
        profile = {
            "name": name,
            "description": "Returns its input, whatever its profile says",
            "peak_bytes_per_s": peak_bytes_per_s,
            "return_ratio": return_ratio,
            "stateless": True,
            "shapes": [],
            "params_schema": {"type": "object"},
            "core": "copy",
            "chunk_multiple_bytes": 1,
        }
        (directory / f"{name}.yaml").write_text(yaml.safe_dump(profile))


@dataclasses.dataclass(frozen=True)
class Flow:
    """One stream of a scenario.

    :ivar origin: where the data comes from; the same host if local.
    :ivar slowness: times that the slot takes as long, by an injected fault.
    """

    accelerator: str
    host: str
    origin: str | None
    slowness: float = 1.0

    @property
    def local(self) -> bool:
        return self.host == self.origin

    def uses(self) -> dict[str, float]:
        """What algorithms.md says in its first paragraph."""
        uses = {f"dma {self.host}": 1.0}
        if not self.local:
            returned = ACCELERATORS[self.accelerator][1]
            uses[f"in {self.host}"] = 1.0
            uses[f"out {self.host}"] = returned
            if self.origin is not None:
                uses[f"out {self.origin}"] = 1.0
                uses[f"in {self.origin}"] = returned
        return uses


def expected_bytes_per_s(flows: Sequence[Flow]) -> list[float]:
    """Compute what each flow is to get."""
    names = sorted({name for flow in flows for name in flow.uses()})
    return fairness.max_min_rates(
        [
            ACCELERATORS[flow.accelerator][0] * RATE_SCALE / flow.slowness
            for flow in flows
        ],
        [
            [(names.index(name), cost) for name, cost in flow.uses().items()]
            for flow in flows
        ],
        [
            RATE_SCALE
            * (DMA_BYTES_PER_S if name[:3] == "dma" else NIC_BYTES_PER_S)
            for name in names
        ],
    )


def write_faults(directory: pathlib.Path, **faults: object) -> None:
    """Put the faults of board0 in force."""
    fresh = directory / "faults.new"
    fresh.write_text(yaml.safe_dump({"board0": faults}))
    fresh.rename(directory / "boards.faults.yaml")


class Cluster:
    """Hosts with one board of four slots each, and a worker per busy slot."""

    def __init__(self, directory: pathlib.Path, flows: Sequence[Flow]) -> None:
        self._directory = directory
        self._flows = flows
        self._generation = 0
        self._workers: list[harness.WorkerProcess] = []
        self._agents: list[harness.AgentEnd] = []
        slots: dict[str, int] = {}
        for flow in flows:
            slot = slots[flow.host] = slots.get(flow.host, -1) + 1
            self._workers.append(self._start(flow.host, slot))
            if flow.slowness > 1:
                write_faults(
                    directory / flow.host,
                    core_slow=[{"slot": slot, "slowness": flow.slowness}],
                )

    def _start(self, host: str, slot: int) -> harness.WorkerProcess:
        directory = self._directory / host
        directory.mkdir(exist_ok=True)
        boards_file = directory / "boards.yaml"
        if not boards_file.exists():
            board = {
                "name": "board0",
                "slots": 4,
                "dma_bytes_per_s": DMA_BYTES_PER_S,
            }
            boards_file.write_text(
                yaml.safe_dump(
                    {
                        "rate_scale": RATE_SCALE,
                        "nic_bytes_per_s": NIC_BYTES_PER_S,
                        "boards": [board],
                    }
                )
            )
        return harness.WorkerProcess(
            directory,
            worker_id=f"{host}.{slot}",
            slot=slot,
            control_socket=str(directory / f"{slot}.sock"),
            data_socket=str(directory / f"{slot}.data.sock"),
            log_file=str(directory / f"{slot}.log"),
            data_address=None,
            driver_settings={
                "boards_file": str(boards_file),
                "cluster_dir": str(self._directory / "cluster"),
                "host_uuid": host,
            },
        )

    def measure(self) -> list[float]:
        """Run all flows at once and return their rates in bytes/s."""
        if not self._agents:
            self._agents = [worker.connect() for worker in self._workers]
        self._generation += 1
        barrier = threading.Barrier(len(self._flows))
        streams = []
        for flow, worker, agent in zip(
            self._flows, self._workers, self._agents, strict=True
        ):
            prepared = agent.prepare(
                self._generation,
                accelerator=flow.accelerator,
                bitstream=f"builtin:{flow.accelerator}",
                local=flow.local,
                origin_host_uuid=flow.origin,
            )
            client = harness.Client.local(worker).hello(prepared)
            streams.append(Stream(client, barrier))
        for stream in streams:
            stream.thread.start()
        for stream in streams:
            stream.thread.join()
        for agent in self._agents:
            agent.request(
                "release", generation=self._generation, reason="CLIENT_GONE"
            )
            agent.wait_result(self._generation)
        return [stream.bytes_per_s() for stream in streams]

    def close(self) -> None:
        for agent in self._agents:
            agent.close()
        for worker in self._workers:
            worker.kill()


class Stream:
    """A client that keeps its window full for a while."""

    def __init__(
        self, client: harness.Client, barrier: threading.Barrier
    ) -> None:
        self._client = client
        self._barrier = barrier
        self._samples: list[tuple[float, int]] = []
        self._output_bytes = 0
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        client = self._client
        data = bytes(harness.CHUNK_BYTES)
        self._barrier.wait(harness.TIMEOUT_S)
        start_s = time.monotonic()
        for _ in range(harness.WINDOW_CHUNKS):
            client.send_input(data)
        while time.monotonic() < start_s + RUN_S:
            if self._take():
                self._samples.append(
                    (time.monotonic() - start_s, client.acked_input_bytes)
                )
                client.send_input(data)
        client.close()

    def _take(self) -> bool:
        """Receive a frame and say whether it acknowledges input."""
        header, _payload = self._client.recv()
        if header.type == frames.OUTPUT:
            self._output_bytes += header.payload_length_bytes
            ack = frames.FrameHeader(
                frames.ACK, offset_bytes=self._output_bytes
            )
            self._client.channel.send(ack.pack())
        if header.type == frames.ACK:
            self._client.acked_input_bytes = header.offset_bytes
        return header.type == frames.ACK

    def bytes_per_s(self) -> float:
        """Return the rate without its start."""
        counted = [one for one in self._samples if one[0] >= WARM_UP_S]
        (start_s, start_bytes), (end_s, end_bytes) = counted[0], counted[-1]
        return (end_bytes - start_bytes) / (end_s - start_s)


class Measured(typing.NamedTuple):
    """The result of several attempts."""

    worst_error: float
    rates_bytes_per_s: list[float]


def measure(
    directory: pathlib.Path,
    flows: Sequence[Flow],
    tolerance: float,
    attempts: int,
) -> Measured:
    """Measure until the rates are right, a few times at most.

    A machine that is busy with something else may delay a process, and what
    one does not use the others get. That is no fault of the model; a wrong
    model is wrong in every attempt.
    """
    expected = expected_bytes_per_s(flows)
    cluster = Cluster(directory, flows)
    best = Measured(float("inf"), [])
    try:
        for _ in range(attempts):
            rates = cluster.measure()
            errors = [
                abs(rate / wanted - 1)
                for rate, wanted in zip(rates, expected, strict=True)
            ]
            best = min(best, Measured(max(errors), rates))
            if best.worst_error <= tolerance:
                break
    finally:
        cluster.close()
    return best
