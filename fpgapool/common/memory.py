# SPDX-License-Identifier: Apache-2.0

"""An oslo.messaging driver for messages within one process.

The all-in-one pool uses it: its conductor and agents are threads of one
process and need no broker. The ``fake`` driver of oslo.messaging polls twenty
times a second, so opening a session would mostly wait for it. This driver
calls the receiver in the sender's thread. Messages and replies are converted
to JSON and back, as with a broker, so that the two sides share no objects.
"""

from __future__ import annotations

import collections
import queue
import threading
import typing

import oslo_messaging as messaging
from oslo_messaging._drivers import base

from fpgapool.common.messaging import codec

#: Name of the driver, and scheme of its transport URL.
SCHEME = "fpgapool-memory"

#: Exchange, topic and server; None: any of the topic's servers.
_Address = tuple[str, str, str | None]
_Callback = typing.Callable[[list[base.RpcIncomingMessage]], None]
#: A handler's result in JSON, and its exception.
_Reply = tuple[bytes, BaseException | None]


class _Incoming(base.RpcIncomingMessage):  # type: ignore[misc]
    """A message to a server."""

    def __init__(
        self,
        bus: _Bus,
        address: _Address,
        body: bytes,
        replies: queue.SimpleQueue[_Reply] | None,
    ) -> None:
        context, message = codec.loads(body)
        super().__init__(context, message)
        self._bus = bus
        self._address = address
        self._replies = replies

    def reply(
        self,
        reply: typing.Any = None,
        failure: typing.Any = None,
    ) -> None:
        if self._replies is not None:
            body = codec.dump_as_bytes(reply)
            self._replies.put((body, failure[1] if failure else None))

    def requeue(self) -> None:
        self._bus.deliver(self._address, self)

    def heartbeat(self) -> None:
        """Do nothing: callers' timeouts are not extended."""


class _Listener(base.Listener):  # type: ignore[misc]
    """Passes messages to a server, in the senders' threads."""

    def __init__(
        self,
        bus: _Bus,
        addresses: tuple[_Address, ...],
        batch_size: int,
        batch_timeout: float | None,
    ) -> None:
        super().__init__(batch_size, batch_timeout)
        self._bus = bus
        self.addresses = addresses
        bus.add(self)

    def start(self, on_incoming_callback: _Callback) -> None:
        super().start(on_incoming_callback)
        self._bus.begin(self)

    def stop(self) -> None:
        self._bus.remove(self)
        super().stop()

    def cleanup(self) -> None:
        """Do nothing."""


class _Bus:
    """The listeners, and messages that wait for a listener."""

    def __init__(self) -> None:
        # Reentrant, because a handler may send messages in the same thread.
        self._lock = threading.RLock()
        self._waiting: dict[_Address, collections.deque[_Incoming]] = (
            collections.defaultdict(collections.deque)
        )
        self._listeners: list[_Listener] = []

    def add(self, listener: _Listener) -> None:
        with self._lock:
            self._listeners.append(listener)

    def begin(self, listener: _Listener) -> None:
        """Pass to a listener the messages that were sent before it started."""
        with self._lock:
            for address in listener.addresses:
                for incoming in self._waiting.pop(address, ()):
                    listener.on_incoming_callback([incoming])

    def remove(self, listener: _Listener) -> None:
        with self._lock:
            self._listeners.remove(listener)

    def deliver(self, address: _Address, incoming: _Incoming) -> None:
        with self._lock:
            for listener in self._listeners:
                started = listener.on_incoming_callback is not None
                if started and address in listener.addresses:
                    listener.on_incoming_callback([incoming])
                    return
            self._waiting[address].append(incoming)

    def servers(self, exchange: str, topic: str) -> set[_Address]:
        with self._lock:
            return {
                address
                for listener in self._listeners
                for address in listener.addresses
                if address[:2] == (exchange, topic) and address[2] is not None
            }


class MemoryDriver(base.BaseDriver):  # type: ignore[misc]
    """The driver; a process has one transport and therefore one bus."""

    def __init__(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        super().__init__(*args, **kwargs)
        self._bus = _Bus()

    def send(
        self,
        target: messaging.Target,
        ctxt: dict[str, typing.Any],
        message: dict[str, typing.Any],
        wait_for_reply: bool | None = None,
        timeout: float | None = None,
        call_monitor_timeout: float | None = None,
        retry: int | None = None,
        transport_options: object = None,
    ) -> typing.Any:
        replies: queue.SimpleQueue[_Reply] | None = (
            queue.SimpleQueue() if wait_for_reply else None
        )
        body = codec.dump_as_bytes([ctxt, message])
        for address in self._addresses(target):
            incoming = _Incoming(self._bus, address, body, replies)
            self._bus.deliver(address, incoming)
        if replies is None:
            return None
        try:
            body, failure = replies.get(timeout=timeout)
        except queue.Empty:
            raise messaging.MessagingTimeout(
                f"no reply on topic {target.topic}"
            ) from None
        if failure is not None:
            raise failure
        return codec.loads(body)

    def _addresses(self, target: messaging.Target) -> list[_Address]:
        exchange = target.exchange or self._default_exchange
        if target.fanout:
            return sorted(self._bus.servers(exchange, target.topic))
        return [(exchange, target.topic, target.server)]

    def listen(
        self,
        target: messaging.Target,
        batch_size: int,
        batch_timeout: float | None,
    ) -> base.Listener:
        exchange = target.exchange or self._default_exchange
        addresses = (
            (exchange, target.topic, target.server),
            (exchange, target.topic, None),
        )
        return _Listener(self._bus, addresses, batch_size, batch_timeout)

    def send_notification(self, *args: object, **kwargs: object) -> None:
        raise NotImplementedError(f"{SCHEME} supports only RPC")

    def listen_for_notifications(
        self, *args: object, **kwargs: object
    ) -> base.Listener:
        raise NotImplementedError(f"{SCHEME} supports only RPC")

    def cleanup(self) -> None:
        """Do nothing."""
