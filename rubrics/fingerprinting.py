"""Fingerprints: two trees with one fingerprint give the same trajectory the same score.

A fingerprint covers what can change a score: the structure, the attributes of the nodes (weights, thresholds, prompts,
models) and the source of classes and functions that are not installed packages, with the constants and functions that
they name; of installed packages, the source of the classes of nodes. Comments, docstrings and formatting are no part of
it, nor are caches, clients, keys and budgets. It is the same on every machine and Python version; only for code whose
source cannot be read (typed into an interpreter) it depends on the version.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import json
import re
import site
import sys
import sysconfig
import textwrap
from collections.abc import Mapping, Set
from enum import Enum
from hashlib import sha256
from pathlib import Path, PurePath
from symtable import SymbolTable, symtable
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from rubrics.node import _INTERNAL, Node

if TYPE_CHECKING:
    from rubrics.rubric import Rubric

_OURS = ("rubrics", "judges")


def fingerprint(rubric: Rubric) -> str:
    """The fingerprint of a tree: 32 hexadecimal digits."""
    return fingerprints(rubric)[""]


def fingerprints(rubric: Rubric) -> dict[str, str]:
    """The fingerprints of a tree and of the trees below each of its nodes, by path; the root's is under `""`.

    Raises:
        StructureError: the tree is built wrongly.
    """
    rubric._compiled()  # what nodes work out of their attributes, they do then
    found: dict[str, str] = {}
    _Reader().node(rubric, "", found)
    return found


def fingerprint_of(value: object) -> str:
    """The fingerprint of anything else that gives scores, such as a group rubric."""
    return digest(_Reader().value(value))


def digest(content: Any) -> str:
    """32 hexadecimal digits for plain JSON data."""
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class _Reader:
    """Turns objects into plain data that says what they do."""

    def __init__(self) -> None:
        self.inside: set[int] = set()
        self.code: dict[Any, Any] = {}
        self.nodes: dict[int, str] = {}
        self.assigned: dict[str, dict[str, Any]] = {}

    def node(self, node: Any, path: str, found: dict[str, str]) -> str:
        """The fingerprint of a node, with those of the nodes below it noted in `found`."""
        children = node._rubric_children
        below = [
            [name, self.node(child, f"{path}.{name}" if path else name, found)] for name, child in children.items()
        ]
        if not (getattr(node, "stops", True) or getattr(node, "routes", True)):
            below.sort()  # all of them are asked, in any order
        own = {
            name: value
            for name, value in vars(node).items()
            if name not in _INTERNAL and name not in children and not _is_cache(type(node), name)
        }
        hooks = [*node._forward_pre_hooks.values(), *node._forward_hooks.values()]
        said = [self.kind(type(node)), {name: self.value(own[name]) for name in sorted(own)}, below]
        found[path] = self.nodes[id(node)] = digest(said + [self.value(hook) for hook in hooks])
        return found[path]

    def value(self, value: Any) -> Any:
        """Any object as plain data."""
        if value is None or isinstance(value, bool | int | str):
            return value.value if isinstance(value, Enum) else value
        if isinstance(value, float):
            return repr(float(value))
        if id(value) in self.nodes:
            return self.nodes[id(value)]
        if id(value) in self.inside:
            return "itself"
        self.inside.add(id(value))
        try:
            return self._composed(value)
        finally:
            self.inside.discard(id(value))

    def _composed(self, value: Any) -> Any:
        if isinstance(value, Node):
            return self.node(value, "", {})
        if isinstance(value, type):
            return self.kind(value)
        if isinstance(value, Enum):
            return [_name(type(value)), value.name]
        said = getattr(value, "fingerprint", None)
        if isinstance(said, str):
            return said
        if isinstance(value, Mapping):
            return ["mapping", sorted(([self.value(k), self.value(v)] for k, v in value.items()), key=_order)]
        if isinstance(value, Set):
            return ["set", sorted((self.value(item) for item in value), key=_order)]
        if isinstance(value, list | tuple):
            return ["list", *map(self.value, value)]
        if isinstance(value, bytes | bytearray):
            return ["bytes", bytes(value).hex()]
        if isinstance(value, re.Pattern):
            return ["pattern", value.pattern if isinstance(value.pattern, str) else value.pattern.hex(), value.flags]
        if isinstance(value, PurePath):
            return ["path", value.name]  # where it lies differs from machine to machine
        if hasattr(value, "dtype") and hasattr(value, "tobytes"):
            return self._array(value)
        if hasattr(value, "to_numpy") or (hasattr(value, "detach") and hasattr(value, "numpy")):
            return self._table(value)
        return self._behaviour(value)

    def _array(self, array: Any) -> Any:
        """A numpy array, or one number of one. The bytes of an array of objects are where they lie."""
        whole = array.tolist() if array.dtype.hasobject else None
        content = sha256(array.tobytes()).hexdigest() if whole is None else self.value(whole)
        return ["array", str(array.dtype), list(getattr(array, "shape", ())), content]

    def _table(self, value: Any) -> Any:
        """A data frame, a column of one, or a tensor: all that is in it, where its `repr` shows a part."""
        kind = _name(type(value))
        if not hasattr(value, "to_numpy"):
            return [kind, str(value.dtype), self._array(value.detach().cpu().numpy())]
        index: Any = getattr(value, "index", None)  # of pandas; of others it is a method, or not there
        rows = self._array(index.to_numpy()) if hasattr(index, "to_numpy") else None
        if not hasattr(value, "columns"):
            return [kind, str(getattr(value, "name", None)), rows, self._array(value.to_numpy())]
        columns = [[str(name), self._array(value[name].to_numpy())] for name in value.columns]
        return [kind, rows, columns]

    def _behaviour(self, value: Any) -> Any:
        if isinstance(value, functools.partial):
            return ["partial", self.value(value.func), self.value(value.args), self.value(value.keywords)]
        if isinstance(value, MethodType):
            return ["method", self.value(value.__func__), self.value(value.__self__)]
        if isinstance(value, FunctionType):
            return self.function(value)
        if isinstance(value, BuiltinFunctionType):
            return [value.__module__, value.__qualname__]
        if isinstance(value, ModuleType):
            return self.module(value)
        kind = type(value)
        if _installed(kind) and not _is_ours(kind) and not dataclasses.is_dataclass(value):
            text = repr(value)
            return [_name(kind), _name(kind) if " at 0x" in text or "object at" in text else text]
        return [self.kind(kind), {name: self.value(item) for name, item in sorted(_fields(value).items())}]

    # -- code ---------------------------------------------------------------------------------------------------------

    def kind(self, kind: type) -> Any:
        """A class: its name, and its source and that of its bases, but for installed ones; a node's counts always."""
        return self._read(kind, kind, lambda: [self._source(base) for base in kind.__mro__ if _counts(base)])

    def function(self, function: FunctionType) -> Any:
        """A function: its source, and what it has enclosed."""
        if _installed(function):
            return _name(function)
        cells = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
        held = [function.__defaults__, function.__kwdefaults__, cells]
        return [self._read(function.__code__, function, lambda: self._source(function)), self.value(held)]

    def module(self, module: ModuleType) -> Any:
        """A module: its name, and where it is no installed one its source."""
        if _installed(module):
            return module.__name__
        return self._read(module, module, lambda: _shape(ast.parse(inspect.getsource(module))))

    def _read(self, key: Any, what: Any, read: Any) -> Any:
        if key not in self.code:
            self.code[key] = _name(what)  # where code refers to itself
            self.code[key] = [_name(what), digest(read())]
        return self.code[key]

    def _source(self, what: Any) -> Any:
        """The source of a class or function, and the globals of its module that it names."""
        try:
            tree = _tree(what)
        except (OSError, TypeError, SyntaxError):  # typed into an interpreter, or made by exec
            return _bytecode(what)
        module = sys.modules.get(what.__module__)
        known = what.__globals__ if isinstance(what, FunctionType) else vars(module) if module is not None else {}
        names = _globals(symtable(ast.unparse(tree), "source", "exec"), top=True) - {what.__name__}
        return [_shape(tree), {name: self._named(name, known[name], module) for name in sorted(names) if name in known}]

    def _named(self, name: str, value: Any, module: ModuleType | None) -> Any:
        """A global that code names. One that can change, such as a cache, counts by what it was made of."""
        if isinstance(value, list | dict | set) and module is not None and not _installed(module):
            if module.__name__ not in self.assigned:
                self.assigned[module.__name__] = _assignments(module)
            return self.assigned[module.__name__].get(name) or self.value(value)
        return self.value(value)


