# SPDX-License-Identifier: Apache-2.0

"""Decides which bitstreams an agent may program into its host's slots."""

from __future__ import annotations

import dataclasses

from fpgapool.agent.slots import orders
from fpgapool.bitstreams import signatures
from fpgapool.common import exception
from fpgapool.vocabulary import formats
from fpgapool.vocabulary import names


@dataclasses.dataclass(eq=False)
class Trust:
    """Verifies bitstreams before slots are programmed with them.

    Orders from the conductor are not trusted, because they arrive over the
    message bus. The signature covers the checksum; the cache and the driver
    compare the checksum with the file.

    :param keys: the trusted keys, read at each check; None to trust no keys.
    :param required: whether every bitstream needs a signature.
    """

    keys: signatures.TrustedKeys | None
    required: bool

    def objection(self, order: orders.ToWorker) -> str | None:
        """Return why a slot must not be programmed as ordered.

        Blocks while it reads the keys.

        :returns: the reason as text, or None if the slot may be programmed.
        """
        reference = order.members["bitstream_ref"]
        has_file = isinstance(reference, dict)
        # The driver checks that the file has this format.
        file_format = reference["format"] if has_file else ""
        if not signatures.is_needed(file_format, self.required):
            return None
        if not has_file:
            # Without a file, a driver might keep the slot's current contents.
            if str(order.members["bitstream"]).startswith(
                names.BUILTIN_PREFIX
            ):
                return None
            return "it has neither checksum nor signature"
        if not reference["signature"]:
            if file_format in formats.NATIVE_CODE:
                return f"it has no signature, which {file_format} requires"
            return "it has no signature (see [bitstreams] signature_required)"
        if self.keys is None:
            return (
                "this host trusts no keys (see [bitstreams] trusted_keys_dir)"
            )
        try:
            self.keys.verify(
                reference["signature"], reference["checksum_sha256"]
            )
        except (exception.FpgapoolException, ValueError) as error:
            return f"{error} (see [bitstreams] trusted_keys_dir)"
        return None
