# SPDX-License-Identifier: Apache-2.0

"""Requests to the REST API of the demo's pool, which has no Keystone."""

from __future__ import annotations

import json
import time
import typing
import urllib.error
import urllib.request
from collections.abc import Callable

from demo import errors

#: For each request, and for what is awaited; a working pool takes less.
_TIMEOUT_S = 30.0
_POLL_INTERVAL_S = 0.05
_HEADERS = {
    "Content-Type": "application/json",
    "OpenStack-API-Version": "fpgapool 1.0",
}


def ask(
    url: str, method: str = "GET", body: object = None
) -> dict[str, typing.Any]:
    """Send a request.

    :param body: a JSON value; None: it has none.
    :returns: the document of the answer; empty if it has none.
    :raises DemoError: if the API refuses it, or does not answer.
    """
    request = urllib.request.Request(
        url,
        None if body is None else json.dumps(body).encode(),
        _HEADERS,
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            text = answer.read()
    except urllib.error.HTTPError as error:
        said = error.read().decode(errors="replace")
        raise errors.DemoError(
            errors.POOL_FAILED, f"the API refused a request: {said}"
        ) from error
    except OSError as error:
        raise errors.DemoError(
            errors.POOL_FAILED, f"the API did not answer: {error}"
        ) from error
    found: dict[str, typing.Any] = json.loads(text) if text else {}
    return found


def wait(is_true: Callable[[], bool], complaint: str) -> None:
    """Wait until something is true.

    :raises DemoError: with the complaint, if it takes too long.
    """
    deadline_s = time.monotonic() + _TIMEOUT_S
    while not is_true():
        if time.monotonic() > deadline_s:
            raise errors.DemoError(errors.POOL_FAILED, complaint)
        time.sleep(_POLL_INTERVAL_S)
