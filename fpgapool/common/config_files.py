# SPDX-License-Identifier: Apache-2.0

"""What stands in configuration files, and what of it nothing reads.

oslo.config reports a value without its file, and ignores what it does not
know: a typing error in a name would leave a default in force unseen.
"""

from __future__ import annotations

import functools
import importlib.metadata
import itertools
import pathlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from oslo_config import cfg

from fpgapool import conf as fpgapool_conf
from fpgapool.conf import bitstreams
from fpgapool.conf import opts
from fpgapool.vocabulary import names

DEFAULT = "DEFAULT"
# Names of groups that are less alike may well belong to other services.
_SIMILAR_GROUPS = 0.85
_MOST_SHOWN_CHARACTERS = 80
_CONVERSIONS = {
    "could not convert string to float": "is not a number",
    "invalid literal for int()": "is not a whole number",
    "Unexpected boolean value": "is neither true nor false",
}
# Every installation sets it, and oslo.messaging loads slowly.
_TRANSPORT = "transport_url"
#: The libraries that define options of a group besides fpgapool itself.
_LIBRARIES = {
    DEFAULT: ("oslo.log", "oslo.messaging"),
    "database": ("oslo.db",),
}

_Sections = Mapping[str, Mapping[str, list[str]]]


def wrong_value(
    conf: cfg.ConfigOpts, section: str, option: cfg.Opt, error: Exception
) -> str:
    """Return what is wrong with the value of an option, and where it is."""
    path, raw = None, None
    for each, sections in _read(conf):
        for name, values in _of(sections, section):
            if name in (option.dest, option.name):
                path, raw = each, values[-1]
    place = f"[{section}] {option.name}"
    if raw is None:
        return f"{place}: {error}"
    shown = " ".join(raw.split())
    if len(shown) > _MOST_SHOWN_CHARACTERS:
        shown = f"{shown[:_MOST_SHOWN_CHARACTERS]}…"
    # The message of oslo.config has a prefix that names no file.
    reason = str(error).rpartition(" is not valid: ")[2]
    for start, said in _CONVERSIONS.items():
        if reason.startswith(start):
            reason = said
            break
    else:
        reason = f"is not valid: {reason}"
    if option.secret:
        shown, reason = "***", "is not valid"
    return f"{path}: {place} = {shown} {reason}"


def unknown(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield a sentence for each option and group that nothing reads.

    Only fpgapool's groups are looked at, and names that resemble theirs: a
    file may have sections for other services, too.
    """
    groups = _Groups(conf)
    for path, sections in _read(conf):
        for section, options in sections.items():
            if not groups.has(section):
                close = groups.closest(section)
                if close is not None:
                    yield (
                        f"[{section}] in {path} is no group of options and is"
                        f" ignored; did you mean [{close}]?"
                    )
                continue
            for option in options:
                if groups.knows(section, option):
                    continue
                close = names.closest(option, sorted(groups.all_of(section)))
                hint = f"; did you mean {close}?" if close else ""
                yield (
                    f"[{section}] {option} in {path} is no option and is"
                    f" ignored{hint}"
                )


def _read(conf: cfg.ConfigOpts) -> Iterator[tuple[str, _Sections]]:
    """Yield each file that was read, and its sections; later ones count."""
    directories = map(pathlib.Path, conf.config_dir or ())
    for path in (
        *(conf.config_file or ()),
        *itertools.chain.from_iterable(
            map(str, sorted(one.expanduser().glob("*.conf")))
            for one in directories
        ),
    ):
        sections: dict[str, dict[str, list[str]]] = {}
        cfg.ConfigParser(
            str(pathlib.Path(path).expanduser()), sections
        ).parse()
        yield path, sections


def _of(sections: _Sections, wanted: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the options of a group and their values."""
    for section, options in sections.items():
        if _normal(section) == wanted:
            yield from options.items()


def _normal(section: str) -> str:
    """Return the name as oslo.config compares it."""
    return section if section == DEFAULT else section.lower()


class _Groups:
    """The groups of fpgapool, and the options that each may have.

    What libraries and drivers define is loaded when a file has something that
    might be theirs: most files have nothing.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._others: dict[str, frozenset[str]] = {}
        self._auth = {
            one.name: one
            for one in (
                *(group.OPTIONS for group in fpgapool_conf.GROUPS),
                bitstreams.GLANCE_OPTIONS,
            )
            if one.auth_defaults is not None
        }
        own = {group.OPTIONS.name for group in fpgapool_conf.GROUPS}
        self._sources: dict[str, Callable[[], Iterable[cfg.Opt]]] = {
            name: functools.partial(self._of_libraries, name)
            for name in own | set(self._auth)
        }
        self._sources[opts.PRIVSEP_GROUP] = opts.list_privsep_opts
        for entry in importlib.metadata.entry_points(group=opts.DRIVERS):
            self._sources[entry.name] = functools.partial(
                opts.list_opts_of_driver, entry.name
            )

    def has(self, section: str) -> bool:
        return _normal(section) in self._sources

    def closest(self, section: str) -> str | None:
        """Return the group of fpgapool that is meant, if one is."""
        if _normal(section) in self._conf:
            return None
        return names.closest(
            _normal(section), sorted(self._sources), _SIMILAR_GROUPS
        )

    def knows(self, section: str, option: str) -> bool:
        return option in self._registered(
            section
        ) or option in self._of_others(section)

    def all_of(self, section: str) -> set[str]:
        return {*self._registered(section), *self._of_others(section)}

    def _registered(self, section: str) -> Iterable[str]:
        if section == DEFAULT:
            return {*self._conf, _TRANSPORT}
        section = _normal(section)
        if section not in self._conf:
            return ()
        names_of_group: Iterable[str] = self._conf[section]
        return names_of_group

    def _of_others(self, section: str) -> frozenset[str]:
        section = _normal(section)
        if section not in self._others:
            self._others[section] = frozenset(
                name
                for option in self._sources[section]()
                for name in _names(option)
            )
        return self._others[section]

    def _of_libraries(self, section: str) -> Iterator[cfg.Opt]:
        for entry in importlib.metadata.entry_points(group="oslo.config.opts"):
            if entry.name in _LIBRARIES.get(section, ()):
                for group, options in entry.load()():
                    if (
                        str(getattr(group, "name", group or DEFAULT))
                        == section
                    ):
                        yield from options
        if section in self._auth:
            auth_type = None
            for _, sections in _read(self._conf):
                for name, values in _of(sections, section):
                    if name == "auth_type":
                        auth_type = values[-1]
            yield from self._auth[section].list_auth(auth_type)


def _names(option: cfg.Opt) -> Iterator[str]:
    """Yield the names by which a file may set an option."""
    yield from (option.dest, option.name)
    for old in option.deprecated_opts:
        if old.name:
            yield from (old.name, old.name.replace("-", "_"))
