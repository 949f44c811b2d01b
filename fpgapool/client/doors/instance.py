# SPDX-License-Identifier: Apache-2.0

"""Find the pool from inside an instance, without configuration.

If an instance's flavor requests accelerators, Nova gives the instance the URL
of the pool's API and a token, on the config drive and through the metadata
service. Using them requires only the standard library.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import os
import pathlib
import threading
import time
import typing
import urllib.parse
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from types import MappingProxyType

from fpgapool.client import errors
from fpgapool.client.doors import door as doors
from fpgapool.client.doors import machine
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import shapes

#: Environment variables that override Nova's data: API URL and token.
API_URL = "FPGAPOOL_API_URL"
_VERSION_PATH = "/v1"
TOKEN = "FPGAPOOL_INSTANCE_TOKEN"
CA_FILE = "FPGAPOOL_CA_FILE"
#: URL of the metadata service; an empty value disables its use.
METADATA_URL = "FPGAPOOL_METADATA_URL"
#: Mount point of the config drive.
CONFIG_DRIVE = "FPGAPOOL_CONFIG_DRIVE"

DEFAULT_METADATA_URL = "http://169.254.169.254"
_FILE = "openstack/latest/vendor_data2.json"

#: The pool's name in ``vendordata_dynamic_targets``.
TARGET = "fpgapool"

_MOUNT_POINTS = ("/media/configdrive", "/mnt/config", "/mnt/configdrive")
_LABELS = tuple(f"/{path}" for path in machine.CONFIG_DRIVES)
_MOUNTS = "/proc/self/mounts"
_DRIVES_STAY = (
    "a config drive keeps old data until Nova rewrites it, for example when"
    " the instance is rebuilt; the metadata service has current data"
)

# Time limits for the metadata service: to connect, as there may be none, and
# to answer, for which Nova waits 5 s for the pool.
_CONNECT_S = 2.0
_METADATA_S = 6.0
# How long after a failure the metadata service is not queried again.
_ABSENT_S = 10.0
# How long, and how often, to query a metadata service that knows the pool but
# has no token for this instance: the pool may have responded to Nova too late.
_EMPTY_S = 15.0
_RETRY_S = 1.0

_MAX_BYTES = 4 * 1024 * 1024

Environment: typing.TypeAlias = Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Credentials:
    """An instance's access to the pool.

    :ivar ca_cert: additional CA certificates for the API in PEM, or None.
    """

    api_url: str
    token: str = dataclasses.field(repr=False)
    ca_cert: str | None = None


class _Absent(Exception):
    """A place has no data about the pool."""

    notable = True


class _Nothing(_Absent):
    """There is nothing in a place, which is no surprise."""

    notable = False


class _Empty(_Absent):
    """A place knows the pool, but has no token for this instance."""


class _Refused(_Absent):
    """The API rejects the token from a place."""


class Finder:
    """Looks for credentials, and caches them.

    :param is_instance: tells whether Nova may have made this machine; only
        then is its metadata service queried at the usual address, which has
        another meaning, or none, elsewhere.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        is_instance: Callable[[], bool] = machine.is_instance,
    ) -> None:
        self._clock = clock
        self._is_instance = is_instance
        self._lock = threading.Lock()
        self._found: Credentials | None = None
        # Why the metadata service has no data, and when to query it again.
        self._absence = _Absent()
        self._absent_until_s = 0.0
        # When the metadata service first had no token for this instance.
        self._empty_since_s: float | None = None
        self._places: list[errors.Place] = []

    def find(
        self,
        environ: Environment | None = None,
        pause: doors.Pause = lambda _: False,
        refused: Collection[Credentials] = (),
    ) -> tuple[Credentials | None, list[errors.Place]]:
        """Look at config drives, then query the metadata service.

        A config drive's data may be outdated, because Nova rarely rewrites it.
        It comes first, because it is fast; if the API rejects its token, the
        finder continues with the metadata service.

        :param environ: environment variables; None means the process's own.
        :param pause: called before querying the metadata service again, as
            long as a token for this instance may still become available.
        :param refused: credentials that the API has just rejected.
        """
        while True:
            with self._lock:
                if self._found in refused:
                    self._found = None
                if self._found is None:
                    self._look(
                        os.environ if environ is None else environ, refused
                    )
                found, places = self._found, self._places
                if found is not None or not self._may_come():
                    return found, places
            if not pause(_RETRY_S):
                return None, places

    def _may_come(self) -> bool:
        since_s = self._empty_since_s
        return since_s is not None and self._clock() < since_s + _EMPTY_S

    def _look(
        self, environ: Environment, refused: Collection[Credentials]
    ) -> None:
        self._places = []
        for path in _drives(environ):
            if self._try(
                str(path), functools.partial(_of_drive, path, refused)
            ):
                return
        named = environ.get(METADATA_URL)
        base = DEFAULT_METADATA_URL if named is None else named.rstrip("/")
        if base:
            url = f"{base}/{_FILE}"
            self._try(
                url,
                lambda: self._of_service(url, refused, named is not None),
            )

    def _of_service(
        self, url: str, refused: Collection[Credentials], is_named: bool
    ) -> Credentials:
        if not is_named and not self._is_instance():
            raise _Nothing(
                "not queried, as this machine is no instance of OpenStack;"
                f" {METADATA_URL} overrides this"
            )
        if self._clock() < self._absent_until_s:
            raise copy.copy(self._absence)
        try:
            found = _usable(parse(_read_service(url)), refused)
        except _Refused:
            # The service works, and may return another token at any time.
            raise
        except _Absent as exc:
            if isinstance(exc, _Empty) and self._empty_since_s is None:
                self._empty_since_s = self._clock()
            if not self._may_come():
                # A copy without the traceback, which would keep the variables
                # of the program.
                self._absence = copy.copy(exc)
                self._absent_until_s = self._clock() + _ABSENT_S
            raise
        self._empty_since_s = None
        return found

    def _try(self, place: str, read: Callable[[], Credentials]) -> bool:
        try:
            self._found = read()
        except _Absent as exc:
            self._places.append(errors.Place(place, str(exc), exc.notable))
            return False
        return True


