# SPDX-License-Identifier: Apache-2.0

"""Conventions that every command keeps."""

from __future__ import annotations

import importlib
import pathlib
import pkgutil
from collections.abc import Iterator
from importlib import metadata

import pytest

from fpgapool.osc import v1
from fpgapool.osc.v1 import base
from tests.unit.osc import reference

ABSTRACT = (
    base.Command,
    base.EachCommand,
    base.ListCommand,
    base.ShowCommand,
)

every_command = pytest.mark.parametrize(
    "entry_point", reference.commands(), ids=lambda entry: entry.name
)


def _classes() -> Iterator[type[base.Command]]:
    for module in pkgutil.iter_modules(v1.__path__):
        loaded = importlib.import_module(f"{v1.__name__}.{module.name}")
        for value in vars(loaded).values():
            if isinstance(value, type) and issubclass(value, base.Command):
                yield value


def test_every_class_is_a_command() -> None:
    """No class is forgotten in pyproject.toml."""
    loaded = {entry_point.load() for entry_point in reference.commands()}
    assert set(_classes()) - set(ABSTRACT) == loaded
    assert len(loaded) == len(reference.commands())


@every_command
def test_names(entry_point: metadata.EntryPoint) -> None:
    """fpga, the resource, as its module is called, and what is done.

    A part of the resource may come between these.
    """
    group, resource, *part, action = entry_point.name.split("_")
    assert group == "fpga"
    class_ = entry_point.load()
    assert class_.__module__ == f"{v1.__name__}.{resource}"
    wanted = "".join((action, resource, *part))
    assert class_.__name__.lower().startswith(wanted)


@every_command
def test_help(entry_point: metadata.EntryPoint) -> None:
    """Everything is explained."""
    parser = reference.parser_of(entry_point)
    assert parser.description
    assert parser.description.endswith(".")
    for action in reference.own_actions(parser):
        assert action.help, action
        assert not action.help.endswith("."), action
    # Fails at a % that is none of argparse's.
    assert parser.format_help()


def test_the_document_is_up_to_date() -> None:
    """If it is not: python -m tests.unit.osc.reference."""
    text = reference.DOCUMENT.read_text()
    assert reference.document(text).rstrip() == text.rstrip()


def test_plugin_is_found() -> None:
    """By its module, as the shell loads it."""
    (entry_point,) = [
        one
        for one in metadata.entry_points(group="openstack.cli.extension")
        if one.name == "fpgapool"
    ]
    module = entry_point.load()
    group = f"openstack.{module.API_NAME}.v{module.DEFAULT_API_VERSION}"
    assert group == reference.GROUP
    assert pathlib.Path(module.__file__).name == "plugin.py"
