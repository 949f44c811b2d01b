# SPDX-License-Identifier: Apache-2.0

"""The chart: its objects, its configuration, and the scripts of its jobs."""

from __future__ import annotations

import copy
import pathlib
import subprocess
from collections.abc import Mapping
from typing import Any

import helm_python
import kubernetes_validate
import pytest
import sqlalchemy
import yaml
from helm_python import chart

from tests.deploy import charts
from tests.deploy import conftest
from tests.services import keystone as keystone_service
from tests.services import mariadb as mariadb_service
from tests.services import openstack

EXAMPLES = ("minimal", "production", "agent")
#: The oldest that Chart.yaml allows, and the newest that is known.
VERSIONS = ("1.27.0", kubernetes_validate.latest_version())
WARNING = 2


def one(values: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    """Return an object; the names of jobs end with a number."""
    (found,) = (
        each
        for each in charts.objects(values)
        if each["kind"] == kind
        and f"{each['metadata']['name']}-".startswith(f"fpgapool-{name}-")
    )
    return found


def merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of which later ones replace earlier ones."""
    result: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            if isinstance(value, Mapping):
                value = merged(result.get(key, {}), value)
            result[key] = copy.deepcopy(value)
    return result


@pytest.mark.parametrize("name", EXAMPLES)
def test_lint(name: str) -> None:
    report = chart.lint(charts.DIRECTORY, charts.example(name), strict=True)
    assert report["errors"] == []
    assert [
        message
        for message in report["messages"]
        if message["severity"] >= WARNING
    ] == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_objects_are_valid(name: str, version: str) -> None:
    found = charts.objects(charts.example(name))
    for each in found:
        kubernetes_validate.validate(each, version, strict=True)
    identities = {(each["kind"], each["metadata"]["name"]) for each in found}
    assert len(identities) == len(found)
    kinds = {kind for kind, _ in identities}
    if name == "production":
        assert {"Ingress", "NetworkPolicy", "DaemonSet"} <= kinds
        assert "Secret" not in kinds
    if name == "minimal":
        assert len([kind for kind, _ in identities if kind == "Job"]) == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"imge": {}}, "imge"),
        ({"secrets": {"pool_key": "short"}}, "pool_key"),
        ({"secrets": {"transport_url": ""}}, "transport_url is missing"),
        ({"agent": {"devices": ["/dev/x"]}}, "agent.privileged"),
        ({"pod": {"replicas": {"api": -1}}}, "replicas"),
    ],
)
def test_bad_values_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(helm_python.HelmError, match=message):
        charts.render(merged(charts.example("minimal"), change))


def test_values_are_described() -> None:
    names = [name for name, _ in charts.described(charts.schema())]
    leaves = set()

    def walk(part: Any, name: str) -> None:
        if name in names or not isinstance(part, dict):
            leaves.add(name)
            return
        for key, inner in part.items():
            walk(inner, f"{name}.{key}".lstrip("."))

    walk(charts.values(), "")
    assert leaves == set(names)


def test_what_is_written_is_new() -> None:
    """Otherwise run: python -m tests.deploy.charts"""
    assert charts.README.read_text() == charts.with_table(
        charts.README.read_text()
    )
    assert charts.MANIFESTS.read_text() == charts.agent_manifests()


@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_without_helm(version: str) -> None:
    found = list(yaml.safe_load_all(charts.MANIFESTS.read_text()))
    assert [each["kind"] for each in found] == ["DaemonSet", "ConfigMap"]
    for each in found:
        kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize(
    ("name", "config_map"),
    [
        ("minimal", "etc"),
        ("minimal", "agent-etc"),
        ("production", "etc"),
        ("production", "agent-etc"),
        ("agent", "agent-etc"),
    ],
)
def test_options_are_known(
    name: str, config_map: str, tmp_path: pathlib.Path
) -> None:
    data = one(charts.example(name), "ConfigMap", config_map)["data"]
    path = tmp_path / "fpgapool.conf"
    path.write_text(data["fpgapool.conf"])
    conftest.require_known_options(path)
    conf = conftest.read_options(path)
    if (name, config_map) == ("production", "etc"):
        # Not as 1e+15, which is no integer.
        assert conf.quota.queued_bytes == 10**15


@pytest.mark.security
def test_secrets_are_in_the_secret_only(tmp_path: pathlib.Path) -> None:
    secrets = {
        "database_url": "mysql+pymysql://fpgapool:magpie$two@db/fpgapool",
        "service_password": "pelican$four",
        "token_keys": ["curlew" * 8, "plover" * 8],
    }
    values = merged(charts.example("minimal"), {"secrets": secrets})
    for each in charts.objects(values):
        if each["kind"] != "Secret":
            text = yaml.safe_dump(each)
            assert not [
                word
                for word in (
                    "magpie",
                    "pelican",
                    "curlew",
                    "plover",
                    "00112233",
                )
                if word in text
            ]
    path = tmp_path / "secret.conf"
    path.write_text(one(values, "Secret", "secret")["stringData"][path.name])
    conftest.require_known_options(path)
    conf = conftest.read_options(path)
    assert conf.database.connection == secrets["database_url"]
    assert conf.vendordata.token_keys == secrets["token_keys"]


def test_pods_change_with_their_configuration() -> None:
    values = charts.example("minimal")
    changed = merged(values, {"conf": {"fpgapool": {"quota": {"queued": 7}}}})
    for kind, name in (("Deployment", "api"), ("Job", "db-sync")):
        assert one(values, kind, name) != one(changed, kind, name)
    assert one(values, "DaemonSet", "agent") == one(
        changed, "DaemonSet", "agent"
    )


class Cluster:
    """Runs what containers of the chart would run, on this machine.

    :param directory: where ConfigMap and Secret are mounted.
    """

    def __init__(
        self, values: Mapping[str, Any], directory: pathlib.Path
    ) -> None:
        self._values = values
        self._directory = directory
        self._secret = one(values, "Secret", "secret")["stringData"]
        config_map = one(values, "ConfigMap", "etc")["data"]
        for place, files in (
            ("fpgapool", config_map),
            ("fpgapool-secret", self._secret),
        ):
            (directory / "etc" / place).mkdir(parents=True)
            for name, text in files.items():
                (directory / "etc" / place / name).write_text(self._here(text))

    def _here(self, text: str) -> str:
        return text.replace(
            "/etc/fpgapool", f"{self._directory}/etc/fpgapool"
        ).replace("/var/lib", f"{self._directory}/lib")

    def run(self, kind: str, name: str) -> subprocess.CompletedProcess[str]:
        """Run the command of an object's first container."""
        pod = one(self._values, kind, name)["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        environment = {}
        for variable in container.get("env", ()):
            source = variable.get("valueFrom")
            environment[variable["name"]] = variable.get("value") or (
                self._secret[source["secretKeyRef"]["key"]] if source else ""
            )
        return conftest.run(
            *map(self._here, container["command"]),
            **{**environment, "HOME": self._directory},
        )


@pytest.fixture
def cluster(
    mariadb: mariadb_service.MariaDB,
    transport_url: str,
    accounts: openstack.Accounts,
    keystone: keystone_service.Keystone,
    tmp_path: pathlib.Path,
) -> Cluster:
    """Give the chart for real services."""
    mariadb.ensure_running()
    admin_url = mariadb.database_url("mysql")
    url = sqlalchemy.make_url(admin_url).set(
        username="chart", password="pa$ss:word", database="helm-chart"
    )
    return Cluster(
        merged(
            charts.example("minimal"),
            {
                "endpoints": {"auth_url": accounts.auth_url},
                "keystone": {"user": "chart", "nova_user": "chart"},
                "secrets": {
                    "transport_url": transport_url,
                    "database_url": url.render_as_string(hide_password=False),
                    "database_admin_url": admin_url,
                    "service_password": "pa$ss",
                    "admin_password": openstack.PASSWORD,
                },
            },
        ),
        tmp_path,
    )


def test_jobs_make_the_database(
    cluster: Cluster, mariadb: mariadb_service.MariaDB
) -> None:
    # The second time, all is there.
    for _ in range(2):
        cluster.run("Job", "db-init")
        assert "is at version" in cluster.run("Job", "db-sync").stdout
    with mariadb.cursor() as cursor:
        cursor.execute("SHOW GRANTS FOR chart")
        assert "`helm-chart`.*" in str(cursor.fetchall())
        cursor.execute("DROP DATABASE `helm-chart`")
        cursor.execute("DROP USER chart")
    with pytest.raises(AssertionError, match="Access denied"):
        cluster.run("Job", "db-sync")


def test_jobs_register_the_service(
    cluster: Cluster, accounts: openstack.Accounts
) -> None:
    for _ in range(2):
        for name in ("ks-user", "ks-service", "ks-endpoints"):
            cluster.run("Job", name)
    user = openstack.User(
        "", "chart", "pa$ss", openstack.Project("", openstack.SERVICE_PROJECT)
    )
    token = accounts.token(user)
    assert {"service", "admin", openstack.VENDORDATA_ROLE} <= set(token.roles)
    assert token.endpoints["fpgapool"] == "https://fpga.example.org"
