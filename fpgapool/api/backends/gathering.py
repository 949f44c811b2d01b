# SPDX-License-Identifier: Apache-2.0

"""Questions of many requests in one call."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import Generic
from typing import TypeVar

import oslo_messaging as messaging

from fpgapool.common import exception

_Q = TypeVar("_Q")
_A = TypeVar("_A")

# Maximum number of questions in a call.
_MOST = 100


@dataclasses.dataclass(eq=False, slots=True)
class _Asked:
    """A question whose thread waits for its answer, or for its turn.

    :ivar batch: the questions with which its thread makes the next call.
    """

    question: Any
    batch: Sequence[_Asked] | None = None
    answer: Any = None
    failure: Exception | None = None
    woken: threading.Event = dataclasses.field(
        # Looked up at each call, because tests replace the class.
        default_factory=lambda: threading.Event()
    )


class Gathered(Generic[_Q, _A]):
    """Asks a project's questions that come during a call together in the next.

    A call fails for all of its questions, so those of other projects have
    their own. The threads that ask make the calls themselves. Thread-safe.

    :param call: answers questions in their order; may fail.
    :param limit_s: how long a question waits for its call to begin.
    """

    def __init__(
        self, call: Callable[[list[_Q]], Sequence[_A]], limit_s: float
    ) -> None:
        self._call = call
        self._limit_s = limit_s
        self._lock = threading.Lock()
        #: Questions that wait, by the projects with a call under way.
        self._waiting: dict[str, list[_Asked]] = {}

    def ask(self, project_id: str, question: _Q) -> _A:
        """Return the answer to a project's question.

        :raises: the errors of the call; MessagingTimeout if it has not begun
            in time.
        """
        mine = _Asked(question)
        with self._lock:
            if project_id in self._waiting:
                self._waiting[project_id].append(mine)
            else:
                self._waiting[project_id] = []
                mine.batch = [mine]
        if mine.batch is None and not mine.woken.wait(self._limit_s):
            self._give_up(project_id, mine)
        if mine.batch is not None:
            self._make_call(project_id, mine.batch)
        if mine.failure is not None:
            raise mine.failure
        answer: _A = mine.answer
        return answer

    def _give_up(self, project_id: str, mine: _Asked) -> None:
        with self._lock:
            waiting = self._waiting.get(project_id, [])
            if mine in waiting:
                waiting.remove(mine)
                raise messaging.MessagingTimeout(
                    "earlier calls have no answer"
                )
        # Another thread is asking it.
        mine.woken.wait()

    def _make_call(self, project_id: str, batch: Sequence[_Asked]) -> None:
        try:
            self._answer(batch)
        finally:
            with self._lock:
                waiting = self._waiting[project_id]
                if waiting:
                    first = waiting[0]
                    first.batch = waiting[:_MOST]
                    del waiting[:_MOST]
                    first.woken.set()
                else:
                    del self._waiting[project_id]
            for one in batch:
                one.woken.set()

    def _answer(self, batch: Sequence[_Asked]) -> None:
        try:
            answers = self._call([one.question for one in batch])
        except Exception as error:
            if len(batch) > 1 and isinstance(error, exception.InvalidRequest):
                # Only one of them need be invalid.
                for one in batch:
                    self._answer([one])
                return
            for one in batch:
                one.failure = error
        else:
            for one, answer in zip(batch, answers, strict=True):
                one.answer = answer
