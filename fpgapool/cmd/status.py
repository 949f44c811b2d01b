# SPDX-License-Identifier: Apache-2.0

"""fpgapool-status: check an installation for this release.

Run ``fpgapool-status upgrade check`` with the code of the new release, after
``fpgapool-manage db sync`` and before you start services again; it also works
at any other time. Exit codes are those of oslo.upgradecheck: 0 success, 1
warnings, 2 the services would not work, 255 the check itself failed.
"""

import functools
import sys
import time
import typing
from collections.abc import Callable
from collections.abc import Sequence

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as oslo_exception
from oslo_upgradecheck import common_checks
from oslo_upgradecheck import upgradecheck
from sqlalchemy import exc as sa_exc

from fpgapool.agent.child import room
from fpgapool.cmd import cloud_checks
from fpgapool.cmd import launch
from fpgapool.common import config
from fpgapool.common import exception
from fpgapool.db import api as db_api
from fpgapool.db import engine as db_engine
from fpgapool.db import migration
from fpgapool.db import models

PROGRAM = "fpgapool-status"

_CHARACTER_SET = "utf8mb4"
_COLLATION = "utf8mb4_bin"
#: Transports within a process, or for oslo.messaging's own tests.
_TEST_TRANSPORTS = ("fake", "kombu+memory")
# Number of times the leader renews its lease in ``lease_s``.
_RENEWALS = 3

_DATABASE_ERRORS = (oslo_exception.DBError, sa_exc.SQLAlchemyError)

_SUCCESS = upgradecheck.Code.SUCCESS
_WARNING = upgradecheck.Code.WARNING
_FAILURE = upgradecheck.Code.FAILURE


def main(
    argv: Sequence[str] | None = None,
    *,
    wait_s: Callable[[float], None] = time.sleep,
) -> int:
    # A separate configuration: nothing here needs RPC.
    conf = cfg.ConfigOpts()
    checks = register_commands(conf, wait_s)
    try:
        config.init_tool(PROGRAM, argv, conf=conf)
    except exception.ConfigurationError as error:
        return launch.failed(PROGRAM, error, int(_FAILURE))
    # oslo.upgradecheck reads it to choose between a table and JSON.
    upgradecheck.CONF = conf
    try:
        return int(upgradecheck.run(conf))
    finally:
        checks.close()


def register_commands(
    conf: cfg.ConfigOpts, wait_s: Callable[[float], None] = time.sleep
) -> "Checks":
    checks = Checks(conf, wait_s)
    upgradecheck.register_cli_options(conf, checks)
    return checks


#: The problem that a check found; None if there is none.
_Found: typing.TypeAlias = upgradecheck.Result | None


def _warning(details: str) -> upgradecheck.Result:
    return upgradecheck.Result(_WARNING, details)


def _failure(details: str) -> upgradecheck.Result:
    return upgradecheck.Result(_FAILURE, details)


def _checked(
    check: Callable[["Checks"], _Found],
) -> Callable[["Checks"], upgradecheck.Result]:
    """Return a check that reports a failure of the database as its own."""

    @functools.wraps(check)
    def run(checks: "Checks") -> upgradecheck.Result:
        try:
            return check(checks) or upgradecheck.Result(_SUCCESS)
        except exception.FpgapoolException as error:
            return _failure(str(error))
        except _DATABASE_ERRORS as error:
            return _failure(str(db_engine.translate(error)))

    return run


