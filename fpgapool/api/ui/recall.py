# SPDX-License-Identifier: Apache-2.0

"""Fills the live page's memory, and answers requests for it."""

from __future__ import annotations

import json
import threading
import time
import urllib.parse
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from oslo_log import log as logging

from fpgapool.api import call as calls
from fpgapool.api.http import errors
from fpgapool.api.http import middleware
from fpgapool.api.http import rights
from fpgapool.api.ui import memory
from fpgapool.common.messaging import context
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)

#: Path below the API's root.
PATH = "/ui/memory.json"

INTERVAL_S = 10.0
# Hardware is compared when its numbers change, and after this time.
_COMPARED_S = 60.0
_STOP_S = 2.0

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Type": "application/json",
    "X-Content-Type-Options": "nosniff",
}


class Sampler:
    """Fills the memory, in a thread of its own."""

    def __init__(
        self,
        backends: calls.Backends,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._backends = backends
        self._clock = clock
        self._failing = False
        self._numbers: object = None
        self._compared_at = float("-inf")
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="memory", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.sample()
                self._failing = False
            except Exception as error:
                # While the database is away, this comes again and again.
                level = logging.DEBUG if self._failing else logging.WARNING
                LOG.log(level, "No sample for the live page: %s", error)
                self._failing = True
            self._stopping.wait(INTERVAL_S)

    def sample(self) -> None:
        """Add one sample, and the events since the last.

        :raises DatabaseError: if neither conductor nor database answers.
        """
        counts, is_recorded = self._backends.pool_counts()
        kept = self._backends.memory
        at = round(self._clock(), 3)
        kept.note_counts(at, counts, leads=not is_recorded)
        numbers = _hardware_numbers(counts)
        if numbers != self._numbers or at - self._compared_at >= _COMPARED_S:
            self._numbers, self._compared_at = numbers, at
            pool = self._backends.inventory.get()
            kept.note_hardware(at, memory.hardware_of(pool))


def _hardware_numbers(counts: Mapping[str, Any]) -> object:
    """Return what changes when hardware fails or recovers."""
    off = (states.FAULTY, states.DISABLED, states.DOWN)
    return (
        *(counts[name] for name in ("hosts", "hosts_up", "devices")),
        counts["devices_healthy"],
        [
            [by_state.get(one, 0) for one in off]
            for _, by_state in sorted(counts["slots"].items())
        ],
    )


class Recall:
    """Answers the live page's requests for what was, as a WSGI application.

    Whoever may see the pool in numbers sees slots and waiting sessions; only
    those who may see hosts see rates and events.
    """

    def __init__(self, backends: calls.Backends) -> None:
        self._backends = backends

    def __call__(
        self,
        environ: middleware.Environ,
        start_response: middleware.StartResponse,
    ) -> Iterable[bytes]:
        environ[middleware.ROUTE] = PATH
        try:
            document = self._answer(environ)
        except errors.ApiError as error:
            return middleware.refuse(environ, start_response, error)
        body = json.dumps(document).encode()
        headers = {**_HEADERS, "Content-Length": str(len(body))}
        start_response("200 OK", [*headers.items()])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _answer(self, environ: middleware.Environ) -> dict[str, Any]:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            raise errors.ApiError(
                codes.METHOD_NOT_ALLOWED,
                "what was can only be read",
                headers={"Allow": "GET, HEAD"},
            )
        caller: context.RequestContext = environ[middleware.CONTEXT]
        if not self._allows(caller, rights.POOL_GET):
            raise calls.forbidden(
                self._backends.enforcer, caller, rights.POOL_GET
            )
        samples, events = self._backends.memory.recall(_since(environ))
        if not self._allows(caller, rights.POOL_HOSTS):
            hidden = dict.fromkeys(memory.RATES)
            samples, events = [one | hidden for one in samples], []
        return {
            "interval_s": INTERVAL_S,
            "samples": samples,
            "events": [one._asdict() for one in events],
        }

    def _allows(self, caller: context.RequestContext, rule: str) -> bool:
        target = {"project_id": caller.project_id}
        return self._backends.enforcer.allows(caller, rule, target)


def _since(environ: middleware.Environ) -> float:
    query = urllib.parse.parse_qs(environ.get("QUERY_STRING", ""))
    text = query.get("since", ["0"])[-1]
    try:
        return float(text)
    except ValueError:
        raise errors.ApiError(
            codes.INVALID_REQUEST,
            f"query.since: {text!r:.80} is no number of seconds since 1970",
        ) from None
