# SPDX-License-Identifier: Apache-2.0

"""Set-up of oslo.messaging: one transport per process.

RPC needs the global ``cfg.CONF``: oslo.messaging registers some of its own
options nowhere else.
"""

import contextlib
import dataclasses
import functools
import inspect
import json
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
from oslo_config import cfg
from oslo_log import log as logging
from oslo_messaging import opts as messaging_opts

from fpgapool.common import context
from fpgapool.common import exception
from fpgapool.common import ratelimit
from fpgapool.common import signing
from fpgapool.vocabulary import codes

LOG = logging.getLogger(__name__)
_OFTEN = ratelimit.RateLimitedLog(__name__)

EXCHANGE = "fpgapool"
ALLOWED_EXMODS = ["fpgapool.common.exception"]

# A cast gets that many more tries after a connection was found broken: one
# to notice, one to connect again. Whoever sends must not hang for as long as
# the broker is away; what was lost is sent again by higher layers.
SEND_RETRIES = 2

CALL_TIMEOUT_S = 10

#: The method that takes several casts in one message.
SEVERAL = "several"

#: The method that takes any other one, with a signature.
SIGNED = "signed"

#: Gets method, seconds, and whether it was sent or answered.
Watch = Callable[[str, float, bool], None]

# The defaults of oslo.messaging wait a minute for a dead peer. Operators'
# own settings win over these.
_RABBIT_DEFAULTS = {
    "heartbeat_timeout_threshold": 15,
    "rabbit_interval_max": 5,
    "rabbit_retry_backoff": 1,
    "kombu_reconnect_delay": 0.5,
}

#: Topic -> option of the group [upgrade_levels].
_PINS = {"fpgapool-conductor": "conductor", "fpgapool-agent": "agent"}

_THREADS_OPTION = "executor_thread_pool_size"

#: A topic that no service has.
NOBODY = "fpgapool-nobody"

_transport: messaging.Transport | None = None
# Whether the transport has ever been connected.
_was_reached = True
_pins: dict[str, str] = {}


class ContextSerializer(messaging.Serializer):
    """Carry :class:`fpgapool.common.context.RequestContext` over RPC.

    Payloads are made of what JSON knows already.
    """

    def serialize_entity(self, ctxt: Any, entity: Any) -> Any:
        return entity

    def deserialize_entity(self, ctxt: Any, entity: Any) -> Any:
        return entity

    def serialize_context(
        self, ctxt: context.RequestContext
    ) -> dict[str, Any]:
        return ctxt.to_dict()

    def deserialize_context(
        self, ctxt: dict[str, Any]
    ) -> context.RequestContext:
        # The thread-local context must not be replaced: handlers of several
        # requests share threads.
        return context.RequestContext.from_dict(ctxt, overwrite=False)


