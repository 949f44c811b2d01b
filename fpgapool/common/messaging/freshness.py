# SPDX-License-Identifier: Apache-2.0

"""Stamps of signed messages, by which each takes effect at most once.

A stamp is a part of what is signed. It names the sender's *run*, with a number
that the run never uses again. The receiver remembers which numbers it has got.

A receiver that has just started remembers nothing. So the stamp of a call also
names the receiver, by a random name that it chooses when it starts, and says
until when it is valid, in the receiver's time. To a call without a valid name
or time the receiver answers with both, signed; the sender stamps the call
again and repeats it. So a call that another leader has got, or that was held
back until its sender gave up, has no effect.

A cast has no answer, hence no such part: a receiver that has restarted accepts
one that it got before. Casts carry epochs, generations and sequences, and name
sessions that exist once, so that their repetition has no effect.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import secrets
import threading
import time

from fpgapool.common import exception
from fpgapool.common.messaging import signing

#: Calls are repeated at most this often: leaders may change meanwhile.
TRIES = 3

_NAME_BYTES = 8
#: How many numbers below the highest one of a run a receiver remembers.
#: Messages of threads overtake each other, and may go to other receivers.
WINDOW = 1 << 16
_SEEN = (1 << WINDOW) - 1
#: A party's runs that a receiver remembers. When there are more, it forgets
#: all of them and takes another name for this party.
MAX_RUNS = 1024
_MAX_NUMBER = 1 << 62
_LATE_S = 1.0


class NotFresh(Exception):
    """A message was not accepted; the text says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stamp:
    """What a message says about itself.

    :ivar run: the sender's run.
    :ivar number: the message's number in the run.
    :ivar receiver: a call's receiver; None: the message is a cast.
    :ivar until_s: when a call expires, in the receiver's time.
    """

    run: str
    number: int
    receiver: str | None = None
    until_s: float = 0.0

    def to_list(self) -> list[object]:
        """Return what goes into the message."""
        if self.receiver is None:
            return [self.run, self.number]
        return [self.run, self.number, self.receiver, self.until_s]

    @classmethod
    def read(cls, parts: object) -> Stamp:
        """Read a stamp.

        :raises NotFresh: if it is not one.
        """
        match parts:
            case [str() as run, int() as number]:
                receiver, until_s = None, 0.0
            case [
                str() as run,
                int() as number,
                str() as receiver,
                int() | float() as until_s,
            ]:
                pass
            case _:
                raise NotFresh("it has no stamp")
        if (
            len(run) != 2 * _NAME_BYTES
            or isinstance(number, bool)
            or not 0 < number < _MAX_NUMBER
            # A whole number may be too large for a float.
            or not abs(until_s) < _MAX_NUMBER
        ):
            raise NotFresh("its stamp is malformed")
        return cls(run, number, receiver, until_s)


class _Run:
    """This process's run, and the numbers that it has not used."""

    def __init__(self) -> None:
        self.begin()
        # A fork, as of a web server, must not use its parent's numbers.
        os.register_at_fork(after_in_child=self.begin)

    def begin(self) -> None:
        self.name = secrets.token_hex(_NAME_BYTES)
        self.numbers = itertools.count(1)

    def next(self) -> tuple[str, int]:
        return self.name, next(self.numbers)


_RUN = _Run()


class Sender:
    """Stamps the messages of a client.

    :param keys: check what the receivers of the topic say about themselves.
    """

    def __init__(self, keys: signing.Keys, topic: str) -> None:
        self._keys = keys
        self._topic = topic
        # The receiver's name, and its time minus this process's. Threads get
        # both of the same receiver.
        self._known = ("", 0.0)

    def cast(self) -> Stamp:
        """Return the stamp of a cast."""
        return Stamp(*_RUN.next())

    def call(self, timeout_s: float) -> Stamp:
        """Return the stamp of a call that is made now."""
        receiver, ahead_s = self._known
        until_s = time.monotonic() + ahead_s + timeout_s
        return Stamp(*_RUN.next(), receiver, until_s)

    def learn(
        self,
        stale: exception.MessageStale,
        stamp: Stamp,
        sent_s: float,
    ) -> None:
        """Learn the receiver's name and time.

        :param stamp: of the call that was answered.
        :param sent_s: when it was sent.
        :raises MessageRefused: if no holder of the keys has answered this
            call.
        """
        answer, party = stale.kwargs, self._keys.party
        receiver, now_s = str(answer.get("receiver")), answer.get("now_s", 0.0)
        proof = str(answer.get("proof"))
        said, topic = _challenge(stamp, receiver, now_s), _answers(self._topic)
        if not self._keys.has_signed(party, topic, said, proof):
            raise exception.MessageRefused(
                reason="its receiver's answer has an invalid signature"
            )
        self._known = receiver, now_s - sent_s


class _Party:
    """What a receiver remembers about a party."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.receiver = secrets.token_hex(_NAME_BYTES)
        # The highest number of a run, and a bit for each one below, as for
        # IPsec in RFC 4303.
        self.runs: dict[str, tuple[int, int]] = {}


class Receiver:
    """Accepts each message once.

    :param keys: sign what it says about itself.
    """

    def __init__(self, keys: signing.Keys, topic: str) -> None:
        self._keys = keys
        self._topic = topic
        self._lock = threading.Lock()
        # All of them have keys, so there are not too many.
        self._parties: dict[str, _Party] = {}

    def accept(self, party: str, stamp: Stamp) -> None:
        """Accept a message, or raise an error.

        :param party: who has signed it.
        :raises NotFresh: if it was accepted before, or is too old to tell.
        :raises MessageStale: if it is a call to another receiver, or too late;
            its sender may repeat it.
        """
        with self._lock:
            known = self._parties.get(party)
            if known is None:
                known = self._parties[party] = _Party()
            if stamp.receiver is not None:
                self._check_call(party, known, stamp)
            _note(known, stamp)

    def _check_call(self, party: str, known: _Party, stamp: Stamp) -> None:
        now_s = time.monotonic()
        if stamp.receiver != known.receiver or now_s > stamp.until_s + _LATE_S:
            said = _challenge(stamp, known.receiver, now_s)
            raise exception.MessageStale(
                receiver=known.receiver,
                now_s=now_s,
                proof=self._keys.sign(party, _answers(self._topic), said),
            )


def _note(known: _Party, stamp: Stamp) -> None:
    highest, seen = known.runs.get(stamp.run, (0, 0))
    ahead = stamp.number - highest
    if ahead > 0:
        seen = (seen << min(ahead, WINDOW) | 1) & _SEEN
        highest = stamp.number
    elif ahead <= -WINDOW:
        raise NotFresh("later messages came long before it")
    elif seen >> -ahead & 1:
        raise NotFresh("it was received before")
    else:
        seen |= 1 << -ahead
    if stamp.run not in known.runs and len(known.runs) >= MAX_RUNS:
        known.forget()
    known.runs[stamp.run] = highest, seen


def _answers(topic: str) -> str:
    # No message has such a topic.
    return f"{topic} answers"


def _challenge(stamp: Stamp, receiver: str, now_s: float) -> str:
    return json.dumps([stamp.run, stamp.number, receiver, now_s])
