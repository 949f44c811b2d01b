# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-run``: send a file or a pipe through an accelerator."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import json
import re
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any
from typing import BinaryIO

from fpgapool import client
from fpgapool.client import checks
from fpgapool.client.links import waiting
from fpgapool.client.transfers import files
from fpgapool.cmd import launch
from fpgapool.cmd.running import arguments as command_line
from fpgapool.cmd.running import chains
from fpgapool.cmd.running import display as displays
from fpgapool.cmd.running import ends
from fpgapool.cmd.running import habits
from fpgapool.cmd.running import params as parameters
from fpgapool.cmd.running import tracing
from fpgapool.common import interrupts
from fpgapool.common.channels import channel
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import states

#: How long the main thread has to react to a signal.
_REACTS_S = 1.0
# After the time limit, the client ends its waits and releases the slot.
_CLEANS_UP_S = 2.0
# The client treats a time limit of 0 as an error.
_LEAST_S = 0.001
# Long enough for an agent to restart; the last attempt may add a second.
_AWAY_TIMEOUT_S = 14.0

_NAMES = (
    *("size_bytes", "timeout_s", "request_id", "fallback", "meanwhile"),
    *(option.name for option in description.FIELDS.options),
)
# Places where the client's messages name its arguments.
_ARGUMENTS = re.compile(rf"(?:^|(?<=; give ))(?:{'|'.join(_NAMES)})\b")

SUCCESS = 0
FAILURE = 1
USAGE = 2


def _run(
    arguments: argparse.Namespace, token: client.CancelToken
) -> dict[str, Any]:
    """:returns: the report; ``summary`` is its human-readable form."""
    if arguments.lists:
        return _list(arguments, token)
    if arguments.dry_run:
        return _dry_run(arguments, token)
    source = ends.source_of(arguments.source)
    destination = arguments.destination
    prepare = chains.prepare if arguments.stages else parameters.prepare
    prepared = prepare(arguments, source)
    with contextlib.ExitStack() as stack:
        display = stack.enter_context(displays.Display(quiet=arguments.json))
        stream, size_bytes = ends.open_source(
            source, arguments.size_bytes, stack
        )
        kept = {}
        if prepared.new_iv is not None:
            kept = _keep_iv(prepared.new_iv, destination, display, stack)
        run = _run_session if arguments.group is None else _run_group
        if arguments.stages:
            run = _run_chain
        output: str | BinaryIO
        if arguments.digest_of is not None:
            output = digest = io.BytesIO()
        else:
            output = ends.open_destination(destination, arguments.like, stack)
        result = run(
            arguments,
            stream,
            output,
            {
                "size_bytes": size_bytes,
                "params": prepared.params,
                "progress": display.progress,
            },
            display,
            token,
        )
    if arguments.digest_of is not None:
        habits.show_digest(digest.getvalue(), arguments.digest_of)
    if "iv_file" in kept:
        result["summary"] += f"\niv {kept['iv']}, stored in {kept['iv_file']}"
    return {**result, **kept}


def _keep_iv(
    iv: bytes,
    destination: str,
    display: displays.Display,
    stack: contextlib.ExitStack,
) -> dict[str, str]:
    """Store the IV before the output is written; return the IV's report."""
    if destination == command_line.STANDARD:
        display.tell(
            f"iv {iv.hex()}, needed to decrypt: --decrypt --iv {iv.hex()}"
        )
        return {"iv": iv.hex()}
    path = destination + parameters.IV_SUFFIX
    # The file appears when the stack is left, after the output.
    stream = stack.enter_context(files.replacing(path))
    stream.write(f"{iv.hex()}\n".encode())
    return {"iv": iv.hex(), "iv_file": path}


def _list(
    arguments: argparse.Namespace, token: client.CancelToken
) -> dict[str, Any]:
    found = client.accelerators(
        timeout_s=_left_s(arguments), cancel=token, **_door(arguments)
    )
    return {
        "summary": "\n".join(displays.listing(found)),
        "accelerators": [dataclasses.asdict(one) for one in found],
    }


def _options(
    arguments: argparse.Namespace, token: client.CancelToken
) -> dict[str, Any]:
    return {
        "timeout_s": _left_s(arguments),
        "cancel": token,
        **{
            option.name: value
            for option in command_line.REQUESTED
            if (value := getattr(arguments, option.name)) is not None
        },
        **_door(arguments),
    }


def _dry_run(
    arguments: argparse.Namespace, token: client.CancelToken
) -> dict[str, Any]:
    size_bytes = arguments.size_bytes
    if size_bytes is None:
        size_bytes = ends.size_of(ends.source_of(arguments.source))
    found = client.acc_dry_run(
        arguments.accelerator,
        # A session must claim at least one byte.
        max(size_bytes, 1),
        params=parameters.given(arguments),
        **_options(arguments, token),
    )
    return {
        "summary": displays.dry_run_text(found),
        **dataclasses.asdict(found),
    }


