"""Replies in the forms that models are known to give, read by a judge's own extractor. No model is asked.

A reply is built for a label of the judge's scale and put into each form. Either it gives that label, or it gives none:
what it must never give is another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from judges.judge import Judge
from judges.scale import Likert, Numeric
from judges.testing.results import ReplyCheck
from judges.verdict import JudgeFailure


def read_replies(judge: Judge, inputs: Mapping[str, Any]) -> list[ReplyCheck]:
    """Read each form of reply.

    Args:
        judge: the judge.
        inputs: the values of its template's variables.

    Raises:
        PromptError: an input is missing, or cannot be shown.
    """
    checks = []
    for name, reply, expected in _forms(judge):
        found = judge.read(reply, **inputs)
        read = {"failure": found.kind} if isinstance(found, JudgeFailure) else {"label": found.label}
        checks.append(ReplyCheck(name=name, reply=reply, expected=expected, **read))
    return checks


def _forms(judge: Judge) -> Iterator[tuple[str, str, Any]]:
    """Name, text, and the label that it gives; None for none."""
    scale = judge.scale
    labels = list(scale.labels) or [getattr(scale, "high", 1.0), getattr(scale, "low", 0.0)]
    label, other = labels[0], labels[-1]
    right, wrong = _with(judge, label), _with(judge, other)
    yield "plain", right, label
    yield "fenced", f"```json\n{right}\n```", label
    yield "prose_around", f"Here is my verdict:\n\n{right}\n\nLet me know if you need more.", label
    yield "reasoning_block", f"<think>At first sight {wrong}. But no.</think>\n{right}", label
    yield "unfinished_reasoning", f"<think>It might be {wrong}, or", None
    for end in range(len(right) - 1):
        yield "cut", right[:end], None
    yield "refusal", "I'm sorry, but I can't help with that.", None
    yield "empty", "", None
    yield "none", _with(judge, None) if not scale.abstain else "None", None
    yield "word_none", "None", None
    yield "nan", _with(judge, float("nan")), None
    yield "text_for_a_score", _with(judge, "high, I would say"), None
    if isinstance(scale, (Likert, Numeric)):
        yield "out_of_scale", _with(judge, scale.high + 1), None
        yield "number_as_text", _with(judge, str(scale.high)), None
    yield "two_verdicts", f"{right}\n{wrong}", None
    yield "key_twice", f"{wrong[:-1]}, {right[1:]}", None


def _with(judge: Judge, score: Any) -> str:
    reply = {"score": score}
    return json.dumps({"reason": "So it is.", **reply} if judge.reason else reply, ensure_ascii=False)