def _tree(what: Any) -> ast.AST:
    if getattr(what, "__name__", "") != "<lambda>":
        return ast.parse(textwrap.dedent(inspect.getsource(what)))
    lines, _ = inspect.findsource(what)
    lambdas = [node for node in ast.walk(ast.parse("".join(lines))) if isinstance(node, ast.Lambda)]
    around = [node for node in lambdas if _holds(node, what.__code__)]
    if not around:
        raise OSError("the lambda is not where its code says")
    return max(around, key=lambda node: (node.lineno, node.col_offset))  # the innermost


def _holds(node: ast.Lambda, code: CodeType) -> bool:
    """Whether all that a lambda's code does stands within this expression."""
    start, end = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    places = [place for place in code.co_positions() if None not in place and place[3]]
    return all(start <= (a, c) and (b, d) <= end for a, b, c, d in places)


def _assignments(module: ModuleType) -> dict[str, Any]:
    """The statements of a module that give its globals their values, by name."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        return {}
    found: dict[str, Any] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(_shape(statement))
    return found


def _globals(table: SymbolTable, top: bool = False) -> set[str]:
    """The names that a piece of source refers to and does not bind itself."""
    names = {
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced() and (top or symbol.is_global())
    }
    return names.union(*map(_globals, table.get_children()))


def _shape(node: Any) -> Any:
    """Source as data: no comments, no docstrings, nothing that differs between versions of Python."""
    if isinstance(node, ast.Constant):
        return repr(node.value)
    if isinstance(node, ast.AST):
        fields = {name: value for name, value in ast.iter_fields(node) if name not in ("ctx", "kind", "type_comment")}
        body = fields.get("body")
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and body:
            fields["body"] = body[ast.get_docstring(node, clean=False) is not None :]
        return [type(node).__name__, {name: _shape(value) for name, value in fields.items() if value not in (None, [])}]
    if isinstance(node, list):
        return [_shape(item) for item in node]
    return node


def _bytecode(what: Any) -> Any:
    if isinstance(what, type):
        return [[name, _bytecode(part)] for name, part in sorted(vars(what).items()) if isinstance(part, FunctionType)]
    return _instructions(what.__code__)


def _instructions(code: CodeType) -> Any:
    constants = [_instructions(item) if isinstance(item, CodeType) else repr(item) for item in code.co_consts]
    return [code.co_code.hex(), code.co_names, constants]


def _name(what: Any) -> str:
    """How code is called; not by its module, where that is a file that was loaded from somewhere."""
    name = str(getattr(what, "__qualname__", getattr(what, "__name__", what))).replace("<locals>.", "")
    return f"{what.__module__}.{name}" if hasattr(what, "__module__") and _installed(what) else name


def _is_ours(what: Any) -> bool:
    return str(getattr(what, "__module__", "")).partition(".")[0] in _OURS


@functools.cache
def _folders() -> tuple[Path, ...]:
    named = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    named |= {*site.getsitepackages(), site.getusersitepackages()}
    return tuple(Path(folder).resolve() for folder in named if folder)


@functools.cache
def _module_installed(name: str, file: str | None) -> bool:
    if name.partition(".")[0] in _OURS or name == "builtins":
        return True
    if file is None:
        return name != "__main__"  # built in, or frozen
    path = Path(file).resolve()
    return any(folder in path.parents for folder in _folders())


def _installed(what: Any) -> bool:
    """Whether code belongs to this package, the standard library or another installed package: its name will do."""
    name = what.__name__ if isinstance(what, ModuleType) else str(getattr(what, "__module__", None))
    module = sys.modules.get(name)
    return module is not None and _module_installed(name, getattr(module, "__file__", None))


def _counts(base: type) -> bool:
    """Whether the source of a class is part of a fingerprint: a package of graders can be installed anew."""
    return not _installed(base) or (issubclass(base, Node) and not _is_ours(base))


def _fields(value: Any) -> dict[str, Any]:
    slots = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ()) if name != "__weakref__"]
    named = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    named |= getattr(value, "__dict__", {})
    named.pop("__pydantic_fields_set__", None)  # whether a value was given or is the default
    return {name: item for name, item in named.items() if not _is_cache(type(value), name)}


def _is_cache(kind: type, name: str) -> bool:
    return isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _order(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
