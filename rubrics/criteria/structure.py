"""Criteria of form: JSON and its schema, a value at a path, XML, YAML, SQL, the parts of a Markdown document."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

from rubrics.criteria.base import TextCheck, clean, library
from rubrics.criteria.values import quoted
from rubrics.score import Score, StructureError

_LONGEST = 5_000_000  # characters that are parsed; a longer text is no answer
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([\w+.-]*)")


def fenced(text: str, language: str | None = None) -> list[str]:
    """What stands in the fenced code blocks of a text; of one language, where one is named."""
    found: list[str] = []
    fence, name, begun = "", "", list[str]()
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if not fence:
            if mark is not None:
                fence, name, begun = mark[1], mark[2].casefold(), []
        elif mark is not None and mark[1].startswith(fence) and line.strip() == mark[1]:
            if language is None or name == language.casefold():
                found.append("".join(begun))
            fence = ""
        else:
            begun.append(line)
    return found


class _Parsed(TextCheck):
    """A leaf that parses a text.

    Args:
        fence: whether the text may be, or must be, a fenced code block: with `allow` the last block counts where there
            is one, with `require` there must be one, with `no` the text is taken as it is.
        of, within: see `TextCheck`.
    """

    language: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, fence: Literal["allow", "require", "no"] = "no", of: str = "action", within: str | None = None
    ) -> None:
        super().__init__(of, within)
        if fence not in ("allow", "require", "no"):
            raise StructureError(f"{type(self).__name__}: fence is 'allow', 'require' or 'no', not {fence!r}")
        self.fence: Literal["allow", "require", "no"] = fence

    def parse(self, text: str) -> Any:
        """What a text says.

        Raises:
            ValueError: it is none of its kind; the message says where.
        """
        raise NotImplementedError

    def look(self, parsed: Any) -> float | Score:
        """The score of what was parsed."""
        return 1.0

    def score_text(self, text: str) -> float | Score:
        if self.fence != "no":
            blocks = [block for name in self.language or (None,) for block in fenced(text, name)] or fenced(text)
            if not blocks and self.fence == "require":
                return Score(0.0, "there is no fenced code block")
            text = blocks[-1] if blocks else text
        if len(text) > _LONGEST:
            return Score(0.0, f"it has {len(text):,} characters, which is too long")
        try:
            parsed = self.parse(clean(text))
        except RecursionError:
            return Score(0.0, "it is nested too deep")
        except ValueError as error:
            return Score(0.0, str(error)[:200])
        return self.look(parsed)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} stands there twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


class ParsesJson(_Parsed):
    """Whether a text is JSON: one value, no NaN, no key twice.

    Args:
        fence, of, within: `fence="allow"` takes the last fenced code block where there is one; see `TextCheck`.
    """

    language = ("json",)

    def parse(self, text: str) -> Any:
        try:
            return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
        except json.JSONDecodeError as error:
            raise ValueError(f"it is no JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None


class MatchesSchema(ParsesJson):
    """Whether a text is JSON that a schema takes.

    Args:
        schema: JSON Schema (2020-12, or what its `$schema` says). References to other documents are refused.
        fence, of, within: see `ParsesJson`.

    Source: jsonschema.
    """

    extra: ClassVar[str | None] = "structure"

    def __init__(
        self,
        schema: dict[str, Any],
        fence: Literal["allow", "require", "no"] = "no",
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(fence, of, within)
        self.schema = schema
        self._validator  # noqa: B018

    def _require(self) -> None:
        library("jsonschema", "structure", self)

    @cached_property
    def _validator(self) -> Any:
        return validator_of(self.schema, self)

    def look(self, parsed: Any) -> Score:
        problem = problem_with(parsed, self._validator)
        return Score(float(problem is None), problem)


def validator_of(schema: Any, who: object) -> Any:
    """What checks data against a schema.

    Raises:
        StructureError: it is no schema.
    """
    jsonschema = library("jsonschema", "structure", who)
    if not isinstance(schema, Mapping):
        raise StructureError(f"{type(who).__name__}: a schema is a mapping, not {schema!r:.80}")
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise StructureError(f"{type(who).__name__}: it is no JSON Schema: {error.message}") from None
    return kind(schema)


def problem_with(data: Any, validator: Any) -> str | None:
    """What a schema has against data, in a sentence; None where it takes it."""
    jsonschema = library("jsonschema", "structure", validator)
    error = jsonschema.exceptions.best_match(validator.iter_errors(data))
    return None if error is None else f"at {error.json_path}: {error.message}"[:200]


class ValueIs(ParsesJson):
    """Whether a value in a text of JSON, or in data of the step, is the expected one.

    Args:
        path: where it is, in JMESPath: `user.name`, `items[0].price`, `items[*].id`, `length(items)`.
        expected: what must be there: any JSON value. By default anything but null will do.
        one_of: in its place, several values of which any will do.
        fence, within: see `ParsesJson`.
        of: a path to the text, or to data that needs no parsing.

    Source: jmespath.
    """

    extra: ClassVar[str | None] = "structure"

    def __init__(
        self,
        path: str,
        expected: bool | int | float | str | list[Any] | dict[str, Any] | None = None,
        one_of: list[Any] | None = None,
        fence: Literal["allow", "require", "no"] = "no",
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(fence, of, within)
        if expected is not None and one_of is not None:
            raise StructureError("ValueIs: give expected or one_of, not both")
        self.path, self.expected, self.one_of = path, expected, one_of
        self._expression  # noqa: B018

    def _require(self) -> None:
        library("jmespath", "structure", self)

    @cached_property
    def _expression(self) -> Any:
        jmespath = library("jmespath", "structure", self)
        try:
            return jmespath.compile(self.path)
        except jmespath.exceptions.JMESPathError as error:
            raise StructureError(f"ValueIs: {self.path!r} is no JMESPath: {str(error).splitlines()[0]}") from None

    def score_step(self, action: Any, observation: Any, task: Any) -> float | Score:
        value = self._value.read(action, observation, task)
        if self.of != "action" and not isinstance(value, str):
            return self.look(value)
        return super().score_step(action, observation, task)

    def look(self, parsed: Any) -> Score:
        jmespath = library("jmespath", "structure", self)
        try:
            found = self._expression.search(parsed)
        except jmespath.exceptions.JMESPathError as error:
            return Score(0.0, f"{self.path}: {str(error).splitlines()[0]}"[:200])
        wanted = self.one_of if self.one_of is not None else [self.expected]
        if self.expected is None and self.one_of is None:
            return Score(float(found is not None), None if found is not None else f"there is no {self.path}")
        fits = any(_equal(found, value) for value in wanted)
        return Score(float(fits), None if fits else f"{self.path} is {quoted(json.dumps(found, default=str), 80)}")


def _equal(one: Any, other: Any) -> bool:
    """Equal as JSON: `true` is not 1, and 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        a, b = dict(one), dict(other)
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    return (numbers or type(one) is type(other)) and bool(one == other)


