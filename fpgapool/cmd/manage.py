#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""fpgapool-manage: the operator's tool for what the database holds.

Exit codes: 0 done, 1 it could not be done or the check found something,
2 the command line, the configuration or a file is wrong.
"""

import argparse
import dataclasses
import math
import os
import pathlib
import sys
import time
from collections.abc import Iterable
from collections.abc import Sequence

from oslo_config import cfg
from oslo_log import log as logging

from fpgapool.accelerators import base as accelerators
from fpgapool.common import audit
from fpgapool.common import config
from fpgapool.common import exception
from fpgapool.db import api as db_api
from fpgapool.db import migration

PROGRAM = "fpgapool-manage"

_PURGE_BATCH_ROWS = 1000
_SECONDS_PER_DAY = 86400


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    :param argv: the command line without the program; None means the
        process's own.
    :returns: the exit code.
    """
    # A configuration of its own: nothing here needs RPC.
    conf = cfg.ConfigOpts()
    conf.register_cli_opt(
        cfg.SubCommandOpt("command", title="Commands", handler=_add_commands)
    )
    # Standard output is for those who read it by programs.
    logging.register_options(conf)
    conf.set_default("use_stderr", True)
    try:
        config.init(PROGRAM, argv, conf=conf)
        _make_directory(conf)
        return _run(conf)
    except (exception.ConfigurationError, accelerators.AcceleratorError) as e:
        print(f"{PROGRAM}: {e}", file=sys.stderr)
        return 2
    except exception.FpgapoolException as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 1


def _run(conf: cfg.ConfigOpts) -> int:
    # Migrations of large tables, and purges, may take their time.
    database = db_api.Database.from_conf(conf, read_timeout_s=None)
    try:
        if conf.command.run not in _CHANGING:
            return conf.command.run(database, conf.command)
        return _run_audited(database, conf.command)
    finally:
        database.close()


def _run_audited(database: db_api.Database, args: argparse.Namespace) -> int:
    try:
        status: int = args.run(database, args)
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
        for name in ("to_version", "older_than_days", "file", "builtin")
        if (value := getattr(args, name, None)) not in (None, False)
    }
    audit.record(
        action=f"{PROGRAM} {_CHANGING[args.run]}",
        outcome=outcome,
        code=code,
        # Who became root to do so is of more interest than root.
        user=os.environ.get("SUDO_USER") or f"uid {os.getuid()}",
        project=None,
        target=target,
    )


def _make_directory(conf: cfg.ConfigOpts) -> None:
    """Make the directory of the default database, an SQLite file."""
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
    database = _add_category(subparsers, "db", "the tables")
    _add_sync(database)
    _add_command(database, "version", _version, "Show the last migration.")
    _add_command(
        database, "check", _check, "Compare the tables with this version."
    )
    _add_purge(database)
    library = _add_category(subparsers, "accelerator", "the library")
    _add_load(library)


def _add_category(
    subparsers: argparse._SubParsersAction, name: str, about: str
) -> argparse._SubParsersAction:
    parser = subparsers.add_parser(name, help=f"Commands about {about}.")
    commands = parser.add_subparsers(
        dest="action", metavar="command", required=True
    )
    return commands


def _add_command(
    commands: argparse._SubParsersAction, name: str, run: object, help_: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=help_, description=help_)
    parser.set_defaults(run=run)
    return parser


def _add_sync(commands: argparse._SubParsersAction) -> None:
    parser = _add_command(
        commands,
        "sync",
        _sync,
        "Create or upgrade the tables, and add the built-in accelerators"
        " that are missing.",
    )
    parser.add_argument(
        "--version",
        dest="to_version",
        metavar="VERSION",
        help="the last migration to apply; the default is the newest",
    )


def _add_purge(commands: argparse._SubParsersAction) -> None:
    parser = _add_command(
        commands, "purge", _purge, "Delete sessions that have ended."
    )
    parser.add_argument(
        "--older-than-days",
        type=_days,
        required=True,
        metavar="DAYS",
        help="keep those that ended in the last DAYS days",
    )


def _add_load(commands: argparse._SubParsersAction) -> None:
    parser = _add_command(
        commands,
        "load",
        _load,
        "Add an accelerator to the library, or replace the one of the same"
        " name. The conductor takes it over within seconds.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "file",
        nargs="?",
        type=pathlib.Path,
        metavar="FILE",
        help="the accelerator's profile, a YAML file",
    )
    source.add_argument(
        "--builtin", action="store_true", help="load all built-in ones"
    )


def _days(text: str) -> float:
    days = float(text)
    if not (math.isfinite(days) and days >= 0):
        raise ValueError
    return days


_days.__name__ = "number of days"


def _sync(database: db_api.Database, args: argparse.Namespace) -> int:
    migration.sync(database.engine, args.to_version or "head")
    version = migration.current_version(database.engine)
    print(f"The database is at version {version}.")
    if version == migration.newest_version():
        _add_missing_accelerators(database)
    return 0


def _add_missing_accelerators(database: db_api.Database) -> None:
    # What is there may have been adapted by the operator.
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
        print("The tables are not as the migrations leave them.")
        return 1
    print("The tables are as they should be.")
    return 0


def _purge(database: db_api.Database, args: argparse.Namespace) -> int:
    finished_before = time.time() - args.older_than_days * _SECONDS_PER_DAY
    total = deleted = database.purge_sessions(
        finished_before, _PURGE_BATCH_ROWS
    )
    while deleted == _PURGE_BATCH_ROWS:
        deleted = database.purge_sessions(finished_before, _PURGE_BATCH_ROWS)
        total += deleted
    print(f"{total} sessions deleted.")
    return 0


def _load(database: db_api.Database, args: argparse.Namespace) -> int:
    migration.require_newest(database.engine)
    if args.builtin:
        _store(database, accelerators.load_profiles().values())
    else:
        _store(database, [accelerators.read_profile(args.file)])
    return 0


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


#: What needs a line in the audit log, and how it is called there.
_CHANGING = {_sync: "db sync", _purge: "db purge", _load: "accelerator load"}


if __name__ == "__main__":
    sys.exit(main())
