# SPDX-License-Identifier: Apache-2.0

"""What programs ask their system for: threads, queues, clocks, chance.

Each class behaves as the standard library's, on the virtual time of a
:class:`tests.world.kernel.Kernel`. :func:`install` puts them into the modules
of the product, which then run unchanged.
"""

from __future__ import annotations

import collections
import concurrent.futures
import functools
import importlib
import pkgutil
import queue
import random
import secrets
import sys
import threading
import time
import types
import typing
import uuid
from collections.abc import Callable

from fpgapool import client
from tests.world import kernel as kernels

#: The kernel of the world that this (operating system's) process runs.
_kernel: kernels.Kernel


def _me() -> kernels.Task:
    return _kernel.task()


class _Waiters:
    """Tasks that wait for the same thing, first come first served."""

    #: Most never have one: then there is no queue.
    tasks: collections.deque[kernels.Task] | tuple[()] = ()

    def wait(self, timeout_s: float | None) -> bool:
        """Wait to be woken.

        :returns: False if the time is over.
        """
        task = _kernel.current or _me()
        tasks = self.tasks
        if isinstance(tasks, tuple):
            tasks = self.tasks = collections.deque()
        tasks.append(task)
        woken = _kernel.park(timeout_s)
        if not woken and task in tasks:
            tasks.remove(task)
        return woken

    def wake(self, count: int | None = None) -> None:
        """Wake so many; None for all."""
        tasks = self.tasks
        if not tasks:
            return
        left = len(tasks) if count is None else count
        while tasks and left > 0:
            task = tasks.popleft()
            if task.process.alive:
                _kernel.unpark(task)
                left -= 1


def _left_s(until_s: float | None) -> float | None:
    return None if until_s is None else until_s - _kernel.now_s


def _until_s(timeout_s: float | None) -> float | None:
    if timeout_s is None or timeout_s < 0:
        return None
    return _kernel.now_s + timeout_s


class Lock:
    """As :class:`threading.Lock`; also bounded semaphores."""

    def __init__(self, value: int = 1) -> None:
        self._value = value
        self._limit = value
        self._waiters = _Waiters()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        until_s = _until_s(timeout)
        while self._value <= 0:
            left_s = _left_s(until_s)
            if not blocking or (left_s is not None and left_s <= 0):
                return False
            self._waiters.wait(left_s)
        self._value -= 1
        return True

    def release(self) -> None:
        if self._value >= self._limit:
            raise ValueError("released too many times")
        self._value += 1
        if self._waiters.tasks:
            self._waiters.wake(1)

    def locked(self) -> bool:
        return self._value <= 0

    def __enter__(self) -> bool:
        if self._value <= 0:
            return self.acquire()
        self._value -= 1
        return True

    def __exit__(self, *_exc: object) -> None:
        # As release() does.
        if self._value >= self._limit:
            raise ValueError("released too many times")
        self._value += 1
        if self._waiters.tasks:
            self._waiters.wake(1)


class RLock:
    """As :class:`threading.RLock`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner: kernels.Task | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._count and self._owner is _kernel.current:
            self._count += 1
            return True
        if not self._lock.acquire(blocking, timeout):
            return False
        self._owner, self._count = _kernel.current, 1
        return True

    def release(self) -> None:
        self._count -= 1
        if not self._count:
            self._owner = None
            self._lock.release()

    def __enter__(self) -> bool:
        # Most locks are free.
        lock = self._lock
        if lock._value <= 0:
            return self.acquire()
        lock._value -= 1
        self._owner, self._count = _kernel.current, 1
        return True

    def __exit__(self, *_exc: object) -> None:
        self._count -= 1
        if not self._count:
            self._owner = None
            self._lock.__exit__()


class Condition:
    """As :class:`threading.Condition`."""

    def __init__(self, lock: Lock | RLock | None = None) -> None:
        self._lock = lock if lock is not None else RLock()
        self._waiters = _Waiters()
        self.acquire = self._lock.acquire
        self.release = self._lock.release
        self._enter = self._lock.__enter__
        self._exit = self._lock.__exit__

    def __enter__(self) -> bool:
        return self._enter()

    def __exit__(self, *_exc: object) -> None:
        self._exit()

    def wait(self, timeout: float | None = None) -> bool:
        self._lock.release()
        try:
            return self._waiters.wait(timeout)
        finally:
            self._lock.acquire()

    def wait_for(
        self, predicate: Callable[[], bool], timeout: float | None = None
    ) -> bool:
        until_s = _until_s(timeout)
        while not (result := predicate()):
            left_s = _left_s(until_s)
            if left_s is not None and left_s <= 0:
                break
            self.wait(left_s)
        return result

    def notify(self, n: int = 1) -> None:
        self._waiters.wake(n)

    def notify_all(self) -> None:
        if self._waiters.tasks:
            self._waiters.wake()


class Event:
    """As :class:`threading.Event`."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiters = _Waiters()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        if self._waiters.tasks:
            self._waiters.wake()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        until_s = None if timeout is None else _kernel.now_s + timeout
        while not self._is_set:
            left_s = _left_s(until_s)
            if left_s is not None and left_s <= 0:
                return False
            self._waiters.wait(left_s)
        return True


