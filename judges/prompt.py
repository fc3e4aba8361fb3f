"""Prompts: sandboxed Jinja2 templates whose untrusted values stand in fences that they cannot close.

A template is written by whoever builds the judge; the values come from the run that is judged, and may say anything. So
templates run in an immutable sandbox, values are substituted once and never rendered again, and each untrusted value
(`{{ answer | untrusted }}`) stands in a fence (see `judges.fence`).
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judges.fence import RENDERING, Rendered, Rendering, environment, plain_value
from judges.scale import Scale, scale_from
from judges.verdict import JudgeConfigError, PromptError

if TYPE_CHECKING:
    import jinja2


class PromptWarning(UserWarning):
    """A template prints a value without saying whether it can be trusted."""


class Prompt:
    """A judge's prompt: a Jinja2 template, and what belongs to it.

    Args:
        template: the text. `{{ answer | untrusted }}` puts a value into a fence; `{{ level | trusted }}` prints one
            that the author vouches for; any other printed value warns.
        system: what the system message begins with, before the rules about untrusted text and the form of the reply.
        name, version: for people, and for the store.
        scale, model, sampling: used by a judge that is not given its own.
        examples: graded examples, shown to the model as earlier turns: `{"inputs": {…}, "score": 4, "reason": "…"}`.
        variables: the names the template may use; None for any.
        where, line: where it was read and the line it begins on, for messages.

    Attributes:
        unfenced: the lines on which a value is printed without saying whether it can be trusted.

    Raises:
        PromptError: the template has a syntax error, or uses a name that is not in `variables`.
    """

    def __init__(
        self,
        template: str,
        *,
        system: str | None = None,
        name: str | None = None,
        version: str | None = None,
        scale: Scale | None = None,
        model: str | None = None,
        sampling: Mapping[str, Any] | None = None,
        examples: Sequence[Mapping[str, Any]] = (),
        variables: Iterable[str] | None = None,
        where: str | None = None,
        line: int = 1,
    ) -> None:
        if not isinstance(template, str):
            raise PromptError(f"a prompt is a template, a text, not {template!r}; read a file with Prompt.load(path)")
        self.template = template
        self.system, self.name, self.version = system, name, version
        self.scale, self.model = scale, model
        self.sampling = dict(sampling or {})
        self.examples = tuple(_example(example, i, self._who(where)) for i, example in enumerate(examples))
        self.where, self.line = where, line
        self._compile()
        if variables is not None:
            self.require(variables)

    def _who(self, where: str | None) -> str:
        return where or (f"prompt {self.name!r}" if self.name else "the prompt")

    def __repr__(self) -> str:
        line = " ".join(self.template.split())
        return f"Prompt({self.name or (line if len(line) <= 40 else f'{line[:37]}...')!r})"

    @classmethod
    def load(cls, path: str | Path) -> Prompt:
        """Read a prompt file: YAML front matter between two lines `---`, then the template.

        Raises:
            PromptError: it cannot be read, with file and line.
        """
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PromptError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, where: str = "the prompt") -> Prompt:
        """A prompt out of the text of a prompt file."""
        text = text.removeprefix("\ufeff")
        if not re.match(r"---[ \t]*(?:\r?\n|\Z)", text):
            return cls(text, where=where)
        match = re.match(r"---[ \t]*\r?\n(.*?\r?\n)??---[ \t]*(?:\r?\n|\Z)", text, re.DOTALL)
        if match is None:
            raise PromptError(f"{where}, line 1: the front matter has no end; a line `---` closes it")
        fields = _front_matter(match.group(1) or "", where)
        return cls(text[match.end() :], where=where, line=1 + match.group().count("\n"), **fields)

    # -- the template -------------------------------------------------------------------------------------------------

    def _compile(self) -> None:
        import jinja2
        from jinja2 import meta

        sandbox = environment()
        who = self._who(self.where)
        try:
            tree = sandbox.parse(self.template)
            self.variables = frozenset(meta.find_undeclared_variables(tree))
            self._check(tree, who)
            code = sandbox.compile(tree, name="prompt", filename=f"<{who}>")
        except jinja2.TemplateSyntaxError as error:
            raise PromptError(f"{who}, line {self._line(error.lineno)}: {error.message}") from None
        except jinja2.TemplateError as error:
            raise PromptError(f"{who}: {error}") from None
        self._template = jinja2.Template.from_code(sandbox, code, dict(sandbox.globals))

    def _check(self, tree: jinja2.nodes.Template, who: str) -> None:
        from jinja2 import nodes

        for other in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
            raise PromptError(f"{who}, line {self._line(other.lineno)}: a prompt cannot take in other templates")
        for node in tree.find_all(nodes.Filter):
            inner = node.node
            if isinstance(inner, nodes.Filter) and inner.name == "untrusted":
                raise PromptError(
                    f"{who}, line {self._line(node.lineno)}: `untrusted` must be the last filter of an expression"
                )
        self.unfenced = tuple(map(self._line, _Printed(tree).lines))
        for line in self.unfenced:
            warnings.warn(
                f"{who}, line {line}: a value is printed without a filter; write `| untrusted` where it "
                "comes from what is judged, or `| trusted` where you vouch for it",
                PromptWarning,
                stacklevel=_level_of_caller(),
            )
        filters = [node.name for node in tree.find_all(nodes.Filter)]
        mapped = [node.value for node in tree.find_all(nodes.Const)]  # as in map("untrusted")
        self.fences = "untrusted" in [*filters, *mapped]

    def _line(self, line: int) -> int:
        return line + self.line - 1

    def require(self, variables: Iterable[str]) -> None:
        """Refuse a template that uses other names than these.

        Raises:
            PromptError: it uses another.
        """
        known = sorted(variables)
        if unknown := sorted(self.variables.difference(known)):
            raise PromptError(
                f"{self._who(self.where)} uses {', '.join(map(repr, unknown))}, which it is not given; it is given "
                f"{', '.join(known)}"
            )

    def render(self, values: Mapping[str, Any]) -> Rendered:
        """The template with values.

        Raises:
            PromptError: a variable is missing, a value is no text, the sandbox refused an access, …
        """
        rendering = Rendering()
        token = RENDERING.set(rendering)
        try:
            text = self._template.render(values)
        except PromptError:
            raise
        except Exception as error:  # whatever a template does wrong is the template's fault
            problem = f"{self._who(self.where)} cannot be rendered: {type(error).__name__}: {error}"
        else:
            return rendering.close(text, self.template)
        finally:
            RENDERING.reset(token)
        raise PromptError(problem)

    @cached_property
    def hash(self) -> str:
        """SHA-256 over template, system text and examples, in hex."""
        content = json.dumps(
            plain_value([self.template, self.system, self.examples]), ensure_ascii=False, sort_keys=True
        )
        return sha256(content.encode("utf-8", "replace")).hexdigest()

    @property
    def fingerprint(self) -> str:
        """What decides a judge's words; the prompt's own model and sampling are the judge's to take or leave."""
        return self.hash

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_template"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PromptWarning)
            self._compile()


