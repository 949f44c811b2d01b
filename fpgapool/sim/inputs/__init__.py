# SPDX-License-Identifier: Apache-2.0

"""The input of simulations.

``scenario`` is the format; ``scenario_files`` reads, checks and writes it.
``generating`` makes scenarios from the options in ``scenario_options``: from
``workloads``, whose sizes follow ``distributions``, or from ``traces``.
``families`` and ``sizes`` read sizes from the command line and from files;
``arrivals`` draws the batches of groups. Nothing here runs a scenario.
"""