def _run_session(
    arguments: argparse.Namespace,
    source: BinaryIO,
    destination: str | BinaryIO,
    transfer: dict[str, Any],
    display: displays.Display,
    token: client.CancelToken,
) -> dict[str, Any]:
    report = client.run_file(
        arguments.accelerator,
        source,
        destination,
        on_state=display.on_state,
        on_away=display.on_away,
        # If the pool is unreachable, the CPU continues.
        away_timeout_s=None if arguments.meanwhile else _AWAY_TIMEOUT_S,
        request_id=arguments.request_id,
        fallback=arguments.fallback,
        meanwhile=arguments.meanwhile,
        checksum=arguments.checksum,
        **transfer,
        **_options(arguments, token),
    )
    return {"summary": displays.summary(report), **dataclasses.asdict(report)}


def _run_chain(
    arguments: argparse.Namespace,
    source: BinaryIO,
    destination: str | BinaryIO,
    transfer: dict[str, Any],
    display: displays.Display,
    token: client.CancelToken,
) -> dict[str, Any]:
    chain = client.chain(
        *arguments.stages,
        params=transfer.pop("params"),
        on_state=display.on_state,
        on_away=display.on_away,
        away_timeout_s=None if arguments.meanwhile else _AWAY_TIMEOUT_S,
        request_id=arguments.request_id,
        meanwhile=arguments.meanwhile,
        **_options(arguments, token),
    )
    report = chain.run_file(
        source, destination, timeout_s=_left_s(arguments), **transfer
    )
    return {
        "summary": displays.chain_summary(report),
        **dataclasses.asdict(report),
    }


def _run_group(
    arguments: argparse.Namespace,
    source: BinaryIO,
    destination: str | BinaryIO,
    transfer: dict[str, Any],
    display: displays.Display,
    token: client.CancelToken,
) -> dict[str, Any]:
    started_s = time.monotonic()

    def on_away(what: str, gives_up_s: float | None) -> None:
        limit_s = waiting.earliest(gives_up_s, _left_s(arguments))
        display.on_away(what, limit_s)

    with client.group_open(
        arguments.group,
        accelerator=arguments.accelerator,
        timeout_s=_left_s(arguments),
        cancel=token,
        away_timeout_s=_AWAY_TIMEOUT_S,
        on_away=on_away,
        **_door(arguments),
    ) as group:
        waited_s = time.monotonic() - started_s
        report = client.run_group_file(
            group,
            source,
            destination,
            timeout_s=_left_s(arguments),
            **transfer,
        )
    return {
        "summary": displays.group_summary(report, waited_s),
        "waited_s": waited_s,
        **dataclasses.asdict(report),
    }


def _left_s(arguments: argparse.Namespace) -> float | None:
    """Return the time left; None if there is no time limit."""
    left_s = channel.remaining_s(arguments.gives_up_s)
    return None if left_s is None else max(left_s, _LEAST_S)


