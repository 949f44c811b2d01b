# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-run``: send a file or a pipe through an accelerator."""

from __future__ import annotations

import argparse
import collections.abc
import contextlib
import dataclasses
import json
import signal
import socket
import sys
import threading
import time
import typing

from fpgapool import client
from fpgapool.client import files
from fpgapool.client import waiting
from fpgapool.cmd import launch
from fpgapool.cmd.running import arguments as command_line
from fpgapool.cmd.running import display as displays
from fpgapool.cmd.running import ends
from fpgapool.cmd.running import params as parameters
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import states

#: How long the main thread may take to react to a signal by itself.
_REACTS_S = 1.0
# A time limit of 0 is none.
_LEAST_S = 0.001
# A restarted agent is back by then. With the last attempt it takes 15 s.
_AWAY_TIMEOUT_S = 14.0

SUCCESS = 0
FAILURE = 1
USAGE = 2


def _run(
    arguments: argparse.Namespace, token: client.CancelToken
) -> dict[str, typing.Any]:
    """:returns: the report; ``summary`` has its lines for people."""
    if arguments.lists:
        return _list(arguments, token)
    if arguments.dry_run:
        return _dry_run(arguments, token)
    source = ends.source_of(arguments.source)
    destination = arguments.destination
    prepared = parameters.prepare(arguments, source)
    with contextlib.ExitStack() as stack:
        display = stack.enter_context(displays.Display(quiet=arguments.json))
        stream, size_bytes = ends.open_source(
            source, arguments.size_bytes, stack
        )
        kept = {}
        if prepared.new_iv is not None:
            kept = _keep_iv(prepared.new_iv, destination, display, stack)
        run = _run_session if arguments.group is None else _run_group
        result = run(
            arguments,
            stream,
            ends.open_destination(destination, stack),
            {
                "size_bytes": size_bytes,
                "params": prepared.params,
                "progress": display.progress,
            },
            display,
            token,
        )
    if "iv_file" in kept:
        result["summary"] += f"\niv {kept['iv']}, stored in {kept['iv_file']}"
    return {**result, **kept}


def _keep_iv(
    iv: bytes,
    destination: str,
    display: displays.Display,
    stack: contextlib.ExitStack,
) -> dict[str, str]:
    """Keep a new IV before there is output: without it, it is lost data.

    :returns: what the report says about it.
    """
    if destination == command_line.STANDARD:
        display.tell(
            f"iv {iv.hex()}, needed to decrypt: --decrypt --iv {iv.hex()}"
        )
        return {"iv": iv.hex()}
    path = destination + parameters.IV_SUFFIX
    # It gets its name when the stack is left: after the output.
    stream = stack.enter_context(files.replacing(path, destination))
    stream.write(f"{iv.hex()}\n".encode())
    return {"iv": iv.hex(), "iv_file": path}


def _list(
    arguments: argparse.Namespace, token: client.CancelToken
) -> dict[str, typing.Any]:
    found = client.accelerators(
        timeout_s=arguments.timeout, cancel=token, **_door(arguments)
    )
    return {
        "summary": "\n".join(displays.listing(found)),
        "accelerators": [dataclasses.asdict(one) for one in found],
    }


def _options(
    arguments: argparse.Namespace, token: client.CancelToken
) -> dict[str, typing.Any]:
    """Return the options of a session and of its dry run."""
    return {
        "timeout_s": arguments.timeout,
        "cancel": token,
        "wait_timeout_s": arguments.wait_timeout,
        "priority": arguments.priority,
        "deadline_s": arguments.deadline,
        "deadline_action": arguments.deadline_action,
        "application": arguments.application,
        **_door(arguments),
    }


def _dry_run(
    arguments: argparse.Namespace, token: client.CancelToken
) -> dict[str, typing.Any]:
    size_bytes = arguments.size_bytes
    if size_bytes is None:
        size_bytes = ends.size_of(ends.source_of(arguments.source))
    found = client.acc_dry_run(
        arguments.accelerator,
        # The least that a session can claim.
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
    source: typing.BinaryIO,
    destination: str | typing.BinaryIO,
    transfer: dict[str, typing.Any],
    display: displays.Display,
    token: client.CancelToken,
) -> dict[str, typing.Any]:
    report = client.run_file(
        arguments.accelerator,
        source,
        destination,
        on_state=display.on_state,
        on_away=display.on_away,
        # Without the pool, the CPU goes on.
        away_timeout_s=None if arguments.meanwhile else _AWAY_TIMEOUT_S,
        request_id=arguments.request_id,
        fallback=arguments.fallback,
        meanwhile=arguments.meanwhile,
        checksum=arguments.checksum,
        **transfer,
        **_options(arguments, token),
    )
    return {
        "summary": displays.summary(report),
        **dataclasses.asdict(report),
    }


