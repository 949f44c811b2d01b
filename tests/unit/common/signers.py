# SPDX-License-Identifier: Apache-2.0

"""Services with keys, and what reaches the conductor."""

import json
import queue

from fpgapool.common.messaging import freshness
from fpgapool.common.messaging import signing
from fpgapool.conductor.decisions import inputs
from tests.harness import waiting
from tests.unit.conductor import pumps

POOL = signing.Keys(signing.CONTROL, (b"p" * 32,))


def keys_of(host: str, pool: signing.Keys = POOL) -> signing.Keys:
    """Return what the agent of a host has."""
    lines = pool.host_key(host).split()
    return signing.Keys(host, tuple(bytes.fromhex(line) for line in lines))


def stamped(message: list) -> str:
    """Return the text of a cast, to be signed."""
    return json.dumps([*message, freshness.Sender(POOL, "").cast().to_list()])


class Inputs(pumps.FakePump):
    """Takes inputs, and lets tests wait for them."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: queue.Queue = queue.Queue()

    def offer(self, item, project_id=None) -> bool:
        self.queue.put(item)
        if isinstance(item, inputs.Open | inputs.Reopen):
            item.future.set_result(pumps.VIEW)
        return True

    def next(self):
        return self.queue.get(timeout=waiting.LIMIT_S)

    def ask(self, question, timeout_s, *, durable=True):
        if "changed" in question.__code__.co_names:
            return [], []
        return {"asked": True}
