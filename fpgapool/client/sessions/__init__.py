# SPDX-License-Identifier: Apache-2.0

"""Sessions: one accelerator for one program, as a stream of data.

:mod:`.opening` implements ``acc_open()``, and :mod:`.session` what it returns;
:mod:`.described` has the properties of its slot. :mod:`.flow` moves the data
and :mod:`.recovery` replaces lost connections and slots. Data is divided into
:mod:`.pieces`; :mod:`.checksum` verifies it, :mod:`.blocks` avoids sending it
twice, and :mod:`.sideband` sends short frames. :mod:`.software` computes on
this machine, and :mod:`.bridging` does so until there is a slot.

Programs, transfers and arrays use sessions, which never access files.
"""
