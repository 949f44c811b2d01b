# SPDX-License-Identifier: Apache-2.0

"""Create the database and its user on MariaDB or MySQL, if they are missing.

The environment has the URLs of an administrator, DATABASE_ADMIN_URL, and of
fpgapool, DATABASE_URL.
"""

import os

import sqlalchemy

wanted = sqlalchemy.make_url(os.environ["DATABASE_URL"])
admin = sqlalchemy.create_engine(os.environ["DATABASE_ADMIN_URL"])
quote = admin.dialect.identifier_preparer.quote_identifier
account = {"user": wanted.username, "password": wanted.password}
with admin.begin() as connection:
    for statement in (
        f"CREATE DATABASE IF NOT EXISTS {quote(wanted.database)}"
        " CHARACTER SET utf8mb4",
        "CREATE USER IF NOT EXISTS :user@'%' IDENTIFIED BY :password",
        "ALTER USER :user@'%' IDENTIFIED BY :password",
        f"GRANT ALL ON {quote(wanted.database)}.* TO :user@'%'",
    ):
        connection.execute(sqlalchemy.text(statement), account)
