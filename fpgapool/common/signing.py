# SPDX-License-Identifier: Apache-2.0

"""Signatures of messages between hosts and the rest of the pool.

A process that may send to the broker can send anything, in any name. So each
message says whose it is and has a signature that only that party, and those
who hold the pool's key, can make.

The pool's key makes all others: each host has one of its own, by which it
signs what it says and checks what it is told, and conductors, the API and
operators have one among themselves. A host's key is of no use for another
host.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import hmac
import pathlib
import re
from collections.abc import Sequence

from oslo_config import cfg

from fpgapool.common import exception

#: The party of conductors, the API and operators' commands. It is no UUID, as
#: hosts' names are.
CONTROL = "control"

KEY_BYTES = 32
#: Strangers choose what is looked up, and kept for a while.
MAX_PARTY_LENGTH = 64

_KEY = re.compile(rf"[0-9a-fA-F]{{{2 * KEY_BYTES},}}")
_MAX_FILE_BYTES = 4096


@dataclasses.dataclass(frozen=True)
class Keys:
    """The keys that a process holds.

    :ivar party: in whose name it speaks.
    :ivar secrets: of the pool if it is :data:`CONTROL`, else of the host. The
        first one signs; each of them is accepted, so that they can be
        replaced one by one.
    """

    party: str
    secrets: tuple[bytes, ...] = dataclasses.field(repr=False)

    def sign(self, party: str, topic: str, body: str) -> str:
        """Return the signature of a message, hexadecimal.

        :param party: from whom it is, or, if it is for a host, that one.
        :param topic: where it goes to.
        :param body: what it says.
        :raises ValueError: if this process has no key of that party.
        """
        keys = self._keys(party)
        if not keys:
            raise ValueError(f"there is no key of {party!r:.80}")
        return _signature(keys[0], party, topic, body)

    def has_signed(
        self, party: str, topic: str, body: str, signature: str
    ) -> bool:
        """Whether a signature is right.

        :param party: as :meth:`sign`.
        :param topic: as :meth:`sign`.
        :param body: as :meth:`sign`.
        :param signature: that came with them.
        """
        if len(party) > MAX_PARTY_LENGTH:
            return False
        told = signature.encode(errors="replace")
        return any(
            hmac.compare_digest(
                _signature(key, party, topic, body).encode(), told
            )
            for key in self._keys(party)
        )

    def host_key(self, host_uuid: str) -> str:
        """Return what a host's file has to hold, a line for each secret.

        :param host_uuid: as the host's configuration says it.
        """
        return "\n".join(key.hex() for key in self._keys(host_uuid))

    def _keys(self, party: str) -> Sequence[bytes]:
        if self.party == CONTROL:
            return [_derived(secret, party) for secret in self.secrets]
        return self.secrets if party == self.party else ()


def pool_keys(conf: cfg.ConfigOpts) -> Keys | None:
    """Return the keys of a service of the pool's own.

    :param conf: with the options of :mod:`fpgapool.conf`.
    :raises ConfigurationError: as :func:`read`.
    """
    path = conf.messages.pool_key_file
    return read(path, CONTROL, "[messages] pool_key_file")


def host_keys(conf: cfg.ConfigOpts) -> Keys | None:
    """Return the keys of this host.

    :param conf: with the options of :mod:`fpgapool.conf`.
    :raises ConfigurationError: as :func:`read`.
    """
    path = conf.messages.host_key_file
    return read(path, conf.host_uuid, "[messages] host_key_file")


def read(path: str | None, party: str, option: str) -> Keys | None:
    """Read the keys of a file, a line for each, hexadecimal.

    :param path: of the file; None: there are none.
    :param party: in whose name the process speaks.
    :param option: names the file, for errors.
    :raises ConfigurationError: if there are none in it.
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
            reason=f"{option}: {path} must hold a key in each line, of"
            f" {2 * KEY_BYTES} hexadecimal digits at least"
        )
    return Keys(party, tuple(bytes.fromhex(line) for line in lines))


@functools.lru_cache(maxsize=10_000)
def _derived(secret: bytes, party: str) -> bytes:
    return _mac(secret, "fpgapool party", party)


def _signature(key: bytes, party: str, topic: str, body: str) -> str:
    return _mac(key, "fpgapool message", party, topic, body).hex()


def _mac(key: bytes, *parts: str) -> bytes:
    mac = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        data = part.encode(errors="surrogatepass")
        # So that no two lists of parts are the same bytes.
        mac.update(len(data).to_bytes(8, "big"))
        mac.update(data)
    return mac.digest()
