# SPDX-License-Identifier: Apache-2.0

"""The link between two stages of a chain.

The client orders it with a LINK frame to either worker, and each worker knows
only its own side: where its input comes from, and where its output goes. After
HELLO and OPENED, a link carries nothing but the bytes of the output, from the
position in OPENED on. Lengths, order and acknowledgements stay with the
client, in the headers of OUTPUT and INPUT.
"""

from __future__ import annotations

import typing

from fpgapool.protocol import frames
from fpgapool.protocol import messages
from fpgapool.vocabulary import shapes


class Target(typing.NamedTuple):
    """The session of the next stage.

    :ivar generation: the assignment to its present slot.
    :ivar secret: admits the link there; the client has made it.
    :ivar certificate_sha256: hash of its worker's certificate; None without
        TLS.
    :ivar require_tls: whether the link may cross a network only with TLS.
    """

    session_id: str
    generation: int
    secret: str
    certificate_sha256: str | None = None
    require_tls: bool = False

    def __repr__(self) -> str:
        return f"Target({self.session_id!r}, {self.generation})"


class Order(typing.NamedTuple):
    """The payload of a LINK frame.

    :ivar secret_sha256: hash of the secret that admits the previous stage;
        None if the input comes from the client.
    :ivar passes_on: whether the output goes to the next stage.
    :ivar target: where that is; None as long as it has no slot.
    """

    secret_sha256: str | None = None
    passes_on: bool = False
    target: Target | None = None

    def frame(self) -> bytes:
        """Encode the frame."""
        document: dict[str, object] = {}
        if self.secret_sha256 is not None:
            document["from"] = {"secret_sha256": self.secret_sha256}
        if self.passes_on:
            document["to"] = (
                None if self.target is None else self.target._asdict()
            )
        return frames.encode_frame(frames.FrameHeader(frames.LINK), document)


_SHA256 = shapes.matching("[0-9a-f]{64}", "a SHA-256")
_FROM = shapes.Members({"secret_sha256": _SHA256}, others=True)
_TO = shapes.Members(
    {
        # The worker repeats them to its agent.
        "session_id": messages.HOLDER,
        "generation": messages.GENERATION,
        "secret": shapes.text(64, printable=True),
    },
    {
        "certificate_sha256": shapes.nullable(_SHA256),
        "require_tls": shapes.flag,
    },
)
_LINK = shapes.Members(
    {}, {"from": _FROM, "to": shapes.nullable(_TO)}, others=True
)
_OPENED = shapes.Members({"offset": frames.OFFSET}, others=True)


def parse(payload: frames.Buffer) -> Order:
    """Decode the payload of a LINK frame.

    :raises frames.ProtocolError: if it is invalid.
    """
    document = frames.checked(_LINK, frames.decode_json(payload))
    source, target = document.get("from"), document.get("to")
    return Order(
        None if source is None else source["secret_sha256"],
        "to" in document,
        None if target is None else Target(**target),
    )


def hello(target: Target) -> bytes:
    """Encode the first frame of a link."""
    return frames.encode_frame(
        frames.FrameHeader(frames.HELLO),
        {
            "session_id": target.session_id,
            "generation": target.generation,
            "link_secret": target.secret,
        },
    )


def opened(offset_bytes: int) -> bytes:
    """Encode the answer: the position from which the receiver lacks data."""
    return frames.encode_frame(
        frames.FrameHeader(frames.OPENED), {"offset": offset_bytes}
    )


def start_bytes(document: dict[str, typing.Any]) -> int:
    """Return the position in an answer.

    :raises frames.ProtocolError: if it has none.
    """
    found: int = frames.checked(_OPENED, document)["offset"]
    return found