def _level_of_caller() -> int:
    """The `stacklevel` at which a warning names the code that called into the library."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("judges.", "rubrics.")):
        level, frame = level + 1, frame.f_back
    return level


class _Printed:
    """Finds the lines on which a template prints a value without saying whether it can be trusted."""

    def __init__(self, tree: jinja2.nodes.Template) -> None:
        from jinja2 import nodes

        self.nodes = nodes
        self.said = {"loop", "caller", *(macro.name for macro in tree.find_all(nodes.Macro))}
        doubtful: set[str] = set()
        assign: Any
        for assign in tree.find_all((nodes.Assign, nodes.AssignBlock)):
            if isinstance(assign.target, nodes.Name):  # what is printed into a block is looked at there
                safe = isinstance(assign, nodes.AssignBlock) or self.safe(assign.node)
                (self.said if safe else doubtful).add(assign.target.name)
        self.said -= doubtful
        said: set[nodes.Output] = set()
        block: Any
        for block in tree.find_all((nodes.AssignBlock, nodes.FilterBlock)):
            if block.filter is not None and block.filter.name in ("untrusted", "trusted"):
                said.update(block.find_all(nodes.Output))
        printed = (part for output in tree.find_all(nodes.Output) if output not in said for part in output.nodes)
        self.lines = sorted({part.lineno for part in printed if not self.safe(part)})

    def safe(self, node: Any) -> bool:
        nodes = self.nodes
        if isinstance(node, (nodes.TemplateData, nodes.Const)):
            return True
        if isinstance(node, nodes.Filter):
            return node.name in ("untrusted", "trusted", "length", "count") or (
                self.safe(node.node) and all(map(self.safe, node.args))
            )
        if isinstance(node, nodes.CondExpr):
            return self.safe(node.expr1) and (node.expr2 is None or self.safe(node.expr2))
        if isinstance(node, nodes.Name):
            return node.name in self.said
        if isinstance(node, nodes.Call) and not isinstance(node.node, nodes.Name):  # a method; a macro is looked into
            return self.safe(node.node) and all(map(self.safe, node.args))
        if isinstance(node, (nodes.Getattr, nodes.Getitem, nodes.Call)):
            return self.safe(node.node)
        if isinstance(node, nodes.Concat):
            return all(map(self.safe, node.nodes))
        if isinstance(node, nodes.BinExpr):
            return self.safe(node.left) and self.safe(node.right)
        return False


_FIELDS = {
    "name": str,
    "version": str,
    "description": str,
    "system": str,
    "scale": (str, dict),
    "model": str,
    "sampling": dict,
    "examples": list,
    "variables": list,
}


def _front_matter(text: str, where: str) -> dict[str, Any]:
    import yaml

    try:
        data = yaml.safe_load(text)
        root: Any = yaml.compose(text, yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: the 32nd of a month
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 2}"
        raise PromptError(f"{where}{line}: the front matter is no YAML: {getattr(error, 'problem', error)}") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise PromptError(f"{where}, line 2: the front matter is a mapping of fields, not {type(data).__name__}")
    for name, node in root.value:
        key, at = name.value, name.start_mark.line + 2
        if key not in _FIELDS:
            raise PromptError(f"{where}, line {at}: unknown field {key!r}; the fields are {', '.join(_FIELDS)}")
        if sum(other.value == key for other, _ in root.value) > 1:
            raise PromptError(f"{where}, line {at}: the field {key!r} stands there more than once")
        value = data[key]
        if key == "version" and value is not None and isinstance(node, yaml.ScalarNode):
            value = data[key] = node.value  # as it is written: 1.10 is not 1.1
        named = key != "variables" or all(isinstance(each, str) for each in value or ())
        if not isinstance(value, _FIELDS[key]) or not named:  # type: ignore[arg-type]
            raise PromptError(f"{where}, line {at}: {key} cannot be {value!r}")
        if key == "scale":
            try:
                data[key] = scale_from(value)
            except JudgeConfigError as error:
                raise PromptError(f"{where}, line {at}: {error}") from None
    data.pop("description", None)
    return data


def _example(example: Mapping[str, Any], index: int, who: str) -> dict[str, Any]:
    if not isinstance(example, Mapping) or not isinstance(example.get("inputs"), Mapping) or "score" not in example:
        raise PromptError(f"{who}: example {index} must have inputs (a mapping) and a score, and may have a reason")
    if unknown := sorted(map(str, set(example) - {"inputs", "score", "reason"})):
        raise PromptError(f"{who}: example {index} has unknown fields: {', '.join(unknown)}")
    return dict(example)