class Checks(upgradecheck.UpgradeCommands):
    """The checks; each result says what to do.

    :param conf: configuration; its files must be read before :meth:`check`.
    :param wait_s: sleeps between two reads of the leader's lease.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, wait_s: Callable[[float], None]
    ) -> None:
        self._conf = conf
        self._wait_s = wait_s
        self._opened: db_api.Database | None = None

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    @property
    def _database(self) -> db_api.Database:
        if self._opened is None:
            self._opened = db_api.Database.from_conf(self._conf)
        return self._opened

    def _check_schema(self) -> _Found:
        migration.require_newest(self._database.engine)
        differences = migration.differences(self._database.engine)
        if differences:
            return _warning(
                f"{len(differences)} differences between the tables and the"
                " migrations; 'fpgapool-manage db check' lists them."
            )
        return None

    def _check_characters(self) -> _Found:
        """Check that strings keep all characters and their case."""
        engine = self._database.engine
        checks = {
            "mysql": self._check_mysql_characters,
            "postgresql": self._check_postgresql_characters,
            "sqlite": self._check_sqlite,
        }
        with engine.connect() as connection:
            return checks[engine.dialect.name](connection)

    def _check_mysql_characters(self, connection: sa.Connection) -> _Found:
        spoken = connection.scalar(sa.text("SELECT @@character_set_client"))
        if spoken != _CHARACTER_SET:
            return _warning(
                f"The connection uses the character set {spoken}: add"
                f" charset={_CHARACTER_SET} to [database] connection."
            )
        query = sa.text(
            "SELECT DISTINCT table_name FROM information_schema.columns"
            " WHERE table_schema = DATABASE() AND collation_name <> :wanted"
            " AND data_type IN ('varchar', 'char', 'text')"
        )
        found = connection.scalars(query, {"wanted": _COLLATION}).all()
        wrong = sorted(set(found) & set(models.metadata.tables))
        if wrong:
            return _failure(
                f"These tables lack the collation {_COLLATION}, so they may"
                " confuse names that differ only in case, or lose characters:"
                f" {', '.join(wrong)}. Convert them with ALTER TABLE ..."
                f" CONVERT TO CHARACTER SET {_CHARACTER_SET}"
                f" COLLATE {_COLLATION}."
            )
        return None

    def _check_postgresql_characters(
        self, connection: sa.Connection
    ) -> _Found:
        encoding = connection.scalar(sa.text("SHOW server_encoding"))
        if encoding != "UTF8":
            return _failure(
                f"The database's encoding {encoding} cannot store all"
                " characters: dump it, and restore it into a database with"
                " encoding UTF8."
            )
        return None

    def _check_sqlite(self, _connection: sa.Connection) -> _Found:
        return _warning(
            "The database is an SQLite file, which only processes on one"
            " machine can share. Set [database] connection."
        )

    def _check_library(self) -> _Found:
        query = sa.select(sa.func.count()).select_from(models.accelerators)
        with self._database.engine.connect() as connection:
            count = connection.scalar(query)
        if not count:
            return _warning(
                "The library has no accelerators. Run 'fpgapool-manage"
                " accelerator load --builtin' to load this release's."
            )
        return None

    def _check_leader(self) -> _Found:
        before = self._database.read_lease()
        if before is None or not before.holder:
            return _warning("There is no leading conductor: start one.")
        for _ in range(_RENEWALS + 1):
            self._wait_s(self._conf.conductor.lease_s / _RENEWALS)
            if self._database.read_lease() != before:
                return None
        return _warning(
            f"{before.holder}, the last leader, no longer renews its lease:"
            " start a conductor."
        )

    def _check_hosts(self) -> _Found:
        columns = models.hosts.c
        query = sa.select(columns.name).where(columns.up == sa.false())
        with self._database.engine.connect() as connection:
            names = connection.scalars(query.order_by("name")).all()
        if names:
            return _warning(
                f"The agents of {len(names)} hosts are not reporting:"
                f" {cloud_checks.listed(list(names))}"
            )
        return None

    def _check_endpoint(self) -> _Found:
        problem = cloud_checks.endpoint(self._conf)
        return _warning(problem) if problem else None

    def _check_credentials(self) -> _Found:
        problem = cloud_checks.credentials(self._conf)
        return _failure(problem) if problem else None

    def _check_placement(self) -> _Found:
        hosts = self._database.inventory().hosts
        names = {host.uuid: host.name for host in hosts}
        problem = cloud_checks.hosts(self._conf, names)
        return _warning(problem) if problem else None

    def _check_nova(self) -> _Found:
        problem = cloud_checks.computes(self._conf)
        return _failure(problem) if problem else None

    def _check_isolation(self) -> _Found:
        """Check that this host, if it is a compute node, isolates workers."""
        hosts = sa.select(models.hosts.c.uuid).where(
            models.hosts.c.uuid == self._conf.host_uuid
        )
        with self._database.engine.connect() as connection:
            if connection.scalar(hosts) is None:
                return None
        problems = room.missing(self._conf.agent.isolation)
        return _warning("; ".join(problems)) if problems else None

    def _check_transport(self) -> _Found:
        """Check that services can reach each other."""
        # oslo.messaging registers its options only with a transport, which
        # would need the global configuration.
        option = cfg.StrOpt("transport_url", secret=True, default="")
        try:
            self._conf.register_opt(option)
        except cfg.DuplicateOptError:
            pass
        url = self._conf.transport_url or ""
        scheme = url.partition(":")[0]
        if not url:
            return _warning(
                "[DEFAULT] transport_url is not set: each service uses a"
                " RabbitMQ server on its own machine."
            )
        if scheme in _TEST_TRANSPORTS:
            return _failure(
                f"[DEFAULT] transport_url: {scheme} cannot reach other"
                " processes."
            )
        return None

    def _check_authentication(self) -> _Found:
        """Check that the API authenticates its callers."""
        if self._conf.api.auth_strategy != "keystone":
            return _failure(
                "[api] auth_strategy is not keystone: the API accepts every"
                " caller, but only from its own machine."
            )
        options = cloud_checks.options(self._conf, cloud_checks.API)
        if not (options.auth_type or options.auth_section):
            return _warning(
                "[keystone_authtoken] does not set auth_type, which the API"
                " requires; conductors and agents do not."
            )
        return None

    def _check_levels(self) -> _Found:
        """Check whether services still use an earlier release's messages."""
        levels = self._conf.upgrade_levels
        pinned = [name for name in ("conductor", "agent") if levels[name]]
        if pinned:
            return _warning(
                f"[upgrade_levels] {', '.join(pinned)}: remove it once all "
                "services run this release."
            )
        return None

    _upgrade_checks = (
        ("Database schema", _checked(_check_schema)),
        ("Database characters", _checked(_check_characters)),
        ("Accelerators", _checked(_check_library)),
        ("Leading conductor", _checked(_check_leader)),
        ("Agents", _checked(_check_hosts)),
        ("Isolation of workers on this host", _checked(_check_isolation)),
        ("Message bus", _checked(_check_transport)),
        ("Authentication", _checked(_check_authentication)),
        ("Credentials", _checked(_check_credentials)),
        ("Endpoint", _checked(_check_endpoint)),
        ("Hosts in Placement", _checked(_check_placement)),
        ("Nova", _checked(_check_nova)),
        ("Upgrade levels", _checked(_check_levels)),
    )

    def check(self) -> upgradecheck.Code:
        """Run the checks, including the check of the policy file."""
        policy = (
            "Policy file format",
            (common_checks.check_policy_json, {"conf": self._conf}),
        )
        self._upgrade_checks = (*type(self)._upgrade_checks, policy)
        return super().check()


if __name__ == "__main__":
    sys.exit(launch.guarded(PROGRAM, main))
