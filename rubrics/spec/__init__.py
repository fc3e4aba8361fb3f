"""Trees as data: written to YAML or JSON, and read back to the same tree.

```yaml
kind: WeightedSum
weights: {format: 0.2, correct: 0.8}
rubrics:
  format: {kind: Regex, pattern: "^Answer: "}
  correct: {kind: NumericEqual, expected_from: task.answer}
```

A node is a mapping: its `kind`, and the arguments of its class by their names. A node that stands at several places has
an `$id` at the first and is `{$ref: …}` at the others. A class of one's own is `kind: module:Class` or
`kind: file.py:Class`; it is imported only where the reader allows the module, and its arguments are checked against its
annotations.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rubrics.files import replacing
from rubrics.fingerprinting import fingerprints
from rubrics.modules import file_of
from rubrics.rubric import Rubric
from rubrics.spec.building import Builder
from rubrics.spec.changes import SpecChange, spec_changes
from rubrics.spec.documents import SUFFIXES, Document, SpecError, as_json, as_yaml
from rubrics.spec.kinds import KindError, register
from rubrics.spec.schema import schema
from rubrics.spec.showing import Needs, described, mermaid, needs, svg
from rubrics.spec.writing import Writer


def load(path: str | Path, *, allow_import: Iterable[str] = ()) -> Rubric:
    """The tree that a YAML or JSON file describes.

    Nothing is imported that is not allowed: a file can name the kinds that are registered (those of this library, and
    classes given to `register`), and, as `module:Class`, classes of the modules that are allowed here.

    Args:
        path: of the file; paths in it are relative to its folder.
        allow_import: modules by their names, packages (with all their modules), or Python files by their paths.

    Raises:
        SpecError: the file cannot be read, or does not describe a tree; a line for each fault, as `file:line: path: …`.
    """
    path = Path(path)
    return Builder(Document.read(path), path.parent, allow_import).tree()


def loads(text: str, *, allow_import: Iterable[str] = (), folder: str | Path = ".", where: str = "the text") -> Rubric:
    """`load`, of the text of a YAML file (or of JSON, which is YAML, too).

    Args:
        folder: what paths in it are relative to.
        where: how the text is called in messages.

    Raises:
        SpecError: as for `load`.
    """
    return Builder(Document(text, where), Path(folder), allow_import).tree()


def dump(tree: Rubric, path: str | Path) -> None:
    """Write a tree to a file, as YAML or, where the path ends in `.json`, as JSON; `load` gives an equal tree.

    What is written is read back before the file is touched. Keys, clients, stores that are objects and hooks are not
    part of a file.

    Raises:
        SpecError: a node keeps an argument that cannot be written, or would be read back as another; with its path.
        OSError: the file cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise SpecError(f"{path}: a tree is written to a file that ends in {', '.join(SUFFIXES)}")
    data = data_of(tree, path.parent)
    with replacing(path) as part:
        part.write_text(as_json(data) if path.suffix.lower() == ".json" else as_yaml(data), encoding="utf-8")


def dumps(tree: Rubric) -> str:
    """A tree as the text of a YAML file; see `dump`."""
    return as_yaml(data_of(tree))


def data_of(tree: Rubric, folder: str | Path = ".") -> dict[str, Any]:
    """A tree as plain JSON data, which is known to give an equal tree.

    Args:
        folder: what names of Python files are relative to.

    Raises:
        SpecError: as for `dump`.
    """
    folder = Path(folder)
    data = Writer(tree, folder).data()
    text = as_json(data)
    files = [str(path) for name in list(sys.modules) if (path := file_of(name)) is not None]
    again = Builder(Document(text, "what was written", is_json=True), folder, [*sys.modules, *files]).tree()
    before, after = fingerprints(tree), fingerprints(again)
    if before != after:
        changed = [path for path in before if before[path] != after.get(path)]
        deepest = max(changed, key=lambda path: (bool(path), path.count(".")))
        raise SpecError(
            f"{deepest or 'the root'}: read back, this node would be another. It has changed since it was made, or its "
            "class does more with its arguments than to keep them: give the class a method spec_arguments() that "
            "returns the arguments of an equal object"
        )
    return data


__all__ = [
    "KindError",
    "Needs",
    "SpecChange",
    "SpecError",
    "data_of",
    "described",
    "dump",
    "dumps",
    "load",
    "loads",
    "mermaid",
    "needs",
    "register",
    "schema",
    "spec_changes",
    "svg",
]
