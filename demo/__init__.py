# SPDX-License-Identifier: Apache-2.0

"""``make demo``: shows a small pool at work, with many files and few slots.

``__main__`` is the command. ``acts`` has what it shows, one module each;
``pool`` and ``allinone`` start and stop a pool, ``programs`` and ``execution``
use it as users do, ``verification`` checks every output by other means. It
stands beside the product, is not installed, and uses the client, the
simulator's metrics and pictures only.
"""
