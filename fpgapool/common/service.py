# SPDX-License-Identifier: Apache-2.0

"""Runs a daemon as one process, stopped and reloaded by signals.

Unlike oslo.service, it launches no worker processes: the state of a daemon
(the scheduling core, the agent's slot table) has a single owner.
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
from typing import Protocol

from oslo_config import cfg
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

# A supervisor may send one signal twice, to the process and to its group. A
# second signal within this time does not end the process at once.
_ECHO_S = 0.5

_STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT})
_SIGNALS = (*_STOP_SIGNALS, signal.SIGHUP)


class Service(Protocol):
    """A service that :class:`Runner` runs."""

    def start(self) -> None:
        """Start the service's threads and return."""

    def stop(self) -> None:
        """Stop the service in order; called once."""


class _Failed:
    """Reports to the main loop that a thread of the service has failed."""


class Runner:
    """Runs services in the main thread until a signal ends them.

    SIGTERM and SIGINT stop the services in order; a second signal ends the
    process at once. SIGHUP reads the configuration again and applies the
    mutable options, such as log levels.

    :param on_reload: called after the configuration was read again.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        on_reload: Callable[[], None] | None = None,
    ) -> None:
        self._conf = conf
        self._on_reload = on_reload
        # SimpleQueue.put is reentrant: a handler may interrupt another.
        self._inbox: queue.SimpleQueue[signal.Signals | type[_Failed]] = (
            queue.SimpleQueue()
        )
        # The kernel may deliver a signal to another thread, and the main
        # thread would sleep on. Python writes a byte here, which wakes it.
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
        """Start the services, wait for the end and stop them.

        It starts them in order and stops them in reverse order. Call it in the
        main thread.

        :returns: the exit code for the process, 1 after :meth:`fail`.
        """
        # If the kernel ends the process, as after reading a mapped file that
        # was truncated, standard error shows the line.
        if not faulthandler.is_enabled():
            faulthandler.enable(all_threads=False)
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
            # The collector need not traverse permanent objects again.
            gc.freeze()
            notify("READY=1")
            return self._wait()
        finally:
            self._stopping = True
            notify("STOPPING=1")
            _stop(started)
            for number, handler in previous.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(previous_fd)
            self._woken.close()
            self._waker.close()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number in _STOP_SIGNALS:
            now_s = time.monotonic()
            if self._stopping and now_s - self._stop_requested_s > _ECHO_S:
                # Not sys.exit(): it would wait for hanging threads.
                os._exit(128 + number)
            if not self._stopping:
                self._stop_requested_s = now_s
            self._stopping = True
        self._post(signal.Signals(number))

    def _post(self, message: signal.Signals | type[_Failed]) -> None:
        self._inbox.put(message)
        # A full socket wakes the main loop anyway; a closed one means that the
        # loop has ended.
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
            # A typing error in a file must not end a running service.
            LOG.exception("The configuration was not reloaded")
        notify("READY=1")


def _stop(services: list[Service]) -> None:
    for service in reversed(services):
        try:
            service.stop()
        except Exception:
            LOG.exception("%s failed to stop", type(service).__name__)


def raise_descriptor_limit() -> None:
    """Raise the limit of open files to the hard limit.

    Every client and every worker takes a descriptor or two.
    """
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def notify(state: str) -> None:
    """Report to systemd the service's state, if systemd started it.

    :param state: as sd_notify(3) defines it, for example ``READY=1``.
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        # Linux's abstract namespace.
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.connect(address)
            channel.send(state.encode())
    except OSError as error:
        LOG.warning("systemd was not notified of %s: %s", state, error)
