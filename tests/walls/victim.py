# SPDX-License-Identifier: Apache-2.0

"""The other processes of the host: services, secrets, and things in the
kernel. Its only argument is the directory for its sockets. It tells where
everything is, as JSON, and to each line that it reads how many signals it got.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
import typing

from tests.walls.attacks import calls

_OF_USER = -4
_MAKE = 0o1000 | 0o600
_ALL_OF_USER = 0x3F3F0000


def _listening(family: int, address: object) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.bind(address)
    sock.listen(64)
    return sock


class _Victim:
    def __init__(self, directory: str, secret: bytes) -> None:
        self._held: list[typing.Any] = []
        self._signals = 0
        signal.signal(signal.SIGUSR1, self._count)
        self.scene: dict[str, typing.Any] = {
            "pid": os.getpid(),
            "counter": os.getpid(),
            "group": os.getpgid(0),
            "length": len(secret),
            **self._memory(secret),
            **self._services(directory),
            **self._objects(secret),
        }

    def _count(self, _number: int, _frame: object) -> None:
        self._signals += 1

    def _memory(self, secret: bytes) -> dict[str, typing.Any]:
        buffer = ctypes.create_string_buffer(secret)
        spare = ctypes.create_string_buffer(8)
        self._held += [buffer, spare]
        file = os.memfd_create("secret", 0)
        os.write(file, secret)
        return {
            "address": ctypes.addressof(buffer),
            "spare_address": ctypes.addressof(spare),
            "file": file,
        }

    def _services(self, directory: str) -> dict[str, typing.Any]:
        paths = {
            name: os.path.join(directory, f"{name}.sock")
            for name in ("front_door", "control", "datagrams")
        }
        abstract = f"walls-{os.getpid()}"
        tcp = _listening(socket.AF_INET, ("127.0.0.1", 0))
        tcp6 = _listening(socket.AF_INET6, ("::1", 0))
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        datagrams.bind(paths["datagrams"])
        streams = [
            _listening(socket.AF_UNIX, name)
            for name in (
                paths["front_door"],
                paths["control"],
                "\0" + abstract,
            )
        ]
        self._held += [tcp, tcp6, udp, datagrams, *streams]
        return {
            **paths,
            "abstract": abstract,
            "tcp": tcp.getsockname()[1],
            "tcp6": tcp6.getsockname()[1],
            "udp": udp.getsockname()[1],
        }

    def _objects(self, secret: bytes) -> dict[str, typing.Any]:
        number = 0x57410000 | os.getpid() & 0xFFFF
        queue = f"walls-{os.getpid()}"
        self._memory_id = calls.call("shmget", number, 4096, _MAKE)
        place = calls.call("shmat", self._memory_id, None, 0)
        ctypes.memmove(place, secret, len(secret))
        self._queue_id = calls.call("msgget", number, _MAKE)
        self._semaphore_id = calls.call("semget", number, 1, _MAKE)
        flags = os.O_CREAT | os.O_RDWR
        name = queue.encode()
        self._held.append(calls.call("mq_open", name, flags, 0o600, None))
        self._queue = name
        key = f"walls-{os.getpid()}"
        self._keep_key(key.encode(), secret)
        return {"sysv": number, "queue": queue, "key": key}

    def _keep_key(self, name: bytes, secret: bytes) -> None:
        join, set_permissions, link, of_session = 1, 5, 8, -3
        # Its user's keys are not those of the session in which it began.
        calls.call("keyctl", join, None)
        calls.call("keyctl", link, _OF_USER, of_session)
        self._key = calls.call(
            "add_key", b"user", name, secret, len(secret), _OF_USER
        )
        calls.call("keyctl", set_permissions, self._key, _ALL_OF_USER)

    def serve(self) -> None:
        """Answer until the end of the input."""
        _tell(self.scene)
        for _line in sys.stdin:
            _tell(self._signals)

    def close(self) -> None:
        """Remove what would stay in the kernel."""
        remove, unlink_key = 0, 9
        calls.call("shmctl", self._memory_id, remove, None)
        calls.call("msgctl", self._queue_id, remove, None)
        calls.call("semctl", self._semaphore_id, 0, remove, 0)
        calls.call("mq_unlink", self._queue)
        calls.call("keyctl", unlink_key, self._key, _OF_USER)


def _tell(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Be the victim."""
    victim = _Victim(sys.argv[1], os.environ["BROKER_PASSWORD"].encode())
    try:
        victim.serve()
    finally:
        victim.close()


if __name__ == "__main__":
    main()
