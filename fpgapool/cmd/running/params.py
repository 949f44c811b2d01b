# SPDX-License-Identifier: Apache-2.0

"""Parameters of the accelerator, keys and IVs, for ``fpgapool-run``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import secrets
import typing

from fpgapool.client.transfers import files
from fpgapool.cmd.running import arguments as command_line

AES = "aes"
AES_CBC = "aes-cbc"
IV_SUFFIX = ".iv"

_CIPHERS = (AES, AES_CBC)
_KEY_BYTES = (16, 24, 32)
_IV_BYTES = 16
_MAX_FILE_BYTES = 64 * 1024


@dataclasses.dataclass(frozen=True)
class Prepared:
    """The parameters of a run.

    :ivar new_iv: an IV that was made here and must be kept.
    """

    params: dict[str, typing.Any]
    new_iv: bytes | None = None


class _Params(dict[str, typing.Any]):
    def add(self, name: str, value: object) -> None:
        if name in self:
            raise command_line.UsageError(
                f"the parameter {name} is given twice"
            )
        self[name] = value


def prepare(arguments: argparse.Namespace, source: str) -> Prepared:
    """Collect the parameters.

    :param arguments: parsed.
    :param source: path of the input, or ``-``.
    :raises command_line.UsageError: if a value is wrong, missing, or given
        twice; or if the input is encrypted already and the user does not say
        what to do.
    :raises OSError: if a file cannot be read.
    """
    params = given(arguments)
    cipher = arguments.accelerator.partition("@")[0]
    if cipher in _CIPHERS:
        return _with_iv(arguments.direction, params, cipher, source)
    return Prepared(params)


def given(arguments: argparse.Namespace) -> dict[str, typing.Any]:
    """Return the parameters that the command line names.

    :param arguments: parsed.
    :raises command_line.UsageError: if a value is wrong or given twice.
    :raises OSError: if a file cannot be read.
    """
    params = _Params()
    for item in arguments.param:
        params.add(*_split(item, "--param"))
    for item in arguments.param_json:
        name, text = _split(item, "--param-json")
        try:
            params.add(name, json.loads(text))
        except ValueError:
            raise command_line.UsageError(
                f"--param-json {name}: not JSON"
            ) from None
        except RecursionError:
            raise command_line.UsageError(
                f"--param-json {name}: nested too deeply"
            ) from None
    for item in arguments.param_file:
        name, path = _split(item, "--param-file")
        params.add(name, _read_text(path))
    cipher = arguments.accelerator.partition("@")[0]
    if arguments.key_file is not None:
        key = _read_key(arguments.key_file, cipher in _CIPHERS)
        params.add("key", key.hex())
    if arguments.iv is not None:
        params.add("iv", _parse_iv(arguments.iv, "--iv").hex())
    elif arguments.iv_file is not None:
        params.add("iv", _read_iv(arguments.iv_file).hex())
    if arguments.direction is None:
        return params
    if cipher not in _CIPHERS:
        raise command_line.UsageError(
            f"--{arguments.direction} is for {' and '.join(_CIPHERS)}"
        )
    if cipher == AES_CBC:
        params.add("direction", arguments.direction)
    return params


def _with_iv(
    direction: str | None,
    params: dict[str, typing.Any],
    cipher: str,
    source: str,
) -> Prepared:
    if "key" not in params:
        raise command_line.UsageError(f"{cipher} needs --key-file")
    # The parameter says it, too.
    direction = params.get("direction", direction)
    iv_path = None
    if source != command_line.STANDARD and os.path.exists(source + IV_SUFFIX):
        iv_path = source + IV_SUFFIX
    if direction == "decrypt":
        if "iv" not in params:
            if iv_path is None:
                raise command_line.UsageError(
                    "the IV is needed to decrypt: there is no "
                    f"{source}{IV_SUFFIX}, so give --iv-file or --iv"
                    if source != command_line.STANDARD
                    else "the IV is needed to decrypt: give --iv-file or --iv"
                )
            params["iv"] = _read_iv(iv_path).hex()
        return Prepared(params)
    if direction is None and iv_path is not None:
        # In counter mode, the same IV decrypts.
        iv = str(params.get("iv")).lower()
        same = iv == _read_iv(iv_path).hex()
        if cipher != AES or not same:
            raise command_line.UsageError(
                f"{source} is encrypted, as there is {iv_path}: give "
                "--decrypt, or --encrypt to encrypt it once more"
            )
    if "iv" in params:
        return Prepared(params)
    new_iv = secrets.token_bytes(_IV_BYTES)
    params["iv"] = new_iv.hex()
    return Prepared(params, new_iv)


def _split(item: str, option: str) -> tuple[str, str]:
    name, separator, value = item.partition("=")
    if not name or not separator:
        # The message omits the text: it may be a mistyped key.
        raise command_line.UsageError(f"{option} needs NAME=VALUE")
    return name, value


def _read_key(path: str, for_aes: bool) -> bytes:
    data = _read(path)
    text = data.strip()
    key = data
    if text and len(text) % 2 == 0 and re.fullmatch(rb"[0-9A-Fa-f]+", text):
        key = bytes.fromhex(text.decode())
        if for_aes and len(key) not in _KEY_BYTES:
            key = data
    if for_aes and len(key) not in _KEY_BYTES:
        raise command_line.UsageError(
            f"{path}: not a key: 16, 24 or 32 bytes, or twice as many "
            "hexadecimal digits, are needed"
        )
    return key


def _read_iv(path: str) -> bytes:
    return _parse_iv(_read(path).decode(errors="replace"), path)


def _parse_iv(text: str, origin: str) -> bytes:
    try:
        iv = bytes.fromhex(text.strip())
    except ValueError:
        iv = b""
    if len(iv) != _IV_BYTES:
        raise command_line.UsageError(
            f"{origin}: 32 hexadecimal digits are needed"
        )
    return iv


def _read_text(path: str) -> str:
    """Read a text without the end of its last line."""
    try:
        text = _read(path).decode()
    except UnicodeDecodeError:
        raise command_line.UsageError(f"{path}: not a text") from None
    return text.removesuffix("\n").removesuffix("\r")


def _read(path: str) -> bytes:
    data = b""
    with files.Input(path) as stream:
        while len(data) <= _MAX_FILE_BYTES:
            piece = stream.read(_MAX_FILE_BYTES + 1 - len(data))
            if not piece:
                return data
            data += piece
    raise command_line.UsageError(
        f"{path}: longer than {_MAX_FILE_BYTES} bytes"
    )
