# SPDX-License-Identifier: Apache-2.0

"""Serves the files of the live page, without authentication."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import urllib.parse
from collections.abc import Iterable
from collections.abc import Mapping
from importlib import resources

import falcon
from oslo_config import cfg
from oslo_log import log as logging

from fpgapool.api.http import errors
from fpgapool.api.http import middleware
from fpgapool.vocabulary import codes

LOG = logging.getLogger(__name__)

#: Path of the page below the API's root.
PATH = "/ui"

_INDEX = "index.html"
_SETTINGS = "settings.json"
_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
}
_METHODS = ("GET", "HEAD")
_HTML = "text/html"
# The first is what clients get that accept anything.
_KINDS = ("application/json", _HTML)
_KEYSTONE = "keystone"
# A URL without a user or query, and without characters that are not allowed in
# a header.
_URL = re.compile(
    r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"
    r"(/[A-Za-z0-9_./~-]*)?"
)
_VERSION = "/v3"


@dataclasses.dataclass(frozen=True)
class _File:
    """A file with its media type and ETag."""

    content: bytes
    media_type: str
    tag: str

    @classmethod
    def of(cls, name: str, content: bytes) -> _File:
        digest = hashlib.sha256(content).hexdigest()
        return cls(content, _TYPES[name.rpartition(".")[2]], f'"{digest}"')


class Page:
    """Serves the page.

    All files are loaded into memory, so no path can lead out of their
    directory.

    :param keystone_url: URL at which users get tokens; None: there is none.
    :param is_open: whether the API runs without Keystone.
    """

    def __init__(self, keystone_url: str | None, *, is_open: bool) -> None:
        settings = {
            "authentication": "noauth" if is_open else _KEYSTONE,
            "keystone_url": keystone_url,
        }
        self._files: Mapping[str, _File] = {
            one.name: _File.of(one.name, one.read_bytes())
            for one in resources.files(__package__)
            .joinpath("static")
            .iterdir()
        } | {
            _SETTINGS: _File.of(_SETTINGS, json.dumps(settings).encode()),
        }
        self._headers = _headers(keystone_url)

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Page:
        """Return the page of an API; Keystone's options must be registered."""
        if conf.api.auth_strategy != _KEYSTONE:
            return cls(None, is_open=True)
        url = conf.keystone_authtoken.www_authenticate_uri
        return cls(keystone_url(url), is_open=False)

    def __call__(
        self,
        environ: middleware.Environ,
        start_response: middleware.StartResponse,
    ) -> Iterable[bytes]:
        environ[middleware.ROUTE] = PATH
        body = self._answer(environ, start_response)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else body

    def _answer(
        self,
        environ: middleware.Environ,
        start_response: middleware.StartResponse,
    ) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "").removeprefix(PATH)
        if environ["REQUEST_METHOD"] not in _METHODS:
            error = errors.ApiError(
                codes.METHOD_NOT_ALLOWED,
                "the page's files are read-only",
                headers={**self._headers, "Allow": ", ".join(_METHODS)},
            )
            return middleware.refuse(environ, start_response, error)
        if not path:
            # Relative, because only the client knows the API's full address.
            start_response(
                "308 Permanent Redirect",
                [
                    *self._headers.items(),
                    ("Location", f".{PATH}/"),
                    ("Content-Type", "text/plain"),
                    ("Content-Length", "0"),
                ],
            )
            return []
        found = self._files.get(path.removeprefix("/") or _INDEX)
        if found is None:
            error = errors.ApiError(
                codes.PATH_NOT_FOUND,
                "no such file",
                headers=self._headers,
            )
            return middleware.refuse(environ, start_response, error)
        headers = [*self._headers.items(), ("ETag", found.tag)]
        if _has(environ.get("HTTP_IF_NONE_MATCH", ""), found.tag):
            start_response("304 Not Modified", headers)
            return []
        length = str(len(found.content))
        start_response(
            "200 OK",
            [
                *headers,
                ("Content-Type", found.media_type),
                ("Content-Length", length),
            ],
        )
        return [found.content]


class Front:
    """Leads browsers from the API's root to the page.

    Programs, which do not prefer HTML, get what they ask for.
    """

    def __init__(self, api: middleware.Application) -> None:
        self._api = api

    def __call__(
        self,
        environ: middleware.Environ,
        start_response: middleware.StartResponse,
    ) -> Iterable[bytes]:
        wanted = falcon.Request(environ).client_prefers(_KINDS)
        if environ["REQUEST_METHOD"] not in _METHODS or wanted != _HTML:
            return self._api(environ, start_response)
        environ[middleware.ROUTE] = PATH
        start_response(
            "303 See Other",
            [
                # Relative, as only the client knows the API's full address.
                ("Location", f".{PATH}/"),
                ("Vary", "Accept"),
                ("Content-Type", "text/plain"),
                ("Content-Length", "0"),
            ],
        )
        return []


def is_page(path: str) -> bool:
    """Whether a path is that of the page or of one of its files."""
    return path == PATH or path.startswith(f"{PATH}/")


def keystone_url(configured: str | None) -> str | None:
    """Return the URL at which a browser gets tokens from Keystone.

    :param configured: Keystone's public URL, with or without a version.
    :returns: the URL without the version; if a browser cannot use it, None,
        and the reason is logged.
    """
    url = (configured or "").rstrip("/").removesuffix(_VERSION)
    if not url:
        LOG.warning(
            "Users cannot sign in to the live page: [keystone_authtoken]"
            " www_authenticate_uri is not set"
        )
        return None
    if _URL.fullmatch(url) is None:
        LOG.warning(
            "Users cannot sign in to the live page: [keystone_authtoken]"
            " www_authenticate_uri is %r, but must be an http or https URL"
            " with only a host, a port and a path",
            configured,
        )
        return None
    return url


def _headers(keystone_url: str | None) -> dict[str, str]:
    """Return the headers of all responses.

    :param keystone_url: URL to whose host and port scripts may connect.
    """
    connect = ["'self'"]
    if keystone_url is not None:
        parts = urllib.parse.urlsplit(keystone_url)
        connect.append(f"{parts.scheme}://{parts.netloc}")
    rules = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self'",
        "connect-src": " ".join(connect),
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        # Keeps scripts from inserting text, such as that of other users, as
        # HTML or code.
        "require-trusted-types-for": "'script'",
    }
    policy = "; ".join(f"{name} {value}" for name, value in rules.items())
    return {
        "Cache-Control": "no-cache",
        "Content-Security-Policy": policy,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }


def _has(header: str, tag: str) -> bool:
    """Whether an ``If-None-Match`` header contains a file's tag."""
    known = [one.strip().removeprefix("W/") for one in header.split(",")]
    return tag in known or "*" in known
