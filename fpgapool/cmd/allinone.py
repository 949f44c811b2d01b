# SPDX-License-Identifier: Apache-2.0

"""fpgapool-allinone: a whole pool with emulated boards on one machine."""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import shlex
import signal
import socket
import sys
import typing
from collections.abc import Sequence

from fpgapool.agent import metrics as agent_metrics
from fpgapool.agent import service as agent_service
from fpgapool.agent.door import doorway
from fpgapool.allinone import directories
from fpgapool.allinone import program
from fpgapool.allinone import readiness
from fpgapool.allinone import wiring
from fpgapool.cmd import launch
from fpgapool.common import arguments as declared
from fpgapool.common import exception
from fpgapool.common import interrupts
from fpgapool.common import service
from fpgapool.common.messaging import rpc
from fpgapool.conductor import metrics as conductor_metrics
from fpgapool.conductor import service as conductor_service
from fpgapool.db import api as db_api
from fpgapool.drivers import base as drivers
from fpgapool.drivers import loader
from fpgapool.vocabulary import scheduling
from fpgapool.vocabulary import units

_LOG_TAIL_LINES = 20

_START_ERRORS = (
    agent_service.AgentError,
    drivers.DriverError,
    exception.FpgapoolException,
    doorway.FrontDoorError,
    OSError,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal arrives.

    :returns: 0 after a signal, 1 after an error, 2 if the command line or
        the configuration is invalid.
    """
    arguments = parser().parse_args(argv)
    try:
        cluster = _cluster(arguments)
        _check_ready_fd(arguments.ready_fd)
        _check_port(arguments.api_port)
        _check_driver(arguments.driver)
        with (
            interrupts.interruptible(),
            directories.opened(
                arguments.run_dir, arguments.state_dir
            ) as where,
        ):
            return _AllInOne(arguments, cluster, where).run()
    except exception.ConfigurationError as error:
        _complain(f"{error.code}: {error}")
        return 2
    except KeyboardInterrupt:
        # Nothing is running yet.
        return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog=wiring.PROGRAM,
        description="Run a whole pool with emulated boards on this machine"
        " until Ctrl-C, which also removes the pool.",
    )
    declared.VERSION.add_to(made)
    cluster = made.add_argument_group("the pool")
    for name, default, text in (
        ("hosts", wiring.Cluster.hosts, "hosts, named node1 and so on"),
        ("boards", wiring.Cluster.boards, "boards, spread over the hosts"),
        ("slots", wiring.Cluster.slots, "slots per board"),
    ):
        cluster.add_argument(
            f"--{name}",
            type=int,
            default=default,
            metavar="N",
            help=f"number of {text}; default {default}",
        )
    rates = cluster.add_mutually_exclusive_group()
    rates.add_argument(
        "--rate-scale",
        type=float,
        default=wiring.Cluster.rate_scale,
        metavar="X",
        help="scale factor for all modelled rates; default 1",
    )
    rates.add_argument(
        "--unlimited",
        action="store_true",
        help="do not limit rates; run as fast as possible",
    )
    cluster.add_argument(
        "--strategy",
        metavar="NAME",
        help=f"scheduling strategy; default wra; {scheduling.FITTING_SIZES}",
    )
    cluster.add_argument(
        "--driver",
        default=wiring.EMULATOR,
        metavar="NAME",
        help="driver for the hosts with boards; default emulator. With "
        "opencl, the slots are on this machine's OpenCL devices. Other "
        "drivers discover boards and slots as configured in "
        "--config-file",
    )
    _add_process_options(made.add_argument_group("the process"))
    return made


def _add_process_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--state-dir",
        type=pathlib.Path,
        metavar="DIR",
        help="directory for the database and logs; default is a temporary one",
    )
    group.add_argument(
        "--run-dir",
        type=pathlib.Path,
        metavar="DIR",
        help="directory for the sockets; default is where clients look for"
        f" them, {directories.default_run_dir()}",
    )
    group.add_argument(
        "--config-file",
        action="append",
        default=[],
        metavar="FILE",
        help="configuration file for the services; may be repeated",
    )
    group.add_argument(
        "--api-port",
        type=int,
        metavar="N",
        help="serve the REST API, without Keystone, on this port of the"
        " loopback interface; 0 means any free port",
    )
    group.add_argument(
        "--ready-fd",
        type=int,
        metavar="FD",
        help="write one line of JSON to this file descriptor when the pool "
        "is ready; if it is a pipe, stop when the other end closes it",
    )
    group.add_argument(
        "--start-timeout-s",
        type=declared.positive,
        default=program.START_TIMEOUT_S,
        metavar="SECONDS",
        help="give up if the pool is not ready after that; default"
        f" {program.START_TIMEOUT_S:g}",
    )
    group.add_argument(
        "--verbose",
        action="store_true",
        help="log to standard error instead of to the state directory",
    )


def _cluster(arguments: argparse.Namespace) -> wiring.Cluster:
    return wiring.Cluster(
        hosts=arguments.hosts,
        boards=arguments.boards,
        slots=arguments.slots,
        rate_scale=None if arguments.unlimited else arguments.rate_scale,
        driver=arguments.driver,
    )


def _check_ready_fd(fd: int | None) -> None:
    if fd is None:
        return
    try:
        os.fstat(fd)
    except (OSError, OverflowError) as error:
        raise exception.ConfigurationError(
            reason=f"--ready-fd {fd}: file descriptor is not open"
        ) from error


def _check_port(port: int | None) -> None:
    """Check that the API will be able to listen, before anything starts."""
    if port is None:
        return
    if not 0 <= port <= 65535:
        raise exception.ConfigurationError(
            reason=f"--api-port {port}: not a port number"
        )
    with socket.socket() as probe:
        # As the web server does: connections that end do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((wiring.API_ADDRESS, port))
            probe.listen()
        except OSError as error:
            raise exception.ConfigurationError(
                reason=f"--api-port {port}: cannot listen on port {port} of"
                f" {wiring.API_ADDRESS}: {error.strerror}; choose another"
                " port, or 0 for any free one"
            ) from error


def _check_driver(name: str) -> None:
    try:
        loader.driver_path(name)
    except drivers.DriverError as error:
        raise exception.ConfigurationError(
            reason=f"--driver {name}: {error.message}"
        ) from error


def _make_rest_api(*arguments: typing.Any) -> typing.Any:
    """Return the REST API; only this function imports its libraries."""
    try:
        from fpgapool.allinone import restapi
    except ImportError as error:
        raise exception.ConfigurationError(
            reason=f"--api-port requires fpgapool[api]: {error}"
        ) from error
    return restapi.RestAPI(*arguments)


class _AllInOne:
    def __init__(
        self,
        arguments: argparse.Namespace,
        cluster: wiring.Cluster,
        where: directories.Directories,
    ) -> None:
        self._arguments = arguments
        self._cluster = cluster
        self._where = where
        self._rest_api: typing.Any = None

    def run(self) -> int:
        _say(f"starting {self._describe()}")
        conf = wiring.configure(
            self._cluster,
            self._where,
            strategy=self._arguments.strategy,
            config_files=self._arguments.config_file,
            verbose=self._arguments.verbose,
        )
        service.raise_descriptor_limit()
        rpc.init(conf, url=wiring.TRANSPORT_URL)
        try:
            status = self._run_services(conf)
        except exception.ConfigurationError:
            raise
        except _START_ERRORS as error:
            _complain(str(error))
            status = 1
        finally:
            rpc.cleanup()
        if status:
            self._show_log()
        return status

    def _run_services(self, conf: typing.Any) -> int:
        with contextlib.closing(db_api.Database.from_conf(conf)) as database:
            # SIGHUP means that the terminal was closed: the user is gone.
            runner = service.Runner(conf, on_reload=_stop_this_process)
            conductor = conductor_service.Conductor(
                conf, database, runner.fail
            )
            made = wiring.make_agents(
                self._cluster,
                self._where,
                conf,
                verbose=self._arguments.verbose,
            )
            agents = wiring.Agents(
                made, lambda name: _say(f"{name}: starting the workers")
            )
            services: list[service.Service] = [
                conductor_metrics.endpoint(conf, conductor),
                agent_metrics.endpoint(
                    conf, [agent.fill for agent in made.values()]
                ),
                conductor,
                agents,
                wiring.Links(self._where, self._cluster.host_names()[0]),
            ]
            if self._arguments.api_port is not None:
                self._rest_api = _make_rest_api(
                    conf, database, self._arguments.api_port, runner.fail
                )
                services.append(self._rest_api)
            lifeline = self._lifeline()
            if lifeline is not None:
                services.append(lifeline)
            services.append(
                readiness.Readiness(
                    conductor,
                    self._cluster.slot_count(),
                    agents.fault,
                    lambda: self._announce(lifeline),
                    _say,
                    lambda reason: _give_up(runner, reason),
                    self._arguments.start_timeout_s,
                )
            )
            status = runner.run(services)
            _say("stopped")
            return status

    def _lifeline(self) -> readiness.Lifeline | None:
        fd = self._arguments.ready_fd
        if fd is None:
            return None
        return readiness.Lifeline(fd, _stop_this_process)

    def _announce(self, lifeline: readiness.Lifeline | None) -> None:
        for name in self._cluster.host_names():
            _say(
                f"{name}: {self._describe_boards(name)}, front door"
                f" {self._where.front_door(name)}"
            )
        if self._rest_api is not None:
            _say(f"REST API, open to all users of this host: {self._api_url}")
            _say(f"live page: {self._api_url}/ui/")
        _say("to encrypt a file, in another shell:")
        for line in self._usage():
            print(f"    {line}", flush=True)
        _say(f"ready: {self._describe()}; Ctrl-C stops it")
        if lifeline is not None:
            lifeline.announce(self._description())

    @property
    def _api_url(self) -> str | None:
        return self._rest_api.url if self._rest_api is not None else None

    def _describe(self) -> str:
        cluster = self._cluster
        hosts = units.count_text(cluster.hosts, "host")
        if cluster.driver != wiring.EMULATOR:
            return f"{hosts}, driver {cluster.driver}"
        scale = "unlimited rates"
        if cluster.rate_scale is not None:
            scale = f"rates scaled by {cluster.rate_scale:g}"
        return (
            f"{hosts}, {units.count_text(cluster.boards, 'board')},"
            f" {units.count_text(cluster.slot_count(), 'slot')}, {scale}"
        )

    def _describe_boards(self, host_name: str) -> str:
        boards = self._cluster.boards_of(host_name)
        if boards and self._cluster.driver != wiring.EMULATOR:
            return f"driver {self._cluster.driver}"
        if not boards:
            return "no boards"
        return f"{boards} x {units.count_text(self._cluster.slots, 'slot')}"

    def _usage(self) -> list[str]:
        program = pathlib.Path(sys.executable).with_name("fpgapool-run")
        command = shlex.quote(str(program))
        if self._where.run_dir != directories.default_run_dir():
            socket_path = shlex.quote(str(self._where.default_front_door()))
            command = f"FPGAPOOL_SOCKET={socket_path} {command}"
        return [
            "od -An -N32 -tx1 /dev/urandom | tr -d ' \\n' > key.hex",
            f"{command} aes --key-file key.hex --in FILE --out FILE.enc",
        ]

    def _description(self) -> dict[str, object]:
        names = self._cluster.host_names()
        return {
            "default_front_door": str(self._where.default_front_door()),
            "front_doors": {
                name: str(self._where.front_door(name)) for name in names
            },
            "boards": {name: self._cluster.boards_of(name) for name in names},
            "slots_per_board": self._cluster.slots,
            "rate_scale": self._cluster.rate_scale,
            "api_url": self._api_url,
        }

    def _show_log(self) -> None:
        path = self._where.log_file()
        if self._arguments.verbose or not path.exists():
            return
        lines = path.read_text(errors="replace").splitlines()
        _complain("failed; last lines of the log:")
        for line in lines[-_LOG_TAIL_LINES:]:
            print(f"    {line}", file=sys.stderr)


def _give_up(runner: service.Runner, reason: str) -> None:
    _complain(reason)
    runner.fail(reason)


def _stop_this_process() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _say(text: str) -> None:
    print(f"{wiring.PROGRAM}: {text}", flush=True)


def _complain(text: str) -> None:
    print(f"{wiring.PROGRAM}: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(launch.guarded(wiring.PROGRAM, main))
