# SPDX-License-Identifier: Apache-2.0

"""Set-up of oslo.messaging: one transport per process.

RPC needs the global ``cfg.CONF``: oslo.messaging registers some of its own
options nowhere else.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import inspect
import json
import re
import threading
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any
from typing import ClassVar

import amqp
import kombu.exceptions
import oslo_messaging as messaging
from kombu import serialization
from oslo_config import cfg
from oslo_log import log as logging
from oslo_messaging import opts as messaging_opts
from oslo_messaging._drivers import amqpdriver
from oslo_messaging._drivers import common as drivers_common

from fpgapool.common import exception
from fpgapool.common.messaging import codec
from fpgapool.common.messaging import signing
from fpgapool.common.monitoring import ratelimit
from fpgapool.vocabulary import codes

LOG = logging.getLogger(__name__)
_OFTEN = ratelimit.RateLimitedLog(__name__)

EXCHANGE = "fpgapool"
ALLOWED_EXMODS = ["fpgapool.common.exception"]

# Further attempts of a cast on a broken connection: one to notice, one to
# reconnect. A sender must not hang while the broker is unavailable; higher
# layers send lost messages again.
SEND_RETRIES = 2

CALL_TIMEOUT_S = 10

#: The method that carries several casts in one message.
SEVERAL = "several"

#: The method that carries any other call, with a signature.
SIGNED = "signed"

#: Called with the method, its duration in seconds, and whether it succeeded.
Watch = Callable[[str, float, bool], None]

# The defaults of oslo.messaging wait a minute for a dead peer. Operators' own
# settings take precedence over these.
_RABBIT_DEFAULTS = {
    "heartbeat_timeout_threshold": 15,
    "rabbit_interval_max": 5,
    "rabbit_retry_backoff": 1,
    "kombu_reconnect_delay": 0.5,
}

#: Topic -> option of the group [upgrade_levels].
_PINS = {"fpgapool-conductor": "conductor", "fpgapool-agent": "agent"}

# After each message the driver's listeners wait so long for the next one, then
# twice as long, and so on: its 1 ms makes them wake up several times for every
# message. They do so to acknowledge notifications; RPC is acknowledged on
# arrival.
_FIRST_WAIT_S = 0.1

_THREADS_OPTION = "executor_thread_pool_size"

# The start of a signed body.
_SIGNED_METHOD = re.compile(r'\["(\w+)"')

#: A topic that no service has.
NOBODY = "fpgapool-nobody"

# The context of all messages. Services do not act in the name of a user, so a
# user's token on the bus could only be stolen.
_CONTEXT: dict[str, Any] = {}

_transport: messaging.Transport | None = None
# Whether the transport has ever been connected.
_was_reached = True
_pins: dict[str, str] = {}


def init(conf: cfg.ConfigOpts = cfg.CONF, *, url: str | None = None) -> None:
    """Create the process's transport.

    It does not connect yet, so it works while the broker is away. A second
    call keeps the first transport.

    :param url: None means the option ``transport_url``.
    :raises: oslo_messaging.MessagingException for an unusable URL.
    """
    global _transport, _pins, _was_reached
    if _transport is not None:
        return
    _pins = _read_pins(conf)
    messaging.set_transport_defaults(EXCHANGE)
    _transport = messaging.get_rpc_transport(
        conf, url=url, allowed_remote_exmods=ALLOWED_EXMODS
    )
    _set_rabbit_defaults(conf)
    amqpdriver.ACK_REQUEUE_EVERY_SECONDS_MIN = _FIRST_WAIT_S
    _use_fast_json()
    _was_reached = not _waits_for_ever(conf, url)


def _use_fast_json() -> None:
    # A message is JSON within JSON: the driver's envelope, and kombu's body.
    drivers_common.jsonutils = codec
    serialization.register(
        "json", codec.dumps, codec.loads, "application/json", "utf-8"
    )


def _waits_for_ever(conf: cfg.ConfigOpts, url: str | None) -> bool:
    """Whether the driver's first call waits for a broker without limit."""
    return messaging.TransportURL.parse(conf, url).transport == "rabbit"


def _read_pins(conf: cfg.ConfigOpts) -> dict[str, str]:
    if "upgrade_levels" not in conf:
        return {}
    return {
        topic: conf.upgrade_levels[name]
        for topic, name in _PINS.items()
        if conf.upgrade_levels[name] is not None
    }


@functools.cache
def _numbers(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)


def _pinned(target: messaging.Target) -> str:
    """Return the RPC version to use: the target's, or an older pin."""
    own = target.version or "1.0"
    pin = _pins.get(target.topic, own)
    if _numbers(pin)[0] != _numbers(own)[0]:
        raise exception.ConfigurationError(
            reason=f"[upgrade_levels] {_PINS[target.topic]}: {pin} is not"
            f" compatible with {own} of this release"
        )
    return min(pin, own, key=_numbers)


