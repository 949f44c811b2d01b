# SPDX-License-Identifier: Apache-2.0

"""Who gets in at a slot, and who does not.

A secret opens the session that it was made for, in the slot that it was made
for, once, and in time. The one that resumes it is replaced at each
connection. Anything else is ``UNAUTHORIZED``, whatever is wrong with it, and
the rightful client gets in as if nothing had happened.
"""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import stateful
from hypothesis import strategies as st

from fpgapool.agent.worker import hello
from fpgapool.agent.worker import state
from fpgapool.common.channels import channel
from tests.functional.worker import harness
from tests.property import fuzzing
from tests.property import slots

UNAUTHORIZED = "UNAUTHORIZED"


# -- what a keyring accepts --------------------------------------------------


def _order(number: int) -> state.Order:
    return state.Order(
        session_id=f"s{number}",
        generation=number,
        project_id="p",
        accelerator="copy",
        bitstream="builtin:copy",
        connect_timeout_s=1.0,
        resume_grace_s=1.0,
    )


class Keyrings(stateful.RuleBasedStateMachine):
    """Two sessions, and clients that try every secret they ever heard of."""

    numbers = st.sampled_from([0, 1])

    def __init__(self) -> None:
        super().__init__()
        self.rings = [hello.Keyring(_order(number)) for number in (0, 1)]
        self.first: list[list[str]] = [[], []]
        self.resume: list[list[str]] = [[], []]
        self.opened = [False, False]
        self.heard = ["", "0" * 64, "\ud800"]

    @stateful.rule(number=numbers)
    def mint(self, number: int) -> None:
        secret = self.rings[number].mint()
        self.first[number] = [*self.first[number], secret][-4:]
        self.heard.append(secret)

    @stateful.rule(number=numbers)
    def mint_resume(self, number: int) -> None:
        secret = self.rings[number].mint_resume()
        self.resume[number] = [*self.resume[number][-1:], secret]
        self.heard.append(secret)

    @stateful.rule(number=numbers)
    def confirm(self, number: int) -> None:
        self.rings[number].confirm_resume()
        del self.resume[number][:-1]

    @stateful.rule(
        number=numbers,
        other=st.sampled_from([0, 0, 0, 1]),
        first=st.booleans(),
        data=st.data(),
    )
    def knock(
        self, number: int, other: int, first: bool, data: st.DataObject
    ) -> None:
        secret = data.draw(st.sampled_from(self.heard))
        named = _order((number + other) % 2)
        said = hello.parse(
            {
                "session_id": named.session_id,
                "generation": named.generation,
                "secret" if first else "resume_secret": secret,
            }
        )
        if first:
            right = not self.opened[number] and secret in self.first[number]
        else:
            right = secret in self.resume[number]
        if not right or other:
            with pytest.raises(hello.Unauthorized):
                self.rings[number].admit(said)
            return
        assert self.rings[number].admit(said) is first
        if first:
            self.opened[number] = True
            self.first[number] = []


TestKeyrings = Keyrings.TestCase
TestKeyrings.settings = fuzzing.limits(60)


# -- what a worker accepts ---------------------------------------------------


@pytest.fixture(scope="module")
def pair() -> Iterator[list[slots.InProcess]]:
    """Give two slots of a board."""
    with tempfile.TemporaryDirectory() as name:
        made = []
        for slot in (0, 1):
            directory = pathlib.Path(name) / str(slot)
            directory.mkdir()
            made.append(slots.InProcess(directory, slot))
        yield made
        for one in made:
            one.stop()


def knock(
    worker: slots.InProcess, prepared: dict, **members: Any
) -> harness.Client:
    """Connect; :raises ErrorFrame: if the worker says so."""
    sock = channel.connect_unix(worker.settings.data_socket)
    client = harness.Client(channel.PlainChannel(sock))
    try:
        return client.hello(prepared, **members)
    except BaseException:
        client.close()
        raise


