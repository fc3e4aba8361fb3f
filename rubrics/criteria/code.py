"""Criteria of Python code that is not run: does it parse, is it clean, what does it import."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar

from rubrics.criteria.base import TextCheck, clean, library
from rubrics.criteria.structure import fenced
from rubrics.score import Score, StructureError, Unscored


class CodeCheck(TextCheck):
    """A leaf that looks at Python code: the last fenced block of Python in a text, or all of it where there is none.

    Args:
        of, within: see `TextCheck`.
    """

    def code_in(self, text: str) -> str:
        """The code of a text."""
        blocks = fenced(text, "python") or fenced(text, "py") or fenced(text, "python3") or fenced(text)
        return clean(blocks[-1] if blocks else text)


def parsed(code: str) -> ast.Module | Score:
    """The syntax tree of code, or the score of code that has none."""
    try:
        return ast.parse(code)
    except SyntaxError as error:
        return Score(0.0, f"line {error.lineno}: {error.msg}"[:200])
    except (ValueError, RecursionError, MemoryError) as error:
        return Score(0.0, f"it cannot be parsed: {error or type(error).__name__}"[:200])


class ParsesPython(CodeCheck):
    """Whether code is Python.

    Args:
        compiles: whether it must compile as well, which finds `return` outside of a function and the like.
        of, within: see `TextCheck`; of a text with fenced code blocks the last one of Python counts.
    """

    def __init__(self, compiles: bool = True, of: str = "action", within: str | None = None) -> None:
        super().__init__(of, within)
        self.compiles = compiles

    def score_text(self, text: str) -> Score:
        tree = parsed(self.code_in(text))
        if isinstance(tree, Score):
            return tree
        if self.compiles:
            try:
                compile(tree, "<answer>", "exec", dont_inherit=True)
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                return Score(0.0, f"it does not compile: {error}"[:200])
        return Score(1.0)


class ImportsAllowed(CodeCheck):
    """Whether code imports only what is allowed.

    Args:
        allowed: names of packages and modules; a package allows what is in it. Relative imports are not allowed.
        forbidden: in its place, what may not be imported, such as `os` and `subprocess`.
        of, within: see `ParsesPython`.

    It reads import statements, and calls of `__import__` and `import_module` with a text; code can hide from it.
    """

    def __init__(
        self,
        allowed: Sequence[str] | None = None,
        forbidden: Sequence[str] | None = None,
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(of, within)
        if (allowed is None) == (forbidden is None) or isinstance(allowed, str) or isinstance(forbidden, str):
            raise StructureError("ImportsAllowed: give either allowed or forbidden, a list of names")
        self.allowed, self.forbidden = allowed, forbidden

    def score_text(self, text: str) -> Score:
        tree = parsed(self.code_in(text))
        if isinstance(tree, Score):
            return tree
        names = sorted(set(_imports(tree)))
        if self.allowed is not None:
            wrong = [name for name in names if not _listed(name, self.allowed)]
        else:
            wrong = [name for name in names if _listed(name, self.forbidden or ())]
        return Score(float(not wrong), f"it imports {', '.join(wrong)}"[:200] if wrong else None)


def _imports(tree: ast.Module) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names] if not node.level else ["."]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if called in ("__import__", "import_module") and isinstance(node.args[0].value, str):
                found.append(node.args[0].value)
    return found


def _listed(name: str, names: Sequence[str]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in names)


class RuffClean(CodeCheck):
    """How clean code is by ruff: 1 without findings, less by a tenth for each (`weight`), never below 0.

    Args:
        select: rules, such as `E`, `F`, `B`; by default those that find errors.
        weight: what each finding costs.
        line_length: for rules on it.
        of, within: see `ParsesPython`.

    No configuration of this machine is read, and nothing of the code runs. It starts a process: in async code, wrap the
    leaf in `rubrics.Threaded`. Source: ruff.
    """

    extra: ClassVar[str | None] = "code"

    def __init__(
        self,
        select: Sequence[str] = ("E4", "E7", "E9", "F"),
        weight: float = 0.1,
        line_length: int = 120,
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(of, within)
        if not select or isinstance(select, str) or not all(each.isalnum() for each in select):
            raise StructureError(f"RuffClean: select is a list of rules, such as ['E', 'F'], not {select!r}")
        if not 0.0 < weight <= 1.0:
            raise StructureError(f"RuffClean: weight is above 0 and at most 1, not {weight}")
        self.select, self.weight, self.line_length = list(select), weight, line_length

    def _require(self) -> None:
        if _ruff() is None:
            library("ruff", "code", self)

    def score_text(self, text: str) -> Score:
        command = [str(_ruff()), "check", "--isolated", "--no-cache", "--output-format", "json", "--select"]
        command += [",".join(self.select), "--line-length", str(self.line_length), "--stdin-filename", "answer.py", "-"]
        done = subprocess.run(
            command, input=self.code_in(text), capture_output=True, text=True, timeout=60, check=False, encoding="utf-8"
        )
        if done.returncode not in (0, 1):
            raise Unscored(f"ruff failed: {done.stderr.strip()[:160]}")
        found = json.loads(done.stdout)
        first = "" if not found else f"line {found[0]['location']['row']}: {found[0]['message']}"
        return Score(
            max(0.0, 1.0 - self.weight * len(found)), f"{len(found)} findings, {first}"[:200] if found else None
        )


@cache
def _ruff() -> str | None:
    beside = Path(sys.executable).with_name("ruff")
    return str(beside) if beside.exists() else shutil.which("ruff")
