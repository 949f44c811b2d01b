# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-manage host``: a host's key and its RabbitMQ user."""

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
            reason="[messages] pool_key_file is not set, so no host key can be"
            " derived from it"
        )
    print(keys.host_key(args.of_host or args.conf.host_uuid))
    return 0


def permissions(database: db_api.Database, args: argparse.Namespace) -> int:
    host_uuid = args.of_host or args.conf.host_uuid
    user = args.user or f"fpgapool-{host_uuid}"
    for line in rabbitmq.commands(host_uuid, user, args.vhost):
        print(line)
    return 0


_OF_HOST = arguments.Argument(
    # If named host_uuid, the argument would hide the option of that name.
    "of_host",
    nargs="?",
    type=arguments.matching(f"(?i){default_conf.UUID}", "a UUID"),
    metavar="HOST_UUID",
    help="the host's [DEFAULT] host_uuid, exactly as in its configuration;"
    " the default is the one in this configuration",
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
        "Print the commands that give a RabbitMQ user only the permissions"
        " that one host's agent needs.",
        _OF_HOST,
        arguments.option(
            "user",
            "NAME",
            "the user; the default is fpgapool- followed by the host's UUID",
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
