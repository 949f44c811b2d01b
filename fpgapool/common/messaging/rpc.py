# SPDX-License-Identifier: Apache-2.0

"""Sets up oslo.messaging, with one transport per process.

RPC needs the global ``cfg.CONF``, because oslo.messaging registers some of its
own options only there.
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
from fpgapool.common.messaging import context
from fpgapool.common.messaging import freshness
from fpgapool.common.messaging import signing
from fpgapool.common.monitoring import ratelimit
from fpgapool.vocabulary import codes

LOG = logging.getLogger(__name__)
_OFTEN = ratelimit.RateLimitedLog(__name__)

EXCHANGE = "fpgapool"
ALLOWED_EXMODS = ["fpgapool.common.exception"]

# Retries of a cast on a lost connection: one to notice the loss, one to
# reconnect. A sender must not hang while the broker is unavailable; higher
# layers resend lost messages.
SEND_RETRIES = 2

CALL_TIMEOUT_S = 10

#: The method that carries several casts in one message.
SEVERAL = "several"

#: The method that carries a call of another method, with a signature.
SIGNED = "signed"
# The first version of the conductor's and the agents' RPC with stamps.
_FIRST_STAMPED = (1, 1)

#: Called with the method, its duration in seconds, and whether it succeeded.
Watch = Callable[[str, float, bool], None]

# With oslo.messaging's defaults, it takes a minute to detect a dead peer. The
# operator's settings take precedence over these.
_RABBIT_DEFAULTS = {
    "heartbeat_timeout_threshold": 15,
    "rabbit_interval_max": 5,
    "rabbit_retry_backoff": 1,
    "kombu_reconnect_delay": 0.5,
}

#: Options of the group [upgrade_levels], by topic.
_PINS = {"fpgapool-conductor": "conductor", "fpgapool-agent": "agent"}

# After each message, the driver's listeners wait this long for the next one,
# then twice as long, and so on. The driver's own value of 1 ms would wake them
# several times for each message. They wake up only to acknowledge
# notifications; RPC messages are acknowledged on arrival.
_FIRST_WAIT_S = 0.1

_THREADS_OPTION = "executor_thread_pool_size"

# Matches the start of a signed body, which names the method.
_SIGNED_METHOD = re.compile(r'\["(\w+)"')

#: A topic to which no service listens.
NOBODY = "fpgapool-nobody"

# The context of all messages, to which the serializer adds the request's IDs.
# It contains no user's token: services do not act on behalf of users, and a
# token on the bus could be stolen.
_CONTEXT: dict[str, Any] = {}

_transport: messaging.Transport | None = None
# Whether the transport has ever been connected.
_was_reached = True
_pins: dict[str, str] = {}


def init(conf: cfg.ConfigOpts = cfg.CONF, *, url: str | None = None) -> None:
    """Create the process's transport.

    It does not connect yet, so this works even if the broker is unreachable. A
    second call keeps the first transport.

    :param url: None: the option ``transport_url``.
    :raises: oslo_messaging.MessagingException if the URL is invalid.
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
    # A message is JSON within JSON: the driver's envelope in kombu's body.
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
            f" compatible with this release, which uses {own}"
        )
    return min(pin, own, key=_numbers)


def _understands_stamps(target: messaging.Target) -> bool:
    pin = _pins.get(target.topic)
    return pin is None or _numbers(pin) >= _FIRST_STAMPED


def _set_rabbit_defaults(conf: cfg.ConfigOpts) -> None:
    # The driver registers its options when the transport is created, and reads
    # their values when it connects.
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
        raise RuntimeError("call fpgapool.common.messaging.rpc.init() first")
    return _transport


