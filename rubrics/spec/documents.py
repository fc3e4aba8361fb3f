"""Files of rubrics as data, and the line on which each part of them stands."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.reader import ReaderError

from rubrics.score import RubricError

SUFFIXES = (".yaml", ".yml", ".json")
Key = str | int
_MOST = 1_000_000  # values of a file, aliases written out
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},]')
_NOT_YAML = re.compile("[^\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class SpecError(RubricError, ValueError):
    """A file does not describe a tree, or a tree cannot be written to one; the message has a line for each fault."""


class Document:
    """The data of a file.

    Args:
        text: YAML (1.2 as to booleans and numbers), or JSON.
        where: how the file is called in messages.
        is_json: whether it is JSON.

    Raises:
        SpecError: it is neither, or a key stands twice in one mapping.
    """

    def __init__(self, text: str, where: str, is_json: bool = False) -> None:
        self.where = where
        text = text.removeprefix("\ufeff")
        loader = _JSONLoader if is_json else _Loader
        try:
            # Lines of JSON are found as those of YAML, which lacks some characters and breaks lines at others.
            self.root: Any = yaml.compose(_NOT_YAML.sub("?", text.replace("\t", " ")) if is_json else text, loader)
            if self.root is None:
                raise SpecError(f"{where}: the file is empty; it holds a node, such as {{kind: WeightedSum, …}}")
            self._refuse_doubled(self.root)
            self._refuse_multiplied(self.root)
            data = loader("").construct_document(self.root)
            self.data: Any = json.loads(text) if is_json else data
        except json.JSONDecodeError as error:
            raise SpecError(f"{where}:{error.lineno}: it is no JSON: {error.msg}") from None
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            if isinstance(error, SpecError):
                raise
            mark = getattr(error, "problem_mark", None)
            line = "" if mark is None else f":{mark.line + 1}"
            problem = getattr(error, "problem", None) or str(error) or type(error).__name__
            if isinstance(error, ReaderError):
                line = f":{1 + text.count(chr(10), 0, error.position)}"
                problem = f"a file holds no character {chr(error.character)!r}; in quotes write it as an escape"
            raise SpecError(f"{where}{line}: it is no {'JSON' if is_json else 'YAML'}: {problem}") from None

    @classmethod
    def read(cls, path: Path) -> Document:
        """The document of a file.

        Raises:
            SpecError: it cannot be read, or is no YAML or JSON.
        """
        if path.suffix.lower() not in SUFFIXES:
            raise SpecError(f"{path}: a tree is kept in a file that ends in {', '.join(SUFFIXES)}")
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
        return cls(text, str(path), path.suffix.lower() == ".json")

    def found(self, place: Sequence[Key]) -> tuple[Key, ...]:
        """The keys and indexes of a place that are there; others, such as pydantic's names of unions, are left out."""
        return tuple(key for key, _ in self._walk(place))

    def line(self, place: Sequence[Key]) -> int:
        """The line, counted from 1, on which the innermost part of a place that is there stands."""
        steps = self._walk(place)
        return int((steps[-1][1] if steps else self.root).start_mark.line) + 1

    def _walk(self, place: Sequence[Key]) -> list[tuple[Key, Any]]:
        node, steps = self.root, []
        for key in place:
            below = None
            if isinstance(node, yaml.MappingNode):
                below = next(((name, value) for name, value in node.value if name.value == str(key)), None)
            elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
                below = (node.value[key], node.value[key])
            if below is not None:
                marked, node = below
                steps.append((key, marked))
        return steps

    def _refuse_doubled(self, node: Any) -> None:
        seen = set()
        todo = [node]
        while todo:
            node = todo.pop()
            if id(node) in seen or isinstance(node, yaml.ScalarNode):
                continue
            seen.add(id(node))
            if isinstance(node, yaml.SequenceNode):
                todo += node.value
                continue
            keys: set[str] = set()
            for key, value in node.value:
                line = key.start_mark.line + 1
                if not isinstance(key, yaml.ScalarNode):
                    raise SpecError(f"{self.where}:{line}: a key is a text")
                if key.value == "<<" and not key.style:
                    problem = "'<<', which merges mappings, is no part of YAML 1.2: write the arguments out"
                    raise SpecError(f"{self.where}:{line}: {problem}")
                if key.value in keys:
                    raise SpecError(f"{self.where}:{line}: the key {key.value!r} stands there twice")
                keys.add(key.value)
                key.tag = "tag:yaml.org,2002:str"  # a child may be called no, or 1
                todo.append(value)

    def _refuse_multiplied(self, root: Any) -> None:
        """Aliases that stand for what holds them, or, one in another, for more values than anybody wrote."""
        sizes: dict[int, int] = {}  # 0 while what is in it is counted
        todo = [root]
        while todo:
            node = todo[-1]
            if isinstance(node, yaml.ScalarNode) or sizes.get(id(node)):
                todo.pop()
                continue
            pairs = node.value if isinstance(node, yaml.MappingNode) else [(node, each) for each in node.value]
            below = [value for _, value in pairs if not isinstance(value, yaml.ScalarNode)]
            waiting = [value for value in below if id(value) not in sizes]
            line = node.start_mark.line + 1
            if waiting and id(node) not in sizes:
                sizes[id(node)] = 0
                todo += waiting
                continue
            if any(not sizes.get(id(value)) for value in below):
                raise SpecError(f"{self.where}:{line}: an alias stands for something that it is a part of")
            sizes[id(node)] = 1 + len(pairs) + sum(sizes[id(value)] for value in below)
            if sizes[id(node)] > _MOST:
                raise SpecError(f"{self.where}:{line}: its aliases stand for more than {_MOST:,} values")
            todo.pop()


