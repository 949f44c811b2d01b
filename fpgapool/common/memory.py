#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Messages within one process: a driver of oslo.messaging.

For the all-in-one pool, whose conductor and agents are threads of one process
and need no broker. The ``fake`` driver of oslo.messaging looks for messages
twenty times a second, which is most of the time that opening a session would
take; this one wakes who waits for them. Messages and answers go through JSON,
as with a broker, so that the two sides share no objects.
"""

from __future__ import annotations

import collections
import math
import queue
import threading
import time
import typing

import oslo_messaging as messaging
from oslo_messaging._drivers import base
from oslo_serialization import jsonutils

#: Name of the driver, and so the scheme of its transport URL.
SCHEME = "fpgapool-memory"

#: Exchange, topic and server; without a server it is any of the topic's.
_Address = tuple[str, str, str | None]
#: What a handler returned, in JSON, and what it raised.
_Reply = tuple[bytes, BaseException | None]


class _Parcel(typing.NamedTuple):
    """A message on its way.

    :ivar body: context and message, in JSON.
    :ivar replies: None if nobody waits for an answer.
    """

    body: bytes
    replies: queue.SimpleQueue[_Reply] | None


class _Incoming(base.RpcIncomingMessage):  # type: ignore[misc]
    """A message that was taken out."""

    def __init__(self, bus: _Bus, address: _Address, parcel: _Parcel) -> None:
        context, message = jsonutils.loads(parcel.body)
        super().__init__(context, message)
        self._bus = bus
        self._address = address
        self._parcel = parcel

    def reply(
        self,
        reply: typing.Any = None,
        failure: typing.Any = None,
    ) -> None:
        if self._parcel.replies is not None:
            body = jsonutils.dump_as_bytes(reply)
            self._parcel.replies.put((body, failure[1] if failure else None))

    def requeue(self) -> None:
        self._bus.deliver(self._address, self._parcel)

    def heartbeat(self) -> None:
        """Nothing: a caller's time limit is final."""


class _Listener(base.PollStyleListener):  # type: ignore[misc]
    """Takes messages for a server out, in the order of their sending."""

    def __init__(self, bus: _Bus, addresses: tuple[_Address, ...]) -> None:
        super().__init__()
        self._bus = bus
        self.addresses = addresses
        self.wanted = threading.Condition(bus.lock)
        self.stopped = False
        bus.add(self)

    @base.batch_poll_helper  # type: ignore[misc]
    def poll(self, timeout: float | None = None) -> _Incoming | None:
        taken = self._bus.take(self, timeout)
        return None if taken is None else _Incoming(self._bus, *taken)

    def stop(self) -> None:
        self._bus.remove(self)


class _Bus:
    """All messages that were sent and not yet taken out."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._parcels: dict[_Address, collections.deque[_Parcel]] = (
            collections.defaultdict(collections.deque)
        )
        self._listeners: list[_Listener] = []

    def add(self, listener: _Listener) -> None:
        with self.lock:
            self._listeners.append(listener)

    def remove(self, listener: _Listener) -> None:
        with self.lock:
            listener.stopped = True
            listener.wanted.notify_all()
            if listener in self._listeners:
                self._listeners.remove(listener)

    def deliver(self, address: _Address, parcel: _Parcel) -> None:
        with self.lock:
            self._parcels[address].append(parcel)
            for listener in self._listeners:
                if address in listener.addresses:
                    listener.wanted.notify_all()

    def servers(self, exchange: str, topic: str) -> set[_Address]:
        with self.lock:
            return {
                address
                for listener in self._listeners
                for address in listener.addresses
                if address[:2] == (exchange, topic) and address[2] is not None
            }

    def take(
        self, listener: _Listener, timeout_s: float | None
    ) -> tuple[_Address, _Parcel] | None:
        limit_s = math.inf if timeout_s is None else timeout_s
        deadline_s = time.monotonic() + limit_s
        with self.lock:
            while True:
                for address in listener.addresses:
                    if self._parcels.get(address):
                        return address, self._parcels[address].popleft()
                left_s = deadline_s - time.monotonic()
                if listener.stopped or left_s <= 0:
                    return None
                listener.wanted.wait(None if left_s == math.inf else left_s)


class MemoryDriver(base.BaseDriver):  # type: ignore[misc]
    """The driver; a process has one transport, and so one bus."""

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
        parcel = _Parcel(jsonutils.dump_as_bytes([ctxt, message]), replies)
        for address in self._addresses(target):
            self._bus.deliver(address, parcel)
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
        return jsonutils.loads(body)

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
    ) -> base.PollStyleListenerAdapter:
        exchange = target.exchange or self._default_exchange
        addresses = (
            (exchange, target.topic, target.server),
            (exchange, target.topic, None),
        )
        return base.PollStyleListenerAdapter(
            _Listener(self._bus, addresses), batch_size, batch_timeout
        )

    def send_notification(self, *args: object, **kwargs: object) -> None:
        """Refuse: this project sends no notifications."""
        raise NotImplementedError(f"{SCHEME} is for RPC")

    def listen_for_notifications(
        self, *args: object, **kwargs: object
    ) -> base.Listener:
        """Refuse: this project receives no notifications."""
        raise NotImplementedError(f"{SCHEME} is for RPC")

    def cleanup(self) -> None:
        """Nothing is held."""
