# SPDX-License-Identifier: Apache-2.0

"""A group: accelerators that several programs share, used task by task."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import math
import operator
import sys
import threading
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from fpgapool.client import cancel as cancelling
from fpgapool.client import checks
from fpgapool.client import discovery
from fpgapool.client import errors
from fpgapool.client import log
from fpgapool.client import shown
from fpgapool.client.doors import asking
from fpgapool.client.doors import groupdoor
from fpgapool.client.doors import poolapi
from fpgapool.client.groups import grouphosts
from fpgapool.client.groups import grouplink
from fpgapool.client.links import waiting
from fpgapool.client.sessions import blocks
from fpgapool.common.channels import channel
from fpgapool.common.channels import rings
from fpgapool.protocol import groups
from fpgapool.protocol import records

#: How long :meth:`Group.close` waits for unfinished tasks.
CLOSE_TIMEOUT_S = 30.0


def group_open(
    name: str,
    *,
    accelerator: str | None = None,
    window_tasks: int = groups.WINDOW_TASKS,
    timeout_s: float | None = None,
    front_door: str | poolapi.PoolApi | groupdoor.GroupDoor | None = None,
    cancel: threading.Event | cancelling.CancelToken | None = None,
    require_tls: bool | None = None,
    application: str = "",
    away_timeout_s: float | None = None,
    on_away: waiting.AwayCallback | None = None,
) -> Group:
    """Become a client of a group; if it has no members, wait for them.

    :param name: name or ID of the group.
    :param accelerator: accelerator that the group must have; None means any.
    :param window_tasks: maximum number of tasks at the group's desks; others
        wait in this process. A desk may allow fewer.
    :param front_door: the path of a front door's socket, or the pool's API.
        None means the first that exists: the API named by the environment,
        this host's front door or, in an instance, the API named by Nova.
    :param cancel: setting it ends this call and, later, all tasks.
    :param require_tls: see :func:`fpgapool.client.acc_open`.
    :param application: programs of this project that specify the same name
        share blocks with each other.
    :param away_timeout_s: how long the pool may be unreachable, which means
        that neither a desk nor the front door responds; after that, all tasks
        fail with ``FRONT_DOOR_UNAVAILABLE``. None means no limit.
    :param on_away: called in another thread when the pool becomes unreachable;
        see :func:`fpgapool.client.acc_open`.
    :returns: the group; its desks are connected in the background.
    :raises errors.InvalidRequest: if an argument is invalid; with the code
        ``WRONG_ACCELERATOR`` if the group has a different accelerator.
    :raises errors.FrontDoorUnavailable: if no front door is available.
    :raises errors.RequestRejected: if the pool rejects the request; with the
        code ``GROUP_NOT_FOUND`` if there is no such group.
    :raises errors.OperationTimeout: if ``timeout_s`` is exceeded.
    :raises errors.Cancelled: if cancelled.
    """
    checks.name(name, "the group")
    if accelerator is not None:
        checks.name(accelerator, "accelerator")
    checks.argument(groups.WINDOW, window_tasks, "window_tasks")
    checks.argument(groups.APPLICATION, application, "application")
    deadline_s = checks.deadline(timeout_s)
    away_timeout_s = checks.seconds(away_timeout_s, "away_timeout_s")
    must_encrypt = checks.require_tls(require_tls)
    token = cancelling.token_of(cancel)
    try:
        token.check()
        found = front_door or discovery.find_groups(
            pause=asking.pause_until(token, deadline_s)
        )
        if isinstance(found, str | poolapi.PoolApi):
            found = groupdoor.GroupDoor(found, token, require_tls=must_encrypt)
        access = found.attach(name, accelerator, deadline_s)
        access = dataclasses.replace(access, application=application)
        absence = waiting.Absence(away_timeout_s, on_away)
        group = Group(found, access, window_tasks, token, absence)
        log.info("Group %s opened as client %s", name, group.client_id)
        return group
    except BaseException:
        cancelling.release(token)
        raise


class Group(shown.Shown):
    """An open group, returned by :func:`group_open`.

    It is a context manager: leaving it closes the group. Any number of threads
    may use it, in the process that opened it.

    Data can be any object with the buffer protocol, such as ``bytes`` or a
    NumPy array. The result for an array is an array of the same type, with the
    same shape if it has the same size; for other data, it is ``bytes``. A
    member caches a :class:`fpgapool.client.Block` while it has space. Do not
    change data before its result is available: a task whose slot, desk or
    connection is lost runs again.
    """

    def __init__(
        self,
        door: groupdoor.GroupDoor,
        access: groupdoor.Access,
        window_tasks: int,
        token: cancelling.CancelToken,
        absence: waiting.Absence,
    ) -> None:
        self._door = door
        self._access = access
        self._window_tasks = window_tasks
        self._hosts = grouphosts.Hosts(door, access, window_tasks, absence)
        # Each thread's lock, and whether the thread is running callbacks.
        self._mine = threading.local()
        self._check_params = checks.schema_check(
            access.profile.get("params_schema") or {}
        )
        # The parameters checked last, as given and as sent; most tasks use the
        # same ones.
        self._checked: tuple[bytes | None, bytes] = None, b""
        self._token = token
        try:
            token.attach(self)
        except errors.Cancelled:
            self.close(timeout_s=0.0)
            raise

    def __enter__(self) -> Group:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(timeout_s=CLOSE_TIMEOUT_S if kind is None else 0.0)

    def _facts(self) -> Mapping[str, object]:
        return {
            "group_id": self.group_id,
            "client_id": self.client_id,
            "accelerator": self.profile.get("name"),
            "members": self.members,
        }

    @property
    def group_id(self) -> str:
        """The pool's ID of the group."""
        return self._access.group_id

    @property
    def client_id(self) -> str:
        """The pool's ID of this client."""
        return self._access.client_id

    @property
    def profile(self) -> Mapping[str, Any]:
        """The public description of the accelerator, as the API returns it.

        It is empty if this program's project cannot see the accelerator.
        """
        return self._access.profile

    @property
    def members(self) -> int:
        """The number of the group's members, as last reported."""
        return self._hosts.members

    def check(self) -> None:
        """Check that tasks can still be completed.

        :raises errors.FpgapoolError: the error that has ended all tasks.
        """
        if self._hosts.failure is not None:
            raise self._hosts.failure.again()

    def run(
        self,
        data: Any,
        *,
        params: Mapping[str, Any] | None = None,
        offset: int = 0,
        arguments: Mapping[int, Any] | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """Run a task and wait for its result.

        :param params: parameters of the accelerator; bytes are sent as
            hexadecimal digits. They are checked against the accelerator's
            schema before they are sent.
        :param offset: position of the input in a stateless stream.
        :param arguments: data that the accelerator takes in addition to the
            input, such as a model, by number. Members cache it like blocks.
        :param timeout_s: time limit; the task itself may continue.
        :raises errors.InvalidRequest: if an argument is invalid; with the code
            ``INVALID_PARAMS`` if the parameters are invalid.
        :raises errors.TaskFailed: if the task fails, with the failure's code.
        :raises errors.OperationTimeout: if ``timeout_s`` is exceeded.
        :raises errors.SessionClosed: if the group was closed.
        :raises errors.FrontDoorUnavailable: if the pool is unreachable for
            longer than ``away_timeout_s``.
        """
        deadline_s = checks.deadline(timeout_s)
        self._check_may_wait()
        task = self._task(data, params, offset, arguments)
        self._hosts.start(task)
        return self._result(task, deadline_s)

    def submit(
        self,
        data: Any,
        *,
        params: Mapping[str, Any] | None = None,
        offset: int = 0,
        arguments: Mapping[int, Any] | None = None,
    ) -> concurrent.futures.Future[Any]:
        """Run a task in the background.

        :returns: the task's future; ``asyncio.wrap_future`` makes it
            awaitable. Callbacks run in a thread that receives results: they
            should be short, and may submit tasks, but not wait for the group.
        :raises: as :meth:`run`, for invalid arguments.
        """
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        task = self._task(data, params, offset, arguments)
        task.notify = functools.partial(self._settle, future)
        task.followed = True
        # Mark it as running, because a task cannot be cancelled at a desk.
        future.set_running_or_notify_cancel()
        self._hosts.start(task)
        return future

    def map(
        self,
        pieces: Iterable[Any],
        *,
        params: Mapping[str, Any] | None = None,
        arguments: Mapping[int, Any] | None = None,
    ) -> Iterator[Any]:
        """Run a task for each piece of data.

        As many pieces are read ahead as the window allows. This is faster than
        calling :meth:`submit` for each piece, because the waiting thread
        itself receives the results.

        :raises: as :meth:`run`, when the iterator reaches the failed task.
        """
        self._check_may_wait()
        tasks: collections.deque[grouplink.GroupTask] = collections.deque()
        arguments = blocks.checked_arguments(arguments)
        for piece in pieces:
            task = self._task(piece, params, 0, arguments)
            self._hosts.start(task)
            tasks.append(task)
            if len(tasks) >= self._window_tasks:
                yield self._result(tasks.popleft())
        while tasks:
            yield self._result(tasks.popleft())

    def _settle(
        self, future: concurrent.futures.Future[Any], task: grouplink.GroupTask
    ) -> None:
        self._mine.settles = True
        try:
            if task.error is not None:
                future.set_exception(task.error)
            else:
                future.set_result(task.result)
        finally:
            self._mine.settles = False

    def _check_may_wait(self) -> None:
        """Reject waiting in a callback: its thread must receive results."""
        if getattr(self._mine, "settles", False):
            raise errors.invalid(
                "a callback of a future cannot wait for its group: submit a"
                " task without waiting, or wait in another thread"
            )

    def _result(
        self, task: grouplink.GroupTask, deadline_s: float | None = None
    ) -> Any:
        """Wait for the result of a task; raises as :meth:`run`."""
        self._hosts.wait(task, deadline_s)
        if task.error is not None:
            raise task.error.again()
        return task.result

    @contextlib.contextmanager
    def lock(self, *, timeout_s: float | None = None) -> Iterator[Group]:
        """Lock a member for this thread.

        Within the context, tasks of this thread run on that member, one after
        the other, and its core may keep its state between them. The lock ends
        with the context. It is lost after 60 seconds without a task, if the
        member is lost, or if the connection is lost for longer than the grace
        period; tasks then fail with ``LOCK_LOST``.

        :raises errors.TaskFailed: with ``LOCK_LIMIT`` if too many locks exist.
        :raises errors.OperationTimeout: if ``timeout_s`` is exceeded.
        """
        if getattr(self._mine, "lock", None) is not None:
            raise errors.invalid("this thread already holds a lock")
        deadline_s = checks.deadline(timeout_s)
        self._check_may_wait()
        held = self._hosts.make_lock()
        request = grouplink.GroupTask(groups.LOCK, lock=held)
        try:
            self._hosts.start(request)
            self._hosts.wait(request, deadline_s)
            if request.error is not None:
                raise request.error.again()
            self._mine.lock = held
            yield self
        finally:
            self._mine.lock = None
            self._hosts.unlock(request, held)

    def close(self, *, timeout_s: float | None = CLOSE_TIMEOUT_S) -> None:
        """Leave the group; closing twice does nothing.

        :param timeout_s: how long to wait for unfinished tasks. Tasks that
            still have no result fail with ``SESSION_CLOSED``.
        """
        deadline_s = channel.deadline_after(
            checks.seconds(timeout_s, "timeout_s") if timeout_s else timeout_s
        )
        self._check_may_wait()
        if self._hosts.close(deadline_s):
            self._token.detach(self)
            cancelling.release(self._token)
            self._door.detach(self._access)
            log.info("Group %s closed", self.group_id)

    def shutdown(self) -> None:
        """End all tasks with ``CANCELLED``; called by the token.

        A signal handler may call it, even while this thread holds locks.
        """
        threading.Thread(
            target=self._hosts.fail,
            args=(errors.Cancelled(),),
            name="fpgapool-group-cancel",
            daemon=True,
        ).start()

    def _task(
        self,
        data: Any,
        params: Mapping[str, Any] | None,
        offset: int,
        arguments: Mapping[int, Any] | None,
    ) -> grouplink.GroupTask:
        try:
            # operator.index() also accepts NumPy integers.
            number = -1 if isinstance(offset, bool) else operator.index(offset)
        except TypeError:
            number = -1
        if not 0 <= number < 2**63:
            raise errors.invalid(
                "offset must be an integer from 0 to 2**63 - 1"
            )
        values = checks.params(params)
        encoded = checks.encoded(values) if values else b""
        checked = self._checked
        if encoded != checked[0]:
            self._check_params(values)
            checked = encoded, checks.encoded(values) if values else b""
            self._checked = checked
        used = blocks.checked_arguments(arguments) if arguments else {}
        if isinstance(data, blocks.Block):
            view, out = _buffer(data.source)
            used, view = {0: data, **used}, b""
        else:
            view, out = _buffer(data)
        return grouplink.GroupTask(
            records.TASK,
            checked[1],
            view,
            number,
            getattr(self._mine, "lock", None),
            out,
            used,
        )


def _buffer(data: Any) -> tuple[rings.Buffer, Callable[[memoryview], Any]]:
    """Return an input's bytes, and a function that converts its output."""
    if data.__class__ is bytes:
        return data, bytes
    # A program that passes an array has already imported NumPy.
    numpy = sys.modules.get("numpy")
    try:
        if numpy is not None and isinstance(data, numpy.ndarray):
            flat = numpy.ascontiguousarray(data).reshape(-1)
            view = memoryview(flat.view(numpy.uint8)) if data.nbytes else b""
            return view, functools.partial(
                _array, numpy, data.dtype, data.shape
            )
    except (TypeError, ValueError):
        raise blocks.unfit(data) from None
    return blocks.bytes_of(data), bytes


def _array(
    numpy: Any, dtype: Any, shape: tuple[int, ...], output: memoryview
) -> Any:
    data = bytearray(output)
    if len(data) % max(1, dtype.itemsize):
        return numpy.frombuffer(data, numpy.uint8)
    array = numpy.frombuffer(data, dtype)
    same = array.size == math.prod(shape)
    return array.reshape(shape) if same else array
