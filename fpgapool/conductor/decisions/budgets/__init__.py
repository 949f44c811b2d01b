# SPDX-License-Identifier: Apache-2.0

"""Budgets of projects: limits on the sums of their usage in a period.

What was used has one home, the ledger (:mod:`..usage`): nothing is charged
twice, and a new leader reads the same sums.

``rules``
    Limits, periods and what is carried over. Pure.
``stored``
    Budgets as rows of the table of quotas.
``book``
    What each project has used of its budget.
``keeping``
    The room: holds projects back, and answers questions.

Called by :mod:`..engine`.
"""