class ParsesXml(_Parsed):
    """Whether a text is well-formed XML. Entities and external documents are refused: they can blow up, or read files.

    Args:
        root: the name that the root element must have.
        fence, of, within: see `ParsesJson`.

    Source: defusedxml.
    """

    extra: ClassVar[str | None] = "structure"
    language = ("xml", "html")

    def __init__(
        self,
        root: str | None = None,
        fence: Literal["allow", "require", "no"] = "no",
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(fence, of, within)
        self.root = root

    def _require(self) -> None:
        library("defusedxml", "structure", self)

    def parse(self, text: str) -> Any:
        tree, common = (library(f"defusedxml.{name}", "structure", self) for name in ("ElementTree", "common"))
        try:
            return tree.fromstring(text.strip(), forbid_dtd=True)
        except tree.ParseError as error:
            raise ValueError(f"it is no XML: {error}") from None
        except common.DefusedXmlException as error:
            raise ValueError(f"it has what XML here may not have: {type(error).__name__}") from None

    def look(self, parsed: Any) -> Score:
        name = str(parsed.tag).rpartition("}")[2]
        fits = self.root is None or name == self.root
        return Score(float(fits), None if fits else f"its root is <{name}>"[:200])


_DEEPEST = 200  # levels of YAML


class ParsesYaml(_Parsed):
    """Whether a text is YAML, with plain data only.

    Args:
        value: what it must be as a whole: a mapping, a list, or anything.
        fence, of, within: see `ParsesJson`.

    Aliases are refused: a few of them can stand for more data than fits in memory. So is what is nested more than 200
    deep, which takes minutes to read.
    """

    language = ("yaml", "yml")

    def __init__(
        self,
        value: Literal["mapping", "list", "any"] = "any",
        fence: Literal["allow", "require", "no"] = "no",
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(fence, of, within)
        if value not in ("mapping", "list", "any"):
            raise StructureError(f"ParsesYaml: value is 'mapping', 'list' or 'any', not {value!r}")
        self.value: Literal["mapping", "list", "any"] = value

    def parse(self, text: str) -> Any:
        import yaml

        try:
            depth = 0
            for event in yaml.parse(text, yaml.SafeLoader):  # as it is read: its time grows with the depth
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
                if isinstance(event, yaml.AliasEvent):
                    raise ValueError("it has aliases")
                if depth > _DEEPEST:
                    raise ValueError(f"it is nested more than {_DEEPEST} deep")
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = "" if mark is None else f" (line {mark.line + 1})"
            raise ValueError(f"it is no YAML: {getattr(error, 'problem', error)}{where}") from None

    def look(self, parsed: Any) -> Score:
        wanted = {"mapping": dict, "list": list, "any": object}[self.value]
        fits = isinstance(parsed, wanted)
        return Score(float(fits), None if fits else f"it is a {type(parsed).__name__}, not a {self.value}")


class ParsesSql(_Parsed):
    """Whether a text is SQL: one statement or several, in a dialect.

    Args:
        dialect: as sqlglot calls it, such as `postgres`, `sqlite`, `duckdb`; None for what most share.
        only_select: whether every statement must be a query that changes nothing.
        statements: how many there may be, at most.
        fence, of, within: see `ParsesJson`.

    Source: sqlglot. It parses; it does not know the tables.
    """

    extra: ClassVar[str | None] = "structure"
    language = ("sql",)

    def __init__(
        self,
        dialect: str | None = None,
        only_select: bool = False,
        statements: int | None = None,
        fence: Literal["allow", "require", "no"] = "no",
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(fence, of, within)
        if dialect is not None:
            sqlglot = library("sqlglot", "structure", self)
            try:
                sqlglot.Dialect.get_or_raise(dialect)
            except ValueError as error:
                raise StructureError(f"ParsesSql: {error}") from None
        self.dialect, self.only_select, self.statements = dialect, only_select, statements

    def _require(self) -> None:
        library("sqlglot", "structure", self)

    def parse(self, text: str) -> Any:
        sqlglot = library("sqlglot", "structure", self)
        try:
            found = [each for each in sqlglot.parse(text, read=self.dialect) if each is not None]
        except sqlglot.errors.SqlglotError as error:
            line: dict[str, Any] = next(iter(getattr(error, "errors", [])), {})
            raise ValueError(f"it is no SQL: {line.get('description') or str(error).splitlines()[0]}") from None
        if not found:
            raise ValueError("there is no statement")
        return found

    def look(self, parsed: Any) -> Score:
        exp = library("sqlglot", "structure", self).exp
        if self.statements is not None and len(parsed) > self.statements:
            return Score(0.0, f"there are {len(parsed)} statements")
        if unknown := [each for each in parsed if isinstance(each, exp.Command)]:
            return Score(0.0, f"{quoted(unknown[0].name, 40)} is no statement that is known")
        changing = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Drop, exp.Alter, exp.Into)
        if self.only_select:
            for each in parsed:
                if not isinstance(each, exp.Query) or any(each.find(kind) for kind in changing):
                    return Score(0.0, f"{each.key.upper()} is no mere query")
        return Score(1.0)


class Markdown(TextCheck):
    """Whether a Markdown document has parts: the share of what is asked for that is there.

    Args:
        headings: texts of headings that must be there, in this order, whatever their level.
        lists, tables, code_blocks: how many there must be, at least.
        code_language: what the code blocks must be in; others do not count.
        deepest: the deepest level of heading that is allowed, 1 to 6.
        of, within: see `TextCheck`.

    Source: markdown-it-py, CommonMark with tables.
    """

    extra: ClassVar[str | None] = "structure"

    def __init__(
        self,
        headings: Sequence[str] = (),
        lists: int = 0,
        tables: int = 0,
        code_blocks: int = 0,
        code_language: str | None = None,
        deepest: int = 6,
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(of, within)
        if isinstance(headings, str) or not 1 <= deepest <= 6:
            raise StructureError("Markdown: headings is a list of texts, and deepest is 1 to 6")
        if not headings and not (lists or tables or code_blocks) and deepest == 6:
            raise StructureError("Markdown: say what must be there: headings, lists, tables, code_blocks or deepest")
        self.headings, self.lists, self.tables = list(headings), lists, tables
        self.code_blocks, self.code_language, self.deepest = code_blocks, code_language, deepest

    def _require(self) -> None:
        library("markdown_it", "structure", self)

    def score_text(self, text: str) -> Score:
        reader = library("markdown_it", "structure", self).MarkdownIt("commonmark").enable("table")
        tokens = reader.parse(clean(text[:_LONGEST]))
        headings = [
            (int(token.tag[1:]), tokens[number + 1].content.strip())
            for number, token in enumerate(tokens)
            if token.type == "heading_open"
        ]
        counts = {
            "lists": sum(token.type in ("bullet_list_open", "ordered_list_open") for token in tokens),
            "tables": sum(token.type == "table_open" for token in tokens),
            "code blocks": sum(
                token.type in ("fence", "code_block")
                and (self.code_language is None or token.info.split(" ")[0].casefold() == self.code_language.casefold())
                for token in tokens
            ),
        }
        wanted = {"lists": self.lists, "tables": self.tables, "code blocks": self.code_blocks}
        missing = [f"{counts[name]} of {least} {name}" for name, least in wanted.items() if counts[name] < least]
        asked = sum(least > 0 for least in wanted.values()) + len(self.headings) + (self.deepest < 6)
        at = 0
        for heading in self.headings:
            places = [i for i, (_, said) in enumerate(headings) if i >= at and said.casefold() == heading.casefold()]
            if places:
                at = places[0] + 1
            else:
                missing.append(f"no heading {heading!r}")
        if self.deepest < 6 and any(level > self.deepest for level, _ in headings):
            missing.append(f"a heading deeper than level {self.deepest}")
        return Score(1.0 - len(missing) / asked, f"missing: {', '.join(missing)}"[:200] if missing else None)
