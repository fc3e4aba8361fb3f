"""What a criterion looks at: a path into the step, such as `action`, `task.answer`, `observation.tests[0].passed`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rubrics.engine.frames import of_this_run
from rubrics.score import StructureError, Unscored

ROOTS = ("action", "observation", "task")
_PART = re.compile(r"\.?([^\W\d][\w-]*)|\[(-?\d+)\]|\[(?:'([^']*)'|\"([^\"]*)\")\]")
_TEXTS = ("content", "text", "message", "output")  # where a message, an action or an answer keeps its text, in order
_NOTHING = object()


class Value:
    """A path into a step.

    Args:
        path: begins with `action`, `observation` or `task`; then attributes or keys by `.name` or `["name"]`, and
            places in lists by `[0]` or, from the end, `[-1]`.

    Raises:
        StructureError: it is no such path.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._root, self._parts = _parts(path)

    def __repr__(self) -> str:
        return f"Value({self.path!r})"

    def __call__(self, action: Any, observation: Any) -> Any:
        """The value at the path, of a step alone: what the `key` of a `rubrics.Switch` can be."""
        return self.read(action, observation)

    def read(self, action: Any, observation: Any, task: Any = None) -> Any:
        """The value at the path.

        Raises:
            Unscored: there is none; the reason names the part of the path that is missing.
        """
        value = action if self._root == "action" else observation if self._root == "observation" else task
        for number, part in enumerate(self._parts):
            value = _at(value, part)
            if value is _NOTHING:
                raise Unscored(f"there is no {_written(self._root, self._parts[: number + 1])}")
        return value

    def text(self, action: Any, observation: Any, task: Any = None) -> str:
        """The text of the value at the path; see `text_of`.

        Raises:
            Unscored: there is no such value, or no text in it.
        """
        value = self.read(action, observation, task)
        text = text_of(value)
        if text is None:
            raise Unscored(f"{self.path} is {_described(value)}, which has no text")
        return text

    def texts(self, actions: Sequence[Any], observations: Sequence[Any], tasks: Sequence[Any]) -> list[str | None]:
        """For a `forward_batch`: the text of each row, None where there is none; leaves with one path share it."""
        return of_this_run(("texts", self.path, id(actions)), lambda: self._texts(actions, observations, tasks))

    def _texts(self, actions: Sequence[Any], observations: Sequence[Any], tasks: Sequence[Any]) -> list[str | None]:
        if not self._parts:
            whole = actions if self._root == "action" else observations if self._root == "observation" else tasks
            return [value if value.__class__ is str else text_of(value) for value in whole]
        found: list[str | None] = []
        for step in zip(actions, observations, tasks, strict=True):
            try:
                found.append(self.text(*step))
            except Unscored:
                found.append(None)
        return found


def text_of(value: Any) -> str | None:
    """The text of a value; None where it has none.

    A text is itself, a number is as Python writes it, and a message is its `content` (a text, or the text parts of a
    list), `text`, `message` or `output`, whichever is there first, as key or attribute.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Sequence):
        if isinstance(value, bytes | bytearray) or not value:
            return None
        texts = [text_of(part) for part in value]
        return "\n".join(text for text in texts if text is not None) if any(t is not None for t in texts) else None
    for name in _TEXTS:
        found = _at(value, name)
        if found is not _NOTHING and not callable(found) and (text := text_of(found)) is not None:
            return text
    return None


def quoted(text: str, longest: int = 200) -> str:
    """A text as a reason may quote it: by `repr`, and cut."""
    return repr(text if len(text) <= longest else f"{text[: longest - 1]}…")


def _at(value: Any, part: str | int) -> Any:
    if isinstance(part, int):
        if isinstance(value, Sequence) and not isinstance(value, str | bytes) and -len(value) <= part < len(value):
            return value[part]
        return _NOTHING
    if isinstance(value, Mapping):
        return value.get(part, _NOTHING)
    return _NOTHING if part.startswith("_") else getattr(value, part, _NOTHING)


def _parts(path: str) -> tuple[str, tuple[str | int, ...]]:
    if not isinstance(path, str):
        raise StructureError(f"a path into the step is a text such as 'action', not {path!r}")
    root = next((name for name in ROOTS if path == name or path.startswith((f"{name}.", f"{name}["))), None)
    if root is None:
        raise StructureError(f"a path into the step begins with {', '.join(ROOTS)}; {path!r} does not")
    parts: list[str | int] = []
    at = len(root)
    while at < len(path):
        found = _PART.match(path, at)
        if found is None or (found[1] and path[at] != "."):
            raise StructureError(
                f"{path!r} is no path into the step: what is {path[at:]!r}? Write .name, ['name'] or [0]"
            )
        parts.append(int(found[2]) if found[2] else next(name for name in found.group(1, 3, 4) if name is not None))
        at = found.end()
    return root, tuple(parts)


def _written(root: str, parts: tuple[str | int, ...]) -> str:
    plain = re.compile(r"[^\W\d][\w-]*")
    return root + "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" if plain.fullmatch(part) else f"[{part!r}]"
        for part in parts
    )


def _described(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"an object with the keys {', '.join(map(str, list(value)[:8])) or '(none)'}"
    return "null" if value is None else f"of type {type(value).__name__}"