class Thread:
    """As :class:`threading.Thread`: a task of the process that starts it."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: typing.Sequence[object] = (),
        kwargs: typing.Mapping[str, object] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self._target = target
        self._args = args
        self._kwargs = kwargs or {}
        self._task: kernels.Task | None = None
        self.name = name or "thread"
        self.daemon = daemon

    @property
    def ident(self) -> int | None:
        """Of its task; None: it has not been started."""
        return None if self._task is None else id(self._task)

    def start(self) -> None:
        process = _me().process
        self._task = _kernel.spawn(process, self.name, self._body)
        _threads[self._task] = self
        _kernel.point()

    def _body(self) -> None:
        try:
            self.run()
        finally:
            _threads.pop(_me(), None)

    def run(self) -> None:
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def join(self, timeout: float | None = None) -> None:
        task = self._task
        if task is None or task.ended:
            return
        task.waiters.append(_me())
        _kernel.park(timeout)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.ended


_threads: dict[kernels.Task, Thread] = {}


def _current_thread() -> Thread:
    task = _me()
    if task not in _threads:
        _threads[task] = Thread(name=task.name)
    return _threads[task]


class Timer(Thread):
    """As :class:`threading.Timer`."""

    def __init__(
        self, interval: float, function: Callable[..., object]
    ) -> None:
        super().__init__(name="timer")
        self._interval_s = interval
        self._function = function
        self._cancelled = Event()

    def cancel(self) -> None:
        self._cancelled.set()

    def run(self) -> None:
        if not self._cancelled.wait(self._interval_s):
            self._function()


class Local:
    """As :class:`threading.local`; defaults are attributes of the class."""

    def __getattribute__(self, name: str) -> object:
        task = _kernel.current
        if task is not None and not name.startswith("__"):
            values = task.local.get(id(self), {})
            if name in values:
                return values[name]
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: object) -> None:
        _me().local.setdefault(id(self), {})[name] = value


class Queue:
    """As :class:`queue.Queue` and :class:`queue.SimpleQueue`."""

    def __init__(self, maxsize: int = 0) -> None:
        self._limit = maxsize
        self._items: collections.deque[object] = collections.deque()
        self._getters = _Waiters()
        self._putters = _Waiters()

    @classmethod
    def __class_getitem__(cls, _item: object) -> type[Queue]:
        return cls

    def put(
        self, item: object, block: bool = True, timeout: float | None = None
    ) -> None:
        until_s = _until_s(timeout)
        while 0 < self._limit <= len(self._items):
            left_s = _left_s(until_s)
            if not block or (left_s is not None and left_s <= 0):
                raise queue.Full
            self._putters.wait(left_s)
        self._items.append(item)
        if self._getters.tasks:
            self._getters.wake(1)
        _kernel.point()

    def put_nowait(self, item: object) -> None:
        self.put(item, block=False)

    def get(self, block: bool = True, timeout: float | None = None) -> object:
        until_s = None if timeout is None else _kernel.now_s + timeout
        while not self._items:
            left_s = _left_s(until_s)
            if not block or (left_s is not None and left_s <= 0):
                raise queue.Empty
            self._getters.wait(left_s)
        item = self._items.popleft()
        if self._putters.tasks:
            self._putters.wake(1)
        return item

    def get_nowait(self) -> object:
        return self.get(block=False)

    def qsize(self) -> int:
        return len(self._items)

    def empty(self) -> bool:
        return not self._items


class Future:
    """As :class:`concurrent.futures.Future`."""

    def __init__(self) -> None:
        self._state = "pending"
        self._value: object = None
        self._error: BaseException | None = None
        self._ended = Event()
        self._callbacks: list[Callable[[Future], object]] = []

    @classmethod
    def __class_getitem__(cls, _item: object) -> type[Future]:
        return cls

    def set_running_or_notify_cancel(self) -> bool:
        if self._state == "cancelled":
            return False
        self._state = "running"
        return True

    def cancel(self) -> bool:
        if self._state in ("running", "ended"):
            return self._state == "cancelled"
        self._finish("cancelled")
        return True

    def cancelled(self) -> bool:
        return self._state == "cancelled"

    def done(self) -> bool:
        return self._state in ("cancelled", "ended")

    def set_result(self, value: object) -> None:
        self._value = value
        self._finish("ended")

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._finish("ended")

    def _finish(self, state: str) -> None:
        self._state = state
        self._ended.set()
        for callback in self._callbacks:
            callback(self)

    def add_done_callback(self, callback: Callable[[Future], object]) -> None:
        if self.done():
            callback(self)
        else:
            self._callbacks.append(callback)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._await(timeout)
        return self._error

    def result(self, timeout: float | None = None) -> object:
        self._await(timeout)
        if self._error is not None:
            raise self._error
        return self._value

    def _await(self, timeout: float | None) -> None:
        if not self._ended.wait(timeout):
            raise TimeoutError
        if self._state == "cancelled":
            raise concurrent.futures.CancelledError


class _Module(types.ModuleType):
    """A module of the standard library with some names replaced."""

    def __init__(self, original: types.ModuleType, **replaced: object) -> None:
        super().__init__(original.__name__)
        self._original = original
        self.__dict__.update(vars(original), **replaced)

    def __getattr__(self, name: str) -> object:
        # What it makes on demand, too.
        return getattr(self._original, name)


class PerProcess:
    """What each process has one of, made when it is first used."""

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = make
        self._made: dict[kernels.Process, object] = {}

    def __getattr__(self, name: str) -> object:
        process = _me().process
        if process not in self._made:
            self._made[process] = self._make()
        return getattr(self._made[process], name)


def _process() -> kernels.Process | None:
    return None if _kernel.current is None else _kernel.current.process


def _wall_s() -> float:
    process = _process()
    offset_s = 0.0 if process is None else process.wall_offset_s
    return kernels.BEGINS_AT + _kernel.now_s + offset_s


def _monotonic_s() -> float:
    # Not zero: a time of zero means "never" to many.
    return 1000.0 + _kernel.now_s


def _monotonic_ns() -> int:
    return int(_monotonic_s() * 1e9)


def _sleep(seconds: float) -> None:
    _kernel.sleep(seconds)


def _chance() -> random.Random:
    process = _process()
    return _kernel.random if process is None else process.random


class _Chance:
    """As the functions of :mod:`random`, by the process's own seed."""

    def __getattr__(self, name: str) -> object:
        return getattr(_chance(), name)


