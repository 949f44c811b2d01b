# SPDX-License-Identifier: Apache-2.0

"""A client's first message, and the secrets that admit it."""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import hashlib
import hmac
import secrets
import typing

from fpgapool.agent.worker import state
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import shapes

STREAM = "stream"
SHM = "shm"

#: Highest offset at which a session may start, to leave room for its data.
MAX_START_OFFSET = 2**63

# A secret may be reissued while the previous one is in flight to the client.
_MAX_SECRETS = 4
# The kinds of secrets. A HELLO has exactly one.
_SECRETS = ("secret", "resume_secret", "return_secret", "link_secret")


class Unauthorized(Exception):
    """The secret is not accepted."""


@dataclasses.dataclass(frozen=True, slots=True)
class Hello:
    """A checked HELLO. Its repr omits secrets and parameters."""

    session_id: str
    generation: int
    transport: str = STREAM
    secret: str | None = dataclasses.field(default=None, repr=False)
    resume_secret: str | None = dataclasses.field(default=None, repr=False)
    return_secret: str | None = dataclasses.field(default=None, repr=False)
    link_secret: str | None = dataclasses.field(default=None, repr=False)
    params: dict[str, typing.Any] = dataclasses.field(
        default_factory=dict, repr=False
    )
    input_offset: int = 0
    output_offset: int = 0
    start_input_offset: int = 0
    start_output_offset: int = 0
    features: frozenset[str] = frozenset()


_START = shapes.integer(0, MAX_START_OFFSET)
_HELLO = shapes.Members(
    {"session_id": shapes.text(), "generation": frames.OFFSET},
    {
        **dict.fromkeys(_SECRETS, shapes.text()),
        "params": shapes.mapping_of(shapes.anything),
        "transport": shapes.one_of((STREAM, SHM)),
        "input_offset": frames.OFFSET,
        "output_offset": frames.OFFSET,
        "start_input_offset": _START,
        "start_output_offset": _START,
        "features": shapes.list_of(shapes.text()),
    },
    others=True,
    nulls=(*_SECRETS, "params", "transport", "features"),
)


def parse(document: collections.abc.Mapping[str, typing.Any]) -> Hello:
    """Check a HELLO, and return it as an object.

    :param document: the HELLO's payload; unknown members are ignored.
    """
    members = frames.checked(_HELLO, document)
    if sum(name in members for name in _SECRETS) != 1:
        raise frames.ProtocolError(
            frames.PROTOCOL_ERROR,
            f"exactly one of {', '.join(_SECRETS)} is required",
        )
    members["features"] = frozenset(members.get("features", ()))
    return Hello(**members)


class Keyring:
    """The secrets of one assignment; only their hashes are kept.

    A secret for the first connection works once. Each OPENED contains a new
    resume secret. Because an OPENED may be lost, the previous secret stays
    valid until the client has used the new connection.
    """

    def __init__(self, order: state.Order) -> None:
        self.order = order
        self._first: collections.deque[bytes] = collections.deque(
            maxlen=_MAX_SECRETS
        )
        if order.secret_sha256:
            self._first.append(bytes.fromhex(order.secret_sha256))
        self._resume: list[bytes] = []
        self._return = b""
        self._link = b""
        self._opened = False

    def mint(self) -> str:
        """Create a secret for the client's first connection."""
        secret, digest = _mint()
        self._first.append(digest)
        return secret

    def mint_resume(self) -> str:
        """Create the secret for the client's next connection."""
        secret, digest = _mint()
        self._resume = [*self._resume[-1:], digest]
        return secret

    def mint_return(self) -> str:
        """Create the secret for a second connection, which will carry output.
        It works once, and replaces the previous such secret.
        """
        secret, self._return = _mint()
        return secret

    def admit_return(self, hello: Hello) -> None:
        """Check the HELLO of a second connection.

        :param hello: the client's HELLO, whose secret becomes invalid.
        :raises Unauthorized: if session, generation or secret is invalid.
        """
        expected = self._return
        if not (
            hmac.compare_digest(_digest(hello.return_secret or ""), expected)
            and self._is_ours(hello)
        ):
            raise Unauthorized(codes.UNAUTHORIZED)
        self._return = b""

    def expect_link(self, secret_sha256: str) -> None:
        """Admit the previous stage's worker, which shows this secret.

        It stays valid, because that worker connects again by itself.
        """
        self._link = bytes.fromhex(secret_sha256)

    def admit_link(self, hello: Hello) -> None:
        """Check the HELLO of the previous stage's worker.

        :raises Unauthorized: if session, generation or secret is invalid.
        """
        digest = _digest(hello.link_secret or "")
        known = hmac.compare_digest(digest, self._link)
        if not (known and self._is_ours(hello)):
            raise Unauthorized(codes.UNAUTHORIZED)

    def _is_ours(self, hello: Hello) -> bool:
        return (
            hello.session_id == self.order.session_id
            and hello.generation == self.order.generation
        )

    def confirm_resume(self) -> None:
        """Record that the client has the newest resume secret."""
        del self._resume[:-1]

    def admit(self, hello: Hello) -> bool:
        """Check a HELLO against the secrets.

        :returns: True for the first connection, whose secret becomes invalid;
            False for one that resumes the session.
        :raises Unauthorized: if session, generation or secret is invalid.
        """
        first = hello.secret is not None
        accepted = self._first if first and not self._opened else self._resume
        if first and self._opened:
            accepted = []
        digest = _digest(
            (hello.secret if first else hello.resume_secret) or ""
        )
        # Always compare all of them, so that the duration reveals nothing.
        known = sum(
            hmac.compare_digest(digest, expected) for expected in accepted
        )
        if not (known and self._is_ours(hello)):
            raise Unauthorized(codes.UNAUTHORIZED)
        if first:
            self._opened = True
            self._first.clear()
        return first


def _mint() -> tuple[str, bytes]:
    """Return a new secret, 256 bits as hexadecimal digits, and its digest."""
    secret = secrets.token_hex(rules.SECRET_BYTES)
    return secret, _digest(secret)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="replace")).digest()
