"""Credentials: the logins that ``docker login`` and the tools of the hub stored for this user, never printed."""

from __future__ import annotations

import base64
import binascii
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from precast.loader.contract.format.fields import read_json
from precast.loader.contract.values import Immutable
from precast.loader.errors import ConfigError, FetchError, FormatError

_LIMIT = 1 << 20
_SECONDS = 30  # a helper that prompts a person gets no answer here
_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DOCKER_HUB = "https://index.docker.io/v1/"
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")


class Login(Immutable):
    """A user and a password. Its text shows neither."""

    user: str
    password: str

    @property
    def header(self) -> str:
        """The value of an ``Authorization`` header."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

    def __repr__(self) -> str:
        return "Login(...)"


def registry_login(host: str) -> Login | None:
    """The login that ``docker login`` stored for a registry, in ``config.json`` or a credential helper; else None."""
    given = os.environ.get("DOCKER_CONFIG", "")
    path = Path(given or _home(".docker"), "config.json")
    try:
        with path.open("rb") as file:
            data = read_json(file.read(_LIMIT + 1), limit=_LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if not given and isinstance(error, PermissionError):
            return None  # the home of another user, as in many containers
        raise ConfigError(f"{path} cannot be read ({error.strerror}): correct it, or set DOCKER_CONFIG") from None
    except FormatError as error:
        raise ConfigError(f"{path}: {error}: correct it, or set DOCKER_CONFIG to another folder") from None
    names = (_DOCKER_HUB, "docker.io", "registry-1.docker.io") if host == "docker.io" else (host, f"https://{host}")
    helper = next(
        (_text(_table(data, "credHelpers"), name) for name in names if name in _table(data, "credHelpers")), ""
    )
    helper = helper or _text(data, "credsStore")
    if helper:
        login = next((login for name in names if (login := _from_helper(helper, name))), None)
        if login:
            return login
    for name in names:
        entry = _table(_table(data, "auths"), name)
        if entry:
            return _from_entry(entry, path, name)
    return None


def hub_token() -> str:
    """The token for the hub: ``HF_TOKEN``, else the file that ``hf auth login`` wrote; empty where there is none."""
    given = os.environ.get("HF_TOKEN", "").strip()
    if not given:
        home = os.environ.get("HF_HOME", "") or _home(".cache/huggingface")
        path = Path(os.environ.get("HF_TOKEN_PATH", "") or str(Path(home, "token")))
        try:
            with path.open("rb") as file:
                given = file.read(_LIMIT).decode("ascii", "replace").strip()
        except OSError:
            return ""
    if given and _TOKEN.fullmatch(given) is None:
        raise ConfigError("neither HF_TOKEN nor the token file of the hub holds a valid token: log in to the hub again")
    return given


def _from_entry(entry: Mapping[str, Any], path: Path, name: str) -> Login | None:
    if _text(entry, "identitytoken"):
        raise FetchError(
            f"{path} has an identity token for {name}, which is not supported: log in with a user and an access token"
        )
    text = _text(entry, "auth")
    if text:
        try:
            user, _, password = base64.b64decode(text, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise ConfigError(f"{path} has no readable login for {name}: log in again") from None
        return _login(user, password.rstrip("\0"))
    return _login(_text(entry, "username"), _text(entry, "password"))


def _from_helper(helper: str, name: str) -> Login | None:
    """The login of a credential helper: a program that reads a name from its standard input, and prints JSON."""
    if _HELPER.fullmatch(helper) is None:
        raise ConfigError(f"{helper[:80]!r} is not the name of a credential helper: correct docker's config.json")
    program = f"docker-credential-{helper}"
    try:
        done = subprocess.run([program, "get"], input=name.encode(), capture_output=True, timeout=_SECONDS, check=False)
    except FileNotFoundError:
        raise FetchError(
            f"{program} is not installed, but docker's config.json names it for logins: install it"
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FetchError(f"{program} returned no login ({type(error).__name__}): log in again") from None
    if done.returncode != 0:
        return None  # it has no login of that name
    try:
        reply = read_json(done.stdout, limit=_LIMIT)
    except FormatError:
        raise FetchError(f"{program} did not return a login: log in again") from None
    user = _text(reply, "Username")
    if user == "<token>":
        raise FetchError(f"{program} has an identity token for {name}, which is not supported: log in with a password")
    return _login(user, _text(reply, "Secret"))


def _login(user: str, password: str) -> Login | None:
    return Login(user, password) if user and password else None


def _home(name: str) -> str:
    """A folder in this user's home. A user id without a home, as in some containers, has none."""
    home = os.path.expanduser("~")
    return os.path.join(home, name) if os.path.isabs(home) else "/nonexistent"


def _table(data: Any, name: str) -> Mapping[str, Any]:
    value = data.get(name) if isinstance(data, dict) else None
    return value if isinstance(value, dict) else {}


def _text(data: Any, name: str) -> str:
    value = data.get(name) if isinstance(data, dict) else None
    return value if isinstance(value, str) else ""
