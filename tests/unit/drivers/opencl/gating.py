# SPDX-License-Identifier: Apache-2.0

"""Kernels that wait until a test lets them go on."""

from tests.unit.drivers.opencl import sessions


def session_of(name):
    return next(each for each in sessions.LARGE if each.name == name)


class Gates:
    """Holds launches back, and remembers the events of all pieces."""

    def __init__(self, runner, monkeypatch):
        self._cl = runner.cl
        self.uploaded, self.launched, self.downloaded = [], [], []
        self.gates = []
        launch, upload = runner.Runner.launch, runner.Runner.upload
        download = runner.Runner.download

        def held(runner, lane, offset_bytes, wait_for=()):
            gate = self._cl.UserEvent(runner._context)
            self.gates.append(gate)
            self.launched.append(
                launch(runner, lane, offset_bytes, [*wait_for, gate])
            )
            return self.launched[-1]

        def noted(runner, *arguments):
            self.uploaded.append(upload(runner, *arguments))
            return self.uploaded[-1]

        def told(runner, *arguments):
            event, count = download(runner, *arguments)
            self.downloaded.append(event)
            return event, count

        monkeypatch.setattr(runner.Runner, "launch", held)
        monkeypatch.setattr(runner.Runner, "upload", noted)
        monkeypatch.setattr(runner.Runner, "download", told)

    def open(self, number):
        self.gates[number].set_status(
            self._cl.command_execution_status.COMPLETE
        )

    def are(self, uploaded, launched, downloaded):
        """Whether so many commands of each kind have ended."""
        complete = self._cl.command_execution_status.COMPLETE
        return [
            sum(event.command_execution_status == complete for event in events)
            for events in (self.uploaded, self.launched, self.downloaded)
        ] == [uploaded, launched, downloaded]


PIECE_BYTES = 1 << 14
LIMIT_S = 60.0
