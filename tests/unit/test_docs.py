# SPDX-License-Identifier: Apache-2.0

"""What the documentation names is there: commands, options, codes, files."""

from __future__ import annotations

import argparse
import functools
import pathlib
import re
import tomllib
from collections.abc import Iterable
from collections.abc import Iterator

from fpgapool.cmd import allinone
from fpgapool.cmd import dev
from fpgapool.cmd import manage
from fpgapool.cmd import sim
from fpgapool.cmd import yarn_labels
from fpgapool.cmd.running import arguments
from fpgapool.vocabulary import codes
from tests.harness import samples
from tests.unit.osc import reference

ROOT = pathlib.Path(__file__).parents[2]
SOURCE = ROOT / "doc" / "source"
TROUBLESHOOT = SOURCE / "admin" / "troubleshoot.rst"
REFERENCE = SOURCE / "reference"
#: Made from the code, and long.
GENERATED = {REFERENCE / "api-ref.rst", *REFERENCE.glob("api/*.rst")}
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.rst")),
    *(path for path in sorted(ROOT.glob("*/README.rst"))),
    *(path for path in sorted(ROOT.glob("*/*/README.rst"))),
    *(path for path in sorted(SOURCE.rglob("*.rst"))),
]
PAGES = [path for path in DOCUMENTS if path not in GENERATED]

#: What looks like a command of the package and is none.
NO_COMMANDS = {
    "fpgapool-alerts": "rules for Prometheus",
    "fpgapool-api": "a unit",
    "fpgapool-dashboard": "a file for Grafana",
    "fpgapool-cond": "DevStack's name of a service",
    "fpgapool-in": "a network device",
    "fpgapool-scenario": "a format",
    "fpgapool-sweep": "a format",
    "fpgapool-worker": "a service in traces",
}
#: Options of other services' configuration, in sections that we have, too.
FOREIGN_OPTIONS = {
    ("placement", "allocation_conflict_retry_count"),
    ("compute", "resource_provider_association_refresh"),
    ("scheduler", "max_placement_results"),
}
FOREIGN_SECTIONS = {
    "filter_scheduler",
    "fpgapool",
    "manager",
    "oslo_limit",
    "vendordata_dynamic_auth",
}

#: What the plug-ins of keystoneauth add where there is an auth_type.
AUTH_OPTIONS = set(
    "auth_url username password project_name user_domain_id user_domain_name"
    " project_domain_id project_domain_name".split()
)

#: Of the directive that doc/source/error_codes.py defines.
ROW = re.compile(r"(?m)^   ([A-Z0-9_]+)$")
LITERAL = re.compile(r"``([^`]+)``", re.DOTALL)