def _door(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the client's arguments for reaching the pool."""
    front_door = arguments.socket
    if arguments.os_cloud is not None:
        front_door = client.PoolApi.from_cloud(arguments.os_cloud)
    elif arguments.api_url is not None:
        front_door = client.PoolApi.at(arguments.api_url)
    return {
        "front_door": front_door,
        # None lets the environment decide.
        "require_tls": arguments.require_tls or None,
    }


class _TimeUp(BaseException):
    """The time limit was exceeded before the main thread noticed."""


class _Interruptible:
    """Makes signals and the time limit interrupt waits.

    Python handles signals only between instructions of the main thread. If a
    signal arrives just before a wait, or in another thread, the wait continues
    until the signal is repeated or the token is cancelled.

    :param timeout_s: time limit, or None. When it is exceeded, the client ends
        its own waits. Waits for pipes end a little later.
    :ivar token: cancelled if the main thread does not react.
    """

    def __init__(self, timeout_s: float | None) -> None:
        self.token = client.CancelToken()
        self._limit_s = None
        if timeout_s is not None:
            self._limit_s = timeout_s + _CLEANS_UP_S
        self._is_time_up = False
        self._reacts = threading.Event()
        # Ensures that no signal is sent after its handler is removed.
        self._lock = threading.Lock()
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)

    def __enter__(self) -> client.CancelToken:
        with contextlib.ExitStack() as stack:
            stack.enter_context(interrupts.interruptible(self._interrupt))
            before = signal.signal(signal.SIGALRM, self._interrupt)
            stack.callback(signal.signal, signal.SIGALRM, before)
            # Python writes to this socket as soon as a signal arrives.
            before_fd = signal.set_wakeup_fd(self._writer.fileno())
            stack.callback(signal.set_wakeup_fd, before_fd)
            self._restore = stack.pop_all()
        threading.Thread(
            target=self._watch, name="fpgapool-signals", daemon=True
        ).start()
        return self.token

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._reacts.set()
        self._restore.close()
        self._writer.close()
        if self._is_time_up and isinstance(exception[1], client.Cancelled):
            raise _TimeUp

    def _interrupt(self, _signal: int, _frame: object) -> None:
        if self._reacts.is_set():
            # Clean-up is running: end its waits.
            self.token.cancel()
            return
        self._reacts.set()
        raise _TimeUp if self._is_time_up else KeyboardInterrupt

    def _watch(self) -> None:
        with self._reader:
            if select.select([self._reader], [], [], self._limit_s)[0]:
                arrived = self._reader.recv(1)
            else:
                self._is_time_up = True
                arrived = bytes([signal.SIGALRM])
                self._wake(signal.SIGALRM)
            while arrived and not self._reacts.wait(_REACTS_S):
                self.token.cancel()
                self._wake(arrived[0])
            # Keep reading: Python prints warnings if the socket fills up.
            while self._reader.recv(1):
                pass

    def _wake(self, number: int) -> None:
        main_thread = threading.main_thread().ident
        assert main_thread is not None
        with self._lock:
            if not self._reacts.is_set():
                signal.pthread_kill(main_thread, number)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    :returns: exit status: 0 done, 1 failed, 2 invalid usage, 130 interrupted,
        141 nobody reads the output.
    """
    words = sys.argv[1:] if argv is None else argv
    as_json = "--json" in words
    # Messages must not mix with the output.
    messages = sys.stdout
    request_id = None
    places: list[str] = []
    try:
        arguments = command_line.parse(words)
        as_json = arguments.json
        command_line.check(arguments)
        if arguments.accelerator is not None:
            habits.fill_in(arguments)
        if command_line.has_output(arguments):
            destination = ends.destination_of(arguments.destination)
            arguments.destination = destination
            if destination == command_line.STANDARD:
                messages = sys.stderr
        tracing.start(command_line.PROGRAM)
        timeout_s = checks.seconds(arguments.timeout, "--timeout")
        # The time limit includes reading the input.
        arguments.gives_up_s = channel.deadline_after(timeout_s)
        with _Interruptible(timeout_s) as token:
            result = _run(arguments, token)
    except SystemExit as exc:
        return int(exc.code or 0)
    except command_line.UsageError as exc:
        failure, status = (codes.INVALID_USAGE, str(exc)), USAGE
    except (KeyboardInterrupt, client.Cancelled):
        failure, status = (codes.CANCELLED, "interrupted"), launch.INTERRUPTED
    except _TimeUp:
        launch.discard_unread()
        failure = codes.TIMEOUT, "the time limit was exceeded"
        status = FAILURE
    except client.FpgapoolError as exc:
        failure, status = (exc.code, _with_options(exc.message)), FAILURE
        request_id = exc.request_id
        if arguments.verbose and isinstance(exc, client.FrontDoorUnavailable):
            places = list(map(str, exc.places))
    except OSError as exc:
        if ends.failed_at_standard_output(exc) and launch.is_unread(exc):
            return launch.UNREAD
        failure, status = (codes.FILE_ERROR, _file_text(exc)), FAILURE
    else:
        summary = result.pop("summary")
        print(
            json.dumps(result) if as_json else summary,
            file=messages,
            flush=True,
        )
        rejected = result.get("state") == states.REJECTED
        return FAILURE if rejected else SUCCESS
    if as_json:
        error = _failure_record(failure, places, request_id)
        print(json.dumps({"error": error}), file=messages, flush=True)
    else:
        print(_failure_text(failure, places, request_id), file=sys.stderr)
    return status


def _failure_record(
    failure: tuple[str, str], places: Sequence[str], request_id: str | None
) -> dict[str, Any]:
    code, message = failure
    error: dict[str, Any] = {"code": code, "message": message}
    if places:
        error["places"] = places
    if request_id is not None:
        error["request_id"] = request_id
    return error


def _failure_text(
    failure: tuple[str, str], places: Sequence[str], request_id: str | None
) -> str:
    text = f"{command_line.PROGRAM}: {': '.join(failure)}"
    if request_id is not None:
        text += f" ({request_id})"
    return "\n".join([text, *(f"    looked at {place}" for place in places)])


def _with_options(message: str) -> str:
    """Replace the client's argument names with the command's options."""
    return _ARGUMENTS.sub(
        lambda found: "--" + found[0].removesuffix("_s").replace("_", "-"),
        message,
    )


def _file_text(exc: OSError) -> str:
    if exc.filename is None or exc.strerror is None:
        return str(exc)
    return f"{exc.filename}: {exc.strerror}"


if __name__ == "__main__":
    sys.exit(launch.guarded(command_line.PROGRAM, main))
