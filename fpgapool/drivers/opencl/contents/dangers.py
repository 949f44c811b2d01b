# SPDX-License-Identifier: Apache-2.0

"""Finds what lets a kernel leave its device.

On a device that is a processor, a kernel is native code in its worker. OpenCL
C itself gives it no way to call the system, but extensions of compilers do.
This check is for whoever signs a source: it reads the text like a compiler
before the preprocessor, which can rearrange words but, without pasting, make
no new ones. Text that compilers may read differently is refused.

It is no wall. A kernel that writes outside its buffers can still do what its
worker can.
"""

from __future__ import annotations

import bisect
import collections.abc
import dataclasses
import itertools
import re
import typing

from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions

#: What may be allowed, and what that permits.
RISKS: typing.Final = {
    "assembly": "inline assembly, which can make any system call",
    "attributes": (
        "attributes other than OpenCL's, which can run code when the program"
        " is loaded"
    ),
    "builtins": "the compiler's own functions and reserved words",
    "externals": "variables and functions of the worker (extern)",
    "includes": "files of the machine that compiles, which nobody has read",
    "pasting": "words that are made by ##, which this check cannot see",
    "pragmas": "pragmas other than OPENCL and unroll",
}

_MAX_SHOWN = 5
_MAX_WORD_CHARS = 40
#: Longer lists of attributes are dangers. Pragmas matter up to this length.
_MAX_TOKENS = 64

_ASSEMBLY = frozenset({"asm", "__asm", "__asm__"})
#: OpenCL's headers define the last one, with an attribute of its arguments.
_ATTRIBUTE = frozenset({"__attribute__", "__attribute", "kernel_exec"})
_INCLUDES = frozenset({"include", "include_next", "import", "embed"})
#: Reserved words of OpenCL C; other spellings of keywords and attributes, as
#: ``__const__``; and macros.
_RESERVED = re.compile(
    "__(kernel|global|local|constant|private|generic|read_only|write_only"
    "|read_write|inline|const|restrict|volatile|[a-z_]+__|[A-Z0-9_]+)"
)
_BUILTIN = re.compile("__.*|_*pocl.*|_cl_.*")
#: Attributes that change neither where code is nor when it runs.
_ATTRIBUTES = re.compile(
    "reqd_work_group_size|work_group_size_hint|vec_type_hint|aligned|packed"
    "|endian|always_inline|noinline|unused|const|pure|nosvm"
    "|opencl_unroll_hint|intel_reqd_sub_group_size|xcl_[a-z_]+"
)
_PRAGMA = re.compile(
    "OPENCL FP_CONTRACT .*|OPENCL EXTENSION cl_.*|unroll( [0-9]+)?"
)

_SPLICE = re.compile(r"\\[ \t\v\f]*\n")
_HIDING = {
    re.compile(r"\?\?[=/'()!<>-]"): "a trigraph",
    re.compile("\0"): "a null character",
    # After a line feed it belongs to the end of the line.
    re.compile(r"\r(?!\n)"): "a lone carriage return",
}
_TOKEN = re.compile(
    r"""
    (?P<line> \n)
    | (?P<space> [ \t\v\f]+ | //[^\n]* | /\*.*?\*/ )
    | (?P<text> "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )
    | (?P<word> [^\W\d$][\w$]* | \$[\w$]* )
    | (?P<number> \.?\d(?:[eEpP][+-]|[\w.])* )
    | (?P<sign> \#\# | %: | <: | . )
    """,
    re.VERBOSE | re.DOTALL,
)
#: Signs that compilers may read differently, or that begin an unfinished text.
_DISGUISES = {
    "%:": "a digraph",
    "<:": "a digraph",
    "\\": "a backslash",
    '"': "an unpaired quotation mark",
    "'": "an unpaired quotation mark",
    "/*": "a comment in a message",
}


class SourceRefused(exceptions.CodedError, ValueError):
    """A source uses what is not allowed. The message says where."""

    def __init__(self, message: str) -> None:
        super().__init__(codes.SOURCE_REFUSED, message)


@dataclasses.dataclass(frozen=True, slots=True)
class Danger:
    """A place in a source.

    :ivar risk: a key of :data:`RISKS`; empty: it is never allowed.
    :ivar what: the word, or a description.
    """

    line: int
    risk: str
    what: str

    def __str__(self) -> str:
        what = f"{self.what:.{_MAX_WORD_CHARS}}"
        if not self.risk:
            return f"line {self.line}: {what} may hide words from this check"
        return (
            f"line {self.line}: {what!r} needs --allow-{self.risk}, which"
            f" permits {RISKS[self.risk]}"
        )


def check(source: bytes, allowed: collections.abc.Container[str]) -> None:
    """Refuse a source with dangers that are not allowed.

    :param allowed: keys of :data:`RISKS`.
    :raises SourceRefused: with the first places.
    """
    refused = [each for each in find(source) if each.risk not in allowed]
    if refused:
        shown = "; ".join(map(str, refused[:_MAX_SHOWN]))
        more = len(refused) - _MAX_SHOWN
        raise SourceRefused(shown + (f"; and {more} more" * (more > 0)))


