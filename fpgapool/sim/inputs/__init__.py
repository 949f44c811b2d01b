# SPDX-License-Identifier: Apache-2.0

"""What is simulated.

``scenario`` is the format, ``scenario_files`` reads, checks and writes it.
``generating`` makes scenarios from the options in ``scenario_options``: of
``workloads``, whose sizes are ``distributions``, or of ``traces``.
``families`` and ``sizes`` are sizes on the command line and in files,
``arrivals`` the batches of groups. Nothing here runs a scenario.
"""
