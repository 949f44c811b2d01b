# SPDX-License-Identifier: Apache-2.0

"""Admits clients at the data port, and opens their sessions."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import logging
import threading

from fpgapool.agent.child import port as ports
from fpgapool.agent.worker import hello as hellos
from fpgapool.agent.worker import settings as worker_settings
from fpgapool.agent.worker import state
from fpgapool.agent.worker import watch
from fpgapool.agent.worker.data import blocks
from fpgapool.agent.worker.data import feeding
from fpgapool.agent.worker.data import links
from fpgapool.agent.worker.data import memory as memories
from fpgapool.agent.worker.data import processing
from fpgapool.agent.worker.data import receiving
from fpgapool.agent.worker.data import session as sessions
from fpgapool.common.channels import channel as channels
from fpgapool.drivers import base as drivers
from fpgapool.protocol import frames
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

LOG = logging.getLogger(__name__)

#: Time for which a client that connects early waits for the agent's order.
EARLY_S = 1.0

#: Maximum number of connections, each of which has a thread. A session has two
#: and, for a short time, those that they replace.
MAX_CONNECTIONS = 32

# Maximum output for one piece of input. This is a thousand times the usual
# size, and hosts have no memory for more.
_MOST_OUTPUT_BYTES = 2**32


@dataclasses.dataclass(eq=False)
class SessionServer:
    """Admits only the client of the current assignment.

    :param post: takes events without blocking.
    :param reach: connects to the next stage's worker of a chain.
    :ivar is_waiting: see :attr:`.tasks.Member.is_waiting`.
    """

    is_waiting = False

    settings: worker_settings.WorkerSettings
    driver: drivers.Driver
    post: sessions.Post
    cache: blocks.BlockCache
    reach: links.Reach

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._armed = threading.Condition(self._lock)
        self._newest_generation = -1
        self._keyring: hellos.Keyring | None = None
        self._profile: drivers.Profile | None = None
        self._session: sessions.DataSession | None = None
        self._connections = 0
        # Held while a session is being opened; clear() waits for that.
        self._opening = threading.Lock()

    def arm(self, order: state.Order, profile: drivers.Profile) -> None:
        """Start accepting the client of an assignment."""
        with self._armed:
            self._keyring = hellos.Keyring(order)
            self._newest_generation = order.generation
            self._profile = profile
            self._armed.notify_all()

    def mint(self, order: state.Order, anew: bool) -> str | None:
        """Create a secret for the expected client.

        :param anew: whether to create one even if the client has its own.
        :returns: the secret, which is empty if the client has its own; None if
            the assignment has ended.
        """
        with self._lock:
            if self._keyring is None or self._keyring.order != order:
                return None
            if order.secret_sha256 and not anew:
                return ""
            return self._keyring.mint()

    def counters(self) -> tuple[int, int]:
        """Return the session's input and output bytes so far."""
        session = self._session
        if session is None:
            return 0, 0
        return session.input_bytes, session.output_bytes

    def progress(self) -> watch.Progress:
        session = self._session
        return watch.BEGUN if session is None else session.progress()

    def try_memory(self) -> None:
        """Allocate and free a client's buffers, to check that this works.

        :raises OSError: if there is not enough memory or no file descriptor.
        """
        settings = self.settings
        memories.SharedMemory(
            settings.chunk_bytes, settings.window_chunks
        ).close()

    def clear(self, code: str, message: str) -> tuple[int, int]:
        """Stop accepting clients, and end the session if there is one.

        Waits until all of its threads have ended.
        :returns: the session's input and output bytes.
        """
        with self._lock:
            self._keyring = None
            self._profile = None
        with self._opening, self._lock:
            session = self._session
        if session is None:
            return 0, 0
        session.stop(code, message)
        with self._lock:
            self._session = None
        return session.input_bytes, session.output_bytes

    def serve(
        self, hello: hellos.Hello, channel: channels.Channel, local: bool
    ) -> None:
        """Serve a client's connection until it ends, then close it.

        :raises ports.Refused: if it is not the expected client, or its session
            cannot continue; the channel stays open.
        """
        if hello.transport == hellos.SHM and not local:
            raise ports.Refused(
                codes.PROTOCOL_ERROR, "transport shm requires a Unix socket"
            )
        with self._lock:
            # All of them may be waiting for a slow core.
            if self._connections >= MAX_CONNECTIONS:
                raise channels.ChannelClosed(
                    "too many connections to this slot are waiting"
                )
            self._connections += 1
        try:
            self._serve(hello, channel)
        finally:
            with self._lock:
                self._connections -= 1

    def _serve(self, hello: hellos.Hello, channel: channels.Channel) -> None:
        if hello.return_secret is not None:
            self._take_return(hello, channel)
            return
        if hello.link_secret is not None:
            feeding.serve(self._linked(hello), channel)
            return
        with self._opening:
            keyring, first = self._admit(hello)
            if first:
                self._open(hello, keyring)
            session = self._session
        if session is None:
            raise ports.Refused(codes.SESSION_CLOSED, "the session has ended")
        self._attach(session, hello, keyring, channel, first)
        receiving.serve(session, channel)

    def expect(
        self,
        hello: hellos.Hello,
        is_there: collections.abc.Callable[[], bool],
    ) -> None:
        """If the client connects before the order arrives, wait briefly."""
        if hello.secret is None:
            return
        with self._armed:
            self._armed.wait_for(
                lambda: (
                    hello.generation <= self._newest_generation
                    or not is_there()
                ),
                EARLY_S,
            )

    def look_again(self) -> None:
        """Let go who waits in :meth:`expect` and is not there any more."""
        with self._armed:
            self._armed.notify_all()

    def _admit(self, hello: hellos.Hello) -> tuple[hellos.Keyring, bool]:
        with self._lock:
            keyring = self._keyring
            if keyring is not None:
                try:
                    return keyring, keyring.admit(hello)
                except hellos.Unauthorized:
                    pass
        raise _unauthorized()

    def _take_return(
        self, hello: hellos.Hello, channel: channels.Channel
    ) -> None:
        """Attach a second connection, which carries what a session sends."""
        session = self._admitted(hello, hellos.Keyring.admit_return)
        session.send_over(channel)

    def _linked(self, hello: hellos.Hello) -> sessions.DataSession:
        """Return the session that the previous stage's worker may feed."""
        return self._admitted(hello, hellos.Keyring.admit_link)

    def _admitted(
        self,
        hello: hellos.Hello,
        admit: collections.abc.Callable[[hellos.Keyring, hellos.Hello], None],
    ) -> sessions.DataSession:
        """Return the open session that another connection belongs to."""
        with self._lock:
            keyring, session = self._keyring, self._session
            if keyring is None or session is None:
                raise _unauthorized()
            try:
                admit(keyring, hello)
            except hellos.Unauthorized:
                raise _unauthorized() from None
        return session

    def _open(self, hello: hellos.Hello, keyring: hellos.Keyring) -> None:
        try:
            session = self._make_session(hello, keyring)
        except ports.Refused as refused:
            self._fail(keyring, refused.code, refused.message)
            raise
        except (OSError, MemoryError) as exc:
            # The client has lost nothing, so it can use another slot.
            reason = getattr(exc, "strerror", None) or type(exc).__name__
            code = codes.HOST_OUT_OF_MEMORY
            message = f"cannot allocate the client's buffers: {reason}"
            self._fail(keyring, code, message, states.PREPARE_FAILED)
            raise ports.Refused(code, message) from exc
        with self._lock:
            self._session = session

    def _fail(
        self,
        keyring: hellos.Keyring,
        code: str,
        message: str,
        outcome: str = states.FAILED,
    ) -> None:
        self.post(
            state.Ended(keyring.order.generation, outcome, code, message)
        )

    def _make_session(
        self, hello: hellos.Hello, keyring: hellos.Keyring
    ) -> sessions.DataSession:
        settings = self.settings
        profile = self._profile
        if profile is None:
            raise ports.Refused(codes.SESSION_CLOSED, "the session has ended")
        processor = processing.Processor(
            self._open_core(hello, keyring.order), profile
        )
        if processor.multiple_bytes > settings.chunk_bytes:
            raise ports.Refused(
                codes.INVALID_PARAMS,
                "these parameters require pieces of "
                f"{processor.multiple_bytes} bytes, larger than the limit of "
                f"{settings.chunk_bytes}",
            )
        processor.agree(hello.features)
        if hello.start_input_offset and not (
            profile.stateless or processor.has_checkpoints
        ):
            raise ports.Refused(
                codes.BAD_OFFSET,
                f"{profile.name} is stateful, so a session must start at"
                " offset 0",
            )
        memory = self._make_memory(hello, processor)
        return sessions.DataSession(
            processor,
            memory,
            hello.transport == hellos.SHM,
            settings,
            keyring,
            self.post,
            # The session does not share its blocks with others, because they
            # are wiped when the slot is scrubbed after it.
            self.cache.open(keyring.order.project_id, hello.session_id),
            self.reach,
            hello.start_input_offset,
            hello.start_output_offset,
        )

    def _open_core(
        self, hello: hellos.Hello, order: state.Order
    ) -> drivers.Core:
        settings = self.settings
        traffic = drivers.Traffic(order.local, order.origin_host_uuid)
        try:
            return processing.open_core(
                self.driver,
                settings.device,
                settings.slot,
                traffic,
                hello.params,
            )
        except processing.Failure as exc:
            raise ports.Refused(exc.code, exc.message) from None

    def _make_memory(
        self, hello: hellos.Hello, processor: processing.Processor
    ) -> memories.Memory:
        settings = self.settings
        chunk_bytes, window_bytes = settings.chunk_bytes, settings.window_bytes
        most_bytes = processor.needed_bytes(chunk_bytes, True)
        if most_bytes > _MOST_OUTPUT_BYTES:
            raise ports.Refused(
                codes.CORE_FAILED,
                f"a piece of {chunk_bytes} bytes may produce {most_bytes} "
                "bytes of output, more than the limit of "
                f"{_MOST_OUTPUT_BYTES}",
            )
        if hello.transport == hellos.SHM:
            return memories.SharedMemory(
                chunk_bytes, settings.window_chunks, most_bytes
            )
        if processor.core.in_place:
            return memories.InPlaceMemory(chunk_bytes, window_bytes)
        return memories.PrivateMemory(chunk_bytes, window_bytes, most_bytes)

    def _attach(
        self,
        session: sessions.DataSession,
        hello: hellos.Hello,
        keyring: hellos.Keyring,
        channel: channels.Channel,
        first: bool,
    ) -> None:
        if session.shared != (hello.transport == hellos.SHM):
            raise ports.Refused(
                codes.PROTOCOL_ERROR,
                "the transport differs from that of the session's first"
                " connection",
            )
        try:
            session.attach(
                channel,
                hello.start_input_offset if first else hello.input_offset,
                hello.start_output_offset if first else hello.output_offset,
                functools.partial(
                    self._send_opened, session, keyring, channel, hello
                ),
            )
        except (channels.ChannelClosed, channels.DeadlineExceeded):
            if first:
                # Without OPENED, the client has no secret to resume with.
                self._fail(
                    keyring,
                    codes.CONNECTION_LOST,
                    "the connection was lost before OPENED was sent",
                )
            raise

    def _send_opened(
        self,
        session: sessions.DataSession,
        keyring: hellos.Keyring,
        channel: channels.Channel,
        hello: hellos.Hello,
        input_bytes: int,
        output_bytes: int,
    ) -> None:
        settings, processor = self.settings, session.processor
        document: dict[str, object] = {
            "features": sorted(processor.features),
            "resume_secret": keyring.mint_resume(),
            "chunk_bytes": settings.chunk_bytes,
            "window_bytes": settings.window_bytes,
            "cache_bytes": self.cache.capacity_bytes,
            "input_offset": input_bytes,
            "output_offset": output_bytes,
            "stateless": processor.profile.stateless,
            "accelerator": processor.profile.name,
            "chunk_multiple_bytes": processor.multiple_bytes,
            "max_streams": 1,
            "resume_grace_s": keyring.order.resume_grace_s,
        }
        if frames.RETURN_FEATURE in hello.features and not session.shared:
            document["return_secret"] = keyring.mint_return()
        fds = session.memory.fds
        if session.shared:
            document["shm"] = {
                "buffers": settings.window_chunks,
                "buffer_bytes": settings.chunk_bytes,
            }
        data = frames.encode_frame(frames.FrameHeader(frames.OPENED), document)
        deadline_s = channels.deadline_after(settings.hello_timeout_s)
        if session.shared and isinstance(channel, channels.PlainChannel):
            channel.send_with_fds(data, fds, deadline_s=deadline_s)
        else:
            channel.send(data, deadline_s=deadline_s)


def _unauthorized() -> ports.Refused:
    # Always give the same answer, so that attackers learn nothing.
    return ports.Refused(
        codes.UNAUTHORIZED, "invalid session, generation or secret"
    )
