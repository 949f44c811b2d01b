# SPDX-License-Identifier: Apache-2.0

"""What all services share: configuration, errors, clocks, signals, TLS.

``channels`` carries bytes between processes, ``messaging`` carries calls
between services, ``monitoring`` handles logs and metrics, and ``arguments``
declares command arguments. Nothing here depends on the pool's own concepts.
"""
