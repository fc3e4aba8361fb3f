"""Keys: they are sent, and appear nowhere else."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from judges.verdict import JudgeConfigError

_ENV_NAME = re.compile(r"(_KEY|_TOKEN|_SECRET|_PASSWORD)$")
_SHAPES = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|r8)[-_][A-Za-z0-9_\-*.]{8,}|\bAIza[A-Za-z0-9_-]{20,}|(?<=Bearer )[^\s\"',]+"
)
_LEAST = 6  # shorter values, such as "none", would blot out words


class Secret:
    """A text that no repr, format or traceback shows."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The text."""
        return self._value

    def __repr__(self) -> str:
        return "Secret('***')"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def hidden(self, text: str) -> str:
        """A text without this one."""
        return text.replace(self._value, "***") if len(self._value) >= _LEAST else text


def key_from(key: str) -> Secret:
    """A key as it can be sent; keys that were read from files often end in a newline.

    Raises:
        JudgeConfigError: it cannot be sent.
    """
    key = key.strip()
    if not key.isascii() or not key.isprintable():
        raise JudgeConfigError("the API key holds characters that cannot be sent")
    return Secret(key)


def masked(text: str, secrets: Iterable[Secret | None] = ()) -> str:
    """A provider's text without the keys that are known here and without what looks like one."""
    values = {secret.reveal() for secret in secrets if secret is not None}
    values.update(value for name, value in os.environ.items() if _ENV_NAME.search(name))
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _LEAST:
            text = text.replace(value, "***")
    return _SHAPES.sub("***", text)


def host_of(api_base: str, who: str) -> str:
    """The host of an address, which must hold no key.

    Raises:
        JudgeConfigError: it is no http address, or it holds a user or a password.
    """
    parts = urlsplit(api_base)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise JudgeConfigError(f"{who}: api_base is no http address: {masked(api_base)!r}")
    if parts.username or parts.password:
        raise JudgeConfigError(f"{who}: put the key into api_key, not into the address")
    return parts.hostname
