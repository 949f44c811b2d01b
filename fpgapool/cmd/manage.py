# SPDX-License-Identifier: Apache-2.0

"""fpgapool-manage: the operator's tool for the database and for boards.

Exit codes: 0 success; 1 the command failed or the check found a problem; 2 the
command line, the configuration or a file is invalid; 3 the audit found
problems that it did not repair.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import sys
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence

from oslo_config import cfg

from fpgapool.accelerators import base as accelerators
from fpgapool.bitstreams import signatures
from fpgapool.bitstreams import stores
from fpgapool.cmd import launch
from fpgapool.cmd.managing import building
from fpgapool.cmd.managing import commands
from fpgapool.cmd.managing import devices
from fpgapool.cmd.managing import hosts
from fpgapool.cmd.managing import tracing
from fpgapool.common import arguments
from fpgapool.common import config
from fpgapool.common import exception
from fpgapool.common import interrupts
from fpgapool.common.messaging import rpc
from fpgapool.common.messaging import signing
from fpgapool.common.monitoring import audit
from fpgapool.conf import placement as placement_conf
from fpgapool.db import api as db_api
from fpgapool.db import migration
from fpgapool.rpcapi import conductor as conductor_rpcapi

Argument = arguments.Argument
Command = commands.Command
option = arguments.option

# Libraries that only one command needs are imported late: importing them takes
# as long as importing all the others.
if typing.TYPE_CHECKING:
    from fpgapool.cmd.managing import auditing

PROGRAM = "fpgapool-manage"

# Arguments that name the target of a command in the audit log.
_TARGETS = (
    *("to_version", "older_than_days", "file", "builtin", "pool_name"),
    *("kernel", "project", "out"),
)

_PURGE_BATCH_ROWS = 1000
_NEWEST_SESSIONS = 20_000
# All of them are in memory for a while.
_MOST_SESSIONS = 200_000
# More than the leaders since any backup: each usually leads for minutes.
_EPOCHS_SINCE_BACKUP = 10_000
_SECONDS_PER_DAY = 86400

_FINDINGS = 3
# With a long queue, a conductor needs several seconds to respond.
_AUDIT_S = 20.0


def main(argv: Sequence[str] | None = None) -> int:
    # A separate configuration: nothing here needs RPC.
    conf = cfg.ConfigOpts()
    register_commands(conf)
    try:
        config.init_tool(PROGRAM, argv, conf=conf)
        if conf.command.made.on_database and not getattr(
            conf.command, "out", None
        ):
            _require_database(conf)
            _make_directory(conf)
        with interrupts.interruptible():
            return _run(conf)
    except (exception.ConfigurationError, accelerators.AcceleratorError) as e:
        return launch.failed(PROGRAM, e, 2)
    except exception.FpgapoolException as error:
        return launch.failed(PROGRAM, error, 1)


def register_commands(conf: cfg.ConfigOpts) -> None:
    conf.register_cli_opt(
        cfg.SubCommandOpt("command", title="Commands", handler=_add_commands)
    )


def _run(conf: cfg.ConfigOpts) -> int:
    # Migrating or purging large tables may take a long time.
    database = db_api.Database.from_conf(conf, read_timeout_s=None)
    command = conf.command
    # Some commands also need the configuration.
    command.conf = conf
    try:
        if not command.made.recorded:
            return command.made.run(database, command)
        return _run_audited(database, command)
    finally:
        database.close()


def _run_audited(database: db_api.Database, args: argparse.Namespace) -> int:
    try:
        status: int = args.made.run(database, args)
    except (
        exception.FpgapoolException,
        accelerators.AcceleratorError,
    ) as error:
        _record(args, audit.FAILED, error.code)
        raise
    _record(args, audit.FAILED if status else audit.DONE)
    return status


def _record(
    args: argparse.Namespace, outcome: str, code: str | None = None
) -> None:
    target = {
        name: value
        for name in _TARGETS
        if (value := getattr(args, name, None)) not in (None, False)
    }
    audit.record(
        action=f"{PROGRAM} {args.made.name}",
        outcome=outcome,
        code=code,
        user=_operator(),
        project=None,
        target=target,
    )


def _operator() -> str:
    # Prefer the user who called sudo.
    return os.environ.get("SUDO_USER") or f"uid {os.getuid()}"


def _require_database(conf: cfg.ConfigOpts) -> None:
    """Refuse to work on a database that the operator has not chosen.

    :raises exception.ConfigurationError: if none is configured.
    """
    for option in (("connection", "database"), ("state_path",)):
        if conf.get_location(*option).location.is_user_controlled:
            return
    read = ", ".join(conf.config_file) or "none"
    raise exception.ConfigurationError(
        reason="no database is configured: set [database] connection (or"
        " [DEFAULT] state_path, to use an SQLite file there) in a file given"
        f" with --config-file; files read: {read}"
    )


def _make_directory(conf: cfg.ConfigOpts) -> None:
    """Create the directory of the default database, an SQLite file."""
    prefix = f"sqlite:///{conf.state_path}/"
    if not (conf.database.connection or "").startswith(prefix):
        return
    try:
        pathlib.Path(conf.state_path).mkdir(
            mode=0o700, parents=True, exist_ok=True
        )
    except OSError as error:
        raise exception.ConfigurationError(
            reason=f"state_path: {error}"
        ) from error


def _add_commands(subparsers: argparse._SubParsersAction) -> None:
    subparsers.required = True
    places = {"": subparsers}
    for category, about in _CATEGORIES.items():
        parser = subparsers.add_parser(category, help=about)
        places[category] = parser.add_subparsers(
            dest="action", metavar="command", required=True
        )
    for command in _COMMANDS:
        command.add_to(places[command.name.rpartition(" ")[0]])


def _sync(database: db_api.Database, args: argparse.Namespace) -> int:
    migration.sync(database.engine, args.to_version or "head")
    version = migration.current_version(database.engine)
    print(f"The database is at version {version}.")
    if version == migration.newest_version():
        add_missing_accelerators(database)
    return 0


def add_missing_accelerators(database: db_api.Database) -> None:
    """Load the built-in accelerators that the database does not have.

    Those that it has are kept: an operator may have adapted them.
    """
    present = {record.name for record in database.accelerators()}
    profiles = accelerators.load_profiles().values()
    _store(database, [p for p in profiles if p.name not in present])


def _version(database: db_api.Database, args: argparse.Namespace) -> int:
    print(migration.current_version(database.engine) or "none")
    return 0


def _check(database: db_api.Database, args: argparse.Namespace) -> int:
    migration.require_newest(database.engine)
    differences = migration.differences(database.engine)
    for difference in differences:
        print(difference)
    if differences:
        print("The tables do not match the migrations.")
        return 1
    print("The tables match the migrations.")
    return 0


def _restored(database: db_api.Database, args: argparse.Namespace) -> int:
    migration.require_newest(database.engine)
    database.pass_epochs(_EPOCHS_SINCE_BACKUP)
    print("Agents will accept the next conductor.")
    return 0


def _purge(database: db_api.Database, args: argparse.Namespace) -> int:
    age_s = args.older_than_days * _SECONDS_PER_DAY
    # Stored times come from the database's clock.
    finished_before = database.now() - age_s
    total = _purge_all(database.purge_sessions, finished_before)
    print(f"{total} sessions deleted.")
    total = _purge_all(database.purge_instances, finished_before)
    print(f"{total} rows of former instances deleted.")
    return 0


def _purge_all(purge: Callable[[float, int], int], before: float) -> int:
    """Delete rows in batches, and return their number."""
    total = deleted = purge(before, _PURGE_BATCH_ROWS)
    while deleted == _PURGE_BATCH_ROWS:
        deleted = purge(before, _PURGE_BATCH_ROWS)
        total += deleted
    return total


def _export(database: db_api.Database, args: argparse.Namespace) -> int:
    from fpgapool.cmd.managing import exporting

    return exporting.export(database, args)


def _load(database: db_api.Database, args: argparse.Namespace) -> int:
    migration.require_newest(database.engine)
    if args.builtin:
        _store(database, accelerators.load_profiles().values())
    else:
        _store(database, [accelerators.read_profile(args.file)])
    return 0


def _sign(database: db_api.Database, args: argparse.Namespace) -> int:
    print(building.sign(args))
    return 0


def _verify(database: db_api.Database, args: argparse.Namespace) -> int:
    with commands.usable_files():
        checksum = signatures.checksum_of(args.file)
    keys = signatures.TrustedKeys(args.conf.bitstreams.trusted_keys_dir)
    print(f"Signed with the key {keys.verify(args.signature, checksum)}.")
    return 0


def _build(database: db_api.Database, args: argparse.Namespace) -> int:
    conf = args.conf
    found, made = building.build(args)
    about = f"{found.kind} of {found.manifest.name}, {len(made)} bytes"
    if args.out:
        with commands.usable_files():
            args.out.write_bytes(made)
        print(f"{args.out}: {about}.")
        return 0
    migration.require_newest(database.engine)
    _connect(conf)
    try:
        registry = building.Registry(
            conductor_rpcapi.ConductorAPI(keys=signing.pool_keys(conf)),
            database,
            stores.open_store(conf),
            conf.bitstreams.max_size_bytes,
        )
        bitstream_id = registry.register(made, found, args, _operator())
    finally:
        rpc.cleanup()
    print(f"Bitstream {bitstream_id}: {about}.")
    return 0


def _sweep(database: db_api.Database, args: argparse.Namespace) -> int:
    removed = stores.sweep(
        stores.open_store(args.conf),
        database.bitstreams,
        args.conf.bitstreams.orphan_age_s,
    )
    print(f"{removed} files removed.")
    return 0


def _audit(database: db_api.Database, args: argparse.Namespace) -> int:
    from fpgapool.cmd.managing import auditing

    migration.require_newest(database.engine)
    conf = args.conf
    _connect(conf)
    try:
        auditor = auditing.Auditor(
            conductor_rpcapi.ConductorAPI(
                call_timeout_s=_AUDIT_S, keys=signing.pool_keys(conf)
            ),
            database,
            None if args.no_files else stores.open_store(conf),
            orphan_age_s=conf.bitstreams.orphan_age_s,
            pause_s=args.pause_s or conf.conductor.lease_s,
        )
        lines = [auditing.Line(one) for one in auditor.find()]
        if args.repair:
            lines = auditor.repair(line.finding for line in lines)
            _record_repair(lines)
    finally:
        rpc.cleanup()
    if args.format == "json":
        print(auditing.document(lines))
    else:
        for text in auditing.table(lines):
            print(text)
        if not lines:
            print("No inconsistencies found.")
    return 0 if all(line.mended for line in lines) else _FINDINGS


def _connect(conf: cfg.ConfigOpts) -> None:
    """Set up RPC, which needs the global configuration."""
    sources = [f"--config-file={name}" for name in conf.config_file]
    sources += [f"--config-dir={name}" for name in conf.config_dir]
    config.init_tool(PROGRAM, sources)
    rpc.init()


def _record_repair(lines: Sequence[auditing.Line]) -> None:
    for line in lines:
        audit.record(
            action=f"{PROGRAM} audit --repair",
            outcome=audit.DONE if line.mended else audit.FAILED,
            user=_operator(),
            project=None,
            target={
                "kind": line.finding.kind,
                "subject": line.finding.subject,
                "action": line.action,
            },
        )


def _store(
    database: db_api.Database, profiles: Iterable[accelerators.Profile]
) -> None:
    records = [
        db_api.AcceleratorRecord(
            name=profile.name, profile=dataclasses.asdict(profile)
        )
        for profile in profiles
    ]
    database.upsert_accelerators(records)
    for record in records:
        print(f"Accelerator {record.name} loaded.")


def _clean(database: db_api.Database, args: argparse.Namespace) -> int:
    from fpgapool.clients import placement
    from fpgapool.conductor.outside import placement_sync

    client = placement.Placement.from_conf(args.conf)
    if client is None:
        raise exception.ConfigurationError(
            reason="[placement] sets neither auth_type nor auth_section"
        )
    pool_name = args.pool_name or args.conf.placement.pool_name
    gone, kept = placement_sync.clean(client, pool_name)
    print(f"{gone} resource providers removed.")
    if kept:
        print(
            f"{kept} remain: instances have reserved slots from them, or"
            " Placement refused to remove them."
        )
    return 1 if kept else 0


_FILE = Argument("file", type=pathlib.Path, metavar="FILE")
_CATEGORIES = {
    "db": "Create, migrate and clean up the database.",
    "session": "Export the sessions that the database keeps.",
    "accelerator": "Add accelerators to the library.",
    "bitstream": "Build, sign and verify bitstreams.",
    "placement": "Clean up resource providers.",
    "host": "Create a host's keys and permissions.",
    "device": "Check and measure the boards of this host.",
}
_COMMANDS = (
    Command(
        "db sync",
        _sync,
        "Create or upgrade the tables, and add the built-in"
        " accelerators that are missing.",
        option(
            "version",
            "VERSION",
            "the last migration to apply; the default is the newest",
            dest="to_version",
        ),
        recorded=True,
    ),
    Command("db version", _version, "Show the database's version."),
    Command("db check", _check, "Compare the tables with the migrations."),
    Command(
        "db restored",
        _restored,
        "Declare that the database was restored from a backup, so that agents"
        " accept the next conductor. Run it before restarting conductors.",
        recorded=True,
    ),
    Command(
        "db purge",
        _purge,
        "Delete the rows of ended sessions and of deleted instances.",
        option(
            "older-than-days",
            "DAYS",
            "keep rows of sessions that ended, and of instances that were"
            " deleted, in the last DAYS days",
            type=arguments.number(float, "a number of days", 0),
            required=True,
        ),
        recorded=True,
    ),
    Command(
        "session export",
        _export,
        "Write ended sessions and the pool's hardware to a file, for"
        " 'fpgapool-sim advise', which compares strategies on them. The file"
        " has sizes, times, hosts by number, and projects.",
        option(
            "newest",
            "N",
            f"export the newest N ended sessions; the default is"
            f" {_NEWEST_SESSIONS}",
            type=arguments.number(
                int, f"a number from 1 to {_MOST_SESSIONS}", 1, _MOST_SESSIONS
            ),
            default=_NEWEST_SESSIONS,
        ),
        arguments.flag(
            "pseudonyms",
            "write numbers instead of the identifiers of projects and the"
            " names of their applications",
        ),
        _FILE,
        recorded=True,
    ),
    Command(
        "accelerator load",
        _load,
        "Add an accelerator to the library, or replace the one with the"
        " same name. The conductor loads it within seconds.",
        arguments.OneOf(
            Argument(
                "file",
                nargs="?",
                type=pathlib.Path,
                metavar="FILE",
                help="the accelerator's profile, a YAML file",
            ),
            arguments.flag("builtin", "load all built-in accelerators"),
            required=True,
        ),
        recorded=True,
    ),
    Command(
        "bitstream sign",
        _sign,
        "Print the signature of a file in base64. The source of an OpenCL"
        " package is checked first.",
        option(
            "key",
            "KEY",
            "private key in PEM format: RSA, elliptic curve or Ed25519",
            type=pathlib.Path,
            required=True,
        ),
        arguments.flag(
            "allow-binary",
            "sign an OpenCL binary, whose source cannot be checked",
        ),
        building.ALLOWED,
        _FILE,
        on_database=False,
    ),
    Command(
        "bitstream verify",
        _verify,
        "Find the trusted key that signed a file.",
        option(
            "signature",
            "SIGNATURE",
            "the output of 'bitstream sign'",
            required=True,
        ),
        _FILE,
        on_database=False,
    ),
    Command(
        "bitstream build",
        _build,
        "Compile an OpenCL kernel for a device of this machine, package the"
        " binary with its manifest, sign the package and register it in the"
        " library. The conductor must be running. Source and binaries must be"
        " signed.",
        *building.ARGUMENTS,
        recorded=True,
    ),
    Command(
        "bitstream sweep",
        _sweep,
        "Remove files that do not belong to any bitstream from the store. The"
        " API also does this periodically.",
        recorded=True,
    ),
    Command(
        "placement clean",
        _clean,
        "Remove the resource providers and traits of the pool from Placement."
        " First, stop the conductors or remove [placement] from their"
        " configuration; otherwise, they create them again.",
        option(
            "pool-name",
            "NAME",
            "name of the pool; the default is [placement] pool_name",
            type=arguments.matching(
                placement_conf.POOL_NAME, "the name of a pool"
            ),
        ),
        recorded=True,
    ),
    tracing.COMMAND,
    *hosts.COMMANDS,
    *devices.COMMANDS,
    Command(
        "audit",
        _audit,
        "Find inconsistencies between the database, the conductor, the agents"
        " and the bitstream files. The command compares twice, to ignore"
        " changes in progress. The exit code is 0 if there are none, else 3.",
        arguments.flag(
            "repair",
            "repair everything that can be repaired without losing data and"
            " print the repairs; the exit code is 0 if no problem is left",
        ),
        commands.FORMAT,
        option(
            "pause-s",
            "SECONDS",
            "time between the comparisons (default: [conductor] lease_s)",
            type=arguments.positive,
        ),
        arguments.flag(
            "no-files",
            "do not check files, for example while the store is down",
        ),
    ),
)


if __name__ == "__main__":
    sys.exit(launch.guarded(PROGRAM, main))
