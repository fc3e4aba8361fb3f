"""Every criterion can be written to a file and read back, and its module is imported when it is named."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import rubrics.criteria
from rubrics import Rubric, fingerprint
from rubrics.criteria import KINDS
from rubrics.spec import dumps, loads

ARGUMENTS: dict[str, dict[str, Any]] = {
    "AtMostCalls": {"most": 3},
    "Bleu": {"expected": "a"},
    "Called": {"tool": "search"},
    "CalledInOrder": {"tools": ["a", "b"]},
    "Chrf": {"expected": ["a", "b"]},
    "Contains": {"words": ["a", "b"], "need": "any"},
    "Exact": {"expected_from": "task.answer", "within": "answer"},
    "Fuzzy": {"expected": "a", "by": "sorted"},
    "ArgumentsMatch": {"tool": "search", "arguments": {"q": "x", "n": [1, 2]}},
    "EmbeddingSimilarity": {"expected": "a"},
    "InRange": {"least": 1, "most": 2.5},
    "Language": {"language": "en"},
    "Length": {"most": 10},
    "Markdown": {"headings": ["a"]},
    "MatchesSchema": {"schema": {"type": "object", "properties": {"kind": {"const": "a:b"}}}},
    "MathEqual": {"expected": "1/2"},
    "MultipleChoice": {"expected": "A"},
    "NeverCalled": {"tools": ["rm"]},
    "NumericEqual": {"expected": 42, "unit": "km"},
    "Overlong": {"longest": 100, "cushion": 20},
    "Regex": {"pattern": "a+", "ignore_case": True},
    "RewardModel": {"endpoint": "http://127.0.0.1:1/classify", "label": "good", "transform": "sigmoid"},
    "Rouge": {"expected": "a"},
    "SideEffect": {"path": "observation.saved", "expected": True},
    "TokenOverlap": {"expected": "a"},
    "UnitTests": {"tests": "def test_it():\n    assert add(1, 2) == 3\n"},
    "ImportsAllowed": {"allowed": ["math"]},
    "ValueIs": {"path": "a.b", "expected": {"x": [1, None]}},
    "WithinBudget": {"most": 10},
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_criterion_is_itself_again(kind: str) -> None:
    cls = getattr(rubrics.criteria, kind)
    leaf = cls(**ARGUMENTS.get(kind, {}))
    assert isinstance(leaf, Rubric)
    text = dumps(leaf)
    read = loads(text)
    assert text.startswith(f"kind: {kind}\n")
    assert fingerprint(read) == fingerprint(leaf) and dumps(read) == text
    assert cls.__doc__ and "Args:" in cls.__doc__


def test_nothing_is_imported_before_it_is_named() -> None:
    code = (
        "import sys, rubrics.criteria; from rubrics.criteria import Exact; "
        "heavy = ('re2', 'rapidfuzz', 'sacrebleu', 'sympy', 'pint', 'sqlglot', 'jsonschema', 'numpy', 'aiohttp'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_there_is_not() -> None:
    with pytest.raises(AttributeError, match=r"module 'rubrics\.criteria' has no attribute 'Exactly'"):
        rubrics.criteria.Exactly  # noqa: B018


def test_an_extra_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(ImportError, match=r"Regex needs re2: pip install 'rubrics\[text\]'"):
        rubrics.criteria.Regex("a")