class Client:
    """Sends to one topic, on behalf of the service itself.

    :param since: the version that introduced each method; 1.0 for methods that
        are not listed. The client does not send methods that are newer than
        ``[upgrade_levels]`` allows.
    :param watch: called after each message, in any thread.
    :param by_server: whether to sign with the addressed server's key instead
        of this process's.
    :raises: ConfigurationError if ``[upgrade_levels]`` has a version that is
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
        self._stamps = (
            freshness.Sender(keys, self._topic)
            if keys is not None and _understands_stamps(target)
            else None
        )
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
            serializer=context.Serializer(),
        )
        self._timeout_s = timeout_s
        self._held = _Held()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Collect this thread's casts, and send them at the end.

        Each server gets a single message with all its casts in order: another
        cast in a message costs far less than another message.

        :raises: the errors of :meth:`cast`; some casts may have been sent.
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

        :param server: one of the topic's servers; None: any.
        :raises: oslo_messaging.MessagingException if the broker is
            unreachable.
        """
        self._require(method)
        if self._held.casts is not None:
            self._held.casts.append((server, method, kwargs))
        else:
            self._cast(server, method, kwargs)

    def _cast(
        self, server: str | None, method: str, kwargs: dict[str, Any]
    ) -> None:
        stamp = self._stamps.cast() if self._stamps else None
        sent, kwargs = self._sealed(method, server, kwargs, stamp)
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
        """Send a message and return the reply.

        :param server: one of the topic's servers; None: any.
        :raises: oslo_messaging.MessagingException if the broker is unreachable
            or no reply arrives in time; and the method's own exceptions.
        """
        self._require(method)
        if timeout_s is None:
            timeout_s = self._timeout_s
        prepared = self._prepared(server).prepare(timeout=timeout_s)
        with self._sending(method):
            self._reach_broker()
            if self._stamps is None:
                sent, kwargs = self._sealed(method, server, kwargs, None)
                return prepared.call(_CONTEXT, sent, **kwargs)
            for left in reversed(range(freshness.TRIES)):
                sent_s = time.monotonic()
                stamp = self._stamps.call(timeout_s)
                sent, sealed = self._sealed(method, server, kwargs, stamp)
                try:
                    return prepared.call(_CONTEXT, sent, **sealed)
                except exception.MessageStale as stale:
                    if not left:
                        raise
                    self._stamps.learn(stale, stamp, sent_s)

    def _sealed(
        self,
        method: str,
        server: str | None,
        kwargs: dict[str, Any],
        stamp: freshness.Stamp | None,
    ) -> tuple[str, dict[str, Any]]:
        """Return the message to send, signed and stamped if there are keys.

        The signed body is a string, so that the signature does not depend on
        how each side formats JSON.
        """
        keys = self._keys
        if keys is None:
            return method, kwargs
        party = keys.party
        if self._by_server:
            if server is None:
                raise ValueError("cannot sign a message without a server")
            party = server
        parts = [method, kwargs, *([stamp.to_list()] if stamp else [])]
        body = json.dumps(parts)
        signature = keys.sign(party, self._topic, body)
        return SIGNED, {"party": party, "body": body, "signature": signature}

    def _reach_broker(self) -> None:
        """Fail if the broker has never been reachable from this process.

        The driver waits without limit to connect for replies, but not to
        connect for a cast. So send a cast first.
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
            # The driver wraps only the errors of established connections, not
            # those that occur while it connects.
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
    """The casts that a thread has collected; None: it sends them at once."""

    casts: list[tuple[str | None, str, dict[str, Any]]] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Sender:
    """The context of a signed message.

    :ivar host_uuid: the host that signed it; None if it was not a host.
    """

    host_uuid: str | None


def host_of(ctxt: Any) -> str | None:
    """Return the host that signed a message; None if it was not a host."""
    return ctxt.host_uuid if isinstance(ctxt, Sender) else None


def tell_refused(party: object, method: object, why: str) -> None:
    """Log that a message was rejected, at a limited rate."""
    _OFTEN.warning(
        "%s: %.80r from %.80r refused: %s",
        codes.MESSAGE_REFUSED,
        method,
        party,
        why,
    )


_signature = functools.cache(inspect.signature)


class Endpoint:
    """Handles signed messages and those from :meth:`Client.together`.

    :cvar CASTS: the methods that :meth:`Client.together` may send. They must
        not wait for anything, because they run in the receiving thread.
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
        method, kwargs, _stamp = _opened(body)
        return _method(self, method)(ctxt, **kwargs)

    def several(self, ctxt: Any, casts: Any) -> None:
        """Run several casts in order."""
        for cast in casts if isinstance(casts, list) else [casts]:
            try:
                method, kwargs = self._known_cast(cast)
            except ValueError as error:
                LOG.error("Dropped a cast from a combined message: %s", error)
                continue
            try:
                getattr(self, method)(ctxt, **kwargs)
            except Exception:
                # The other casts do not depend on this one.
                LOG.exception("A cast from a combined message failed")

    def _known_cast(self, cast: Any) -> tuple[str, dict[str, Any]]:
        if not isinstance(cast, list | tuple) or len(cast) != 2:
            raise ValueError("not a pair of method and arguments")
        method, kwargs = cast
        found = None
        if isinstance(method, str) and method in self.CASTS:
            found = getattr(type(self), method, None)
        if found is None:
            raise ValueError(f"unknown cast {method!r:.60}")
        if not isinstance(kwargs, dict):
            raise ValueError(f"{method}: the arguments must be a dict")
        try:
            _signature(found).bind(self, None, **kwargs)
        except TypeError as error:
            raise ValueError(f"{method}: {error}") from None
        return method, kwargs


