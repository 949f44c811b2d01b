# SPDX-License-Identifier: Apache-2.0

"""What services of OpenStack need: programs, configuration, accounts.

Their programs live in a virtual environment of their own: their requirements
are not those of fpgapool.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import subprocess
import typing
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import requests

from tests.services import mariadb
from tests.services import process

ROOT = pathlib.Path(__file__).parents[2]
VENV = ROOT / ".venv-openstack"

#: Of every account here; whoever can log in to the machine may know it.
PASSWORD = "fpgapool"
REGION = "RegionOne"
DOMAIN = "default"
SERVICE_PROJECT = "service"
#: Of the service that this repository is about.
SERVICE_NAME = SERVICE_TYPE = "fpgapool"
# What DevStack gives a service's user.
SERVICE_ROLES = ("service", "admin")
#: Of fpgapool's own, for agents and for the one as whom Nova asks for
#: vendordata.
AGENT_ROLE = "fpgapool:agent"
VENDORDATA_ROLE = "fpgapool:vendordata"

_INTERFACES = ("public", "internal", "admin")
_STAMP = VENV / ".installed"
_RUNNER = pathlib.Path(__file__).with_name("openstack_manage.py")
_MANAGE_LIMIT_S = 300
_PROBE_LIMIT_S = 30
_HTTP_LIMIT_S = 60
_THREADS = 4
# A token with a catalog is longer than uWSGI expects of headers.
_HEADERS_BYTES = 65535
# So may be one chunk of an image.
_CHUNK_BYTES = 64 * 1024 * 1024

Sections = Mapping[str, Mapping[str, object]]


def program(name: str) -> str:
    """Find a program of the virtual environment.

    :raises ServiceError: if the environment is not complete.
    """
    path = VENV / "bin" / name
    if not (_STAMP.exists() and path.exists()):
        raise process.ServiceError(
            f"{VENV} lacks {name}: run 'make openstack-venv'"
        )
    return str(path)


def write_config(path: pathlib.Path, sections: Sections) -> None:
    """Write a configuration file as oslo.config reads it.

    :param sections: options by section; a tuple is an option given several
        times.
    """
    lines = []
    for section, options in sections.items():
        lines.append(f"[{section}]")
        for name, value in options.items():
            values = value if isinstance(value, tuple) else (value,)
            lines += [f"{name} = {each}" for each in values]
        lines.append("")
    path.write_text("\n".join(lines))


def create_database(
    database: mariadb.MariaDB, name: str, stamp: pathlib.Path
) -> None:
    """Make a database for a service of OpenStack; again is harmless.

    It has the same name in all runs on a server. What a run before has made,
    or one that was interrupted, is removed.

    :param stamp: the file that is there if it holds what this run needs.
    """
    if not stamp.exists():
        database.drop_database(name)
    # Some of their indices are too long for four bytes a letter.
    database.create_database(name, character_set="utf8mb3")


def is_newer_than_programs(stamp: pathlib.Path) -> bool:
    """Tell whether what a file stands for need not be done again.

    :param stamp: the file; other versions of programs may need other tables.
    """
    return (
        stamp.exists() and stamp.stat().st_mtime_ns > _STAMP.stat().st_mtime_ns
    )


class WsgiService(process.Service):
    """An API of OpenStack under uWSGI: one process, a few threads.

    Subclasses say what is served and how it is prepared.

    :param name: as in ``OS_<NAME>_CONFIG_DIR``, unless a subclass says it.
    :param workspace: where it lives and who cleans up after it.
    """

    #: What uWSGI loads.
    module = ""
    #: Answered without a token as soon as it serves.
    probe_path = "/"

    def __init__(self, name: str, workspace: process.Keeper) -> None:
        super().__init__(name, workspace)
        self._server = program("uwsgi")
        self.port = workspace.port(name)
        self.base_url = f"http://{process.LOOPBACK}:{self.port}"
        #: There when all is made that it needs, see :meth:`prepare`.
        self.prepared_path = self.directory / "prepared"

    def command(self) -> list[str]:
        """Return the command line."""
        return [
            self._server,
            f"--http-socket={process.LOOPBACK}:{self.port}",
            f"--module={self.module}",
            f"--virtualenv={VENV}",
            f"--threads={_THREADS}",
            f"--buffer-size={_HEADERS_BYTES}",
            "--enable-threads",
            "--need-app",
            "--die-on-term",
            # Images come in chunks; uWSGI keeps no connection alive.
            "--http-chunked-input",
            f"--chunked-input-limit={_CHUNK_BYTES}",
            "--add-header=Connection: close",
            "--disable-logging",
        ]

    def environment(self) -> dict[str, str]:
        """Return the whole environment."""
        return {
            **super().environment(),
            "HOME": str(self.directory),
            f"OS_{self.name.upper()}_CONFIG_DIR": str(self.directory),
        }

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports that the server listens on."""
        return (self.port,)

    def prepare(self) -> None:
        """Make tables and whatever else is needed; again is harmless.

        :raises ServiceError: if that fails.
        """
        raise NotImplementedError

    def start(self) -> None:
        """Prepare what is not, start the server and wait until it answers.

        :raises ServiceError: if it fails to.
        """
        if not self.running and not self._is_prepared():
            self.prepare()
            self.prepared_path.touch()
        super().start()

    def _is_prepared(self) -> bool:
        return is_newer_than_programs(self.prepared_path)

    def is_ready(self) -> bool:
        """Tell whether the API answers."""
        try:
            answer = web_session().get(
                self.base_url + self.probe_path, timeout=_PROBE_LIMIT_S
            )
        except requests.RequestException:
            return False
        return answer.status_code < 400

    def manage(self, module: str, name: str, *commands: Sequence[str]) -> None:
        """Run commands of the service's own tool, one after the other.

        :param module: of which ``main`` is called.
        :raises ServiceError: if one fails; the others are left out.
        """
        with self.log_path.open("ab") as log:
            result = subprocess.run(
                [
                    program("python"),
                    "-I",
                    str(_RUNNER),
                    module,
                    name,
                    json.dumps(commands),
                ],
                env=self.environment(),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=_MANAGE_LIMIT_S,
                check=False,
            )
        if result.returncode != 0:
            self._fail(f"could not be prepared by {name}")


