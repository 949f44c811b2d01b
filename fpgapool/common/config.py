# SPDX-License-Identifier: Apache-2.0

"""Reads the configuration and sets up logging for all commands."""

import io
import logging as py_logging
import sys
from collections.abc import Sequence

from oslo_config import cfg
from oslo_log import log as logging

from fpgapool import conf as fpgapool_conf
from fpgapool import version
from fpgapool.common import config_files
from fpgapool.common import exception
from fpgapool.common.monitoring import lost_lines

LOG = logging.getLogger(__name__)

PROJECT = "fpgapool"

# By default, these loggers log every connection and every statement.
_QUIET_LOGGERS = [
    "amqp=WARNING",
    "pyroute2=INFO",
    "oslo_messaging=INFO",
    "oslo.messaging=INFO",
    "alembic=WARNING",
    "sqlalchemy=WARNING",
]


# The method by which a broker tells a consumer that its queue is gone.
_BASIC_CANCEL = (60, 30)


def _is_news(record: py_logging.LogRecord) -> bool:
    """Drop a warning of amqp that each orderly stop of a service causes.

    oslo.messaging deletes its fanout queue and closes the channel that
    consumes it. The broker's notice about the queue then arrives at a channel
    that is closing.
    """
    return not (
        isinstance(record.args, tuple)
        and record.args[:1] == (_BASIC_CANCEL,)
        and "during closing channel" in str(record.msg)
    )


def init(
    program: str,
    argv: Sequence[str] | None = None,
    *,
    conf: cfg.ConfigOpts = cfg.CONF,
    default_config_files: Sequence[str] | None = None,
) -> cfg.ConfigOpts:
    """Read command line and configuration files, and start logging.

    :param argv: the command line without the command; None means the
        process's own.
    :param conf: object to fill; RPC needs the global one.
    :param default_config_files: None means those of oslo.config:
        ``fpgapool.conf`` and ``<program>.conf`` in the usual directories.
    """
    fpgapool_conf.register_opts(conf)
    logging.register_options(conf)
    logging.set_defaults(
        default_log_levels=logging.get_default_log_levels() + _QUIET_LOGGERS
    )
    try:
        conf(
            sys.argv[1:] if argv is None else list(argv),
            project=PROJECT,
            prog=program,
            version=version.version_string(),
            default_config_files=default_config_files,
        )
        _check_values(conf)
        # Before logging, as it may load libraries that have much to say.
        unknown = list(config_files.unknown(conf))
    except cfg.ConfigFilesNotFoundError as error:
        missing = ", ".join(error.config_files)
        raise exception.ConfigurationError(
            reason=f"there is no file {missing}"
        ) from error
    except cfg.ConfigFilesPermissionDeniedError as error:
        refused = ", ".join(error.config_files)
        raise exception.ConfigurationError(
            reason=f"this user may not read {refused}"
        ) from error
    except cfg.ConfigDirNotFoundError as error:
        raise exception.ConfigurationError(
            reason=f"there is no directory {error.config_dir}"
        ) from error
    except (cfg.Error, OSError, ValueError) as error:
        raise exception.ConfigurationError(reason=str(error)) from error
    try:
        logging.setup(conf, PROJECT)
    except OSError as error:
        raise exception.ConfigurationError(
            reason=f"cannot set up logging: {error}"
        ) from error
    _let_all_be_logged()
    for sentence in unknown:
        LOG.warning("%s", sentence)
    lost_lines.count()
    py_logging.getLogger("amqp").addFilter(_is_news)
    return conf


def init_tool(
    program: str,
    argv: Sequence[str] | None = None,
    *,
    conf: cfg.ConfigOpts = cfg.CONF,
) -> None:
    """Call :func:`init` for a command that prints to standard output.

    The log goes to standard error. Debug lines appear only if the command line
    has ``--debug``.
    """
    logging.register_options(conf)
    conf.set_default("use_stderr", True)
    init(program, argv, conf=conf)
    asked = conf.get_location("debug").location is cfg.Locations.command_line
    for handler in py_logging.getLogger().handlers:
        if getattr(handler, "stream", None) in (sys.stdout, sys.stderr):
            handler.setStream(sys.stderr)
            handler.setLevel(py_logging.DEBUG if asked else py_logging.INFO)


def _let_all_be_logged() -> None:
    """Make log files accept undecodable bytes, as standard error does.

    Otherwise, log lines that quote invalid input would be lost.
    """
    for handler in py_logging.getLogger().handlers:
        stream = getattr(handler, "stream", None)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
        if isinstance(handler, py_logging.FileHandler):
            # For the next file, after this one is rotated.
            handler.errors = "backslashreplace"


def check_group(
    conf: cfg.ConfigOpts, section: str, options: Sequence[cfg.Opt]
) -> dict[str, object]:
    """Return the values of registered options of a group, by name.

    :raises ConfigurationError: if one is invalid, with its file.
    """
    found = {}
    for option in options:
        values = conf if section == config_files.DEFAULT else conf[section]
        try:
            found[option.dest] = values[option.dest]
        except ValueError as error:
            raise exception.ConfigurationError(
                reason=config_files.wrong_value(conf, section, option, error)
            ) from error
    return found


def _check_values(conf: cfg.ConfigOpts) -> None:
    # oslo.config checks a value when it is read. A daemon should reject an
    # invalid value when it starts, not when it first uses it.
    for group in fpgapool_conf.GROUPS:
        check_group(conf, group.OPTIONS.name, group.OPTIONS.own)