def _set_rabbit_defaults(conf: cfg.ConfigOpts) -> None:
    # The driver registers its group when the transport is created and reads
    # these values when it connects.
    for name, value in _RABBIT_DEFAULTS.items():
        try:
            conf.set_default(name, value, group="oslo_messaging_rabbit")
        except (cfg.NoSuchGroupError, cfg.NoSuchOptError):
            return


def cleanup() -> None:
    """Close the process's transport; :func:`init` may be called again."""
    global _transport, _pins
    _pins = {}
    if _transport is not None:
        _transport.cleanup()
        _transport = None


def _require_transport() -> messaging.Transport:
    if _transport is None:
        raise RuntimeError(
            "fpgapool.common.messaging.rpc.init() was not called"
        )
    return _transport


class Client:
    """Sends to one topic, on behalf of the service itself.

    :param since: the version that introduced each method; 1.0 if it is not
        listed. The client does not send methods that are newer than
        ``[upgrade_levels]`` allows.
    :param watch: called after each message, by any thread.
    :param by_server: sign with the key of the addressed server; else with that
        of this process's party.
    :raises: ConfigurationError if ``[upgrade_levels]`` names a version that is
        not compatible with the target's.
    """

    def __init__(
        self,
        target: messaging.Target,
        *,
        since: Mapping[str, str] = MappingProxyType({}),
        timeout_s: float = CALL_TIMEOUT_S,
        watch: Watch | None = None,
        keys: signing.Keys | None = None,
        by_server: bool = False,
    ) -> None:
        self._watch = watch
        self._keys = keys
        self._by_server = by_server
        self._topic: str = target.topic
        transport = _require_transport()
        self._version = _pinned(target)
        self._too_new = {
            method: version
            for method, version in since.items()
            if _numbers(version) > _numbers(self._version)
        }
        self._client = messaging.get_rpc_client(
            transport,
            target(version=self._version),
            timeout=timeout_s,
            retry=SEND_RETRIES,
        )
        self._held = _Held()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Collect this thread's casts, and send them at the end.

        Each server gets one message with its casts in order, because a message
        costs far more than another cast in it.

        :raises: as :meth:`cast`, at the end; some may have been sent then.
        """
        held: list[tuple[str | None, str, dict[str, Any]]] = []
        self._held.casts = held
        try:
            yield
        finally:
            self._held.casts = None
        by_server: dict[str | None, list[list[Any]]] = {}
        for server, method, kwargs in held:
            by_server.setdefault(server, []).append([method, kwargs])
        failure: messaging.MessagingException | None = None
        for server, casts in by_server.items():
            if len(casts) > 1:
                casts = [[SEVERAL, {"casts": casts}]]
            try:
                for method, kwargs in casts:
                    self._cast(server, method, kwargs)
            except messaging.MessagingException as error:
                # Other servers may be reachable.
                failure = failure or error
        if failure is not None:
            raise failure

    def cast(
        self, method: str, *, server: str | None = None, **kwargs: Any
    ) -> None:
        """Send without waiting for a result.

        :param server: one server of the topic; None means any.
        :raises: oslo_messaging.MessagingException if the broker cannot be
            reached.
        """
        self._require(method)
        if self._held.casts is not None:
            self._held.casts.append((server, method, kwargs))
        else:
            self._cast(server, method, kwargs)

    def _cast(
        self, server: str | None, method: str, kwargs: dict[str, Any]
    ) -> None:
        sent, kwargs = self._sealed(method, server, kwargs)
        with self._sending(method):
            self._prepared(server).cast(_CONTEXT, sent, **kwargs)

    def call(
        self,
        method: str,
        *,
        server: str | None = None,
        timeout_s: float | None = None,
        **kwargs: Any,
    ) -> Any:
        """Send and return the answer.

        :param server: one server of the topic; None means any.
        :raises: oslo_messaging.MessagingException if the broker cannot be
            reached or no answer comes in time; exceptions of the method.
        """
        self._require(method)
        prepared = self._prepared(server)
        if timeout_s is not None:
            prepared = prepared.prepare(timeout=timeout_s)
        sent, kwargs = self._sealed(method, server, kwargs)
        with self._sending(method):
            self._reach_broker()
            return prepared.call(_CONTEXT, sent, **kwargs)

    def _sealed(
        self, method: str, server: str | None, kwargs: dict[str, Any]
    ) -> tuple[str, dict[str, Any]]:
        """Return the message to send, signed if there are keys.

        The signed body is a text, so that the signature does not depend on how
        each side writes JSON.
        """
        keys = self._keys
        if keys is None:
            return method, kwargs
        party = keys.party
        if self._by_server:
            if server is None:
                raise ValueError("a message without a server cannot be signed")
            party = server
        body = json.dumps([method, kwargs])
        signature = keys.sign(party, self._topic, body)
        return SIGNED, {"party": party, "body": body, "signature": signature}

    def _reach_broker(self) -> None:
        """Fail if the broker has been away since the process began.

        The driver waits without limit for its first connection for answers,
        but not for that of a cast. So send a cast first.
        """
        global _was_reached
        if not _was_reached:
            self._client.prepare(topic=NOBODY).cast(_CONTEXT, "reach")
            _was_reached = True

    def _require(self, method: str) -> None:
        if method in self._too_new:
            raise messaging.RPCVersionCapError(
                version=self._too_new[method], version_cap=self._version
            )

    @contextlib.contextmanager
    def _sending(self, method: str) -> Iterator[None]:
        started_s = time.perf_counter()
        ok = True
        try:
            yield
        except messaging.MessagingException:
            ok = False
            raise
        except (OSError, amqp.AMQPError, kombu.exceptions.KombuError) as error:
            # The driver wraps the errors of established connections only, not
            # those of connecting.
            ok = False
            raise messaging.MessageDeliveryFailure(str(error)) from error
        finally:
            if self._watch is not None:
                self._watch(method, time.perf_counter() - started_s, ok)

    def _prepared(self, server: str | None) -> Any:
        if server is None:
            return self._client
        return self._client.prepare(server=server)


class _Held(threading.local):
    """The casts that a thread collects; None if it sends at once."""

    casts: list[tuple[str | None, str, dict[str, Any]]] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Sender:
    """The context of a signed message.

    :ivar host_uuid: the host that signed it; None: the pool's key signed it.
    """

    host_uuid: str | None


def host_of(ctxt: Any) -> str | None:
    """Return the host that signed a message; None if it was no host."""
    return ctxt.host_uuid if isinstance(ctxt, Sender) else None


def tell_refused(party: object, method: object, why: str) -> None:
    """Log that a message was refused, at a limited rate."""
    _OFTEN.warning(
        "%s: %.80r from %.80r refused: %s",
        codes.MESSAGE_REFUSED,
        method,
        party,
        why,
    )


_signature = functools.cache(inspect.signature)


class Endpoint:
    """Handles messages of :meth:`Client.together`, and signed ones.

    :cvar CASTS: the methods that :meth:`Client.together` may carry. They must
        not wait for anything: the thread that receives them runs them.
    :cvar OF_HOSTS: the methods that a host may call; None: all.
    """

    CASTS: ClassVar[frozenset[str]] = frozenset()
    OF_HOSTS: ClassVar[frozenset[str] | None] = None

    @messaging.expected_exceptions(exception.MessageRefused)
    def signed(
        self,
        ctxt: Any,
        party: Any = None,
        body: Any = None,
        signature: Any = None,
    ) -> Any:
        """Run a signed method; without keys, the signature is ignored."""
        method, kwargs = _opened(body)
        return _method(self, method)(ctxt, **kwargs)

    def several(self, ctxt: Any, casts: Any) -> None:
        """Run several casts in order."""
        for cast in casts if isinstance(casts, list) else [casts]:
            try:
                method, kwargs = self._known_cast(cast)
            except ValueError as error:
                LOG.error("Dropped one of several messages: %s", error)
                continue
            try:
                getattr(self, method)(ctxt, **kwargs)
            except Exception:
                # The other casts are independent of it.
                LOG.exception("Dropped one of several messages")

    def _known_cast(self, cast: Any) -> tuple[str, dict[str, Any]]:
        if not isinstance(cast, list | tuple) or len(cast) != 2:
            raise ValueError("not a pair")
        method, kwargs = cast
        found = None
        if isinstance(method, str) and method in self.CASTS:
            found = getattr(type(self), method, None)
        if found is None:
            raise ValueError(f"no such cast: {method!r:.60}")
        if not isinstance(kwargs, dict):
            raise ValueError(f"{method} has no arguments")
        try:
            _signature(found).bind(self, None, **kwargs)
        except TypeError as error:
            raise ValueError(f"{method}: {error}") from None
        return method, kwargs


class _Guard:
    """Passes only signed messages to an endpoint."""

    def __init__(
        self,
        endpoint: Endpoint,
        topic: str,
        keys: signing.Keys,
        accept_unsigned: bool,
    ) -> None:
        self._endpoint = endpoint
        self._topic = topic
        self._keys = keys
        self._accepts_unsigned = accept_unsigned
        self.target = getattr(endpoint, "target", None)

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._endpoint, method)
        if self._accepts_unsigned or not inspect.ismethod(found):
            return found
        return lambda _ctxt, **_kwargs: self._refuse(
            None, method, "it is not signed"
        )

    @messaging.expected_exceptions(exception.MessageRefused)
    def signed(
        self,
        ctxt: Any,
        party: Any = None,
        body: Any = None,
        signature: Any = None,
    ) -> Any:
        """Run a signed method, if its signature is right."""
        texts = (party, body, signature)
        if not all(
            isinstance(text, str) for text in texts
        ) or not self._keys.has_signed(party, self._topic, body, signature):
            self._refuse(party, SIGNED, "invalid signature")
        method, kwargs = _opened(body)
        host = None if party == signing.CONTROL else party
        allowed = self._endpoint.OF_HOSTS
        if host is not None and allowed is not None and method not in allowed:
            self._refuse(party, method, "hosts may not call it")
        return _method(self._endpoint, method)(Sender(host), **kwargs)

    @messaging.expected_exceptions(exception.MessageRefused)
    def _refuse(self, party: object, method: object, why: str) -> Any:
        tell_refused(party, method, why)
        raise exception.MessageRefused(reason=why)


def _opened(body: Any) -> tuple[str, dict[str, Any]]:
    """Return the method and the arguments of a signed message."""
    try:
        method, kwargs = json.loads(body)
    except (TypeError, ValueError, RecursionError):
        method, kwargs = None, None
    if not isinstance(method, str) or not isinstance(kwargs, dict):
        raise exception.MessageRefused(reason="malformed body")
    return method, kwargs


def _method(endpoint: object, name: str) -> Callable[..., Any]:
    found = None
    if not name.startswith("_") and name != SIGNED:
        found = getattr(endpoint, name, None)
    if not inspect.ismethod(found):
        raise messaging.NoSuchMethod(name[:80])
    return found


def handler_threads(conf: cfg.ConfigOpts = cfg.CONF) -> int:
    """Return the number of messages that a server handles at a time."""
    # oslo.messaging registers it with the first server, which is too late to
    # refuse a bad value.
    for group, options in messaging_opts.list_opts():
        for option in options:
            if option.name == _THREADS_OPTION:
                conf.register_opt(option, group=group)
    threads: int = conf[_THREADS_OPTION]
    return threads


def get_server(
    topic: str,
    server: str,
    endpoints: Sequence[object],
    *,
    keys: signing.Keys | None = None,
    accept_unsigned: bool = False,
) -> messaging.MessageHandlingServer:
    """Return a server, not yet started, whose handlers run in threads.

    Its ``start()`` returns when the broker has been reached; after that it
    reconnects by itself. The thread that receives messages runs those of
    :attr:`Endpoint.CASTS` itself.

    :param endpoints: objects whose public methods are the RPC interface; of
        the class :class:`Endpoint`, if there are keys.
    :param keys: to check signatures; the server refuses messages without a
        valid one. None: it accepts all.
    :param accept_unsigned: accept messages without a signature, even with
        keys.
    """
    casts = {
        method
        for one in endpoints
        if isinstance(one, Endpoint)
        for method in (SEVERAL, *one.CASTS)
    }
    if keys is not None:
        endpoints = [
            _Guard(one, topic, keys, accept_unsigned) for one in endpoints
        ]
    server = messaging.get_rpc_server(
        _require_transport(),
        messaging.Target(topic=topic, server=server),
        list(endpoints),
        access_policy=messaging.DefaultRPCAccessPolicy,
    )
    # The library's own starts a thread for each message until there are as
    # many as allowed, and each of these then wakes up every second.
    server._executor_cls = concurrent.futures.ThreadPoolExecutor
    # The library has no public way to choose the thread of a method: its
    # executors are plug-ins that cannot know the endpoints, and dispatchers
    # run in the pool's threads. A release may lack this one.
    hand_over = getattr(server, "_on_incoming", None)
    if hand_over is None:
        return server

    def receive(incoming: Sequence[Any]) -> None:
        # A thread of the pool costs more than running most casts.
        if _method_of(incoming[0].message) in casts:
            server._process_incoming(incoming)
        else:
            hand_over(incoming)

    server._on_incoming = receive
    return server


def _method_of(message: Mapping[str, Any]) -> str:
    """Return the method of a message; empty if it is hard to find."""
    method, arguments = message.get("method"), message.get("args")
    if method == SIGNED and isinstance(arguments, dict):
        begin = _SIGNED_METHOD.match(str(arguments.get("body")))
        return begin[1] if begin else ""
    return method if isinstance(method, str) else ""