def web_session() -> requests.Session:
    """Return what talks HTTP with the services."""
    session = requests.Session()
    # No proxy on the way to this machine itself.
    session.trust_env = False
    return session


class RefusedError(Exception):
    """A service answered with an error."""

    def __init__(self, response: requests.Response) -> None:
        super().__init__(
            f"{response.request.method} {response.url} was answered with"
            f" {response.status_code}: {response.text}"
        )
        self.status = response.status_code


@dataclasses.dataclass(frozen=True)
class Project:
    """A project of the default domain."""

    id: str
    name: str


@dataclasses.dataclass(frozen=True)
class User:
    """Someone who acts in a project, named by a password."""

    id: str
    name: str
    password: str
    project: Project

    def identity(self) -> dict[str, typing.Any]:
        """Return what is asked for a token."""
        domain = {"id": DOMAIN}
        user = {
            "name": self.name,
            "domain": domain,
            "password": self.password,
        }
        return {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {
                "project": {"name": self.project.name, "domain": domain}
            },
        }


@dataclasses.dataclass(frozen=True)
class ApplicationCredential:
    """What a program of a user shows instead of the user's password."""

    id: str
    secret: str

    def identity(self) -> dict[str, typing.Any]:
        """Return what is asked for a token."""
        return {
            "identity": {
                "methods": ["application_credential"],
                "application_credential": dataclasses.asdict(self),
            }
        }


@dataclasses.dataclass(frozen=True)
class Token:
    """A token, and what Keystone says of it.

    :param endpoints: public URLs by type of the service.
    """

    text: str
    user_id: str
    project_id: str
    roles: frozenset[str]
    endpoints: Mapping[str, str]

    def headers(self) -> dict[str, str]:
        """Return what requests with this token carry."""
        return {"X-Auth-Token": self.text}