def enter(kernel: kernels.Kernel) -> None:
    """Have what is in this module live in a world."""
    global _kernel
    _kernel = kernel


def install(kernel: kernels.Kernel, modules: dict[str, object]) -> None:
    """Have the product live in a world from now on, for good.

    :param modules: what else replaces modules of the standard library, by
        their names.
    """
    enter(kernel)
    chance = _Chance()
    futures = _Module(concurrent.futures, Future=Future)
    replaced: dict[str, object] = {
        "threading": _Module(
            threading,
            Lock=Lock,
            RLock=RLock,
            Condition=Condition,
            Event=Event,
            Thread=Thread,
            Timer=Timer,
            Semaphore=Lock,
            BoundedSemaphore=Lock,
            local=Local,
            current_thread=_current_thread,
        ),
        "queue": _Module(queue, Queue=Queue, SimpleQueue=Queue),
        "time": _Module(
            time,
            time=_wall_s,
            time_ns=lambda: int(_wall_s() * 1e9),
            monotonic=_monotonic_s,
            monotonic_ns=_monotonic_ns,
            perf_counter=_monotonic_s,
            sleep=_sleep,
        ),
        "random": chance,
        "uuid": _Module(
            uuid,
            uuid4=lambda: uuid.UUID(int=_chance().getrandbits(128), version=4),
        ),
        "secrets": _Module(
            secrets, token_hex=lambda size: _chance().randbytes(size).hex()
        ),
        "concurrent": types.SimpleNamespace(futures=futures),
        "futures": futures,
        **modules,
    }
    found = inhabited()
    for module, name, original in found.modules:
        if original in replaced:
            setattr(module, name, replaced[original])
    for module, name, value in found.locals:
        setattr(module, name, type(name, (Local,), _own_members(value)))
    for thread in found.threads:
        thread.__bases__ = (Thread,)
    for function in found.clocked:
        _replace_defaults(function)


