# SPDX-License-Identifier: Apache-2.0

"""The key of a host, as ``fpgapool-manage host key`` prints it.

No container runs yet when the host's key is needed.
"""

from __future__ import annotations

import hmac


def host_key(pool_key: str, host_uuid: str) -> str:
    """Return the key of a host, in hexadecimal.

    :param pool_key: hexadecimal, too.
    """
    message = b"".join(
        len(part).to_bytes(8, "big") + part
        for part in (b"fpgapool party", host_uuid.lower().encode())
    )
    return hmac.digest(bytes.fromhex(pool_key), message, "sha256").hex()


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, object]:
        return {"fpgapool_host_key": host_key}