def refusal(worker: slots.InProcess, prepared: dict, **members: Any) -> str:
    """Connect; :returns: the code with which that is refused."""
    with pytest.raises(harness.ErrorFrame) as caught:
        knock(worker, prepared, **members)
    return str(caught.value.code)


def test_secrets_of_other_slots_and_sessions(pair):
    """Two slots with sessions of the same generation share nothing."""
    here, there = pair
    there.generation = here.generation
    with here.session() as mine, there.session() as other:
        assert mine["session_id"] == other["session_id"]
        assert mine["generation"] == other["generation"]
        assert mine["secret"] != other["secret"]
        for worker, members in (
            (here, {"secret": other["secret"]}),
            (there, {"secret": mine["secret"]}),
            (here, {"session_id": "another"}),
            (here, {"generation": mine["generation"] + 1}),
            (here, {"generation": mine["generation"] - 1}),
            (here, {"secret": mine["secret"].upper()}),
            (here, {"secret": mine["secret"] + " "}),
            (here, {"secret": mine["secret"][:-1]}),
            (here, {"secret": None, "resume_secret": mine["secret"]}),
        ):
            told = mine if worker is here else other
            assert refusal(worker, told, **members) == UNAUTHORIZED
        for worker, told in ((here, mine), (there, other)):
            with contextlib.closing(knock(worker, told)) as client:
                assert client.run(b"data") == b"data"


def test_resume_secrets_of_other_slots_and_connections(pair):
    """What resumes a session resumes this one, here, with its last word."""
    here, there = pair
    there.generation = here.generation
    with here.session() as mine, there.session() as other:
        with contextlib.closing(knock(there, other)) as client:
            foreign = client.opened["resume_secret"]
        with contextlib.closing(knock(here, mine)) as first:
            old = first.opened["resume_secret"]
            assert first.run(b"data") == b"data"
        members = {"input_offset": 4, "output_offset": 4}
        for wrong in (foreign, mine["secret"], "00" * 32, "", old[:-1]):
            told = refusal(here, mine, resume_secret=wrong, **members)
            assert told == UNAUTHORIZED
        # Used as a first one, it is none; nor is the first one any more.
        assert refusal(here, mine, secret=old) == UNAUTHORIZED
        assert refusal(here, mine) == UNAUTHORIZED
        with contextlib.closing(
            knock(here, mine, resume_secret=old, **members)
        ) as second:
            second.output += b"data"
            assert second.run(b"more") == b"more"
            # By now the worker knows that its client has the newer one.
            told = refusal(here, mine, resume_secret=old, **members)
            assert told == UNAUTHORIZED
            # Who was refused has not cost the client its connection.
            assert second.run(b"last") == b"last"
            last = second.opened["resume_secret"]
    # The session is over, and so is all that opened it.
    for members in ({}, {"resume_secret": old}, {"resume_secret": last}):
        assert refusal(here, mine, **members) == UNAUTHORIZED


def test_expired_secrets(pair):
    """A secret that nobody used in time opens nothing."""
    worker, _ = pair
    with worker.session(connect_timeout_s=0.01) as prepared:
        result = worker.agent.wait_result(worker.generation)
        assert result["state"] == "EXPIRED"
        assert refusal(worker, prepared) == UNAUTHORIZED
    # Nor does it open the session that has the slot next.
    with worker.session() as mine:
        assert refusal(worker, prepared) == UNAUTHORIZED
        told = refusal(worker, mine, secret=prepared["secret"])
        assert told == UNAUTHORIZED
        knock(worker, mine).close()


def test_expired_resume_secrets(pair):
    """Who stays away too long has lost the session."""
    worker, _ = pair
    with worker.session(resume_grace_s=0.01) as prepared:
        with contextlib.closing(knock(worker, prepared)) as client:
            secret = client.opened["resume_secret"]
        result = worker.agent.wait_result(worker.generation)
        assert result["state"] == "EXPIRED"
        told = refusal(worker, prepared, resume_secret=secret)
        assert told == UNAUTHORIZED
