# SPDX-License-Identifier: Apache-2.0

"""Runs a daemon as one process; signals stop it or reload its options.

Unlike oslo.service, it launches no worker processes: a daemon's state (the
scheduling core, the agent's slot table) must have a single owner.
"""

import contextlib
import faulthandler
import gc
import os
import queue
import resource
import select
import signal
import socket
import time
from collections.abc import Callable
from collections.abc import Sequence
from types import FrameType
from typing import Any
from typing import Protocol

from oslo_config import cfg
from oslo_log import log as logging

from fpgapool.common.monitoring import meditation
from fpgapool.common.monitoring import tracing

LOG = logging.getLogger(__name__)

# A supervisor may send a signal twice: to the process and to its group. So a
# second signal within this time does not end the process immediately.
_ECHO_S = 0.5

_STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT})
_SIGNALS = (*_STOP_SIGNALS, signal.SIGHUP)


class Service(Protocol):
    """A service that :class:`Runner` runs."""

    def start(self) -> None:
        """Start the service's threads and return."""

    def stop(self) -> None:
        """Stop the service cleanly; called once."""


class _Failed:
    """Notifies the main loop that a thread of a service has failed."""


class Runner:
    """Runs services in the main thread until a signal ends them.

    SIGTERM and SIGINT stop the services cleanly; a second signal ends the
    process immediately. SIGHUP reloads the configuration and applies mutable
    options, such as log levels. SIGUSR2 prints a report of the process, with
    the ``figures()`` of services that have them.

    :param on_reload: called after the configuration was reloaded.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        on_reload: Callable[[], None] | None = None,
    ) -> None:
        self._conf = conf
        self._on_reload = on_reload
        # Its put() is reentrant, because one handler may interrupt another.
        self._inbox: queue.SimpleQueue[signal.Signals | type[_Failed]] = (
            queue.SimpleQueue()
        )
        # If the kernel delivers a signal to another thread, the main thread
        # would stay asleep. Python writes a byte here, which wakes it.
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._stopping = False
        self._stop_requested_s = 0.0

    def fail(self, reason: str) -> None:
        """End the process with an error; for threads that cannot continue."""
        LOG.critical("Stopping because of an error: %s", reason)
        self._post(_Failed)

    def run(self, services: Sequence[Service]) -> int:
        """Start the services, wait until they must end, and stop them.

        They are stopped in reverse order. Call this in the main thread.

        :returns: exit code for the process; 1 after :meth:`fail`.
        """
        # If the kernel ends the process, for example because it read a mapped
        # file that was truncated, standard error shows the line of code.
        if not faulthandler.is_enabled():
            faulthandler.enable(all_threads=False)
        name = self._conf.prog or "fpgapool"
        meditation.start(
            self._conf, lambda: _figures(services), f"{name}_{os.getpid()}"
        )
        tracing.start(self._conf, name)
        previous = {
            number: signal.signal(number, self._on_signal)
            for number in _SIGNALS
        }
        previous_fd = signal.set_wakeup_fd(
            self._waker.fileno(), warn_on_full_buffer=False
        )
        started: list[Service] = []
        try:
            for service in services:
                started.append(service)
                service.start()
            # The garbage collector need not visit permanent objects again.
            gc.freeze()
            notify("READY=1")
            return self._wait()
        finally:
            self._stopping = True
            notify("STOPPING=1")
            _stop(started)
            tracing.stop()
            for number, handler in previous.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(previous_fd)
            self._woken.close()
            self._waker.close()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number in _STOP_SIGNALS:
            now_s = time.monotonic()
            if self._stopping and now_s - self._stop_requested_s > _ECHO_S:
                # sys.exit() would wait for hanging threads.
                os._exit(128 + number)
            if not self._stopping:
                self._stop_requested_s = now_s
            self._stopping = True
        self._post(signal.Signals(number))

    def _post(self, message: signal.Signals | type[_Failed]) -> None:
        self._inbox.put(message)
        # If the socket is full, the main loop wakes up anyway; if it is
        # closed, the loop has ended.
        with contextlib.suppress(OSError):
            self._waker.send(b"\0")

    def _next(self) -> signal.Signals | type[_Failed]:
        poller = select.poll()
        poller.register(self._woken, select.POLLIN)
        while True:
            with contextlib.suppress(queue.Empty):
                return self._inbox.get_nowait()
            poller.poll()
            with contextlib.suppress(BlockingIOError):
                self._woken.recv(4096)

    def _wait(self) -> int:
        while True:
            message = self._next()
            if message is _Failed:
                return 1
            LOG.info("Received %s", message)
            if message in _STOP_SIGNALS:
                return 0
            self._reload()

    def _reload(self) -> None:
        notify("RELOADING=1")
        try:
            self._conf.mutate_config_files()
            if self._on_reload is not None:
                self._on_reload()
        except Exception:
            # A typo in a file must not end a running service.
            LOG.exception("Cannot reload the configuration")
        notify("READY=1")


def _figures(services: Sequence[Service]) -> dict[str, Any]:
    return {
        type(one).__name__: one.figures()
        for one in services
        if hasattr(one, "figures")
    }


def _stop(services: list[Service]) -> None:
    for service in reversed(services):
        try:
            service.stop()
        except Exception:
            LOG.exception("%s failed to stop", type(service).__name__)


def raise_descriptor_limit() -> None:
    """Raise the limit on open files to the hard limit.

    Each client and each worker uses one or two descriptors.
    """
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def notify(state: str) -> None:
    """Notify systemd of the service's state, if systemd started it.

    :param state: as sd_notify(3) defines it, for example ``READY=1``.
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        # The address is in Linux's abstract namespace.
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.connect(address)
            channel.send(state.encode())
    except OSError as error:
        LOG.warning("Cannot notify systemd of %s: %s", state, error)
