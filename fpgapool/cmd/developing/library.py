# SPDX-License-Identifier: Apache-2.0

"""The library of a pool with a REST API that has no Keystone."""

from __future__ import annotations

import json
import time
import typing
import urllib.error
import urllib.request
from collections.abc import Mapping

from fpgapool.common import exception
from fpgapool.vocabulary import codes

_TIMEOUT_S = 60.0
_POLL_S = 0.1
_HEADERS = {
    "X-Auth-Token": "admin:default",
    "OpenStack-API-Version": "fpgapool latest",
}
_JSON = "application/json"
_OCTETS = "application/octet-stream"

#: The pool is on this machine, whatever proxies the environment names.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def shapes(url: str) -> list[str]:
    """Return the shapes of the pool's slots, once its host has told them.

    :raises BitstreamRefused: if the API does not answer, or no slot comes.
    """
    until_s = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < until_s:
        found = _ask(url, "GET", "slots")["slots"]
        if found:
            return sorted({str(slot["shape"]) for slot in found})
        time.sleep(_POLL_S)
    raise exception.BitstreamRefused(
        f"the pool's host has offered no slot for {_TIMEOUT_S:g} s",
        code=codes.DEVICE_FAILED,
    )


def bring(url: str, wanted: Mapping[str, object], contents: bytes) -> str:
    """Create, upload and approve a bitstream; return its ID.

    :param wanted: the members of the request that creates it.
    :raises BitstreamRefused: with the API's code.
    """
    made = _ask(
        url, "POST", "bitstreams", _encoded({"bitstream": dict(wanted)})
    )
    bitstream_id = str(made["bitstream"]["id"])
    place = f"bitstreams/{bitstream_id}"
    _ask(url, "PUT", f"{place}/file", contents, _OCTETS)
    _ask(url, "POST", f"{place}/approve", _encoded({"approve": {}}))
    return bitstream_id


def _encoded(document: object) -> bytes:
    return json.dumps(document).encode()


def _ask(
    url: str,
    method: str,
    path: str,
    body: bytes | None = None,
    content_type: str = _JSON,
) -> dict[str, typing.Any]:
    request = urllib.request.Request(
        f"{url}/v1/{path}",
        body,
        {**_HEADERS, "Content-Type": content_type},
        method=method,
    )
    try:
        with _OPENER.open(request, timeout=_TIMEOUT_S) as answer:
            found: dict[str, typing.Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        first = json.load(error)["errors"][0]
        raise exception.BitstreamRefused(
            str(first["detail"]), code=str(first["code"])
        ) from error
    except OSError as error:
        raise exception.BitstreamRefused(
            f"the pool's API does not answer: {error}",
            code=codes.CONDUCTOR_UNAVAILABLE,
        ) from error