class _Loader(yaml.SafeLoader):
    """YAML that holds what JSON does, its plain scalars read as YAML 1.2 does: `no` and `12:30` are texts, `1e-3` is a
    number, `010` is ten."""


def _scalar(read: Callable[[str], Any], what: str) -> Callable[[_Loader, Any], Any]:
    def construct(loader: _Loader, node: Any) -> Any:
        text = loader.construct_scalar(node)
        try:
            return read(text)
        except ValueError:
            raise ConstructorError(None, None, f"{text!r:.80} is no {what}", node.start_mark) from None

    return construct


def _boolean(text: str) -> bool:
    return ("false", "true").index(text.lower()) == 1


def _whole(text: str) -> int:
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


_Loader.yaml_implicit_resolvers = {}
_Loader.yaml_constructors = {
    f"tag:yaml.org,2002:{tag}": yaml.SafeLoader.yaml_constructors[f"tag:yaml.org,2002:{tag}"]
    for tag in ("str", "seq", "map")
} | {None: yaml.SafeLoader.yaml_constructors[None]}
for _tag, _pattern, _first, _read, _what in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF", _boolean, "boolean"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""], lambda text: None, "null"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789", _whole, "whole number that can be read"),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?",
        "-+.0123456789",
        _finite,
        "finite number",
    ),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), list(_first))
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _scalar(_read, _what))


class _JSONLoader(_Loader):
    """JSON with the numbers that only Python writes there: they are refused with their line."""


_JSONLoader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^(?:NaN|-?Infinity)$"), list("NI-"))


class _Dumper(yaml.SafeDumper):
    """YAML for people: keys in their order, long texts as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.yaml_implicit_resolvers = {  # what either version of YAML takes for something else than a text is quoted
    first: [*older, *_Loader.yaml_implicit_resolvers.get(first, [])]
    for first, older in yaml.SafeDumper.yaml_implicit_resolvers.items()
}


def _text(dumper: yaml.SafeDumper, text: str) -> Any:
    if _NOT_YAML.search(text.replace("\t", " ")) or "\r" in text:
        style = '"'  # other styles would break lines there
    else:
        style = "|" if "\n" in text and not re.search(r"[ \t]$|\t|\A\s", text, re.MULTILINE) else ""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style or None)


def _list(dumper: yaml.SafeDumper, items: list[Any]) -> Any:
    short = all(isinstance(item, int | float | str | None) for item in items) and len(str(items)) < 80
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=short)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)


def line_in_json(text: str, place: Sequence[Key]) -> int:
    """The line, counted from 1, on which the innermost part of a place that is there stands in a text that is JSON.

    It reads no further than that: composing a large file as YAML takes seconds.
    """
    at: list[Key | None] = []  # the key or number of what is read, in each object and list around it
    found, start = 0, 0
    for token in _JSON_TOKEN.finditer(text):
        mark = token[0]
        begin = token.start()
        if mark in "}]":
            if len(at) == found:  # what was found has no such part
                break
            at.pop()
            continue
        if mark == "{":
            at.append(None)
        elif mark == "[":
            at.append(0)
            begin = token.end()
        elif mark == ",":
            last = at[-1]
            at[-1] = last + 1 if isinstance(last, int) else None
            begin = token.end()
        elif at and at[-1] is None:
            at[-1] = json.loads(mark)
        else:
            continue
        if len(at) == found + 1 <= len(place) and at[-1] == place[found] and at[:-1] == list(place[:found]):
            found, start = found + 1, begin
            if found == len(place):
                break
    blank = len(text) - len(text[start:].lstrip())
    return text.count("\n", 0, blank) + 1


def as_yaml(data: Any) -> str:
    """Data as YAML."""
    return str(
        yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=False)
    )


def as_json(data: Any) -> str:
    """Data as JSON."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
