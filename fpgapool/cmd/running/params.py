# SPDX-License-Identifier: Apache-2.0

"""The accelerator's parameters, keys and IVs in ``fpgapool-run``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import secrets
from typing import Any

from fpgapool.client import typed
from fpgapool.client.transfers import files
from fpgapool.cmd.running import arguments as command_line

AES = "aes"
AES_CBC = "aes-cbc"
IV_SUFFIX = ".iv"

_CIPHERS = (AES, AES_CBC)
_KEY_BYTES = (16, 24, 32)
_IV_BYTES = 16
_MAX_FILE_BYTES = 64 * 1024
_KEY_FORM = "16, 24 or 32 bytes, or twice as many hexadecimal digits"


@dataclasses.dataclass(frozen=True)
class Prepared:
    """The parameters of a run.

    :ivar new_iv: the IV if it was generated here; it must be saved.
    """

    params: dict[str, Any]
    new_iv: bytes | None = None


class _Params(dict[str, Any]):
    def add(self, name: str, value: object) -> None:
        if name in self:
            raise command_line.UsageError(
                f"the parameter {name} is given twice"
            )
        self[name] = value


def prepare(arguments: argparse.Namespace, source: str) -> Prepared:
    """Collect the parameters.

    :param source: path of the input, or ``-``.
    :raises command_line.UsageError: if a value is invalid, missing, or given
        twice; or if the input is already encrypted and no direction was given.
    :raises OSError: if a file cannot be read.
    """
    params = given(arguments)
    cipher = arguments.accelerator.partition("@")[0]
    if is_cipher(cipher):
        return _with_iv(arguments.direction, params, cipher, source)
    return Prepared(params)


def is_cipher(accelerator: str) -> bool:
    """Return whether the options of ciphers apply to an accelerator."""
    return accelerator.partition("@")[0] in _CIPHERS


def given(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters that the command line names.

    :raises command_line.UsageError: if a value is invalid or given twice.
    :raises OSError: if a file cannot be read.
    """
    params = _Params()
    for item in arguments.param:
        name, text = _split(item, "--param")
        params.add(name, typed.Typed(text))
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
        params.add(name, _read_text(path, "--param-file"))
    cipher = arguments.accelerator.partition("@")[0]
    if arguments.key_file is not None:
        key = _read_key(arguments.key_file, cipher in _CIPHERS)
        params.add("key", key.hex())
    if arguments.iv is not None:
        params.add("iv", _parse_iv(arguments.iv, "--iv").hex())
    elif arguments.iv_file is not None:
        params.add("iv", _read_iv(arguments.iv_file, "--iv-file").hex())
    if arguments.direction is None:
        return params
    if cipher not in _CIPHERS:
        raise command_line.UsageError(
            f"--{arguments.direction} can only be used with"
            f" {' and '.join(_CIPHERS)}"
        )
    if cipher == AES_CBC:
        params.add("direction", arguments.direction)
    return params


def _with_iv(
    direction: str | None, params: dict[str, Any], cipher: str, source: str
) -> Prepared:
    if "key" not in params:
        raise command_line.UsageError(f"{cipher} requires --key-file")
    # The direction may also be given as a parameter.
    direction = params.get("direction", direction)
    iv_path = None
    if source != command_line.STANDARD and os.path.exists(source + IV_SUFFIX):
        iv_path = source + IV_SUFFIX
    if direction == "decrypt":
        if "iv" not in params:
            if iv_path is None:
                raise command_line.UsageError(
                    "the IV is required to decrypt: there is no "
                    f"{source}{IV_SUFFIX}, so use --iv-file or --iv"
                    if source != command_line.STANDARD
                    else "the IV is required to decrypt: use --iv-file or --iv"
                )
            params["iv"] = _read_iv(iv_path).hex()
        return Prepared(params)
    if direction is None and iv_path is not None:
        # In counter mode, encrypting again with the same IV decrypts.
        iv = str(params.get("iv")).lower()
        same = iv == _read_iv(iv_path).hex()
        if cipher != AES or not same:
            raise command_line.UsageError(
                f"{source} seems to be encrypted: {iv_path} exists; use"
                " --decrypt, or --encrypt to encrypt it again"
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
        raise command_line.UsageError(f"{option} requires NAME=VALUE")
    return name, value


def _read_key(path: str, for_aes: bool) -> bytes:
    form = f"; a key has {_KEY_FORM}" if for_aes else ""
    data = _read(path, "--key-file", form)
    text = data.strip()
    key = data
    if text and len(text) % 2 == 0 and re.fullmatch(rb"[0-9A-Fa-f]+", text):
        key = bytes.fromhex(text.decode())
        if for_aes and len(key) not in _KEY_BYTES:
            key = data
    if for_aes and len(key) not in _KEY_BYTES:
        raise command_line.UsageError(
            f"--key-file {path}: not a key: it must have {_KEY_FORM}"
        )
    return key


def _read_iv(path: str, option: str | None = None) -> bytes:
    """Read an IV, from a file that an option named or that was found."""
    origin = path if option is None else f"{option} {path}"
    return _parse_iv(_read(path, option).decode(errors="replace"), origin)


def _parse_iv(text: str, origin: str) -> bytes:
    try:
        iv = bytes.fromhex(text.strip())
    except ValueError:
        iv = b""
    if len(iv) != _IV_BYTES:
        raise command_line.UsageError(
            f"{origin}: must be 32 hexadecimal digits"
        )
    return iv


def _read_text(path: str, option: str) -> str:
    """Read a text file, without its final line break."""
    try:
        text = _read(path, option).decode()
    except UnicodeDecodeError:
        raise command_line.UsageError(
            f"{option} {path}: not valid UTF-8"
        ) from None
    return text.removesuffix("\n").removesuffix("\r")


def _read(path: str, option: str | None, form: str = "") -> bytes:
    """Read a short file.

    :param option: which named it, for the error.
    :param form: end of the error: what such a file has.
    """
    data = b""
    with files.Input(path) as stream:
        while len(data) <= _MAX_FILE_BYTES:
            piece = stream.read(_MAX_FILE_BYTES + 1 - len(data))
            if not piece:
                return data
            data += piece
    origin = path if option is None else f"{option} {path}"
    raise command_line.UsageError(
        f"{origin}: longer than {_MAX_FILE_BYTES} bytes{form}"
    )