def _run_group(
    arguments: argparse.Namespace,
    source: typing.BinaryIO,
    destination: str | typing.BinaryIO,
    transfer: dict[str, typing.Any],
    display: displays.Display,
    token: client.CancelToken,
) -> dict[str, typing.Any]:
    started_s = time.monotonic()

    def left_s() -> float | None:
        if arguments.timeout is None:
            return None
        passed_s = time.monotonic() - started_s
        return max(arguments.timeout - passed_s, _LEAST_S)

    def on_away(what: str, gives_up_s: float | None) -> None:
        display.on_away(what, waiting.earliest(gives_up_s, left_s()))

    with client.group_open(
        arguments.group,
        accelerator=arguments.accelerator,
        timeout_s=arguments.timeout,
        cancel=token,
        away_timeout_s=_AWAY_TIMEOUT_S,
        on_away=on_away,
        **_door(arguments),
    ) as group:
        waited_s = time.monotonic() - started_s
        report = client.run_group_file(
            group, source, destination, timeout_s=left_s(), **transfer
        )
    return {
        "summary": displays.group_summary(report, waited_s),
        "waited_s": waited_s,
        **dataclasses.asdict(report),
    }


def _door(arguments: argparse.Namespace) -> dict[str, typing.Any]:
    """Return the way to the pool, as arguments of the client."""
    front_door = arguments.socket
    if arguments.os_cloud is not None:
        front_door = client.PoolApi.from_cloud(arguments.os_cloud)
    elif arguments.api_url is not None:
        front_door = client.PoolApi.at(arguments.api_url)
    return {
        "front_door": front_door,
        # None: the environment may require it.
        "require_tls": arguments.require_tls or None,
    }


class _Interruptible:
    """Lets SIGINT and SIGTERM end a wait for the pool.

    Python handles a signal between two of its own steps. A signal that comes
    right before a wait, or in another thread, does not end the wait: then the
    token does.

    :ivar token: is cancelled if the main thread does not react.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.token = client.CancelToken()
        self._reacts = threading.Event()
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)

    def __enter__(self) -> client.CancelToken:
        # A background command may have to ignore Ctrl-C.
        self._before = {
            one: signal.signal(one, self._interrupt)
            for one in self._SIGNALS
            if signal.getsignal(one) is not signal.SIG_IGN
        }
        # Python writes there as soon as a signal arrives.
        self._before_fd = signal.set_wakeup_fd(self._writer.fileno())
        threading.Thread(
            target=self._watch, name="fpgapool-signals", daemon=True
        ).start()
        return self.token

    def __exit__(self, *_exception: object) -> None:
        signal.set_wakeup_fd(self._before_fd)
        for one, before in self._before.items():
            signal.signal(one, before)
        self._reacts.set()
        self._writer.close()

    def _interrupt(self, _signal: int, _frame: object) -> typing.NoReturn:
        self._reacts.set()
        raise KeyboardInterrupt

    def _watch(self) -> None:
        with self._reader:
            if self._reader.recv(1) and not self._reacts.wait(_REACTS_S):
                self.token.cancel()


def main(argv: collections.abc.Sequence[str] | None = None) -> int:
    """Run the command.

    :param argv: arguments without the program's name; None for those of the
        process.
    :returns: exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
    """
    words = sys.argv[1:] if argv is None else argv
    as_json = "--json" in words
    # Messages must not get into the output.
    messages = sys.stdout
    try:
        arguments = command_line.parse(words)
        as_json = arguments.json
        if command_line.has_output(arguments):
            destination = ends.destination_of(arguments.destination)
            arguments.destination = destination
            if destination == command_line.STANDARD:
                messages = sys.stderr
        command_line.check(arguments)
        with _Interruptible() as token:
            result = _run(arguments, token)
    except SystemExit as exc:
        return int(exc.code or 0)
    except command_line.UsageError as exc:
        failure, status = (codes.INVALID_USAGE, str(exc)), USAGE
    except (KeyboardInterrupt, client.Cancelled):
        failure, status = (codes.CANCELLED, "interrupted"), launch.INTERRUPTED
    except client.FpgapoolError as exc:
        failure, status = (exc.code, exc.message), FAILURE
    except OSError as exc:
        failure, status = (codes.FILE_ERROR, _file_text(exc)), FAILURE
    else:
        summary = result.pop("summary")
        rejected = result.get("state") == states.REJECTED
        return _report(
            json.dumps(result) if as_json else summary,
            messages,
            FAILURE if rejected else SUCCESS,
        )
    if as_json:
        error = dict(zip(("code", "message"), failure, strict=True))
        return _report(json.dumps({"error": error}), messages, status)
    print(f"{command_line.PROGRAM}: {': '.join(failure)}", file=sys.stderr)
    return status


def _report(text: str, messages: typing.TextIO, status: int) -> int:
    """Print the report; returns the exit status."""
    try:
        print(text, file=messages, flush=True)
    except OSError as exc:
        launch.discard_output()
        print(
            f"{command_line.PROGRAM}: {codes.FILE_ERROR}: standard output: "
            f"{exc.strerror}",
            file=sys.stderr,
        )
        return FAILURE
    return status


def _file_text(exc: OSError) -> str:
    if exc.filename is None or exc.strerror is None:
        return str(exc)
    return f"{exc.filename}: {exc.strerror}"


if __name__ == "__main__":
    sys.exit(main())
