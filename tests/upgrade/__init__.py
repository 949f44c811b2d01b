# SPDX-License-Identifier: Apache-2.0

"""A pool goes from the release before to the present one, and back, under
load: ``make test-upgrade``.

``pool`` is of real services, with Keystone; ``resources`` is what the old
release made and all later steps must leave alone; ``witness`` is a session
that stays open from the first step to the last; the other clients, and most of
the judge, are those of ``tests/chaos``. ``run`` plays the steps.
"""
