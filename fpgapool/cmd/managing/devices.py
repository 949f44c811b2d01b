# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-manage device``: checks and measures the boards of a host."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import pathlib
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from fpgapool.accelerators import base as accelerators
from fpgapool.agent import service
from fpgapool.agent import settings
from fpgapool.agent.supervision import workers
from fpgapool.cmd.managing import commands
from fpgapool.cmd.managing import trials
from fpgapool.common import arguments
from fpgapool.common import exception
from fpgapool.drivers import base
from fpgapool.drivers import loader
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import formats
from fpgapool.vocabulary import platforms as vocabulary

option = arguments.option

_MIB = 1024 * 1024
_FORMAT_VERSION = 1

#: Devices with their steps.
Trials = list[tuple[base.DeviceInfo, list[trials.Step]]]


def _assignment(text: str) -> tuple[str, pathlib.Path]:
    name, separator, path = text.partition("=")
    if not (name and separator and path):
        raise argparse.ArgumentTypeError(f"{text!r} is not ACCELERATOR=FILE")
    return name, pathlib.Path(path)


def check(_: object, args: argparse.Namespace) -> int:
    found = _tried(args, size_bytes=int(args.size_mib * _MIB))
    return _finish(found, args, document(found))


def measure(_: object, args: argparse.Namespace) -> int:
    found = _tried(args, measured_s=args.seconds)
    table = platforms(found)
    if args.output is not None:
        _write(args.output, table)
    if args.profiles is not None:
        for profile in _profiles(found):
            path = args.profiles / f"{profile['name']}.yaml"
            _write(path, profile)
    return _finish(found, args, table)


def _tried(
    args: argparse.Namespace,
    *,
    size_bytes: int = 0,
    measured_s: float | None = None,
) -> Trials:
    conf = args.conf
    try:
        path = loader.driver_path(conf.agent.driver)
        driver_settings = settings.options_of_driver(
            conf, conf.agent.driver, path
        )
        files = {name: _file(name, path) for name, path in args.files}
        wanted = args.accelerators or (files or accelerators.profile_names())
        request = trials.Request(
            path,
            {
                **driver_settings,
                "host_uuid": conf.host_uuid,
                "state_dir": conf.state_path,
            },
            tuple(wanted),
            files,
            conf.agent.chunk_bytes,
            size_bytes,
            measured_s,
        )
        with _alone(pathlib.Path(conf.state_path), args.of_device):
            devices = _chosen(
                trials.devices(request, args.timeout_s), args.of_device
            )
            shown = args.format == "table"
            return [
                (
                    device,
                    list(_printed(request, device, args.timeout_s, shown)),
                )
                for device in devices
            ]
    except (base.DriverError, trials.ProcessEnded) as error:
        raise exception.ConfigurationError(
            reason=f"driver {conf.agent.driver}: {error}"
        ) from error


def _file(name: str, path: pathlib.Path) -> base.BitstreamFile:
    # Imported late: most commands do not need OpenCL.
    from fpgapool.drivers.opencl.contents import package

    with commands.usable_files():
        contents = path.read_bytes()
    kind = formats.BINARY
    if contents.startswith(package.MAGIC):
        try:
            kind = package.unpack(contents).kind
        except exceptions.CodedError as error:
            raise exception.ConfigurationError(
                reason=f"{path}: {error}"
            ) from error
    digest = hashlib.sha256(contents).hexdigest()
    return base.BitstreamFile(name, str(path), digest, len(contents), kind)


def _chosen(
    found: list[base.DeviceInfo], name: str | None
) -> list[base.DeviceInfo]:
    chosen = [each for each in found if name in (None, each.name)]
    if name is not None and not chosen:
        raise exception.ConfigurationError(
            reason=f"there is no device {name!r}; devices of this host:"
            f" {', '.join(each.name for each in found) or 'none'}"
        )
    return chosen