class _Guard:
    """Passes only correctly signed messages to an endpoint, and each once."""

    def __init__(
        self,
        endpoint: Endpoint,
        topic: str,
        keys: signing.Keys,
        accept_unsigned: bool,
        accept_unstamped: bool = False,
    ) -> None:
        self._endpoint = endpoint
        self._topic = topic
        self._keys = keys
        self._accepts_unsigned = accept_unsigned
        self._accepts_unstamped = accept_unstamped
        self._received = freshness.Receiver(keys, topic)
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
        """Run a signed method, if its signature is valid."""
        texts = (party, body, signature)
        if not all(
            isinstance(text, str) for text in texts
        ) or not self._keys.has_signed(party, self._topic, body, signature):
            self._refuse(party, SIGNED, "invalid signature")
        method, kwargs, parts = _opened(body)
        try:
            if parts is not None or not self._accepts_unstamped:
                stamp = freshness.Stamp.read(parts)
                self._received.accept(party, stamp)
        except freshness.NotFresh as error:
            self._refuse(party, method, str(error))
        host = None if party == signing.CONTROL else party
        allowed = self._endpoint.OF_HOSTS
        if host is not None and allowed is not None and method not in allowed:
            self._refuse(party, method, "hosts may not call this method")
        return _method(self._endpoint, method)(Sender(host), **kwargs)

    @messaging.expected_exceptions(exception.MessageRefused)
    def _refuse(self, party: object, method: object, why: str) -> Any:
        tell_refused(party, method, why)
        raise exception.MessageRefused(reason=why)


def _opened(body: Any) -> tuple[str, dict[str, Any], Any]:
    """Return a signed message's method, arguments and stamp, or None."""
    try:
        method, kwargs, *stamp = json.loads(body)
    except (TypeError, ValueError, RecursionError):
        method, kwargs, stamp = None, None, []
    if not isinstance(method, str) or not isinstance(kwargs, dict):
        raise exception.MessageRefused(reason="malformed body")
    return method, kwargs, stamp[0] if stamp else None


def _method(endpoint: object, name: str) -> Callable[..., Any]:
    found = None
    if not name.startswith("_") and name != SIGNED:
        found = getattr(endpoint, name, None)
    if not inspect.ismethod(found):
        raise messaging.NoSuchMethod(name[:80])
    return found


def handler_threads(conf: cfg.ConfigOpts = cfg.CONF) -> int:
    """Return how many messages a server handles at once."""
    # oslo.messaging registers the option with the first server, which is too
    # late to reject an invalid value.
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

    Its ``start()`` returns once the broker has been reached; from then on, the
    server reconnects automatically. The methods in :attr:`Endpoint.CASTS` run
    in the thread that receives messages.

    :param endpoints: objects whose public methods are the RPC interface;
        instances of :class:`Endpoint`, if there are keys.
    :param keys: keys to check signatures; the server rejects messages without
        a valid signature. None: it accepts all messages.
    :param accept_unsigned: whether to accept unsigned messages despite keys.
    """
    casts = {
        method
        for one in endpoints
        if isinstance(one, Endpoint)
        for method in (SEVERAL, *one.CASTS)
    }
    if keys is not None:
        endpoints = [
            # Pins say that services of an earlier release send, too.
            _Guard(one, topic, keys, accept_unsigned, bool(_pins))
            for one in endpoints
        ]
    server = messaging.get_rpc_server(
        _require_transport(),
        messaging.Target(topic=topic, server=server),
        list(endpoints),
        access_policy=messaging.DefaultRPCAccessPolicy,
        serializer=context.Serializer(),
    )
    # The library's own executor starts a thread for each message up to the
    # limit, and each of these threads then wakes up every second.
    server._executor_cls = concurrent.futures.ThreadPoolExecutor
    # The library has no public way to choose a method's thread: its executors
    # are plug-ins that do not know the endpoints, and dispatchers run in the
    # pool's threads. Other releases may lack this private method.
    hand_over = getattr(server, "_on_incoming", None)
    if hand_over is None:
        return server

    process = server._process_incoming

    def process_one(incoming: Sequence[Any]) -> None:
        try:
            process(incoming)
        finally:
            context.bind(None)

    def receive(incoming: Sequence[Any]) -> None:
        # Handing a cast to a pool thread costs more than running most casts.
        if _method_of(incoming[0].message) in casts:
            process_one(incoming)
        else:
            hand_over(incoming)

    server._process_incoming = process_one
    server._on_incoming = receive
    return server


def _method_of(message: Mapping[str, Any]) -> str:
    """Return the method of a message; empty if it cannot be found."""
    method, arguments = message.get("method"), message.get("args")
    if method == SIGNED and isinstance(arguments, dict):
        begin = _SIGNED_METHOD.match(str(arguments.get("body")))
        return begin[1] if begin else ""
    return method if isinstance(method, str) else ""
