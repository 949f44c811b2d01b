# SPDX-License-Identifier: Apache-2.0

"""Sessions: one accelerator for one program, as a stream of data.

:mod:`.opening` is one call of ``acc_open()``, :mod:`.session` what it returns;
:mod:`.described` has the properties of its slot. :mod:`.flow` moves the
data and :mod:`.recovery` replaces lost connections and slots; the data comes
in :mod:`.pieces`, with :mod:`.checksum`, :mod:`.blocks` and, for short frames,
:mod:`.sideband`. :mod:`.software` computes on this machine instead of a slot,
and :mod:`.bridging` until there is one.

Programs, transfers and arrays call it. It never reads or writes a file.
"""
