# SPDX-License-Identifier: Apache-2.0

"""AES in counter mode (stateless) and in CBC mode (stateful)."""

from __future__ import annotations

import collections.abc

from cryptography.hazmat.primitives import ciphers
from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.ciphers import modes

from fpgapool.accelerators import base
from fpgapool.accelerators import parameters

BLOCK_BYTES = 16

_KEY_BYTES = (16, 24, 32)
_BLOCK_BITS = 8 * BLOCK_BYTES


# NIST SP 800-38A, F.5.1 and F.2.1, first block.
_TEST_KEY = "2b7e151628aed2a6abf7158809cf4f3c"
_TEST_BLOCK = bytes.fromhex("6bc1bee22e409f96e93d7e117393172a")
# The same block encrypted in CBC mode, and its padding block.
_TEST_PADDED = bytes.fromhex(
    "7649abac8119b246cee98e9b12e9197d8964e0b149c10b7b682e6e39aaeb731c"
)


class AesCore(base.Core):
    """Encrypts or decrypts with AES-CTR, stateless.

    The counter block for input block n is ``iv + n`` modulo 2**128, so any
    piece can be processed if its offset is known.

    :param params: ``key``: 16, 24 or 32 bytes in hexadecimal; ``iv``: the
        first counter block, 16 bytes in hexadecimal.
    """

    known_answers = (
        base.KnownAnswer(
            {"key": _TEST_KEY, "iv": "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"},
            _TEST_BLOCK,
            bytes.fromhex("874d6191b620e3261bef6864990db6ce"),
        ),
    )

    def __init__(self, params: collections.abc.Mapping[str, object]) -> None:
        base.refuse_unknown_params(params, ("iv", "key"))
        self._algorithm = _algorithm(params)
        self._first_counter = int.from_bytes(_iv(params))
        self._seek(0)

    @property
    def in_place(self) -> bool:
        return True

    @property
    def reusable(self) -> bool:
        return True

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        if offset_bytes != self._next_offset_bytes:
            self._seek(offset_bytes)
        self._context.update_into(chunk_in, chunk_out)
        self._next_offset_bytes += len(chunk_in)
        return len(chunk_in)

    def _seek(self, offset_bytes: int) -> None:
        blocks, skipped_bytes = divmod(offset_bytes, BLOCK_BYTES)
        counter = (self._first_counter + blocks) % (1 << 128)
        mode = modes.CTR(counter.to_bytes(BLOCK_BYTES))
        self._context = ciphers.Cipher(self._algorithm, mode).encryptor()
        # If the offset is within a block, skip the key stream before it.
        self._context.update(bytes(skipped_bytes))
        self._next_offset_bytes = offset_bytes