@dataclasses.dataclass(frozen=True)
class Personas:
    """One user for each kind of rights that policies know.

    :param reader: of project A, like member and manager.
    :param stranger: a member of project B.
    :param nova: the one as whom Nova asks.
    """

    reader: User
    member: User
    manager: User
    stranger: User
    service: User
    agent: User
    nova: User
    admin: User


class Accounts:
    """Makes projects, users, credentials and entries of the catalog.

    What is there already is used as it is, so that all of it can be asked
    for again.

    :param auth_url: Keystone's URL, with the version.
    """

    def __init__(self, auth_url: str) -> None:
        self.auth_url = auth_url
        self._session = web_session()
        self._admin_token: Token | None = None

    def admin(self) -> User:
        """Return the administrator, whom the bootstrap made."""
        return User("", "admin", PASSWORD, Project("", "admin"))

    # Tokens.

    def token(self, whose: User | ApplicationCredential) -> Token:
        """Get a token.

        :raises RefusedError: if Keystone does not know them.
        """
        answer = self._request(
            "POST", "/auth/tokens", {"auth": whose.identity()}
        )
        return _parse_token(answer.headers["X-Subject-Token"], answer)

    def validate(self, text: str, validator: Token) -> Token:
        """Ask what a token is worth, as services do.

        :raises RefusedError: if they may not, or it is worth nothing.
        """
        answer = self._request(
            "GET",
            "/auth/tokens",
            headers={**validator.headers(), "X-Subject-Token": text},
        )
        return _parse_token(text, answer)

    # Requests.

    def _request(
        self,
        method: str,
        path: str,
        body: dict[str, typing.Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> requests.Response:
        response = self._session.request(
            method,
            self.auth_url + path,
            json=body,
            params=query,
            headers=headers,
            timeout=_HTTP_LIMIT_S,
        )
        if response.status_code >= 400:
            raise RefusedError(response)
        return response

    def _as_admin(
        self,
        method: str,
        path: str,
        body: dict[str, typing.Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> requests.Response:
        if self._admin_token is None:
            self._admin_token = self.token(self.admin())
        try:
            return self._request(
                method,
                path,
                body,
                headers=self._admin_token.headers(),
                query=query,
            )
        except RefusedError as error:
            if error.status != 401:
                raise
        # Tokens end after an hour.
        self._admin_token = None
        return self._as_admin(method, path, body, query)

    def _find(self, kind: str, **query: str) -> list[dict[str, typing.Any]]:
        answer = self._as_admin("GET", f"/{kind}", query=query).json()
        found: list[dict[str, typing.Any]] = answer[kind]
        return found

    def _ensure(
        self, kind: str, key: Mapping[str, str], **rest: object
    ) -> str:
        found = self._find(kind, **key)
        if found:
            return str(found[0]["id"])
        singular = kind.removesuffix("s")
        body = {singular: {**key, **rest}}
        answer = self._as_admin("POST", f"/{kind}", body).json()
        return str(answer[singular]["id"])

    # People.

    @functools.cached_property
    def _role_ids(self) -> dict[str, str]:
        return {role["name"]: role["id"] for role in self._find("roles")}

    def create_role(self, name: str) -> None:
        """Make a role."""
        self._ensure("roles", {"name": name})
        # Read again when it is used.
        self.__dict__.pop("_role_ids", None)

    def create_project(self, name: str) -> Project:
        """Make a project."""
        key = {"name": name, "domain_id": DOMAIN}
        return Project(self._ensure("projects", key), name)

    def create_user(self, name: str, project: Project, *roles: str) -> User:
        """Make a user with roles in a project."""
        user_id = self._ensure(
            "users", {"name": name, "domain_id": DOMAIN}, password=PASSWORD
        )
        place = f"/projects/{project.id}/users/{user_id}/roles"
        for role in roles:
            self._as_admin("PUT", f"{place}/{self._role_ids[role]}")
        return User(user_id, name, PASSWORD, project)

    def create_application_credential(
        self, user: User, name: str, *roles: str
    ) -> ApplicationCredential:
        """Make an application credential of a user in the user's project.

        :param name: unique among those of the user.
        :param roles: names of roles; none means all that the user has.
        """
        wanted: dict[str, object] = {"name": name}
        if roles:
            wanted["roles"] = [{"name": role} for role in roles]
        answer = self._request(
            "POST",
            f"/users/{user.id}/application_credentials",
            {"application_credential": wanted},
            headers=self.token(user).headers(),
        ).json()["application_credential"]
        return ApplicationCredential(answer["id"], answer["secret"])

    def delete_user(self, user: User) -> None:
        """Remove a user, whose tokens are worth nothing from then on."""
        self._as_admin("DELETE", f"/users/{user.id}")

    def create_service_user(self, name: str, *roles: str) -> User:
        """Make the user of a service, in the project of all services.

        :param roles: none means those that DevStack gives.
        """
        project = self.create_project(SERVICE_PROJECT)
        return self.create_user(name, project, *(roles or SERVICE_ROLES))

    def create_fpgapool(self) -> User:
        """Make fpgapool's user, its roles and its type of service known."""
        for role in (AGENT_ROLE, VENDORDATA_ROLE):
            self.create_role(role)
        self.register_service(SERVICE_NAME, SERVICE_TYPE)
        return self.create_service_user(SERVICE_NAME)

    def create_personas(self, prefix: str) -> Personas:
        """Make two projects and one user for each kind of rights.

        :param prefix: what the names begin with.
        """
        a = self.create_project(f"{prefix}-a")
        b = self.create_project(f"{prefix}-b")
        return Personas(
            reader=self.create_user(f"{prefix}-reader", a, "reader"),
            member=self.create_user(f"{prefix}-member", a, "member"),
            manager=self.create_user(f"{prefix}-manager", a, "manager"),
            stranger=self.create_user(f"{prefix}-stranger", b, "member"),
            service=self.create_service_user(f"{prefix}-service", "service"),
            agent=self.create_service_user(f"{prefix}-agent", AGENT_ROLE),
            nova=self.create_service_user(
                f"{prefix}-nova", VENDORDATA_ROLE, "service"
            ),
            admin=self.admin(),
        )

    # The catalog.

    def register_service(self, name: str, service_type: str) -> str:
        """Make a service known."""
        return self._ensure("services", {"type": service_type}, name=name)

    def register_endpoint(
        self, url: str, service_type: str = SERVICE_TYPE
    ) -> None:
        """Say where a service is.

        :param url: replaces the one that was said before.
        :param service_type: of a service that is known.
        """
        (service,) = self._find("services", type=service_type)
        known = {
            endpoint["interface"]: endpoint["id"]
            for endpoint in self._find("endpoints", service_id=service["id"])
        }
        for interface in _INTERFACES:
            body = {
                "endpoint": {
                    "service_id": service["id"],
                    "interface": interface,
                    "region_id": REGION,
                    "url": url,
                }
            }
            if interface in known:
                self._as_admin("PATCH", f"/endpoints/{known[interface]}", body)
            else:
                self._as_admin("POST", "/endpoints", body)


def _parse_token(text: str, answer: requests.Response) -> Token:
    document = answer.json()["token"]
    return Token(
        text=text,
        user_id=document["user"]["id"],
        project_id=document["project"]["id"],
        roles=frozenset(role["name"] for role in document["roles"]),
        endpoints=dict(_public_endpoints(document["catalog"])),
    )


def _public_endpoints(
    catalog: Iterable[dict[str, typing.Any]],
) -> Iterator[tuple[str, str]]:
    for entry in catalog:
        for endpoint in entry["endpoints"]:
            if endpoint["interface"] == "public":
                yield entry["type"], endpoint["url"]
