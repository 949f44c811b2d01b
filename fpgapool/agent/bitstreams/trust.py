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
    """Verifies the bitstreams that slots are to be programmed with.

    The conductor is not trusted, because its messages come over the message
    bus. The signature covers the checksum; cache and driver compare the
    checksum with the file.

    :param keys: the trusted keys, read at each check; None: this host trusts
        none.
    """

    keys: signatures.TrustedKeys | None
    required: bool

    def objection(self, order: orders.ToWorker) -> str | None:
        """Return why a slot must not be programmed as ordered.

        Blocks while the keys are read.

        :returns: the reason as text; None if there is none.
        """
        reference = order.members["bitstream_ref"]
        has_file = isinstance(reference, dict)
        # The driver compares the format with the file.
        file_format = reference["format"] if has_file else ""
        if not signatures.is_needed(file_format, self.required):
            return None
        if not has_file:
            # Without a file, a driver might keep the slot's present contents.
            if str(order.members["bitstream"]).startswith(
                names.BUILTIN_PREFIX
            ):
                return None
            return "it has no checksum and signature"
        if not reference["signature"]:
            if file_format in formats.NATIVE_CODE:
                return f"it has no signature, and {file_format} needs one"
            return "it has no signature (see [bitstreams] signature_required)"
        if self.keys is None:
            return "this host trusts no key"
        try:
            self.keys.verify(
                reference["signature"], reference["checksum_sha256"]
            )
        except (exception.FpgapoolException, ValueError) as error:
            return f"{error} (see [bitstreams] trusted_keys_dir)"
        return None
