# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-manage host``: a host's key and its user of RabbitMQ."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

from fpgapool.common import exception
from fpgapool.common.messaging import signing
from fpgapool.conf import default as default_conf
from fpgapool.db import api as db_api
from fpgapool.rpcapi import permissions as rabbitmq


def add_commands(
    add_command: Callable[..., argparse.ArgumentParser],
) -> None:
    """Add the commands.

    :param add_command: makes one, of its name, the function that runs it,
        and a help text.
    """
    derived = add_command(
        "key",
        key,
        "Print the contents of a host's [messages] host_key_file; they are"
        " derived from [messages] pool_key_file.",
    )
    granted = add_command(
        "permissions",
        permissions,
        "Print the commands that give a user of RabbitMQ the permissions of"
        " one host's agent, and no more.",
    )
    for parser in (derived, granted):
        parser.add_argument(
            # The option's own name would hide the option.
            "of_host",
            nargs="?",
            type=_uuid,
            metavar="HOST_UUID",
            help="[DEFAULT] host_uuid of the host, exactly as written there;"
            " the default is that of this configuration",
        )
    granted.add_argument(
        "--user",
        metavar="NAME",
        help="the user; the default is fpgapool- and the host's UUID",
    )
    granted.add_argument(
        "--vhost",
        metavar="NAME",
        default="/",
        help="the virtual host of the pool; the default is /",
    )


def _uuid(text: str) -> str:
    if not re.fullmatch(default_conf.UUID, text, re.IGNORECASE):
        raise ValueError
    return text


_uuid.__name__ = "UUID"


def key(database: db_api.Database, args: argparse.Namespace) -> int:
    keys = signing.pool_keys(args.conf)
    if keys is None:
        raise exception.ConfigurationError(
            reason="[messages] pool_key_file is not set: a host's key is"
            " derived from it"
        )
    print(keys.host_key(args.of_host or args.conf.host_uuid))
    return 0


def permissions(database: db_api.Database, args: argparse.Namespace) -> int:
    """Print the commands for RabbitMQ."""
    host_uuid = args.of_host or args.conf.host_uuid
    user = args.user or f"fpgapool-{host_uuid}"
    for line in rabbitmq.commands(host_uuid, user, args.vhost):
        print(line)
    return 0