class _Inhabited:
    """What is replaced in the modules that live in the world.

    :ivar modules: the standard library's modules there: where each is, by
        which name, and the last part of its own.
    :ivar locals: classes with thread-local values, and where they are.
    :ivar clocked: functions that have a clock as a default.
    """

    def __init__(self) -> None:
        self.modules: list[tuple[types.ModuleType, str, str]] = []
        self.locals: list[tuple[types.ModuleType, str, type]] = []
        self.threads: list[type] = []
        self.clocked: list[types.FunctionType] = []
        # What a program imports when it first uses it lives here, too.
        for each in pkgutil.walk_packages(client.__path__, "fpgapool.client."):
            importlib.import_module(each.name)
        for name, module in list(sys.modules.items()):
            if module is not None and name.startswith(_INHABITED):
                self._look(module)

    def _look(self, module: types.ModuleType) -> None:
        for name, value in vars(module).items():
            if isinstance(value, types.ModuleType):
                if value.__name__ in _STANDARD:
                    own = value.__name__.rpartition(".")[2]
                    self.modules.append((module, name, own))
            elif isinstance(value, types.FunctionType):
                self._look_at(value)
            elif not isinstance(value, type):
                continue
            elif threading.local in value.__bases__:
                self.locals.append((module, name, value))
            elif threading.Thread in value.__bases__:
                self.threads.append(value)
            else:
                for member in vars(value).values():
                    self._look_at(getattr(member, "__func__", member))

    def _look_at(self, function: object) -> None:
        if isinstance(function, types.FunctionType) and any(
            _is_clock(value)
            for value in (
                *(function.__defaults__ or ()),
                *(function.__kwdefaults__ or {}).values(),
            )
        ):
            self.clocked.append(function)


@functools.cache
def inhabited() -> _Inhabited:
    """Return what is replaced.

    To find it takes long: a process that plays many schedules does it once,
    before it divides.
    """
    return _Inhabited()


def _is_clock(value: object) -> bool:
    return isinstance(value, types.BuiltinFunctionType) and value in _CLOCKS


def _replace_defaults(function: types.FunctionType) -> None:
    """Have a function that has a real clock as default take the world's."""

    def replaced(value: object) -> object:
        return _CLOCKS[value] if _is_clock(value) else value

    if function.__defaults__:
        function.__defaults__ = tuple(map(replaced, function.__defaults__))
    if function.__kwdefaults__:
        for name, value in function.__kwdefaults__.items():
            function.__kwdefaults__[name] = replaced(value)


_CLOCKS: dict[object, object] = {
    time.time: _wall_s,
    time.monotonic: _monotonic_s,
    time.monotonic_ns: _monotonic_ns,
    time.perf_counter: _monotonic_s,
    time.sleep: _sleep,
}

#: Modules that live in the world.
_INHABITED = ("fpgapool.", "tests.chaos.clients", "tests.world.driver")

_STANDARD = {
    "concurrent",
    "concurrent.futures",
    "fcntl",
    "os",
    "queue",
    "random",
    "secrets",
    "select",
    "selectors",
    "signal",
    "socket",
    "threading",
    "time",
    "uuid",
}


def _own_members(value: type) -> dict[str, object]:
    left_out = {"__dict__", "__weakref__"}
    return {k: v for k, v in vars(value).items() if k not in left_out}
