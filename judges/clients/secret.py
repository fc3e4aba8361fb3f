"""Keys: they are sent, and appear nowhere else."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

_ENV_NAME = re.compile(r"(_KEY|_TOKEN|_SECRET|_PASSWORD)$")
_SHAPES = re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf|r8|AIza)[-_][A-Za-z0-9_\-*.]{8,}|(?<=Bearer )[^\s\"',]+")
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


def masked(text: str, secrets: Iterable[Secret | None] = ()) -> str:
    """A provider's text without the keys that are known here and without what looks like one."""
    values = {secret.reveal() for secret in secrets if secret is not None}
    values.update(value for name, value in os.environ.items() if _ENV_NAME.search(name))
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _LEAST:
            text = text.replace(value, "***")
    return _SHAPES.sub("***", text)
