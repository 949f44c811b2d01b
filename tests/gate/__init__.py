# SPDX-License-Identifier: Apache-2.0

"""What a change has to pass: ``make test``.

``plan`` says which jobs there are and what waits for what, ``runner`` runs
them, ``report`` reads what the tests left and decides what it means.
"""
