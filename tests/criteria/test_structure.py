"""Criteria of form, and what hostile documents do."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rubrics import Evaluation, Rubric, StructureError
from rubrics.criteria import Markdown, MatchesSchema, ParsesJson, ParsesSql, ParsesXml, ParsesYaml, ValueIs
from rubrics.criteria.structure import fenced

SCHEMA = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "kind": {"const": "a:b"}}}
BOMB = '<!DOCTYPE a [<!ENTITY b "x"><!ENTITY c "&b;&b;">]><a>&c;</a>'
ALIASES = "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]"
DOCUMENT = (
    "# Title\n\nSome text.\n\n## Steps\n\n- one\n- two\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\n```python\nx = 1\n```\n"
)


def scored(leaf: Rubric, action: Any, observation: Any = None) -> Evaluation:
    return leaf.evaluate_sync(action, observation)


@pytest.mark.parametrize(
    ("leaf", "text", "expected", "reason"),
    [
        (ParsesJson(), '{"a": [1, 2.5, null]}', 1.0, None),
        (ParsesJson(), " 3 ", 1.0, None),
        (
            ParsesJson(),
            "{'a': 1}",
            0.0,
            "it is no JSON: Expecting property name enclosed in double quotes (line 1, column 2)",
        ),
        (ParsesJson(), "", 0.0, "it is no JSON: Expecting value"),
        (ParsesJson(), '{"a": 1} and more', 0.0, "it is no JSON: Extra data"),
        (ParsesJson(), "NaN", 0.0, "NaN is no JSON"),
        (ParsesJson(), '{"a": 1, "a": 2}', 0.0, "the key 'a' stands there twice"),
        (ParsesJson(), "[" * 100_000, 0.0, "it is nested too deep"),
        (ParsesJson(), "```json\n{}\n```", 0.0, "it is no JSON"),
        (ParsesJson(fence="allow"), "Here:\n```json\n{}\n```\nDone.", 1.0, None),
        (ParsesJson(fence="allow"), "{}", 1.0, None),
        (ParsesJson(fence="require"), "{}", 0.0, "there is no fenced code block"),
        (ParsesJson(within="answer"), "so <answer>[1]</answer>", 1.0, None),
        (MatchesSchema(SCHEMA), '{"name": "x"}', 1.0, None),
        (MatchesSchema(SCHEMA), '{"name": 3}', 0.0, "at $.name: 3 is not of type 'string'"),
        (MatchesSchema(SCHEMA), "{}", 0.0, "at $: 'name' is a required property"),
        (MatchesSchema(SCHEMA), "{", 0.0, "it is no JSON"),
        (ValueIs("user.name", "Ada"), '{"user": {"name": "Ada"}}', 1.0, None),
        (ValueIs("user.name", "Ada"), '{"user": {"name": "Bob"}}', 0.0, "user.name is '\"Bob\"'"),
        (ValueIs("items[0].price", 2), '{"items": [{"price": 2.0}]}', 1.0, None),
        (ValueIs("ok", True), '{"ok": 1}', 0.0, "ok is '1'"),
        (ValueIs("ok"), '{"ok": false}', 1.0, None),
        (ValueIs("ok"), '{"other": 1}', 0.0, "there is no ok"),
        (ValueIs("grade", one_of=["A", "B"]), '{"grade": "B"}', 1.0, None),
        (ValueIs("items[*].id", [1, 2]), '{"items": [{"id": 1}, {"id": 2}]}', 1.0, None),
        (ValueIs("length(items)", 2), '{"items": 3}', 0.0, "length(items): In function length()"),
        (ParsesXml(), "<a><b/></a>", 1.0, None),
        (ParsesXml("a"), "<b/>", 0.0, "its root is <b>"),
        (ParsesXml("a"), '<a xmlns="http://x"/>', 1.0, None),
        (ParsesXml(), "<a>", 0.0, "it is no XML: no element found"),
        (ParsesXml(), BOMB, 0.0, "it has what XML here may not have: DTDForbidden"),
        (ParsesYaml(), "a: [1, 2]", 1.0, None),
        (ParsesYaml("mapping"), "- a", 0.0, "it is a list, not a mapping"),
        (ParsesYaml(), "a: [", 0.0, "it is no YAML"),
        (ParsesYaml(), "!!python/object/apply:os.system [ls]", 0.0, "it is no YAML: could not determine a constructor"),
        (ParsesYaml(), ALIASES, 0.0, "it has aliases"),
        (ParsesYaml(), "[" * 100 + "]" * 100, 1.0, None),
        (ParsesYaml(), "[" * 50_000, 0.0, "it is nested more than 200 deep"),
        (ParsesYaml(), "a: 2024-02-30", 0.0, "day"),
        (ParsesSql(), "SELECT a, b FROM t WHERE c > 3", 1.0, None),
        (ParsesSql(), "SELECT a FROM", 0.0, "it is no SQL"),
        (ParsesSql(), "SELEC a FROM t", 0.0, ""),
        (ParsesSql(), "", 0.0, "there is no statement"),
        (ParsesSql(only_select=True), "WITH x AS (SELECT 1) SELECT * FROM x UNION SELECT 2", 1.0, None),
        (ParsesSql(only_select=True), "DROP TABLE t", 0.0, "DROP is no mere query"),
        (ParsesSql(only_select=True), "SELECT 1; DELETE FROM t", 0.0, "DELETE is no mere query"),
        (ParsesSql(only_select=True), "SELECT * INTO t2 FROM t", 0.0, "SELECT is no mere query"),
        (
            ParsesSql(only_select=True, dialect="postgres"),
            "WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d",
            0.0,
            "SELECT is",
        ),
        (ParsesSql(statements=1), "SELECT 1; SELECT 2", 0.0, "there are 2 statements"),
        (ParsesSql(fence="allow"), "So:\n```sql\nSELECT 1\n```", 1.0, None),
        (Markdown(["Title", "Steps"], lists=1, tables=1, code_blocks=1, code_language="python"), DOCUMENT, 1.0, None),
        (Markdown(["Steps", "Title"]), DOCUMENT, 0.5, "missing: no heading 'Title'"),
        (Markdown(lists=2, tables=1), DOCUMENT, 0.5, "missing: 1 of 2 lists"),
        (Markdown(code_blocks=1, code_language="sql"), DOCUMENT, 0.0, "missing: 0 of 1 code blocks"),
        (Markdown(deepest=1), DOCUMENT, 0.0, "missing: a heading deeper than level 1"),
        (Markdown(deepest=2), DOCUMENT, 1.0, None),
        (Markdown(["a heading"]), "```\n# a heading\n```", 0.0, "missing: no heading"),
    ],
)
def test_what_a_text_is_worth(leaf: Rubric, text: str, expected: float, reason: str | None) -> None:
    found = scored(leaf, text)
    assert (found.status, found.score) == ("scored", expected), found.reason
    assert (
        found.reason is None if reason is None else str(found.reason).startswith(reason) or reason in str(found.reason)
    )


def test_data_needs_no_parsing() -> None:
    leaf = ValueIs("total", 3, of="observation.state")
    assert scored(leaf, "x", {"state": {"total": 3}}).score == 1.0
    assert scored(leaf, "x", {"state": '{"total": 3}'}).score == 1.0
    assert scored(leaf, "x", {}).reason == "there is no observation.state"


def test_fenced_blocks() -> None:
    text = "```json\n{}\n```\n~~~\nplain\n~~~\n````python\n```\nx\n```\n````\n```never closed\n"
    assert fenced(text) == ["{}\n", "plain\n", "```\nx\n```\n"]
    assert fenced(text, "JSON") == ["{}\n"]
    assert fenced("```a\n" * 100_000) == []


LEAVES = [ParsesJson(), MatchesSchema(SCHEMA), ValueIs("a"), ParsesXml(), ParsesYaml(), ParsesSql(), Markdown(["a"])]


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: type(leaf).__name__)
@given(text=st.text(st.characters(), max_size=60))
def test_no_text_makes_them_raise(leaf: Rubric, text: str) -> None:
    assert scored(leaf, text).score in (0.0, 1.0)


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: type(leaf).__name__)
@pytest.mark.parametrize("text", ["\0", "\ud800", "(" * 3_000, "[" * 3_000, "a: " * 500, "<a>" * 3_000, "x" * 200_000])
def test_hostile_texts(leaf: Rubric, text: str) -> None:
    assert scored(leaf, text).score in (0.0, 1.0)
    assert scored(copy.deepcopy(leaf), text).score == scored(pickle.loads(pickle.dumps(leaf)), text).score


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ParsesJson(fence="maybe"), "fence is 'allow', 'require' or 'no'"),  # type: ignore[arg-type]
        (lambda: MatchesSchema({"type": "thing"}), "it is no JSON Schema"),
        (lambda: MatchesSchema([]), "a schema is a mapping"),  # type: ignore[arg-type]
        (lambda: ValueIs("a[", 1), "is no JMESPath"),
        (lambda: ValueIs("a", 1, one_of=[1]), "give expected or one_of"),
        (lambda: ParsesYaml("tree"), "value is 'mapping', 'list' or 'any'"),  # type: ignore[arg-type]
        (lambda: ParsesSql("klingon"), "Unknown dialect 'klingon'"),
        (lambda: Markdown(), "say what must be there"),
        (lambda: Markdown("Title"), "headings is a list of texts"),
    ],
)
def test_what_is_refused(make: Any, message: str) -> None:
    with pytest.raises(StructureError, match=message):
        make()