FINDER = Finder()


def versioned(url: str) -> str:
    """Return the API's URL with its version.

    :param url: the API's URL, with or without its version.
    :raises errors.InvalidRequest: if it is not an HTTP URL.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        # Reading a port that is out of range raises ValueError.
        is_url = parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or not parts.hostname:
        raise errors.invalid(
            f"{url!r} is not the URL of an API; examples:"
            " http://127.0.0.1:8080, https://HOST:PORT"
        )
    path = parts.path.rstrip("/").removesuffix(_VERSION_PATH).rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}{_VERSION_PATH}"


def from_environment(environ: Environment) -> Credentials | None:
    """Return the credentials in environment variables; None if there are none.

    :raises errors.InvalidRequest: if the CA file cannot be read.
    """
    url, token = environ.get(API_URL, ""), environ.get(TOKEN, "")
    if not url or not token:
        return None
    path = environ.get(CA_FILE)
    try:
        ca_cert = pathlib.Path(path).read_text() if path else None
    except (OSError, UnicodeDecodeError) as exc:
        raise errors.invalid(f"{CA_FILE}: {exc}") from exc
    return Credentials(url, token, ca_cert)


_PART = shapes.Members(
    {"api_url": shapes.text(), "instance_token": shapes.text()},
    {"ca_cert": shapes.nullable(shapes.text())},
    others=True,
)


def parse(content: bytes) -> Credentials:
    """Return the credentials in vendordata.

    :param content: a JSON object with one member per target.
    :raises _Absent: if the object has no data about the pool.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise _Absent("not JSON") from None
    part = document.get(TARGET) if isinstance(document, dict) else None
    if not isinstance(part, dict):
        raise _Absent("no data about the pool")
    if not part:
        raise _Empty(
            "no token for this instance: its flavor requests no "
            "accelerators, its token was revoked, or the pool could not "
            "look up the instance in time"
        )
    try:
        found = _PART(part, TARGET)
    except shapes.Invalid as exc:
        raise _Absent(f"invalid data about the pool: {exc}") from None
    url = found["api_url"]
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise _Absent("invalid data about the pool: api_url is not HTTP")
    return Credentials(url, found["instance_token"], found.get("ca_cert"))


def _drives(environ: Environment) -> list[pathlib.Path]:
    """Return possible mount points of config drives."""
    named = environ.get(CONFIG_DRIVE)
    if named:
        return [pathlib.Path(named)]
    devices = {os.path.realpath(name) for name in _LABELS}
    found = []
    try:
        lines = pathlib.Path(_MOUNTS).read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        device, _, rest = line.partition(" ")
        if device.startswith("/") and os.path.realpath(device) in devices:
            # Spaces in the path are written as octal escapes.
            point = rest.partition(" ")[0].replace("\\040", " ")
            found.append(point)
    names = dict.fromkeys([*found, *_MOUNT_POINTS])
    return [pathlib.Path(name) for name in names]


def _usable(
    found: Credentials, refused: Collection[Credentials]
) -> Credentials:
    if found in refused:
        raise _Refused("the API rejects its token")
    return found


def _of_drive(
    root: pathlib.Path, refused: Collection[Credentials]
) -> Credentials:
    try:
        with (root / _FILE).open("rb") as stream:
            return _usable(parse(stream.read(_MAX_BYTES)), refused)
    except (_Empty, _Refused) as exc:
        raise _Absent(f"{exc}; {_DRIVES_STAY}") from None
    except FileNotFoundError:
        raise _Nothing("not found") from None
    except OSError as exc:
        raise _Absent(exc.strerror or type(exc).__name__) from exc