def find(source: bytes) -> list[Danger]:
    """Return the dangers of an OpenCL C source, in their order.

    :param source: text in UTF-8; other bytes are signs like any other.
    """
    text = source.decode("utf-8", "replace").removeprefix("\ufeff")
    hidden = [
        Danger(line, "", what)
        for line, part in enumerate(text.split("\n"), 1)
        for sign, what in _HIDING.items()
        for _ in sign.findall(f"{part}\n")
    ]
    found = _Reader(text.replace("\r", "")).dangers()
    return sorted([*hidden, *found], key=lambda each: each.line)


class _Token(typing.NamedTuple):
    kind: str
    text: str
    line: int


class _Reader:
    """Finds dangers in the tokens of a text."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._found: list[Danger] = []
        # What the preprocessor replaces.
        self._macros = {"VA_ARGS", *_replaced(self._tokens)}

    def dangers(self) -> list[Danger]:
        """Return all of them."""
        for place, token in enumerate(self._tokens):
            if token.kind == "word":
                self._read_word(place, token)
            elif token.text == "##":
                self._add(token, "pasting")
            elif token.text == "#":
                self._read_directive(place, token)
            elif token.text in ("[", ":"):
                # Macros can separate brackets, but not the colons of a name.
                if self._after(place).text == token.text:
                    self._add(token, "attributes")
            elif what := _DISGUISES.get(token.text):
                self._found.append(Danger(token.line, "", what))
            elif token.kind == "sign" and not " " < token.text < "\x7f":
                self._found.append(Danger(token.line, "", "an odd sign"))
        return self._found

    def _add(self, token: _Token, risk: str) -> None:
        self._found.append(Danger(token.line, risk, token.text))

    def _read_word(self, place: int, token: _Token) -> None:
        word = token.text
        if word in _ASSEMBLY:
            self._add(token, "assembly")
        elif word in _ATTRIBUTE:
            if not self._is_harmless(place + 1):
                self._add(token, "attributes")
        elif word == "extern":
            self._add(token, "externals")
        elif word in ("_Pragma", "__pragma"):
            self._add(token, "pragmas")
        elif _BUILTIN.fullmatch(word) and not _RESERVED.fullmatch(word):
            self._add(token, "builtins")
        elif word.endswith("R") and self._after(place).text[:1] == '"':
            self._found.append(Danger(token.line, "", "a raw string"))

    def _after(self, place: int) -> _Token:
        for at in range(place + 1, len(self._tokens)):
            if self._tokens[at].kind != "line":
                return self._tokens[at]
        return _Token("line", "", 0)

    def _is_harmless(self, place: int) -> bool:
        """Return whether an attribute's list has only known names.

        A macro could add others, so the list must have none.
        """
        depth = 0
        for kind, text, _ in self._tokens[place : place + _MAX_TOKENS]:
            if text == "(":
                depth += 1
            elif text == ")":
                depth -= 1
                if not depth:
                    return True
            elif depth < 2 or kind == "line":
                # A macro's text ends with its line, and others may follow.
                return False
            elif kind == "word":
                bare = text.strip("_")
                if text in self._macros or bare in self._macros:
                    return False
                if depth == 2 and not _ATTRIBUTES.fullmatch(bare):
                    return False
        return False

    def _read_directive(self, place: int, token: _Token) -> None:
        line = []
        for each in self._tokens[place + 1 : place + _MAX_TOKENS]:
            if each.kind == "line":
                break
            line.append(each)
        if not line:
            return
        name = line[0].text
        if name in _INCLUDES:
            self._add(token._replace(text=f"#{name}"), "includes")
        elif name == "pragma":
            words = [each.text for each in line[1:]]
            if self._macros.intersection(words) or not _PRAGMA.fullmatch(
                " ".join(words)
            ):
                text = " ".join(["#pragma", *words])
                self._add(token._replace(text=text), "pragmas")


def _replaced(
    tokens: collections.abc.Iterable[_Token],
) -> collections.abc.Iterator[str]:
    """Yield the names of macros and of their parameters."""
    for _, line in itertools.groupby(tokens, lambda each: each.kind == "line"):
        texts = [each.text for each in line]
        if texts[:2] == ["#", "define"]:
            has_list = texts[3:4] == ["("] and ")" in texts
            yield from texts[2 : texts.index(")") if has_list else 3]


def _tokens(text: str) -> collections.abc.Iterator[_Token]:
    """Return the tokens, without space and comments."""
    parts = _SPLICE.split(text)
    joined, joints, length = "".join(parts), [], 0
    for part in parts[:-1]:
        length += len(part)
        joints.append(length)
    line, counted, begun = 1, 0, ""
    for found in _TOKEN.finditer(joined):
        line += joined.count("\n", counted, found.start())
        counted = found.start()
        kind, sign = str(found.lastgroup), found[0].strip() or "\n"
        if kind == "space":
            # Compilers see no comments in messages, so this may not be one.
            is_message = begun.startswith(("#warning", "#error"))
            if not (is_message and "\n" in found[0]):
                continue
            kind, sign = "sign", "/*"
        # Of each line, only the first words matter.
        begun = "" if kind == "line" else begun + sign * (len(begun) < 9)
        spliced = bisect.bisect_right(joints, counted)
        yield _Token(kind, sign, line + spliced)