@contextlib.contextmanager
def _alone(state_path: pathlib.Path, device: str | None) -> Iterator[None]:
    """Keep the agent and workers from running, without ending sessions.

    :param device: the board; None means all boards of the host.
    """
    try:
        state_path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (state_path / service.LOCK_NAME).open("a")
    except OSError as error:
        raise exception.ConfigurationError(
            reason=f"state_path: {error}"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise exception.ConfigurationError(
                reason="this host's agent is running; drain its boards and"
                " stop it first"
            ) from error
        # Workers keep running when the agent stops.
        try:
            workers.end_idle(str(state_path), device)
        except workers.Busy as error:
            raise exception.ConfigurationError(
                reason=f"{error}; drain the device and wait until it is"
                " disabled"
            ) from error
        yield


def _printed(
    request: trials.Request,
    device: base.DeviceInfo,
    timeout_s: float,
    shown: bool,
) -> Iterator[trials.Step]:
    for step in trials.steps(request, device, timeout_s):
        if shown:
            print(line(device.name, step), flush=True)
        yield step


def line(device: str, step: trials.Step) -> str:
    """Return a human-readable line about a step."""
    subject = " ".join(word for word in (step.accelerator, step.name) if word)
    shown = [step.detail] if step.detail else []
    shown += [_value(name, value) for name, value in step.values.items()]
    return f"{device:16} {step.outcome:7} {subject:20} {'; '.join(shown)}"


def _value(name: str, value: float) -> str:
    if "bytes_per_s" in name:
        length_bytes = name.removeprefix("bytes_per_s").strip("_")
        piece = (
            f" in pieces of {length_bytes} bytes"
            if (length_bytes.isdigit())
            else ""
        )
        return f"{value / 1e6:.4g} MB/s{piece}"
    if name == "time_s":
        return f"{value:.3g} s"
    return f"{name} {value:.4g}"


def _finish(
    found: Trials, args: argparse.Namespace, shown: Mapping[str, object]
) -> int:
    """Print what was found, and return the exit code.

    It is 1 if a step failed or there is no device.
    """
    if args.format == "json":
        print(json.dumps(shown, indent=2))
    elif not found:
        print("The driver found no device.")
    return 0 if _is_sound(found) else 1


def _is_sound(found: Trials) -> bool:
    steps = [step for _, steps in found for step in steps]
    return bool(found) and trials.FAILED not in {one.outcome for one in steps}


def document(found: Trials) -> dict[str, object]:
    """Return all steps, to be printed as JSON."""
    return {
        "passed": _is_sound(found),
        "devices": [
            {
                "name": device.name,
                "model": device.model,
                "shapes": _shapes(device),
                "steps": [
                    dataclasses.asdict(step)
                    | {"accelerator": step.accelerator or None}
                    for step in steps
                ],
            }
            for device, steps in found
        ],
    }


def _shapes(device: base.DeviceInfo) -> list[str]:
    return sorted({slot.shape for slot in device.slots})


def platforms(found: Trials) -> dict[str, object]:
    """Return the measurements by shape and accelerator.

    If several devices have the same shape, the last one is used.
    """
    table: dict[str, object] = {}
    for device, steps in found:
        # Each shape gets all measurements: devices rarely have several shapes.
        for shape in _shapes(device):
            table[shape] = {
                "model": device.model,
                "accelerators": _measurements(steps),
            }
    return {"format_version": _FORMAT_VERSION, "platforms": table}


def _measurements(
    steps: Sequence[trials.Step],
) -> dict[str, dict[str, float | None]]:
    programmed = {
        step.accelerator: step.values["time_s"]
        for step in steps
        if step.name == "program" and step.outcome == trials.PASSED
    }
    return {
        step.accelerator: {
            "peak_bytes_per_s": round(step.values["bytes_per_s"]),
            "return_ratio": round(step.values["return_ratio"], 6),
            "programming_time_s": round(programmed[step.accelerator], 6),
            "idle_w": step.values.get("idle_w"),
            "active_w": step.values.get("active_w"),
        }
        for step in steps
        if step.name == "rate" and step.outcome == trials.PASSED
    }


def _profiles(found: Trials) -> Iterator[dict[str, object]]:
    """Yield profiles with the rates of accelerators in slots of each shape.

    For other shapes, a profile has the highest measured rate.
    """
    rates: dict[str, float] = {}
    tables: dict[str, dict[str, dict[str, float]]] = {}
    for device, steps in found:
        for name, measured in _measurements(steps).items():
            rate = measured["peak_bytes_per_s"] or 0.0
            rates[name] = max(rate, rates.get(name, 0.0))
            members = {vocabulary.PEAK_BYTES_PER_S: rate}
            idle_w, active_w = measured["idle_w"], measured["active_w"]
            if idle_w is not None and active_w is not None:
                members[vocabulary.ACTIVE_W] = max(active_w - idle_w, 0.0)
            for shape in _shapes(device):
                tables.setdefault(name, {})[shape] = dict(members)
    for name, rate in rates.items():
        profile = accelerators.load_profile(name)
        changed: dict[str, object] = {
            "peak_bytes_per_s": rate,
            "platforms": tables[name],
        }
        yield dataclasses.asdict(profile) | changed


def _write(path: pathlib.Path, contents: Mapping[str, object]) -> None:
    import yaml

    text = yaml.safe_dump(dict(contents), sort_keys=False)
    with commands.usable_files():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Measured by fpgapool-manage.\n{text}")


_COMMON = (
    option(
        "device",
        "NAME",
        "use only this device; the default is all devices",
        dest="of_device",
    ),
    option(
        "accelerator",
        "NAME",
        "use only this accelerator (repeat the option for several); by"
        " default, the accelerators in --file or, without --file, all that"
        " have a profile on this host",
        dest="accelerators",
        action="append",
    ),
    option(
        "file",
        "ACCELERATOR=FILE",
        "program this bitstream instead of the driver's own (repeat the option"
        " for several): a package, or a partial bitstream",
        dest="files",
        action="append",
        default=[],
        type=_assignment,
    ),
    option(
        "timeout-s",
        "SECONDS",
        "time limit for each step; the default is 120",
        type=arguments.positive,
        default=120.0,
    ),
    commands.FORMAT,
)
COMMANDS = (
    commands.Command(
        "device check",
        check,
        "Test each board of this host with each accelerator, and print which"
        " steps pass and at which rate. Drain the boards and stop the agent"
        " first. The exit code is 0 if no step fails, else 1.",
        *_COMMON,
        option(
            "size-mib",
            "MIB",
            "input per accelerator in MiB; the default is 16",
            type=arguments.positive,
            default=16.0,
        ),
        on_database=False,
    ),
    commands.Command(
        "device measure",
        measure,
        "Measure the rate of each accelerator on each board of this host, and"
        " the power if the board reports it. Drain the boards and stop the"
        " agent first.",
        *_COMMON,
        option(
            "seconds",
            "SECONDS",
            "duration of each measurement in seconds; the default is 5",
            type=arguments.positive,
            default=5.0,
        ),
        option(
            "output",
            "FILE",
            "write a table of the measurements by platform, as YAML",
            type=pathlib.Path,
        ),
        option(
            "profiles",
            "DIRECTORY",
            "write a profile with the measured rate of each accelerator, in"
            " the format that 'accelerator load' reads",
            type=pathlib.Path,
        ),
        on_database=False,
    ),
)
