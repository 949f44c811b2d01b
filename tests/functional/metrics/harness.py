# SPDX-License-Identifier: Apache-2.0

"""What services tell Prometheus."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable

from prometheus_client import parser
from prometheus_client import samples

from tests.harness import waiting
from tests.services import process

TIMEOUT_S = waiting.LIMIT_S


class Page:
    """What one scrape has told."""

    def __init__(self, text: str) -> None:
        self._samples: list[samples.Sample] = []
        self.names: set[str] = set()
        for family in parser.text_string_to_metric_families(text):
            total = "_total" if family.type == "counter" else ""
            self.names.add(family.name + total)
            self._samples += family.samples

    def found(self, name: str, **labels: str) -> list[samples.Sample]:
        """Return the samples that have these labels, among others."""
        return [
            sample
            for sample in self._samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of the samples that have these labels."""
        return sum(sample.value for sample in self.found(name, **labels))


def read(port: int) -> Page:
    """Scrape a service."""
    url = f"http://{process.LOOPBACK}:{port}/metrics"
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
        return Page(response.read().decode())


def wait_for(port: int, check: Callable[[Page], bool], what: str) -> Page:
    """Scrape a service until it tells what is expected."""
    page: list[Page] = []

    def told() -> bool:
        page[:] = [read(port)]
        return check(page[0])

    waiting.wait_until(told, what)
    return page[0]