class AesCbcCore(base.Core):
    """Encrypts or decrypts with AES-CBC and PKCS #7 padding, stateful.

    Encryption accepts input of any length and adds 1 to 16 bytes of padding.

    :param params: ``key`` and ``iv`` as for :class:`AesCore`, and
        ``direction``, ``encrypt`` (the default) or ``decrypt``.
    """

    known_answers = (
        base.KnownAnswer(
            {
                "key": _TEST_KEY,
                "iv": "000102030405060708090a0b0c0d0e0f",
                "direction": "encrypt",
            },
            _TEST_BLOCK,
            _TEST_PADDED,
        ),
        # Some implementations can only decrypt.
        base.KnownAnswer(
            {
                "key": _TEST_KEY,
                "iv": "000102030405060708090a0b0c0d0e0f",
                "direction": "decrypt",
            },
            _TEST_PADDED,
            _TEST_BLOCK,
        ),
    )

    def __init__(self, params: collections.abc.Mapping[str, object]) -> None:
        values = parameters.checked(
            params, ("iv", "key"), {"direction": "encrypt"}
        )
        direction = parameters.choice(
            values, "direction", ("encrypt", "decrypt")
        )
        self._decrypts = direction == "decrypt"
        self._algorithm = _algorithm(values)
        self._chain_from(_iv(values))
        # When encrypting: trailing input that does not fill a block yet.
        # When decrypting: the last decrypted block, which may be padding.
        self._kept = b""

    def _chain_from(self, block: bytes) -> None:
        cipher = ciphers.Cipher(self._algorithm, modes.CBC(block))
        self._context = (
            cipher.decryptor() if self._decrypts else cipher.encryptor()
        )
        # The last block of ciphertext, to which the next one is chained.
        self._newest = block

    @property
    def has_snapshots(self) -> bool:
        return True

    def snapshot(self) -> bytes:
        return self._newest + self._kept

    def restore(self, snapshot: bytes, offset_bytes: int) -> None:
        newest, kept = snapshot[:BLOCK_BYTES], snapshot[BLOCK_BYTES:]
        most_bytes = BLOCK_BYTES if self._decrypts else BLOCK_BYTES - 1
        if len(newest) < BLOCK_BYTES or len(kept) > most_bytes:
            raise base.InvalidInput("the checkpoint has the wrong length")
        self._chain_from(newest)
        self._kept = kept

    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        if self._decrypts:
            return self._decrypt(chunk_in, chunk_out)
        return self._encrypt(chunk_in, chunk_out)

    def _encrypt(self, chunk_in: memoryview, chunk_out: memoryview) -> int:
        base.require_whole(len(self._kept), BLOCK_BYTES, "block")
        whole_bytes = len(chunk_in) - len(chunk_in) % BLOCK_BYTES
        self._kept = bytes(chunk_in[whole_bytes:])
        self._update(chunk_in[:whole_bytes], chunk_out)
        if whole_bytes:
            front_bytes = whole_bytes - BLOCK_BYTES
            self._newest = bytes(chunk_out[front_bytes:whole_bytes])
        return whole_bytes

    def _decrypt(self, chunk_in: memoryview, chunk_out: memoryview) -> int:
        base.require_whole(len(chunk_in), BLOCK_BYTES, "block")
        kept_bytes = len(self._kept)
        chunk_out[:kept_bytes] = self._kept
        count_bytes = self._update(
            chunk_in[:-BLOCK_BYTES], chunk_out[kept_bytes:]
        )
        self._newest = bytes(chunk_in[-BLOCK_BYTES:])
        self._kept = self._context.update(self._newest)
        return kept_bytes + count_bytes

    def _update(self, blocks: memoryview, chunk_out: memoryview) -> int:
        # update_into() requires room for one block more than it writes, so
        # update() handles the last block.
        front_bytes = max(0, len(blocks) - BLOCK_BYTES)
        if front_bytes:
            self._context.update_into(blocks[:front_bytes], chunk_out)
        chunk_out[front_bytes : len(blocks)] = self._context.update(
            blocks[front_bytes:]
        )
        return len(blocks)

    def finish(self, chunk_out: memoryview) -> int:
        last = self._unpadded() if self._decrypts else self._padded()
        chunk_out[: len(last)] = last
        return len(last)

    def _padded(self) -> bytes:
        padder = padding.PKCS7(_BLOCK_BITS).padder()
        block = padder.update(self._kept) + padder.finalize()
        return self._context.update(block)

    def _unpadded(self) -> bytes:
        unpadder = padding.PKCS7(_BLOCK_BITS).unpadder()
        try:
            return unpadder.update(self._kept) + unpadder.finalize()
        except ValueError:
            raise base.InvalidInput(
                "wrong padding: the key is wrong, or the data is "
                "incomplete or damaged"
            ) from None

    def max_output_bytes(self, input_bytes: int) -> int:
        if input_bytes == 0:
            return BLOCK_BYTES
        return input_bytes - input_bytes % BLOCK_BYTES


def _algorithm(params: parameters.Params) -> algorithms.AES:
    return algorithms.AES(parameters.hex_bytes(params, "key", _KEY_BYTES))


def _iv(params: parameters.Params) -> bytes:
    return parameters.hex_bytes(params, "iv", (BLOCK_BYTES,))
