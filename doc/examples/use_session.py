# SPDX-License-Identifier: Apache-2.0

"""Fill the buffers of a session by hand."""

from fpgapool import client

parts = [b"hello ", b"world"]
with client.acc_open(
    "sha", size_bytes=sum(map(len, parts)), params={"algorithm": "sha256"}
) as session:
    for part in parts:
        session.pin[: len(part)] = part
        client.acc_run(session, len(part))
    # What comes at the end; with most accelerators there is nothing.
    print(session.finish().hex())
