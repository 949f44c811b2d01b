# SPDX-License-Identifier: Apache-2.0

"""What the chart renders; ``python -m tests.deploy.charts`` writes it down.

That are the table of values in its README, and the manifests of an agent for
those who do not use the chart.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import yaml
from helm_python import chart

ROOT = pathlib.Path(__file__).parents[2]
DIRECTORY = ROOT / "deploy" / "helm" / "fpgapool"
README = DIRECTORY / "README.rst"
MANIFESTS = ROOT / "deploy" / "kubernetes" / "agent.yaml"

NAMESPACE = "openstack"

#: Between these lines of the README is what is written.
_TABLE = re.compile(r"(?<=\.\. begin values\n\n).*?(?=\.\. end values)", re.S)
_HEAD = """\
# SPDX-License-Identifier: Apache-2.0

# An agent on each node with the label. "python -m tests.deploy.charts" has
# written it, from the chart in deploy/helm.
"""
#: Labels of objects that Helm keeps.
_HELM = re.compile(r"\n *(app.kubernetes.io/managed-by|helm.sh/chart): .*")


def example(name: str) -> dict[str, Any]:
    """Return the values of an example."""
    path = DIRECTORY / "examples" / f"{name}.yaml"
    values: dict[str, Any] = yaml.safe_load(path.read_text())
    return values


def render(values: Mapping[str, Any]) -> str:
    """Return all objects, as a stream of YAML documents."""
    with chart.Chart.load(DIRECTORY) as loaded:
        rendered = loaded.render(
            dict(values), name="fpgapool", namespace=NAMESPACE
        )
    return "\n---\n".join(text for _, text in sorted(rendered.items()))


def objects(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return all objects."""
    return [one for one in yaml.safe_load_all(render(values)) if one]


def schema() -> dict[str, Any]:
    """Return the schema of the values."""
    text = (DIRECTORY / "values.schema.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


def values() -> dict[str, Any]:
    """Return the values of whoever sets none."""
    text = (DIRECTORY / "values.yaml").read_text()
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def described(
    part: Mapping[str, Any], name: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield each value that the schema describes, and its meaning."""
    if "description" in part:
        yield name, part["description"]
        return
    for key, inner in part["properties"].items():
        yield from described(inner, f"{name}.{key}".lstrip("."))


def default(name: str) -> Any:
    """Return the default of a value, such as ``pod.replicas.api``."""
    found: Any = values()
    for key in name.split("."):
        found = found[key]
    return found


def table() -> str:
    """Return the table of values."""
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 26 24 50"]
    rows = [("Value", "Default", "Meaning")]
    for name, meaning in described(schema()):
        text = json.dumps(default(name))
        # Long ones are read in values.yaml.
        shown = f"``{text}``" if len(text) < 60 else "see values.yaml"
        rows.append((f"``{name}``", shown, meaning.replace("`", "``")))
    for row in rows:
        lines += ["", *(f"     - {cell}" for cell in row)]
        lines[-len(row)] = lines[-len(row)].replace("     -", "   * -")
    return "\n".join(lines) + "\n\n"


def agent_manifests() -> str:
    """Return the objects of an agent, with their comments."""
    documents = re.split(r"^---$", render(example("agent")), flags=re.M)
    chosen = [
        _HELM.sub("", text).strip()
        for text in documents
        if "component: agent" in text
    ]
    return "\n---\n".join([_HEAD.rstrip(), *chosen]) + "\n"


def with_table(text: str) -> str:
    """Return the README with the table as it should be."""
    return _TABLE.sub(lambda _: table(), text)


if __name__ == "__main__":
    README.write_text(with_table(README.read_text()))
    MANIFESTS.write_text(agent_manifests())
