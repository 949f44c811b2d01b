# SPDX-License-Identifier: Apache-2.0

"""Transform an array, and encrypt a text, in slots of the pool."""

import numpy as np

from fpgapool import client

signal = np.sin(np.arange(1024) * 8 * 2 * np.pi / 1024)
spectrum = client.run_array("fft", signal, convert=True)
print("it has", np.abs(spectrum[:512]).argmax(), "periods")

secrets = {"key": bytes(range(32)), "iv": bytes(16)}
output, report = client.run_buffer("aes", b"hello", params=secrets)
print(output.hex(), "from a slot of", report.host)
