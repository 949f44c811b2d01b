# SPDX-License-Identifier: Apache-2.0

"""Wait for two sessions at the same time."""

import asyncio

from fpgapool import client


async def main() -> None:
    data = b"hello world"
    async with asyncio.timeout(60):
        # A timeout here ends the sessions, and gives their slots back.
        strong, old = await asyncio.gather(
            asyncio.wrap_future(client.submit("sha", data)),
            asyncio.wrap_future(client.submit("sha", data, algorithm="sha1")),
        )
    print(strong.hex(), old.hex())

    # Calls that block have threads of their own.
    session = await asyncio.to_thread(client.acc_open, "copy", len(data))
    with session:
        session.pin[: len(data)] = data
        output = await asyncio.to_thread(session.run, len(data))
        print(bytes(output))


asyncio.run(main())
