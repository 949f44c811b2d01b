# SPDX-License-Identifier: Apache-2.0

"""What stands in for the conductor behind its calls."""

from fpgapool import objects
from fpgapool.conductor import rpc as conductor_rpc
from fpgapool.conductor.decisions import inputs

NOW = 5000.0


class FakePump:
    """Collects inputs; has no answers but one.

    :ivar full: whether it has no room.
    :ivar view: how sessions stand that are asked for.
    """

    database_failing = False

    def __init__(self) -> None:
        self.inputs: list[inputs.Input] = []
        self.full = False
        self.view: objects.SessionView | object | None = self

    def now(self) -> float:
        return NOW

    def put(self, item: inputs.Input) -> None:
        self.inputs.append(item)

    def offer(self, item: inputs.Input, project_id: str | None = None) -> bool:
        if not self.full:
            self.inputs.append(item)
            if self.view is not self:
                item.future.set_result(self.view)
        return not self.full

    def ask(self, question, timeout_s, *, durable=True):
        raise TimeoutError


class FakeDatabase:
    """Knows no session."""


VIEW = objects.SessionView(
    session_id="s",
    request_id="r",
    project_id="p",
    state="QUEUED",
    accelerator="copy",
    claimed_bytes=1,
)


class AnsweringPump(FakePump):
    """Has an engine, which it asks at once."""

    def __init__(self, engine) -> None:
        super().__init__()
        self._engine = engine
        self.endpoint: conductor_rpc.ConductorManager | None = None
        self.report: objects.AgentReport | None = None

    def ask(self, question, timeout_s, *, durable=True):
        answer = question(self._engine)
        if self.endpoint is not None and self.report is not None:
            # As an agent does that is asked for it.
            self.endpoint.report(None, self.report.to_primitive())
        return answer
