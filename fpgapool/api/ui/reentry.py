# SPDX-License-Identifier: Apache-2.0

"""Lets a browser keep the live page's sign-in when it loads the page again.

The page hands over its token, and gets it back after a reload. In between, the
token lies in the browser, sealed in a cookie that scripts cannot read:

* Only this process, and those forked from it, can open the seal, and only for
  :data:`LIFE_S`, whatever the browser does with the cookie.
* Nothing but this path reads the cookie. The REST API does not, so that a
  request which another site causes never acts for the user.
* All requests need a header of their own, which other sites cannot send unless
  ``[cors]`` allows it. Browsers that tell where a request is from must say
  that it is from this origin.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from http import cookies

from cryptography import fernet

from fpgapool.api.http import errors
from fpgapool.api.http import middleware
from fpgapool.vocabulary import codes

#: Path below the API's root.
PATH = "/ui/reentry"

#: How long after its last renewal a sign-in can be taken up again.
LIFE_S = 15 * 60

COOKIE = "fpgapool_page"
#: The header of all requests.
HEADER = "X-Fpgapool-Page"

_METHODS = ("GET", "PUT", "DELETE")
# A cookie must stay below 4 KiB, and the seal makes the token a third longer.
_TOKEN = re.compile("[!-~]{1,2500}")
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class Reentry:
    """Seals tokens and opens the seals, as a WSGI application.

    It does not check tokens: whoever presents one gets back the same, and the
    REST API checks it.
    """

    def __init__(self) -> None:
        self._seal = fernet.Fernet(fernet.Fernet.generate_key())

    def __call__(
        self,
        environ: middleware.Environ,
        start_response: middleware.StartResponse,
    ) -> Iterable[bytes]:
        environ[middleware.ROUTE] = PATH
        method = environ["REQUEST_METHOD"]
        try:
            _check(environ)
            if method == "GET":
                data = json.dumps({"token": self._opened(environ)}).encode()
                more = {
                    "Content-Type": "application/json",
                    "Content-Length": str(len(data)),
                }
            else:
                data = b""
                sealed = self._sealed(environ) if method == "PUT" else ""
                more = {"Set-Cookie": _cookie(environ, sealed)}
        except errors.ApiError as error:
            return middleware.refuse(environ, start_response, error)
        start_response(
            "200 OK" if data else "204 No Content",
            [*_HEADERS.items(), *more.items()],
        )
        return [data] if data else []

    def _sealed(self, environ: middleware.Environ) -> str:
        token = environ.get("HTTP_X_AUTH_TOKEN", "")
        if _TOKEN.fullmatch(token) is None:
            raise errors.ApiError(
                codes.INVALID_REQUEST,
                "X-Auth-Token must be a token of at most 2500 ASCII"
                " characters without spaces",
            )
        return self._seal.encrypt(token.encode()).decode()

    def _opened(self, environ: middleware.Environ) -> str | None:
        """Return the token of the request's cookie; None: there is none that
        is still valid.
        """
        try:
            found = cookies.SimpleCookie(environ.get("HTTP_COOKIE", ""))
        except cookies.CookieError:
            return None
        if COOKIE not in found:
            return None
        try:
            value = found[COOKIE].value.encode()
            return self._seal.decrypt(value, ttl=LIFE_S).decode()
        except (fernet.InvalidToken, UnicodeEncodeError):
            return None


def _check(environ: middleware.Environ) -> None:
    """Refuse what the page itself does not send."""
    if environ["REQUEST_METHOD"] not in _METHODS:
        raise errors.ApiError(
            codes.METHOD_NOT_ALLOWED,
            "the page's sign-in is read, kept or forgotten",
            headers={"Allow": ", ".join(_METHODS)},
        )
    key = f"HTTP_{HEADER.upper().replace('-', '_')}"
    if environ.get(key) != "1":
        raise errors.ApiError(
            codes.FORBIDDEN, f"the request lacks the header {HEADER}: 1"
        )
    site = environ.get("HTTP_SEC_FETCH_SITE", "same-origin")
    if site != "same-origin":
        raise errors.ApiError(
            codes.FORBIDDEN,
            f"the request is from another site ({site!r:.80}); only the live"
            " page may send it",
        )


def _cookie(environ: middleware.Environ, value: str) -> str:
    """Return the header that sets the cookie; without a value, it is deleted.

    It has no path, so that a browser sends it only below the directory of this
    path, wherever a proxy has put that.
    """
    # A proxy may end TLS without a word; browsers say what they see.
    is_secure = "https" in (
        environ.get("wsgi.url_scheme"),
        environ.get("HTTP_ORIGIN", "").partition(":")[0],
    )
    life_s = LIFE_S if value else 0
    return (
        f"{COOKIE}={value}; Max-Age={life_s}; HttpOnly; SameSite=Strict"
        f"{'; Secure' if is_secure else ''}"
    )
