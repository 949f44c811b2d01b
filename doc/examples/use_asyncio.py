# SPDX-License-Identifier: Apache-2.0

"""Use sessions with asyncio, without threads."""

import asyncio

from fpgapool import client


async def main() -> None:
    data = b"hello world"
    async with asyncio.timeout(60):
        # A timeout here ends the sessions, and gives their slots back.
        (strong, _), (old, _) = await asyncio.gather(
            client.aio.run_buffer("sha", data),
            client.aio.run_buffer("sha", data, params={"algorithm": "sha1"}),
        )
    print(strong.hex(), old.hex())

    async with await client.aio.acc_open("copy", len(data)) as session:
        print(bytes(await session.run(data)))


asyncio.run(main())
