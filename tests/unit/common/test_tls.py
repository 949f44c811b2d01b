# SPDX-License-Identifier: Apache-2.0

"""The certificate of a server is the one that is in its files now."""

import hashlib
import pathlib
import socket
import ssl
import threading

import pytest

from fpgapool.common import tls
from tests.services import certificates
from tests.services import process


@pytest.fixture
def authority(tmp_path: pathlib.Path) -> certificates.Authority:
    return certificates.Authority(tmp_path, "ca")


def _context(
    pair: certificates.Pair, client_ca: pathlib.Path | None = None
) -> tls.ServerContext:
    return tls.ServerContext(
        str(pair.certificate_path),
        str(pair.key_path),
        client_ca and str(client_ca),
    )


def _shake_hands(
    context: ssl.SSLContext, client: ssl.SSLContext
) -> tuple[ssl.SSLSocket, ssl.SSLSocket]:
    """Return both ends of a connection, the server's first."""
    ours, theirs = socket.socketpair()
    for one in (ours, theirs):
        one.settimeout(30)
    found: list[ssl.SSLSocket] = []

    def serve() -> None:
        try:
            found.append(context.wrap_socket(ours, server_side=True))
        except OSError:
            ours.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        peer = client.wrap_socket(theirs, server_hostname=process.LOOPBACK)
        # With TLS 1.3 the client has done before it is refused.
        thread.join()
        if not found:
            peer.recv(1)
    finally:
        thread.join()
    return found[0], peer


def _sha256(peer: ssl.SSLSocket) -> bytes:
    return hashlib.sha256(peer.getpeercert(binary_form=True) or b"").digest()


def test_a_changed_file_is_for_new_connections(authority) -> None:
    """Those that are under way go on."""
    first = authority.issue("server")
    context = _context(first)
    old = _shake_hands(context.current(), first.client_context())
    assert _sha256(old[1]) == first.sha256
    assert context.current() is context.current()

    second = authority.issue("server")
    new = _shake_hands(context.current(), first.client_context())
    assert _sha256(new[1]) == second.sha256
    for server, client in (old, new):
        server.sendall(b"goes on")
        assert client.recv(7) == b"goes on"
        server.close()
        client.close()


@pytest.mark.parametrize("damage", ["half", "missing", "garbage"])
def test_what_cannot_be_used_changes_nothing(
    authority, caplog, damage
) -> None:
    pair = authority.issue("server")
    context = _context(pair)
    before = context.current()
    if damage == "half":
        # The certificate is new, its key not yet.
        key = pair.key_path.read_bytes()
        authority.issue("server")
        new_key = pair.key_path.read_bytes()
        pair.key_path.write_bytes(key)
    elif damage == "missing":
        new_key = pair.key_path.read_bytes()
        pair.key_path.unlink()
    else:
        new_key = pair.key_path.read_bytes()
        pair.key_path.write_bytes(b"no key")
    for _ in range(3):
        assert context.current() is before
    # Once, not for each connection.
    assert caplog.text.count("is unusable") == 1
    pair.key_path.write_bytes(new_key)
    assert context.current() is not before


def test_files_that_never_were_any_good_are_an_error(
    authority, tmp_path
) -> None:
    pair = authority.issue("server")
    with pytest.raises(OSError, match="nowhere"):
        tls.ServerContext(str(tmp_path / "nowhere"), str(pair.key_path))
    pair.key_path.write_bytes(b"no key")
    with pytest.raises(ssl.SSLError):
        _context(pair)


def test_clients_of_another_authority_are_refused(authority, tmp_path) -> None:
    pair = authority.issue("server")
    context = _context(pair, authority.path)
    client = authority.issue("client")
    for one in _shake_hands(context.current(), client.client_context()):
        one.close()
    stranger = certificates.Authority(tmp_path, "other").issue("stranger")
    trusting = ssl.create_default_context(cafile=str(authority.path))
    trusting.load_cert_chain(stranger.certificate_path, stranger.key_path)
    with pytest.raises(OSError):
        _shake_hands(context.current(), trusting)
