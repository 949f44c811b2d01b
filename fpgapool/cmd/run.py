# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-run``: send a file through an accelerator of the pool."""

from __future__ import annotations

import argparse
import collections.abc
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import secrets
import signal
import socket
import sys
import threading
import time
import typing

from fpgapool import client
from fpgapool.vocabulary import states

#: How long the main thread may take to react to a signal by itself.
_REACTS_S = 1.0
# A time limit of 0 is none.
_LEAST_S = 0.001

SUCCESS = 0
FAILURE = 1
USAGE = 2

_AES = "aes"
_KEY_BYTES = (16, 24, 32)
_IV_BYTES = 16
_MAX_KEY_FILE_BYTES = 1024
# Options that have no meaning for a group.
_SESSION_OPTIONS = (
    "wait_timeout",
    "priority",
    "deadline",
    "deadline_action",
    "fallback",
    "meanwhile",
    "checksum",
    "request_id",
)
_SIZE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


class _UsageError(Exception):
    """The command line is wrong."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fpgapool-run",
        description="Send a file through an accelerator of the pool.",
        epilog="The AES counter mode decrypts what it encrypted with the "
        "same key and IV. Without --iv and --iv-file a random IV is used "
        "and stored in OUT.iv.",
    )
    parser.add_argument("accelerator", help="name, for example aes or copy")
    parser.add_argument(
        "--in",
        dest="source",
        metavar="IN",
        required=True,
        help="file to read",
    )
    parser.add_argument(
        "--out",
        dest="destination",
        metavar="OUT",
        help="file to write; it appears when it is complete; --dry-run needs "
        "none",
    )
    parser.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help="parameter of the accelerator, a text; may be repeated",
    )
    parser.add_argument(
        "--param-json",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="parameter that is not a text, for example level=3",
    )
    aes = parser.add_argument_group("options of aes")
    aes.add_argument(
        "--key-file",
        metavar="FILE",
        help="key of 16, 24 or 32 bytes, raw or as hexadecimal text",
    )
    iv = aes.add_mutually_exclusive_group()
    iv.add_argument(
        "--iv", metavar="HEX", help="initial counter block, 32 hex digits"
    )
    iv.add_argument(
        "--iv-file", metavar="FILE", help="file with the same, as text"
    )
    group = parser.add_argument_group("groups")
    group.add_argument(
        "--group",
        metavar="GROUP",
        help="name or ID of a group: divide the file into tasks of its "
        "members, instead of opening a session; the accelerator must be "
        "stateless",
    )
    pool = parser.add_argument_group("request")
    door = pool.add_mutually_exclusive_group()
    door.add_argument(
        "--socket",
        metavar="PATH",
        help="socket of the front door; default: the first way to the pool"
        " that works",
    )
    door.add_argument(
        "--os-cloud",
        metavar="NAME",
        help="use the pool's API, as a VM does: the cloud of this name in "
        "clouds.yaml",
    )
    door.add_argument(
        "--api-url",
        metavar="URL",
        help="use an API without Keystone, such as that of "
        "fpgapool-allinone --api-port",
    )
    pool.add_argument(
        "--timeout",
        type=float,
        metavar="S",
        help="give up after this many seconds in all",
    )
    pool.add_argument(
        "--wait-timeout",
        type=float,
        metavar="S",
        help="give up if no slot is free within this many seconds",
    )
    pool.add_argument(
        "--priority",
        type=int,
        default=0,
        metavar="N",
        help="from -1000 to 1000; higher ones come first within the project; "
        "default 0",
    )
    pool.add_argument(
        "--deadline",
        type=float,
        metavar="S",
        help="ask the pool to be done within this many seconds; it refuses "
        "what no slot can do",
    )
    pool.add_argument(
        "--deadline-action",
        choices=states.DEADLINE_ACTIONS,
        help="at the deadline: continue, kill, or early, which gives up as "
        "soon as no slot can be done in time",
    )
    pool.add_argument(
        "--fallback",
        choices=["cpu"],
        help="compute on this machine's CPU if the pool is away or has no "
        "slot within --wait-timeout",
    )
    pool.add_argument(
        "--meanwhile",
        choices=["cpu"],
        help="compute on this machine's CPU until a slot can go on, for "
        "accelerators that are stateless or have checkpoints",
    )
    pool.add_argument(
        "--checksum",
        action="store_true",
        help="check input and output end to end: fail with "
        "CHECKSUM_MISMATCH if they change between here and the board",
    )
    pool.add_argument(
        "--require-tls",
        action="store_true",
        help="fail with TLS_REQUIRED instead of sending data to another host, "
        "or requests to an API, without TLS (Env: FPGAPOOL_REQUIRE_TLS=1)",
    )
    pool.add_argument("--request-id", metavar="ID", help="name of the request")
    pool.add_argument(
        "--dry-run",
        action="store_true",
        help="only print whether there would be a slot now, when about, and "
        "why not; the exit status is 1 if the pool would refuse the request",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the report as JSON"
    )
    return parser


def _params(arguments: argparse.Namespace) -> dict[str, typing.Any]:
    params: dict[str, typing.Any] = {}
    for item in arguments.param:
        name, value = _split(item, "--param")
        params[name] = value
    for item in arguments.param_json:
        name, value = _split(item, "--param-json")
        try:
            params[name] = json.loads(value)
        except ValueError:
            raise _UsageError(f"--param-json {name}: not JSON") from None
    return params


def _split(item: str, option: str) -> tuple[str, str]:
    name, separator, value = item.partition("=")
    if not name or not separator:
        # The message omits the text: it may be a mistyped key.
        raise _UsageError(f"{option} needs NAME=VALUE")
    return name, value


def _read_key(path: str) -> bytes:
    data = _read_small(path)
    text = data.strip()
    if re.fullmatch(rb"[0-9A-Fa-f]*", text) and len(text) % 2 == 0:
        key = bytes.fromhex(text.decode())
        if len(key) in _KEY_BYTES:
            return key
    if len(data) in _KEY_BYTES:
        return data
    raise _UsageError(
        f"{path}: not a key: 16, 24 or 32 bytes, or twice as many "
        "hexadecimal digits, are needed"
    )


def _read_small(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read(_MAX_KEY_FILE_BYTES)


def _parse_iv(text: str, origin: str) -> bytes:
    try:
        iv = bytes.fromhex(text.strip())
    except ValueError:
        iv = b""
    if len(iv) != _IV_BYTES:
        raise _UsageError(f"{origin}: 32 hexadecimal digits are needed")
    return iv


def _add_aes_params(
    arguments: argparse.Namespace, params: dict[str, typing.Any]
) -> bytes | None:
    """Add key and IV to the parameters.

    :returns: the IV if it was made here and must be stored.
    """
    named = arguments.key_file, arguments.iv, arguments.iv_file
    if arguments.accelerator != _AES:
        if any(value is not None for value in named):
            raise _UsageError("--key-file, --iv and --iv-file are for aes")
        return None
    if arguments.key_file is not None:
        params["key"] = _read_key(arguments.key_file).hex()
    if "key" not in params:
        raise _UsageError("aes needs --key-file")
    if arguments.iv is not None:
        params["iv"] = _parse_iv(arguments.iv, "--iv").hex()
    elif arguments.iv_file is not None:
        text = _read_small(arguments.iv_file).decode(errors="replace")
        params["iv"] = _parse_iv(text, arguments.iv_file).hex()
    if "iv" in params:
        return None
    iv = secrets.token_bytes(_IV_BYTES)
    params["iv"] = iv.hex()
    return iv


class _Display:
    """Progress on standard error: a bar on a terminal, else plain lines.

    :param quiet: show nothing.
    """

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._state: tuple[str, int | None] | None = None
        self._bar: typing.Any = None
        self._task: typing.Any = None

    def __enter__(self) -> typing.Self:
        if not self._quiet and sys.stderr.isatty():
            self._bar = _make_bar()
        if self._bar is not None:
            self._task = self._bar.add_task("asking", total=None)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def on_state(self, view: client.SessionView) -> None:
        state = (view.state, view.queue_position)
        if self._quiet or state == self._state:
            return
        self._state = state
        text = _state_text(view)
        if self._bar is not None:
            self._bar.update(self._task, description=text)
            if view.reason:
                self._bar.console.print(f"fpgapool-run: {text}")
        else:
            print(f"fpgapool-run: {text}", file=sys.stderr)

    def progress(self, done_bytes: int, total_bytes: int) -> None:
        if self._bar is not None:
            self._bar.update(
                self._task,
                description="running",
                completed=done_bytes,
                total=total_bytes,
            )


def _make_bar() -> typing.Any:
    """Return a progress bar; None if its library is not installed."""
    # A late import: scripts that run without a terminal do not need it.
    try:
        import rich.console
        import rich.progress
    except ImportError:
        return None
    return rich.progress.Progress(
        rich.progress.TextColumn("{task.description}"),
        rich.progress.BarColumn(),
        rich.progress.DownloadColumn(),
        rich.progress.TransferSpeedColumn(),
        rich.progress.TimeRemainingColumn(),
        console=rich.console.Console(stderr=True),
        transient=True,
    )


def _state_text(view: client.SessionView) -> str:
    if view.reason:
        return f"no slot ({view.reason}): computing on this machine's CPU"
    if view.state != "QUEUED":
        return view.state.lower()
    text = "waiting for a slot"
    if view.queue_position is not None:
        text += f", {view.queue_position} before this one"
    if view.expected_wait_s is not None:
        text += f", about {view.expected_wait_s:.0f} s"
    if view.pending_reasons:
        text += f" ({', '.join(view.pending_reasons)})"
    return text


def _human_bytes(value_bytes: float) -> str:
    unit = 0
    while value_bytes >= 999.5 and unit < len(_SIZE_UNITS) - 1:
        value_bytes /= 1000
        unit += 1
    return f"{value_bytes:.3g} {_SIZE_UNITS[unit]}"


def _summary(report: client.RunReport) -> str:
    text = (
        f"{_amounts(report)} on {_place_text(report)}; "
        f"waited {report.waited_s:.3g} s"
    )
    for did, times in (
        ("reconnected", report.reconnects),
        ("moved to another slot", report.reopens),
        ("started over", report.restarts),
    ):
        if times:
            text += f"; {did} {times} times"
    if report.cpu_energy_j is not None:
        text += f"; about {report.cpu_energy_j:.3g} J of the CPU"
    if report.checksum:
        text += "; checksums are right"
    return text


def _amounts(report: client.RunReport | client.GroupReport) -> str:
    return (
        f"{_human_bytes(report.input_bytes)} in, "
        f"{_human_bytes(report.output_bytes)} out "
        f"in {report.ran_s:.3g} s "
        f"({_human_bytes(report.bytes_per_s)}/s)"
    )


def _place_text(report: client.RunReport) -> str:
    if report.fallback_reason is not None:
        return f"the CPU of {report.host}, no slot ({report.fallback_reason})"
    if report.slot is None:
        return "this machine's CPU; no slot came in time"
    return (
        f"{report.host} {report.device} slot {report.slot}, "
        f"{'local' if report.local else 'remote'}"
    )


def _run(
    arguments: argparse.Namespace, token: client.CancelToken
) -> dict[str, typing.Any]:
    if arguments.dry_run:
        if arguments.group is not None:
            raise _UsageError("--dry-run is for sessions, not for --group")
        return _dry_run(arguments, token)
    if arguments.destination is None:
        raise _UsageError("--out is needed")
    params = _params(arguments)
    new_iv = _add_aes_params(arguments, params)
    with contextlib.ExitStack() as stack:
        display = stack.enter_context(_Display(quiet=arguments.json))
        if new_iv is not None:
            # Before the run: an output without its IV is lost data.
            keep = stack.enter_context(
                _iv_file(arguments.destination + ".iv", new_iv)
            )
        run = _run_session if arguments.group is None else _run_group
        result = run(arguments, params, display, token)
        if new_iv is not None:
            keep()
    if new_iv is not None:
        result["iv"] = new_iv.hex()
        result["iv_file"] = arguments.destination + ".iv"
    return result


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
        "front_door": _front_door(arguments),
        # None: the environment may require it.
        "require_tls": arguments.require_tls or None,
    }


def _dry_run(
    arguments: argparse.Namespace, token: client.CancelToken
) -> dict[str, typing.Any]:
    found = client.acc_dry_run(
        arguments.accelerator,
        os.stat(arguments.source).st_size,
        **_options(arguments, token),
    )
    return {"summary": _dry_run_text(found), **dataclasses.asdict(found)}


def _dry_run_text(found: client.DryRun) -> str:
    reasons = ", ".join(found.reasons)
    if found.fits:
        return "there would be a slot now"
    if found.state == states.REJECTED:
        return f"the pool would refuse it: {reasons}: {found.message}"
    wait = "an unknown time"
    if found.expected_wait_s is not None:
        wait = f"about {found.expected_wait_s:.0f} s"
    return f"it would wait for {wait} ({reasons})"


def _run_session(
    arguments: argparse.Namespace,
    params: dict[str, typing.Any],
    display: _Display,
    token: client.CancelToken,
) -> dict[str, typing.Any]:
    report = client.run_file(
        arguments.accelerator,
        arguments.source,
        arguments.destination,
        params=params,
        progress=display.progress,
        on_state=display.on_state,
        request_id=arguments.request_id,
        fallback=arguments.fallback,
        meanwhile=arguments.meanwhile,
        checksum=arguments.checksum,
        **_options(arguments, token),
    )
    return {"summary": _summary(report), **dataclasses.asdict(report)}


def _run_group(
    arguments: argparse.Namespace,
    params: dict[str, typing.Any],
    display: _Display,
    token: client.CancelToken,
) -> dict[str, typing.Any]:
    for name in _SESSION_OPTIONS:
        if getattr(arguments, name) not in (None, False, 0):
            option = name.replace("_", "-")
            raise _UsageError(f"--{option} is for sessions, not for --group")
    started_s = time.monotonic()
    with client.group_open(
        arguments.group,
        accelerator=arguments.accelerator,
        timeout_s=arguments.timeout,
        front_door=_front_door(arguments),
        cancel=token,
        require_tls=arguments.require_tls or None,
    ) as group:
        waited_s = time.monotonic() - started_s
        left_s = None
        if arguments.timeout is not None:
            left_s = max(arguments.timeout - waited_s, _LEAST_S)
        report = client.run_group_file(
            group,
            arguments.source,
            arguments.destination,
            params=params,
            progress=display.progress,
            timeout_s=left_s,
        )
    return {
        "summary": _group_summary(report, waited_s),
        "waited_s": waited_s,
        **dataclasses.asdict(report),
    }


def _group_summary(report: client.GroupReport, waited_s: float) -> str:
    return (
        f"{_amounts(report)} with {report.tasks} tasks on {report.members}"
        f" members; waited {waited_s:.3g} s"
    )


def _api(arguments: argparse.Namespace) -> client.PoolApi | None:
    if arguments.os_cloud is not None:
        return client.PoolApi.from_cloud(arguments.os_cloud)
    if arguments.api_url is not None:
        return client.PoolApi.at(arguments.api_url)
    return None


def _front_door(
    arguments: argparse.Namespace,
) -> str | client.PoolApi | None:
    socket_path: str | None = arguments.socket
    return _api(arguments) or socket_path


@contextlib.contextmanager
def _iv_file(
    path: str, iv: bytes
) -> collections.abc.Iterator[collections.abc.Callable[[], None]]:
    """Write an IV to a temporary file; the yielded function renames it."""
    partial = pathlib.Path(f"{path}.{secrets.token_hex(6)}.part")
    try:
        partial.write_text(iv.hex() + "\n")
        yield lambda: os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _print_result(result: dict[str, typing.Any], as_json: bool) -> None:
    summary = result.pop("summary")
    if as_json:
        print(json.dumps(result))
        return
    print(summary)
    if "iv" in result:
        print(f"iv {result['iv']}, stored in {result['iv_file']}")


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
    :returns: exit status: 0 done, 1 failed, 2 wrong usage.
    """
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as exc:
        return int(exc.code or 0)
    try:
        with _Interruptible() as token:
            result = _run(arguments, token)
        _print_result(result, arguments.json)
        return FAILURE if result.get("state") == states.REJECTED else SUCCESS
    except _UsageError as exc:
        return _complain(f"INVALID_USAGE: {exc}", USAGE)
    except (KeyboardInterrupt, client.Cancelled):
        return _complain("CANCELLED: interrupted", FAILURE)
    except client.FpgapoolError as exc:
        return _complain(str(exc), FAILURE)
    except OSError as exc:
        return _complain(f"FILE_ERROR: {exc}", FAILURE)


def _complain(text: str, status: int) -> int:
    print(f"fpgapool-run: {text}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
