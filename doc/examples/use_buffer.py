# SPDX-License-Identifier: Apache-2.0

"""Encrypt what is in memory."""

from fpgapool import client

key = bytes(range(32))
counter = bytes(16)
output, report = client.run_buffer(
    "aes", b"hello world", params={"key": key, "iv": counter}
)
print(output.hex(), "on", report.host)
