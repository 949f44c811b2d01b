# SPDX-License-Identifier: Apache-2.0

"""Find the strongest frequency of each column of a frame."""

import numpy as np
import pandas as pd

from fpgapool import client

time = 2 * np.pi * np.arange(1024) / 1024
frame = pd.DataFrame({"north": np.sin(8 * time), "south": np.cos(30 * time)})

# A row for each column of the frame: fft transforms rows.
signals = frame.to_numpy().T
spectra = client.run_array("fft", signals, convert=True)
strength = pd.DataFrame(np.abs(spectra[:, :512]).T, columns=frame.columns)
print(strength.idxmax())
