# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-manage host``: a host's key and its user of RabbitMQ."""

from __future__ import annotations

import argparse

from fpgapool.cmd.managing import commands
from fpgapool.common import arguments
from fpgapool.common import exception
from fpgapool.common.messaging import signing
from fpgapool.conf import default as default_conf
from fpgapool.db import api as db_api
from fpgapool.rpcapi import permissions as rabbitmq


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


_OF_HOST = arguments.Argument(
    # The option's own name would hide the option.
    "of_host",
    nargs="?",
    type=arguments.matching(f"(?i){default_conf.UUID}", "a UUID"),
    metavar="HOST_UUID",
    help="[DEFAULT] host_uuid of the host, exactly as written there; the"
    " default is that of this configuration",
)
COMMANDS = (
    commands.Command(
        "host key",
        key,
        "Print the contents of a host's [messages] host_key_file; they are"
        " derived from [messages] pool_key_file.",
        _OF_HOST,
        on_database=False,
    ),
    commands.Command(
        "host permissions",
        permissions,
        "Print the commands that give a user of RabbitMQ the permissions of"
        " one host's agent, and no more.",
        _OF_HOST,
        arguments.option(
            "user",
            "NAME",
            "the user; the default is fpgapool- and the host's UUID",
        ),
        arguments.option(
            "vhost",
            "NAME",
            "the virtual host of the pool; the default is /",
            default="/",
        ),
        on_database=False,
    ),
)
