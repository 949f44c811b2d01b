# SPDX-License-Identifier: Apache-2.0

"""A private Prometheus."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Collection
from typing import Any

from tests.services import process

_LIMIT_S = 30.0
_CONFIG = """
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: fpgapool
    static_configs:
      - targets: {targets}
"""


class Prometheus(process.Service):
    """A server that reads the metrics of some processes each second.

    :param scraped: ports of the processes, on this machine.
    """

    def __init__(
        self, workspace: process.Keeper, scraped: Collection[int]
    ) -> None:
        super().__init__("prometheus", workspace)
        self.port = workspace.port("prometheus")
        self._program = process.find_program("prometheus", "prometheus")
        self._config_path = self.directory / "prometheus.yml"
        targets = [f"{process.LOOPBACK}:{port}" for port in scraped]
        # YAML is more than JSON.
        text = _CONFIG.format(targets=json.dumps(targets))
        self._config_path.write_text(text)

    def command(self) -> list[str]:
        """Return the command line."""
        return [
            self._program,
            f"--config.file={self._config_path}",
            f"--storage.tsdb.path={self.directory / 'data'}",
            f"--web.listen-address={process.LOOPBACK}:{self.port}",
        ]

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports that the server listens on."""
        return (self.port,)

    def is_ready(self) -> bool:
        """Tell whether it answers."""
        try:
            with self._open("/-/ready"):
                return True
        except OSError:
            return False

    def evaluate(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an expression now.

        :raises HTTPError: if Prometheus does not understand it.
        """
        query = urllib.parse.urlencode({"query": expression})
        with self._open(f"/api/v1/query?{query}") as answer:
            document = json.load(answer)
        assert document["status"] == "success"
        found: list[dict[str, Any]] = document["data"]["result"]
        return found

    def _open(self, path: str) -> Any:
        url = f"http://{process.LOOPBACK}:{self.port}{path}"
        return urllib.request.urlopen(url, timeout=_LIMIT_S)