@functools.cache
def text_of(path: pathlib.Path) -> str:
    """Return a page, with literals and commands each on one line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".rst":
        text = LITERAL.sub(lambda found: re.sub(r"\s+", " ", found[0]), text)
    return re.sub(r"[ ]*\\\n\s*", " ", text)


# -- codes -----------------------------------------------------------------


def _rows(text: str) -> list[str]:
    return ROW.findall(text)


def test_every_code_is_explained_once() -> None:
    _, _, text = TROUBLESHOOT.read_text().partition("\nError codes\n")
    assert text
    _, _, why = TROUBLESHOOT.read_text().partition(".. _why-pending:")
    waiting = set(_rows(why.partition("\nError codes\n")[0]))
    assert sorted(_rows(text)) == sorted(codes.ERRORS.keys() - waiting)
    assert waiting == codes.WAITING


# -- commands --------------------------------------------------------------

COMMAND = re.compile(
    r"(?<![\w./-])(?:[\w.]+/)*"
    r"(openstack(?: --os-[\w-]+ \S+)* fpga|fpgapool-(?:yarn-labels|[a-z]+))"
    r"(?![\w-])"
    r"((?: [^\n`|;>&#)]*)?)"
)
#: Texts for whoever reads, instead of a word of a command.
STOPS = re.compile(r"^[A-Z(,.]|^[a-z]+[,.]$")


def _scripts() -> set[str]:
    text = (ROOT / "pyproject.toml").read_text()
    return set(tomllib.loads(text)["project"]["scripts"])


def _parsers() -> dict[str, argparse.ArgumentParser]:
    managing = argparse.ArgumentParser()
    manage._add_commands(managing.add_subparsers())
    return {
        "fpgapool-allinone": allinone.parser(),
        "fpgapool-dev": dev.parser(),
        "fpgapool-manage": managing,
        "fpgapool-run": arguments.parser(),
        "fpgapool-sim": sim.parser(),
        "fpgapool-yarn-labels": yarn_labels.parser(),
    }


#: Of oslo.config and oslo.log, which every service has.
COMMON_OPTIONS = {"--config-file", "--config-dir", "--debug", "--help"}
# What openstack itself and cliff bring to each command.
OPENSTACK_OPTIONS = {
    *("--help", "--format", "--column", "--sort-column", "--debug"),
    *("--prefix",),
}


def _named(path: pathlib.Path) -> Iterator[tuple[str, list[str]]]:
    for match in COMMAND.finditer(text_of(path)):
        name = "openstack fpga" if "openstack" in match[1] else match[1]
        yield name, match[2].split()


def _all_named() -> Iterator[tuple[str, str, list[str]]]:
    for page in PAGES:
        for name, words in _named(page):
            yield page.name, name, words


def _subparsers(
    parser: argparse.ArgumentParser,
) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}


def _options(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if match := re.match(r"--[a-z][\w-]+", word):
            yield match[0]


def _wrong(
    parser: argparse.ArgumentParser, words: list[str], more: set[str]
) -> list[str]:
    """Return the words that a command does not understand."""
    known = set(more)
    rest = list(words)
    while choices := _subparsers(parser):
        known |= set(parser._option_string_actions)
        while rest and rest[0].startswith("-"):
            # Of those before a sub-command, all have a value.
            del rest[: 1 if "=" in rest[0] else 2]
        if not rest or STOPS.match(rest[0]) or rest[0] in ("…", "and"):
            return []
        if rest[0] not in choices:
            return [rest[0]]
        parser = choices[rest.pop(0)]
    known |= set(parser._option_string_actions)
    return [option for option in _options(words) if option not in known]


def test_commands_are_installed() -> None:
    scripts = _scripts() | set(NO_COMMANDS) | {"openstack fpga"}
    parsers = _parsers()
    wrong = []
    for page, name, words in _all_named():
        known = name in scripts
        if known and name in parsers:
            known = not _wrong(parsers[name], words, COMMON_OPTIONS)
        if not known:
            wrong.append(f"{page}: {name} {' '.join(words)}")
    assert wrong == []


def test_commands_of_openstack_are_there() -> None:
    parsers = {
        tuple(entry.name.split("_")[1:]): reference.parser_of(entry)
        for entry in reference.commands()
    }
    seen = set()
    wrong = []
    for page, name, words in _all_named():
        if name != "openstack fpga" or len(words) < 2:
            # In a sentence.
            continue
        length = 3 if tuple(words[:3]) in parsers else 2
        parser = parsers.get(tuple(words[:length]))
        rest = words[length:]
        if parser is None or _wrong(parser, rest, OPENSTACK_OPTIONS):
            wrong.append(f"{page}: {name} {' '.join(words)}")
        else:
            seen.add(parser.prog)
    assert wrong == []
    assert len(seen) == len(parsers)


def test_targets_of_make_are_there() -> None:
    targets = re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text())
    named = {
        first or second
        for page in PAGES
        for first, second in re.findall(
            r"(?m)``make ([a-z-]+)|^ *make ([a-z-]+)", text_of(page)
        )
    }
    assert named
    assert named <= set(targets)


# -- options ---------------------------------------------------------------


def _known_options() -> dict[str, set[str]]:
    known: dict[str, set[str]] = {}
    section = ""
    for line in samples.configuration().splitlines():
        if match := re.fullmatch(r"\[(\w+)\]", line):
            section = match[1]
        elif match := re.match(r"#(\w+) =", line):
            known.setdefault(section, set()).add(match[1])
    return known


def _ini_blocks(text: str) -> Iterator[str]:
    for match in re.finditer(
        r"(?m)^( *)\.\. code-block:: ini\n(?:\1 +:.*\n)*\n"
        r"((?:\1   .*\n|\n)+)",
        text,
    ):
        yield match[2]


def _block_options(block: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in block.splitlines():
        line = line.strip()
        if match := re.fullmatch(r"\[(\w+)\]", line):
            section = match[1]
        elif match := re.match(r"(\w+) = ", line):
            yield section, match[1]


def _named_options(text: str) -> set[tuple[str, str]]:
    named = set(re.findall(r"``\[(\w+)\] (\w+)", text))
    for block in _ini_blocks(text):
        options = set(_block_options(block))
        # Else it is of another service.
        if not FOREIGN_SECTIONS & {section for section, _ in options}:
            named |= options
    return named - FOREIGN_OPTIONS


def test_options_are_defined() -> None:
    known = _known_options()
    wrong = [
        f"{page.name}: [{section}] {name}"
        for page in PAGES
        for section, name in sorted(_named_options(text_of(page)))
        if section not in FOREIGN_SECTIONS
        and name not in known.get(section, ())
        and not (name in AUTH_OPTIONS and "auth_type" in known[section])
    ]
    assert wrong == []


# -- files -----------------------------------------------------------------

#: Where files of the repository are.
DIRECTORIES = "doc|devstack|etc|fpgapool|releasenotes|tests|tools"
#: Parts of sockets' paths.
NO_FILES = {"fpgapool/front-door.sock"}


def _named_files(page: pathlib.Path) -> Iterator[pathlib.Path]:
    text = text_of(page)
    for name in re.findall(rf"``((?:{DIRECTORIES})/[^`\s]*)``", text):
        if name not in NO_FILES:
            yield ROOT / name
    if page.suffix == ".md":
        for name in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
            yield page.parent / name


def test_files_are_there() -> None:
    named = {path for page in PAGES for path in _named_files(page)}
    assert [str(path) for path in sorted(named) if not path.exists()] == []


def test_every_page_has_its_licence() -> None:
    licence = (SOURCE / "index.rst").read_text().partition("===")[0]
    for path in SOURCE.rglob("*.rst"):
        assert path.read_text().startswith(licence), path.name


def test_included_files_lose_only_their_licence() -> None:
    """``:lines: N-`` leaves out comments and blank lines, but no code."""
    included = re.compile(
        r"literalinclude:: (\S+)\n(?:   :[^\n]*\n)*?   :lines: (\d+)-$",
        re.MULTILINE,
    )
    found = 0
    for page in sorted(SOURCE.rglob("*.rst")):
        for path, first in included.findall(page.read_text()):
            lines = (page.parent / path).read_text().splitlines()
            cut = lines[: int(first) - 1]
            assert all(not each or each.startswith("#") for each in cut), page
            assert lines[int(first) - 1], page
            found += 1
    assert found
