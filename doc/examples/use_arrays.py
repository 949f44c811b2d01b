# SPDX-License-Identifier: Apache-2.0

"""Transform frames of a NumPy array, and one after the other."""

import numpy as np

from fpgapool import client

# Ten frames of a sine with 8 periods.
signal = np.sin(np.arange(10 * 1024) * 8 * 2 * np.pi / 1024)
frames = signal.reshape(10, 1024)

spectrum = client.run_array("fft", frames, convert=True, norm="forward")
print(spectrum.dtype, spectrum.shape, np.abs(spectrum[0]).argmax())

# The same with types and completion, and back.
again = client.arrays.fft(spectrum, inverse=True, norm="forward")
print(np.allclose(again, frames, atol=1e-5))

# A session for each frame, two at a time.
for each in client.map("fft", frames, sessions=2, convert=True):
    print(np.abs(each).argmax(), end=" ")