def _read_service(url: str) -> bytes:
    try:
        answer = _exchange(
            "GET",
            url,
            {"Accept": "application/json"},
            None,
            _METADATA_S,
            connect_s=_CONNECT_S,
        )
    except (OSError, ValueError) as exc:
        raise _Absent(f"{type(exc).__name__}: {exc}") from exc
    if answer.status_code != 200:
        raise _Absent(f"HTTP {answer.status_code}")
    return answer.content


@dataclasses.dataclass(frozen=True)
class HttpAnswer:
    status_code: int
    content: bytes = dataclasses.field(repr=False)
    headers: Mapping[str, str]

    @property
    def ok(self) -> bool:
        return self.status_code < 400

    def json(self) -> typing.Any:
        return json.loads(self.content)


def _exchange(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    timeout_s: float,
    ca_cert: str | None = None,
    connect_s: float | None = None,
) -> HttpAnswer:
    """Send one request, without proxies or redirects.

    The token must not be sent to a proxy or to the target of a redirect.

    :param connect_s: time limit for connecting; None means ``timeout_s``.
    :raises OSError: if there is no response in time.
    :raises ValueError: if the URL or the response is invalid.
    """
    # Imported here: programs with a front door do not need these modules.
    import http.client
    import ssl

    parts = urllib.parse.urlsplit(url)
    if not parts.hostname:
        raise ValueError(f"{url!r:.80} is not a URL")
    connect_s = timeout_s if connect_s is None else connect_s
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        if ca_cert is not None:
            context.load_verify_locations(cadata=ca_cert)
        connection = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=connect_s, context=context
        )
    else:
        connection = http.client.HTTPConnection(
            parts.hostname, parts.port, timeout=connect_s
        )
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    ends_s = time.monotonic() + timeout_s
    try:
        connection.connect()
        connection.sock.settimeout(timeout_s)
        connection.request(method, path, body, dict(headers))
        with connection.getresponse() as response:
            content = _read_all(connection, response, ends_s)
        # Proxies may change the case of header names.
        found = {n.title(): value for n, value in response.headers.items()}
        return HttpAnswer(response.status, content, found)
    except http.client.HTTPException as exc:
        raise ValueError(f"{type(exc).__name__}: {exc}") from exc
    finally:
        connection.close()


def _read_all(
    connection: typing.Any, response: typing.Any, ends_s: float
) -> bytes:
    """Read the body within the deadline, however slow the server is."""
    content = bytearray()
    while block := response.read1(65536):
        content += block
        if len(content) > _MAX_BYTES:
            raise ValueError("the response is too long")
        left_s = ends_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        if connection.sock is not None:
            connection.sock.settimeout(left_s)
    return bytes(content)


class TokenAdapter:
    """Uses the API with an instance's token.

    It has the methods of a ``keystoneauth1.adapter.Adapter`` that
    :class:`apidoor.ApiDoor` uses.

    :raises errors.InvalidRequest: see :func:`versioned`.
    """

    def __init__(self, credentials: Credentials, service_type: str) -> None:
        self._credentials = credentials
        self._service_type = service_type
        self._endpoint = versioned(credentials.api_url)

    def get_endpoint(self) -> str:
        return self._credentials.api_url

    def request(
        self,
        path: str,
        method: str,
        *,
        json: typing.Any = None,
        headers: Mapping[str, str] = MappingProxyType({}),
        microversion: str,
        timeout: float,
        **_: object,
    ) -> HttpAnswer:
        """Send one request.

        :param json: the body; None means no body.
        :raises ConnectionLost: if there is no response.
        """
        sent = {
            **headers,
            "Accept": "application/json",
            "Authorization": f"Bearer {self._credentials.token}",
            "OpenStack-API-Version": f"{self._service_type} {microversion}",
        }
        body = None
        if json is not None:
            body = _dumps(json)
            sent["Content-Type"] = "application/json"
        url = self._endpoint + path
        try:
            answer = _exchange(
                method, url, sent, body, timeout, self._credentials.ca_cert
            )
        except (OSError, ValueError) as exc:
            raise doors.ConnectionLost(
                f"the pool's API at {self._credentials.api_url}:"
                f" {type(exc).__name__}: {exc}"
            ) from exc
        if 300 <= answer.status_code < 400:
            raise errors.RequestRejected(
                codes.PROTOCOL_ERROR,
                f"the pool's API at {self._credentials.api_url} returned a"
                " redirect, which is not followed",
            )
        return answer


def _dumps(document: typing.Any) -> bytes:
    return json.dumps(document).encode()