def init(conf: cfg.ConfigOpts = cfg.CONF, *, url: str | None = None) -> None:
    """Create the process's transport.

    Nothing is sent yet, so this works while the broker is away. A second
    call keeps the transport of the first.

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
    _was_reached = not _waits_for_ever(conf, url)


def _waits_for_ever(conf: cfg.ConfigOpts, url: str | None) -> bool:
    """Whether the driver's first call waits for a broker without a limit."""
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
    """Return the version to speak: the target's, or an older one."""
    own = target.version or "1.0"
    pin = _pins.get(target.topic, own)
    if _numbers(pin)[0] != _numbers(own)[0]:
        raise exception.ConfigurationError(
            reason=f"[upgrade_levels] {_PINS[target.topic]}: {pin} does not"
            f" go with {own}, which this release speaks"
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
    global _transport
    if _transport is not None:
        _transport.cleanup()
        _transport = None


def _require_transport() -> messaging.Transport:
    if _transport is None:
        raise RuntimeError("fpgapool.common.rpc.init() was not called")
    return _transport


class Client:
    """Sends to one topic, on behalf of the service itself.

    :param target: topic and version of the other side.
    :param since: the version that each method came with; 1.0 if it is not
        named. What is newer than ``[upgrade_levels]`` allows is not sent.
    :param timeout_s: how long a call waits for its answer.
    :param watch: is told of everything that is sent, by any thread.
    :param keys: all is signed with.
    :param by_server: the server that is addressed is the party whose key
        signs; else it is the one in whose name this process speaks.
    :raises: ConfigurationError if ``[upgrade_levels]`` names a version that
        does not go with the target's.
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
        self._since = since
        self._keys = keys
        self._by_server = by_server
        self._topic: str = target.topic
        transport = _require_transport()
        self._version = _pinned(target)
        self._client = messaging.get_rpc_client(
            transport,
            target(version=self._version),
            serializer=ContextSerializer(),
            timeout=timeout_s,
            retry=SEND_RETRIES,
        )
        self._held = _Held()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Send what this thread casts meanwhile at the end, in one message.

        One for each server, and in order there: a message costs far more
        than one more cast in it.

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
                    self.cast(method, server=server, **kwargs)
            except messaging.MessagingException as error:
                # Others can perhaps be reached.
                failure = failure or error
        if failure is not None:
            raise failure

    def cast(
        self, method: str, *, server: str | None = None, **kwargs: Any
    ) -> None:
        """Send without waiting for what comes of it.

        :param server: one server of the topic; None means any.
        :raises: oslo_messaging.MessagingException if the broker cannot be
            reached.
        """
        self._require(method)
        if self._held.casts is not None:
            self._held.casts.append((server, method, kwargs))
            return
        sent, kwargs = self._sealed(method, server, kwargs)
        with self._sending(method):
            self._prepared(server).cast(
                context.service_context(), sent, **kwargs
            )

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
        :param timeout_s: how long to wait, if not as long as usual.
        :raises: oslo_messaging.MessagingException if the broker cannot be
            reached or no answer comes in time, and what the method raised.
        """
        self._require(method)
        prepared = self._prepared(server)
        if timeout_s is not None:
            prepared = prepared.prepare(timeout=timeout_s)
        sent, kwargs = self._sealed(method, server, kwargs)
        with self._sending(method):
            self._reach_broker()
            return prepared.call(context.service_context(), sent, **kwargs)

    def _sealed(
        self, method: str, server: str | None, kwargs: dict[str, Any]
    ) -> tuple[str, dict[str, Any]]:
        """Return the message that is sent instead, signed if there are keys.

        What is signed is a text: no two sides need to agree how JSON is
        written.
        """
        keys = self._keys
        if keys is None:
            return method, kwargs
        party = keys.party
        if self._by_server:
            if server is None:
                raise ValueError("a message to anybody cannot be signed")
            party = server
        body = json.dumps([method, kwargs])
        signature = keys.sign(party, self._topic, body)
        return SIGNED, {"party": party, "body": body, "signature": signature}

    def _reach_broker(self) -> None:
        """Fail if the broker is away, and was so since the process began.

        To connect for answers the driver waits as long as it takes; to
        connect for a cast it does not.
        """
        global _was_reached
        if not _was_reached:
            self._client.prepare(topic=NOBODY).cast(
                context.service_context(), "reach"
            )
            _was_reached = True

    def _require(self, method: str) -> None:
        since = self._since.get(method, "1.0")
        if _numbers(since) > _numbers(self._version):
            raise messaging.RPCVersionCapError(
                version=since, version_cap=self._version
            )

    @contextlib.contextmanager
    def _sending(self, method: str) -> Iterator[None]:
        started_s = time.perf_counter()
        ok = True
        try:
            with _broker_errors():
                yield
        except messaging.MessagingException:
            ok = False
            raise
        finally:
            if self._watch is not None:
                self._watch(method, time.perf_counter() - started_s, ok)

    def _prepared(self, server: str | None) -> Any:
        if server is None:
            return self._client
        return self._client.prepare(server=server)


class _Held(threading.local):
    """Casts that a thread holds back, None if it does not."""

    casts: list[tuple[str | None, str, dict[str, Any]]] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Sender:
    """Who has signed a message: the context of what it asks for.

    :ivar host_uuid: the host whose key it was; None: one of the pool's own
        services.
    """

    host_uuid: str | None


def host_of(ctxt: Any) -> str | None:
    """Return the host for which alone a message can speak, if it is known.

    :param ctxt: the first argument of an endpoint's method.
    """
    return ctxt.host_uuid if isinstance(ctxt, Sender) else None


def tell_refused(party: object, method: object, why: str) -> None:
    """Log that a message was refused; not each of very many.

    :param party: in whose name it came.
    :param method: what it asked for.
    :param why: a clause.
    """
    _OFTEN.warning(
        "%s: %.80r, in the name of %.80r, is refused: %s",
        codes.MESSAGE_REFUSED,
        method,
        party,
        why,
    )


class Endpoint:
    """Takes what :meth:`Client.together` sends, and what is signed.

    :cvar CASTS: the methods that may come so.
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
        """Do what a message says; without keys, its signature is not read."""
        method, kwargs = _opened(body)
        return _method(self, method)(ctxt, **kwargs)

    def several(self, ctxt: Any, casts: Any) -> None:
        """Do what each of several casts says, in their order."""
        for cast in casts if isinstance(casts, list) else [casts]:
            try:
                method, kwargs = self._known_cast(cast)
            except ValueError as error:
                LOG.error("One of several messages dropped: %s", error)
                continue
            try:
                getattr(self, method)(ctxt, **kwargs)
            except Exception:
                # The others have nothing to do with it.
                LOG.exception("One of several messages dropped")

    def _known_cast(self, cast: Any) -> tuple[str, dict[str, Any]]:
        if not isinstance(cast, list | tuple) or len(cast) != 2:
            raise ValueError("it is no pair")
        method, kwargs = cast
        if not isinstance(method, str) or method not in self.CASTS:
            raise ValueError(f"there is no cast {method!r:.60}")
        if not isinstance(kwargs, dict):
            raise ValueError(f"{method} has no arguments")
        return method, kwargs


class _Guard:
    """Stands before an endpoint and lets in what is signed.

    :param endpoint: what it guards.
    :param topic: to which its messages come.
    :param keys: that signatures are checked with.
    :param accept_unsigned: let in what has no signature, too.
    """

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
        """Do what a message says, if it is from whom it says it is."""
        texts = (party, body, signature)
        if not all(
            isinstance(text, str) for text in texts
        ) or not self._keys.has_signed(party, self._topic, body, signature):
            self._refuse(party, SIGNED, "its signature is wrong")
        method, kwargs = _opened(body)
        host = None if party == signing.CONTROL else party
        allowed = self._endpoint.OF_HOSTS
        if host is not None and allowed is not None and method not in allowed:
            self._refuse(party, method, "no host may ask for that")
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
        raise exception.MessageRefused(reason="it makes no sense")
    return method, kwargs


def _method(endpoint: object, name: str) -> Callable[..., Any]:
    found = None
    if not name.startswith("_") and name != SIGNED:
        found = getattr(endpoint, name, None)
    if not inspect.ismethod(found):
        raise messaging.NoSuchMethod(name[:80])
    return found


@contextlib.contextmanager
def _broker_errors() -> Iterator[None]:
    # The driver wraps the errors of a connection that it had, and lets those
    # of one that it could not make pass as they are.
    try:
        yield
    except (OSError, amqp.AMQPError, kombu.exceptions.KombuError) as error:
        raise messaging.MessageDeliveryFailure(str(error)) from error


def handler_threads(conf: cfg.ConfigOpts = cfg.CONF) -> int:
    """Return how many messages a server handles at the same time.

    :param conf: that of :func:`init`.
    """
    # Registered only when the first server is made, which is too late to
    # refuse a value.
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

    Its ``start()`` returns only when the broker has been reached; after that
    it connects again by itself.

    :param topic: what it listens to.
    :param server: its own name within the topic.
    :param endpoints: objects whose public methods are the RPC interface; of
        the class :class:`Endpoint`, if there are keys.
    :param keys: what is not signed with one of them is refused; None: all is
        believed.
    :param accept_unsigned: believe what has no signature nevertheless.
    """
    if keys is not None:
        endpoints = [
            _Guard(one, topic, keys, accept_unsigned) for one in endpoints
        ]
    return messaging.get_rpc_server(
        _require_transport(),
        messaging.Target(topic=topic, server=server),
        list(endpoints),
        serializer=ContextSerializer(),
        access_policy=messaging.DefaultRPCAccessPolicy,
    )
