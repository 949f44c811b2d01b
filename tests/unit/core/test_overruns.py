# SPDX-License-Identifier: Apache-2.0

"""What is learnt from claims that were too small."""

import pytest

from fpgapool.core.queues import overruns


def learn(
    learnt: overruns.Overruns,
    jobs: int,
    *,
    project: str = "p",
    accelerator: str = "aes",
    factor: float = 1.0,
) -> overruns.Overruns:
    """Let jobs end that used this factor times their claims of 1 GB."""
    for _ in range(jobs):
        learnt.note(project, accelerator, 1e9, factor * 1e9)
    return learnt


def test_true_claims_stay_exactly_as_they_are() -> None:
    learnt = learn(overruns.Overruns(0.1), 50)
    learn(learnt, 50, factor=1.1)
    learn(learnt, 50, project="liars", factor=10.0)
    assert learnt.correction("p", "aes") == 1.0
    assert learnt.correction("new", "aes") == 1.0


def test_a_lying_project_is_treated_as_an_honest_one_in_the_end() -> None:
    learnt = learn(overruns.Overruns(0.1), 200, factor=10.0)
    assert learnt.correction("p", "aes") == pytest.approx(10.0, rel=0.05)
    # Of another accelerator, less is known.
    assert 5.0 < learnt.correction("p", "fft") < 10.0


def test_claims_that_are_too_large_do_not_make_up_for_small_ones() -> None:
    one = learn(overruns.Overruns(0.1), 20, factor=10.0)
    learn(one, 20, factor=0.001)
    other = learn(overruns.Overruns(0.1), 20, factor=10.0)
    learn(other, 20)
    assert one.correction("p", "aes") == other.correction("p", "aes") > 2.0


def test_a_project_that_mends_its_ways_is_forgiven() -> None:
    learnt = learn(overruns.Overruns(0.1), 100, factor=10.0)
    learn(learnt, 1000)
    assert learnt.correction("p", "aes") == pytest.approx(1.0, abs=0.01)


def test_one_who_is_caught_counts_with_more_than_it_probably_needs() -> None:
    learnt = overruns.Overruns(0.1)
    assert learnt.next_claim("p", "aes", 1e9, 1.1e9) == 2.2e9
    learn(learnt, 200, project="others", factor=1000.0)
    assert learnt.next_claim("p", "aes", 1e9, 1.1e9) == 2.2e9
    learn(learnt, 200, factor=10.0)
    assert learnt.next_claim("p", "aes", 1e9, 1.1e9) > 10e9
    assert learnt.next_claim("p", "aes", 1e9, 20e9) == 40e9


def test_jobs_that_used_nothing_prove_nothing() -> None:
    learnt = learn(overruns.Overruns(0.1), 20, factor=10.0)
    before = learnt.correction("p", "aes")
    learn(learnt, 20, factor=0.0)
    assert learnt.correction("p", "aes") == before


def test_corrections_are_bounded() -> None:
    learnt = learn(overruns.Overruns(0.1), 500, factor=1e12)
    assert learnt.correction("p", "aes") <= 1000.0


def test_without_the_option_nothing_is_learnt() -> None:
    learnt = learn(overruns.Overruns(0.1, learns=False), 50, factor=10.0)
    assert learnt.correction("p", "aes") == 1.0
    assert learnt.next_claim("p", "aes", 1e9, 1.1e9) == 2.2e9


def test_names_that_a_tenant_makes_up_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(overruns, "MAX_KNOWN", 10)
    learnt = overruns.Overruns(0.1)
    for number in range(100):
        learn(learnt, 1, accelerator=f"mine{number}", factor=10.0)
    assert len(learnt._known) == 10
    assert learnt.correction("p", "mine99") > learnt.correction("p", "mine0")


def test_a_claim_of_nothing_can_be_exceeded() -> None:
    learnt = overruns.Overruns(0.1)
    learnt.note("p", "aes", 0, 1e9)
    assert 1.0 < learnt.correction("p", "aes") < 1000.0
