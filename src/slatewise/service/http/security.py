"""Who may do what: tokens with roles, from the environment or a file."""

import hashlib
import hmac
import ipaddress
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from pathlib import Path

from slatewise.errors import InputError, SlatewiseError

VARIABLE = "SLATEWISE_TOKENS"
SHORTEST = 16
"""characters of a token; `openssl rand -hex 16` has 32"""
_FORM = "Write role:token, with the role read, write or admin."


class Role(IntEnum):
    """What a token allows; each role may do what the ones before it may."""

    READ = 1
    WRITE = 2
    ADMIN = 3


@dataclass(frozen=True)
class Tokens:
    """Known tokens by their digests: the tokens themselves are not kept."""

    roles: tuple[Role, ...]
    digests: tuple[bytes, ...]

    @property
    def name(self) -> str:
        """A name of these tokens in this order, which other ones do not have."""
        return hashlib.sha256(b"".join(self.digests)).hexdigest()[:16]

    def find(self, token: bytes) -> int | None:
        """Return the number of a token; takes as long for a wrong one as for a right one."""
        digest, found = hashlib.sha256(token).digest(), None
        for number, known in enumerate(self.digests):
            if hmac.compare_digest(known, digest):
                found = number
        return found


def read_tokens(file: Path | None, environment: Mapping[str, str] = os.environ) -> Tokens | None:
    """Read tokens from `file`, one a line, or from SLATEWISE_TOKENS, with commas; None without."""
    if file is not None:
        return _parsed(_private_text(file).splitlines(), str(file))
    text = environment.get(VARIABLE, "")
    return _parsed(text.split(","), VARIABLE) if text.strip() else None


def check_open(host: str) -> None:
    """Refuse to serve without tokens where other machines could reach it."""
    if not is_loopback(host):
        raise SlatewiseError(
            f"--open accepts requests from every machine that reaches {host}.",
            "Listen on 127.0.0.1 only, or give tokens and leave --open out.",
        )


@lru_cache(64)
def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches `host`."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _private_text(file: Path) -> str:
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
        if mode & 0o077:
            raise InputError(
                f"may be read by others (mode {mode:o}).", f"chmod 600 {file}", file=file
            )
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("cannot be read as text.", "Check the path.", file=file) from error


def _parsed(lines: list[str], where: str) -> Tokens:
    """Read `role:token` lines; no problem ever shows a token."""
    roles, digests = [], []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, colon, token = text.partition(":")
        token_name = f"{where}, token {number}"
        if not colon or name.strip().upper() not in Role.__members__:
            raise SlatewiseError(f"{token_name} has no role.", _FORM)
        token = token.strip()
        if len(token) < SHORTEST or not token.isascii() or " " in token:
            raise SlatewiseError(
                f"{token_name} is too easy to guess, or not plain text.",
                f"Take at least {SHORTEST} letters and digits, for instance openssl rand -hex 16.",
            )
        roles.append(Role[name.strip().upper()])
        digests.append(hashlib.sha256(token.encode()).digest())
    if not roles:
        raise SlatewiseError(f"{where} has no token.", _FORM)
    if len(set(digests)) < len(digests):
        raise SlatewiseError(f"{where} has the same token twice.", "Give every client its own.")
    return Tokens(tuple(roles), tuple(digests))
