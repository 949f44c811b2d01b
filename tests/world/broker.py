# SPDX-License-Identifier: Apache-2.0

"""A message broker between the processes of a world.

It takes the place of oslo.messaging below
:mod:`fpgapool.common.messaging.rpc`. Its messages are copied, so that the two
sides share no objects. They are late, lost, doubled and out of order as the
weather says; a process can be cut off from it in either direction.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import marshal
import types
import typing
from collections.abc import Iterable

import oslo_messaging as messaging
from oslo_messaging import opts as messaging_opts

from fpgapool.common import exception
from fpgapool.common.messaging import rpc
from tests.world import kernel as kernels
from tests.world import system

#: To copy them takes long, and each server asks for them.
_OPTIONS = messaging_opts.list_opts()
#: How many messages a server handles at the same time.
_THREADS = 64
#: What sending takes at most when the broker cannot be reached.
_GIVE_UP_S = 4.0
#: How long a message for a server that is gone is kept.
_KEPT_S = 60.0

_Address = tuple[str, str | None]


@dataclasses.dataclass
class Weather:
    """What happens to messages.

    :ivar lost: the share that is lost.
    :ivar doubled: the share that comes twice.
    :ivar late: the share that is late, and so out of order.
    :ivar late_s: by how much at most.
    """

    lost: float = 0.0
    doubled: float = 0.0
    late: float = 0.0
    late_s: float = 0.5


@dataclasses.dataclass
class _Message:
    body: bytes
    reply: _Reply | None
    address: _Address
    sent_s: float
    fanout: bool = False


@dataclasses.dataclass
class _Reply:
    """Where an answer is awaited."""

    process: kernels.Process
    future: system.Future


class Broker:
    """The broker.

    :ivar down: nothing is taken or given out.
    :ivar mute: processes, by number, that reach it no more.
    :ivar deaf: processes that it does not reach.
    """

    def __init__(self, kernel: kernels.Kernel) -> None:
        self.kernel = kernel
        self.weather = Weather()
        self.down = False
        self.mute: set[int] = set()
        self.deaf: set[int] = set()
        self._servers: dict[str, list[Server]] = {}
        self._kept: dict[_Address, list[_Message]] = {}

    def install(self) -> None:
        """Have the product use this broker from now on."""
        rpc._transport = typing.cast(typing.Any, self)
        rpc.messaging_opts = types.SimpleNamespace(  # type: ignore[assignment]
            list_opts=lambda: _OPTIONS
        )
        rpc.messaging = system._Module(  # type: ignore[assignment]
            messaging,
            get_rpc_client=_Client,
            get_rpc_server=Server,
        )

    # Sending.

    def send(
        self,
        address: _Address,
        body: bytes,
        reply: _Reply | None,
        *,
        fanout: bool = False,
    ) -> None:
        """Take a message from the process that runs.

        :param fanout: whether it is for all servers that listen now.
        :raises MessageDeliveryFailure: if it cannot be reached.
        """
        kernel = self.kernel
        kernel.point()
        process = kernel.task().process
        if self.down or process.pid in self.mute:
            kernel.sleep(kernel.random.uniform(0.0, _GIVE_UP_S))
            if self.down or process.pid in self.mute:
                raise messaging.MessageDeliveryFailure("no broker")
        message = _Message(body, reply, address, kernel.now_s, fanout)
        for delay_s in self._delays():
            kernel.at(delay_s, lambda: self._arrive(message))
        kernel.point()

    def _delays(self) -> list[float]:
        weather, random = self.weather, self.kernel.random
        draw = random.random()
        if draw < weather.lost:
            return []
        draw -= weather.lost
        delays = [random.uniform(0.0002, 0.002)]
        if draw < weather.doubled:
            delays.append(random.uniform(0.0, weather.late_s))
        elif draw - weather.doubled < weather.late:
            delays = [random.uniform(0.0, weather.late_s)]
        return delays

    def _arrive(self, message: _Message) -> None:
        if message.fanout:
            # Queues of servers that are gone keep nothing for others.
            for server in self._servers.get(message.address[0], ()):
                server.take(message)
            return
        server = self._choose(message.address)
        if server is None or self.down:
            self._kept.setdefault(message.address, []).append(message)
        else:
            server.take(message)

    def _choose(self, address: _Address) -> Server | None:
        topic, name = address
        servers = self._servers.get(topic, [])
        if name is not None:
            servers = [one for one in servers if one.name == name]
        if not servers:
            return None
        return self.kernel.random.choice(servers)

    # Servers.

    def listen(self, server: Server) -> None:
        """Give a server messages from now on."""
        self._servers.setdefault(server.topic, []).append(server)
        for address in ((server.topic, None), (server.topic, server.name)):
            kept = self._kept.pop(address, [])
            for message in kept:
                if self.kernel.now_s - message.sent_s < _KEPT_S:
                    server.take(message)

    def leave(self, server: Server) -> None:
        """A server listens no more; what it has not begun goes to others."""
        servers = self._servers.get(server.topic, [])
        if server in servers:
            servers.remove(server)
        for message in server.give_back():
            if not message.fanout:
                self._arrive(message)

    def recover(self) -> None:
        """The broker is back: what it kept is given out."""
        self.down = False
        kept, self._kept = self._kept, {}
        for messages in kept.values():
            for message in messages:
                self._arrive(message)
        for servers in self._servers.values():
            for server in servers:
                server.wake()

    def answer(self, reply: _Reply, value: object, failure: object) -> None:
        """Carry an answer back."""
        kernel = self.kernel
        if self.down or kernel.task().process.pid in self.mute:
            return
        for delay_s in self._delays():
            kernel.at(delay_s, lambda: self._reply(reply, value, failure))

    def _reply(self, reply: _Reply, value: object, failure: object) -> None:
        process = reply.process
        if (
            self.down
            or not process.alive
            or process.pid in self.deaf
            or reply.future.done()
        ):
            return
        if failure is not None:
            reply.future.set_exception(typing.cast(BaseException, failure))
        else:
            reply.future.set_result(value)


class Server:
    """As what ``oslo_messaging.get_rpc_server`` returns."""

    # What the product sets there chooses a thread. Here each message has a
    # task of its own, so that they may overtake each other.
    _on_incoming = None

    def __init__(
        self,
        broker: Broker,
        target: messaging.Target,
        endpoints: list[object],
        **_options: object,
    ) -> None:
        self.topic: str = target.topic
        self.name: str = target.server
        self._broker = broker
        self._endpoints = endpoints
        self.process = broker.kernel.task().process
        self._inbox: collections.deque[_Message] = collections.deque()
        self._running = 0
        self._idle = system.Event()

    def start(self) -> None:
        broker = self._broker
        while broker.down or self.process.pid in broker.mute:
            broker.kernel.sleep(0.5)
        self.process.at_exit.append(lambda: broker.leave(self))
        broker.listen(self)

    def stop(self) -> None:
        self._broker.leave(self)

    def wait(self) -> None:
        while self._running:
            self._idle.clear()
            self._idle.wait()

    def take(self, message: _Message) -> None:
        self._inbox.append(message)
        self.wake()

    def give_back(self) -> Iterable[_Message]:
        """Return what was not begun."""
        messages, self._inbox = list(self._inbox), collections.deque()
        return messages

    def wake(self) -> None:
        """Go on, if there is anything to do."""
        broker = self._broker
        while (
            self._inbox
            and self._running < _THREADS
            and not broker.down
            and self.process.pid not in broker.deaf
            and self.process.alive
        ):
            message = self._inbox.popleft()
            self._running += 1
            broker.kernel.spawn(
                self.process, f"rpc {self.topic}", self._handler(message)
            )

    def _handler(self, message: _Message) -> typing.Callable[[], None]:
        def handle() -> None:
            try:
                self._handle(message)
            finally:
                self._running -= 1
                self._idle.set()
                self.wake()

        return handle

    def _handle(self, message: _Message) -> None:
        method, kwargs = marshal.loads(message.body)
        failure: BaseException | None = None
        value: object = None
        try:
            for endpoint in self._endpoints:
                if hasattr(endpoint, method):
                    value = getattr(endpoint, method)(None, **kwargs)
                    break
        except messaging.ExpectedException as error:
            failure = error.exc_info[1]
        except Exception as error:
            failure = error
            self._broker.kernel.fail(f"{method} raised {error!r}", error)
        if message.reply is not None:
            copied = marshal.loads(marshal.dumps(value))
            self._broker.answer(message.reply, copied, failure)


class _Client:
    """As what ``oslo_messaging.get_rpc_client`` returns."""

    def __init__(
        self,
        broker: Broker,
        target: messaging.Target,
        timeout: float = 10.0,
        server: str | None = None,
        **_options: object,
    ) -> None:
        self._broker = broker
        self._target = target
        self._timeout_s = timeout
        self._server = server

    def prepare(
        self, server: str | None = None, timeout: float | None = None
    ) -> _Client:
        return _Client(
            self._broker,
            self._target,
            self._timeout_s if timeout is None else timeout,
            self._server if server is None else server,
        )

    def cast(self, _ctxt: object, method: str, **kwargs: object) -> None:
        body = marshal.dumps([method, kwargs])
        address = self._target.topic, self._server
        fanout = bool(self._target.fanout)
        self._broker.send(address, body, None, fanout=fanout)

    def call(self, _ctxt: object, method: str, **kwargs: object) -> object:
        process = self._broker.kernel.task().process
        reply = _Reply(process, system.Future())
        body = marshal.dumps([method, kwargs])
        self._broker.send((self._target.topic, self._server), body, reply)
        try:
            return reply.future.result(self._timeout_s)
        except TimeoutError:
            reply.future.cancel()
            raise messaging.MessagingTimeout(method) from None
        except exception.FpgapoolException as error:
            raise copy.copy(error) from error
