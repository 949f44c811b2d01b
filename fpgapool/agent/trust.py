# SPDX-License-Identifier: Apache-2.0

"""What an agent lets into the slots of its host."""

from __future__ import annotations

from fpgapool.agent import orders
from fpgapool.bitstreams import signatures
from fpgapool.common import exception
from fpgapool.vocabulary import names


class Trust:
    """Verifies what slots are to be programmed with.

    It does not believe the conductor, whose word comes over the message bus.
    The signature is of the checksum, which cache and driver compare with the
    file.

    :param keys: that count; they are read at each question. None: bitstreams
        need no signature.
    """

    def __init__(self, keys: signatures.TrustedKeys | None) -> None:
        self._keys = keys

    def objection(self, order: orders.ToWorker) -> str | None:
        """Return why a slot must not be programmed as a worker is told.

        Blocks for as long as reading the keys takes.

        :param order: the assignment.
        :returns: the reason, for people; None if there is none.
        """
        if self._keys is None:
            return None
        reference = order.members["bitstream_ref"]
        if not isinstance(reference, dict):
            # Without a file a driver might go on with what the slot has.
            if str(order.members["bitstream"]).startswith(
                names.BUILTIN_PREFIX
            ):
                return None
            return "it comes without its checksum and signature"
        if not reference["signature"]:
            return "it has no signature (see [bitstreams] signature_required)"
        try:
            self._keys.verify(
                reference["signature"], reference["checksum_sha256"]
            )
        except (exception.FpgapoolException, ValueError) as error:
            return f"{error} (see [bitstreams] trusted_keys_dir)"
        return None
