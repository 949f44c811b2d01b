# SPDX-License-Identifier: Apache-2.0

"""Certificates of processes, made when needed or before."""

import pytest

from fpgapool.agent.child import certificate
from fpgapool.agent.child import selfsigned


@pytest.mark.security
def test_a_prepared_certificate_serves_one_process_and_no_second_one():
    certificate.prepare()
    ((_, prepared),) = certificate._prepared
    one, other = certificate.Certificate(), certificate.Certificate()
    assert one.sha256() == prepared
    assert one.sha256() == prepared
    assert other.sha256() != prepared


def test_what_is_prepared_need_not_be_made(monkeypatch):
    certificate.prepare()
    monkeypatch.setattr(selfsigned, "make", None)
    assert certificate.Certificate().context()
