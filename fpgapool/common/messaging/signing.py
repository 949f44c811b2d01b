# SPDX-License-Identifier: Apache-2.0

"""Signatures of messages between hosts and the rest of the pool.

A process with access to the broker can send any message under any name. So
each message names a party and carries a signature that only this party and
the holders of the pool key can create.

All other keys are derived from the pool key. Each host has its own key, which
signs messages from and to that host. Conductors, the API and operators share
one key. A host's key does not help to impersonate another host.
"""

from __future__ import annotations

import dataclasses
import functools
import hmac
import pathlib
import re
from collections.abc import Sequence

from oslo_config import cfg

from fpgapool.common import exception

#: Party of conductors, the API and operators' commands. A host's party is its
#: UUID.
CONTROL = "control"

KEY_BYTES = 32
#: Bounds the memory of the key cache, because senders choose these names.
MAX_PARTY_LENGTH = 64

_KEY = re.compile(rf"[0-9a-fA-F]{{{2 * KEY_BYTES},}}")
_MAX_FILE_BYTES = 4096


@dataclasses.dataclass(frozen=True)
class Keys:
    """The keys that a process holds.

    :ivar secrets: pool keys if the party is :data:`CONTROL`, else keys of the
        host. The first one signs; all are accepted, so that a key can be
        replaced on one machine after another.
    """

    party: str
    secrets: tuple[bytes, ...] = dataclasses.field(repr=False)

    def sign(self, party: str, topic: str, body: str) -> str:
        """Return the signature of a message, in hexadecimal.

        :param party: the sender, or the host that receives the message.
        :raises ValueError: if this process has no key for that party.
        """
        keys = self._keys(party)
        if not keys:
            raise ValueError(f"no key for {party!r:.80}")
        return _signature(keys[0], party, topic, body)

    def has_signed(
        self, party: str, topic: str, body: str, signature: str
    ) -> bool:
        """Whether a signature is valid; see :meth:`sign`."""
        if len(party) > MAX_PARTY_LENGTH:
            return False
        given = signature.encode(errors="replace")
        return any(
            hmac.compare_digest(
                _signature(key, party, topic, body).encode(), given
            )
            for key in self._keys(party)
        )

    def host_key(self, host_uuid: str) -> str:
        """Return the content of a host's key file, one secret per line."""
        return "\n".join(key.hex() for key in self._keys(host_uuid))

    def _keys(self, party: str) -> Sequence[bytes]:
        if self.party == CONTROL:
            return [_derived(secret, party) for secret in self.secrets]
        return self.secrets if party == self.party else ()


def pool_keys(conf: cfg.ConfigOpts) -> Keys | None:
    """Return the keys of a conductor, the API or a command."""
    path = conf.messages.pool_key_file
    return read(path, CONTROL, "[messages] pool_key_file")


def host_keys(conf: cfg.ConfigOpts) -> Keys | None:
    """Return the keys of this host."""
    path = conf.messages.host_key_file
    return read(path, conf.host_uuid, "[messages] host_key_file")


def read(path: str | None, party: str, option: str) -> Keys | None:
    """Read the keys in a file, one per line, in hexadecimal.

    :param path: path of the file; None: no keys.
    :raises ConfigurationError: if the file cannot be read, or contains
        anything but keys.
    """
    if not path:
        return None
    try:
        with pathlib.Path(path).open("rb") as file:
            text = file.read(_MAX_FILE_BYTES).decode("ascii", "replace")
    except OSError as error:
        raise exception.ConfigurationError(
            reason=f"{option}: {path}: {error.strerror}"
        ) from error
    lines = text.split()
    if not lines or not all(
        _KEY.fullmatch(line) and len(line) % 2 == 0 for line in lines
    ):
        raise exception.ConfigurationError(
            reason=f"{option}: {path} must contain one key per line: an even"
            f" number of hexadecimal digits, at least {2 * KEY_BYTES}"
        )
    return Keys(party, tuple(bytes.fromhex(line) for line in lines))


@functools.lru_cache(maxsize=10_000)
def _derived(secret: bytes, party: str) -> bytes:
    return _mac(secret, "fpgapool party", party)


def _signature(key: bytes, party: str, topic: str, body: str) -> str:
    return _mac(key, "fpgapool message", party, topic, body).hex()


def _mac(key: bytes, *parts: str) -> bytes:
    message = bytearray()
    for part in parts:
        data = part.encode(errors="surrogatepass")
        # The lengths make sure that different lists of parts never give the
        # same bytes.
        message += len(data).to_bytes(8, "big")
        message += data
    # For short messages, one call is faster than updating an object.
    return hmac.digest(key, message, "sha256")
