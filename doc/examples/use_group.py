# SPDX-License-Identifier: Apache-2.0

"""Encrypt data with the slots of a group."""

import asyncio

import numpy

from fpgapool import client

params = {"key": bytes(32), "iv": bytes(16)}
pieces = [b"one", b"two", b"three"]

with client.group_open("render", accelerator="aes", timeout_s=60) as group:
    # A task, and its result.
    print(group.run(b"hello world", params=params).hex())

    # Many tasks; the results come in the order of the pieces.
    for result in group.map(pieces, params=params):
        print(result.hex())

    # In the background: a future of the standard library.
    future = group.submit(b"hello world", params=params)
    print(future.result(timeout=60).hex())

    # Arrays give arrays of the same type and shape.
    picture = numpy.arange(12, dtype=numpy.uint16).reshape(3, 4)
    encrypted = group.run(picture, params=params)
    decrypted = group.run(encrypted, params=params)
    print(decrypted.shape, (decrypted == picture).all())

    # A member for this program alone, whose core may keep state.
    with group.lock(timeout_s=60):
        print(group.run(b"one", params=params).hex())

    async def encrypt(data: bytes) -> bytes:
        return await asyncio.wrap_future(group.submit(data, params=params))

    async def main() -> None:
        for result in await asyncio.gather(*map(encrypt, pieces)):
            print(result.hex())

    asyncio.run(main())
