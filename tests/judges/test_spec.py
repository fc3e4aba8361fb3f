"""Judges in files of rubrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judges import (
    Binary,
    Budget,
    Checklist,
    Choice,
    Criterion,
    Judge,
    Jury,
    Likert,
    LLMJudge,
    Numeric,
    OpenAICompatibleClient,
    Price,
    Prompt,
    ScriptedClient,
    TrajectoryJudge,
)
from rubrics import ByEvidence, Clip, Gate, Rubric, SpecError, WeightedSum, dump, fingerprint, load
from rubrics.spec import described, dumps, loads, needs

ASK = "Rate it.\n{{ action | untrusted }}"


def client(reply: str = '{"reason": "fine", "score": 4}') -> ScriptedClient:
    return ScriptedClient(lambda request: reply)


STRICT = Judge(ASK, Likert(1, 5), model="m")
TREES: dict[str, Rubric] = {
    "likert": LLMJudge(ASK, Likert(1, 5, anchors={1: "bad", 5: "good"}), model="m"),
    "binary": LLMJudge(ASK, Binary("it is", "it is not", abstain=True), model="m", on_failure="unscored"),
    "choice": LLMJudge(ASK, Choice({"A": 1.0, "no": 0.25}), model="m", reason=False),
    "numeric": LLMJudge(ASK, Numeric(0, 10), model="m", samples=3, sampling={"temperature": 0.5, "stop": ["x"]}),
    "expected": LLMJudge(ASK, Likert(1, 5), model="m", expected=True, min_mass=0.25),
    "limits": LLMJudge(
        ASK,
        Binary(),
        model="m",
        max_tokens=64,
        timeout=5.5,
        retries=0,
        max_wait=1.0,
        concurrency=2,
        endpoint="mine",
        budget=Budget(calls=10, usd=0.5),
        price=Price(1.0, 2.0),
        api_base="http://127.0.0.1:1/v1",
    ),
    "client": LLMJudge(ASK, Binary(), model="m", client=OpenAICompatibleClient("http://127.0.0.1:1/v1", "a-key")),
    "prompt": LLMJudge(
        Prompt(
            "It says {{ action | untrusted }}.",
            system="You judge.",
            name="tone",
            version="1.10",
            examples=[{"inputs": {"action": "x"}, "score": 2, "reason": "weak"}],
        ),
        Likert(1, 3),
        model="m",
    ),
    "jury": LLMJudge(Jury([STRICT, Judge("Other: {{ action | untrusted }}", Likert(1, 5), model="n")], 2, quorum=3)),
    "trajectory": TrajectoryJudge(model="m", scale=Binary()),
    "trajectory of ones own": TrajectoryJudge(
        "Is it good?\n{{ trajectory | untrusted }}",
        Likert(1, 5),
        samples=3,
        token_budget=500,
        credit=ByEvidence(),
        intermediate_reward=0.125,
        model="m",
    ),
    "checklist": Clip(Checklist(["names the city", "is polite"], model="m")),
    "points": Checklist(
        [Criterion("names it", 10, "name"), Criterion("is rude", -5, "rude", Likert(1, 3))],
        calls="all",
        reason=False,
        on_unscored="renormalize",
        on_failure="unscored",
        model="m",
    ),
    "by twos": Checklist(["a", "b", "c"], calls=2, scale=Likert(1, 5), model="m"),
}


@pytest.mark.parametrize("name", TREES)
def test_each_tree_is_itself_again(name: str) -> None:
    tree = TREES[name]
    text = dumps(tree)
    read = loads(text)
    assert fingerprint(read) == fingerprint(tree)
    assert dumps(read) == text
    assert repr(read) == repr(tree)


def test_how_a_model_is_asked_is_read_back() -> None:
    judge: Any = loads(dumps(TREES["limits"]))
    exchanger = judge.judge.asker.exchanger
    assert (exchanger.timeout, exchanger.concurrency, exchanger.endpoint, exchanger.price) == (
        5.5,
        2,
        "mine",
        Price(1.0, 2.0),
    )
    assert (exchanger.budget.calls, exchanger.budget.tokens, exchanger.budget.usd) == (10, None, 0.5)
    assert exchanger.client.api_base == "http://127.0.0.1:1/v1"
    asker = judge.judge.asker
    assert (asker.max_tokens, asker.retries, asker.max_wait) == (64, 0, 1.0)


def test_no_key_is_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_API_BASE", "http://127.0.0.1:2/v1")
    monkeypatch.setenv("JUDGE_API_KEY", "key-of-the-environment")
    tree = WeightedSum([TREES["client"], LLMJudge(ASK, Binary(), model="m", api_key="key-given")], [0.5, 0.5])
    text = dumps(tree)
    assert "key" not in text and "127.0.0.1:2" not in text
    with pytest.raises(SpecError, match="LLMJudge has no argument 'api_key'"):
        loads("kind: LLMJudge\nprompt: x\napi_key: k")


def test_a_judge_may_leave_open_which_model_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JUDGE_MODEL", raising=False)
    tree = LLMJudge(ASK, Binary())
    read = loads(dumps(tree))
    unnamed = fingerprint(tree)
    assert fingerprint(read) == unnamed and "model" not in dumps(read)
    assert "model        none named: set JUDGE_MODEL (the root)" in described(read)
    monkeypatch.setenv("JUDGE_MODEL", "m")
    assert fingerprint(read) == fingerprint(tree) == fingerprint(LLMJudge(ASK, Binary(), model="m")) != unnamed
    assert "model" not in dumps(read) and needs(read).models == {"m": ["the root"]}


def test_a_prompt_file_is_found_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "judges").mkdir()
    (tmp_path / "judges" / "tone.md").write_text(f"---\nscale: {{type: likert, low: 1, high: 5}}\nmodel: m\n---\n{ASK}")
    (tmp_path / "tree.yaml").write_text(
        "kind: Gate\nrubric:\n  kind: LLMJudge\n  prompt: {file: judges/tone.md}\nthreshold: 0.5"
    )
    tree = load(tmp_path / "tree.yaml")
    assert fingerprint(tree) == fingerprint(Gate(TREES["likert"] and LLMJudge(ASK, Likert(1, 5), model="m"), 0.5))
    before = fingerprint(tree)
    (tmp_path / "judges" / "tone.md").write_text(f"---\nscale: binary\nmodel: m\n---\n{ASK}")
    assert fingerprint(load(tmp_path / "tree.yaml")) != before
    dump(tree, tmp_path / "sub.json")  # the prompt is in the file
    assert fingerprint(load(tmp_path / "sub.json")) == before


async def test_scores_are_the_same() -> None:
    def tree(asked: ScriptedClient) -> Rubric:
        judged = LLMJudge(ASK, Likert(1, 5), model="m", client=asked)
        points = Checklist(
            [Criterion("a", 10, "a"), Criterion("b", -5, "b")], scale=Likert(1, 5), model="m", client=asked
        )
        return WeightedSum({"judged": judged, "points": points}, {"judged": 0.5, "points": 0.5})

    given = tree(client())
    read: Any = loads(dumps(given))
    leaves = [read.judged, *read.points]
    for leaf in leaves:
        leaf.judge.asker.exchanger.client = client()
        leaf.judge.asker.exchanger._local = True
    assert (await read.evaluate("x", None)).score == (await given.evaluate("x", None)).score == 0.5 * 0.75 + 0.5 * 0.375


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kind: LLMJudge", ":1: LLMJudge needs the argument 'prompt'"),
        ("kind: LLMJudge\nprompt: x", ":1: a judge needs a scale"),
        (
            "kind: LLMJudge\nprompt: '{{ answer | untrusted }}'\nscale: binary",
            ":1: the template uses 'answer'; in a tree",
        ),
        ("kind: LLMJudge\nprompt: '{{ x'\nscale: binary", ":1: the prompt, line 1"),
        ("kind: LLMJudge\nprompt: {file: no.md}\nscale: binary", ":1: no.md: No such file"),
        ("kind: LLMJudge\nprompt: {text: x}\nscale: binary", ":2: prompt: a prompt is a template, {file: …}, or"),
        ("kind: LLMJudge\nprompt: {template: 3}\nscale: binary", ":2: prompt: a prompt is a template, a text, not 3"),
        (
            "kind: LLMJudge\nprompt: x\nscale: {type: likert, low: 5, high: 1}",
            ":3: scale: Likert: low must be below high",
        ),
        (
            "kind: LLMJudge\nprompt: x\nscale: binary\nmodle: y",
            ":4: modle: LLMJudge has no argument 'modle'; did you mean model?",
        ),
        ("kind: LLMJudge\nprompt: x\nscale: binary\nbudget: {call: 1}", ":4: budget: a budget is a mapping of calls"),
        ("kind: LLMJudge\nprompt: x\nscale: binary\nsamples: many", ":4: samples: it must be a valid integer"),
        (
            "kind: LLMJudge\nprompt: {kind: Jury, judges: [{kind: Jdge}]}",
            ":2: prompt.judges[0].kind: there is no kind 'Jdge'; did you mean Judge?",
        ),
        ("kind: Checklist\ncriteria: []", ":1: a checklist is a list of criteria, one or more"),
        (
            "kind: Checklist\ncriteria: [{weight: 1}]",
            ":2: criteria[0]: a criterion is a text, or a mapping with a text",
        ),
        ("kind: Checklist\ncriteria: [{text: x, scale: stars}]", ":2: criteria[0].scale: a scale is one of"),
    ],
)
def test_what_is_wrong(text: str, fault: str) -> None:
    with pytest.raises(SpecError) as raised:
        loads(text, where="x")
    assert str(raised.value).startswith(f"x{fault}"), raised.value
