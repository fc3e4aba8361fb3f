"""One store and one budget for all judges of a tree, and plans of what they would ask."""

from __future__ import annotations

import copy
import os
import sys
from types import SimpleNamespace

import pytest

from judges import (
    Binary,
    Budget,
    Checklist,
    Choice,
    GroupJudge,
    Judge,
    JudgeConfigError,
    JudgeError,
    Jury,
    Likert,
    LLMJudge,
    PairwiseJudge,
    Price,
    ScriptedClient,
    Store,
    TrajectoryJudge,
)
from judges.runs import askers, equipped, judge_paths, planned
from rubrics import Gate, Sequential, WeightedSum
from tests.leaves import Fixed

POLITE = "Is it polite?\n{{ action | untrusted }}"


def judge(client, prompt=POLITE, **options):
    return LLMJudge(prompt, options.pop("scale", Binary()), client=client, model="gpt-4o-mini", **options)


def yes():
    return ScriptedClient({"reason": "r", "score": True})


def both(client, **options):
    other = judge(client, "Is it short?\n{{ action | untrusted }}", **options)
    return WeightedSum({"polite": judge(client, **options), "short": other}, {"polite": 0.5, "short": 0.5})


def test_a_plan_keeps_litellm_from_the_network(monkeypatch):
    counter = SimpleNamespace(token_counter=lambda model, messages: 7)
    monkeypatch.setitem(sys.modules, "litellm", counter)
    for name in ("LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_MODE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    tree = judge(yes(), price=Price(1.0, 1.0))
    with planned(tree) as plan:
        tree.evaluate_sync("Hello!", None)
    assert plan.total.prompt_tokens == 7
    assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"


def test_every_kind_of_judge_is_found():
    made = Judge(POLITE, Binary(), model="m")
    tree = WeightedSum(
        {
            "leaf": judge(yes()),
            "jury": LLMJudge(Jury([made, Judge(POLITE, Likert(1, 5), model="n")])),
            "list": Checklist(["a", "b"], model="m"),
            "call": Checklist(["a", "b"], model="m", calls="all"),
            "end": TrajectoryJudge(scale=Binary(), model="m"),
            "none": Fixed(1.0),
        },
        dict.fromkeys(["leaf", "jury", "list", "call", "end", "none"], 1.0),
        normalize="total",
    )
    assert len(askers(tree)) == 1 + 2 + 1 + 1 + 1  # criteria share theirs
    one_by_one = ["list.criterion_0", "list.criterion_1", "call.criterion_0", "call.criterion_1"]
    assert judge_paths(tree) == ["leaf", "jury", *one_by_one, "end"]
    assert len(askers(GroupJudge(PairwiseJudge(model="m")))) == 1


def test_judges_record_in_the_store_of_the_run(tmp_path):
    client = yes()
    tree = both(client)
    with equipped(tree, store=tmp_path / "verdicts.jsonl"):
        assert tree.evaluate_sync("hello", None).score == 1.0
        assert len(client.requests) == 2
        assert tree.evaluate_sync("hello", None).usage.calls == 0
    assert len(client.requests) == 2
    tree.evaluate_sync("hello", None)  # the run is over, and its store with it
    assert len(client.requests) == 4


def test_a_store_of_ones_own_is_kept(tmp_path):
    client = yes()
    own = Store(tmp_path / "own.jsonl")
    tree = judge(client, store=own)
    with equipped(tree, store=tmp_path / "verdicts.jsonl"):
        tree.evaluate_sync("hello", None)
    assert (tmp_path / "own.jsonl").exists()
    assert not (tmp_path / "verdicts.jsonl").exists()


def test_all_judges_spend_from_the_budget_of_the_run():
    client = yes()
    tree = both(client, on_failure="unscored")
    budget = Budget(calls=3)
    with equipped(tree, budget=budget):
        tree.evaluate_sync("one", None)
        last = tree.evaluate_sync("two", None)
    assert len(client.requests) == budget.spent.calls == 3
    assert {node.status for node in last.nodes()} >= {"unscored"}


def test_budgets_of_ones_own_hold_as_well():
    own, run = Budget(calls=1), Budget(calls=5)
    tree = judge(yes(), budget=own)
    with equipped(tree, budget=run), pytest.raises(JudgeError, match="1 calls"):
        tree.evaluate_sync("one", None)
        tree.evaluate_sync("two", None)
    assert own.spent.calls == run.spent.calls == 1
    assert run._flying == 0


def test_dollars_need_a_price():
    tree = judge(ScriptedClient({"reason": "r", "score": True}))
    with equipped(tree, budget=Budget(usd=1.0)), pytest.raises(JudgeConfigError, match="no price"):
        tree.evaluate_sync("one", None)
    with equipped(tree, budget=Budget(usd=1.0), price=Price(1.0, 1.0)):
        assert tree.evaluate_sync("one", None).usage.cost > 0


def test_a_plan_sends_nothing_and_counts_everything(tmp_path):
    client = yes()
    tree = both(client)
    with equipped(tree, store=tmp_path / "verdicts.jsonl"):
        tree.evaluate_sync("known", None)
    sent = len(client.requests)
    with planned(tree, store=tmp_path / "verdicts.jsonl", price=Price(1.0, 2.0)) as plan:
        for text in ("known", "new", "new"):
            assert tree.evaluate_sync(text, None).score == 1.0
    assert len(client.requests) == sent
    total = plan.total
    assert (total.calls, total.stored, total.repeated) == (2, 2, 2)
    assert total.completion_tokens == 2 * 70
    assert total.most_completion_tokens == 2 * 1024
    assert total.prompt_tokens > 100
    assert total.cost == pytest.approx((total.prompt_tokens + 2 * total.completion_tokens) / 1e6)
    assert total.most_cost == pytest.approx((total.prompt_tokens + 2 * total.most_completion_tokens) / 1e6)


@pytest.mark.parametrize("mode", [None, "all"])
def test_where_nothing_is_replayed_a_plan_counts_every_question(tmp_path, mode):
    store = mode and Store(tmp_path / "verdicts.jsonl", mode)
    client = yes()
    tree = both(client)
    with planned(tree, store=store) as plan:
        for text in ("one", "one"):
            tree.evaluate_sync(text, None)
    with equipped(tree, store=store):
        for text in ("one", "one"):
            tree.evaluate_sync(text, None)
    assert (plan.total.calls, plan.total.repeated) == (len(client.requests), 0) == (4, 0)


def test_a_plan_goes_through_gates_and_every_kind_of_reply():
    client = ScriptedClient([])
    tree = Sequential(
        Gate(judge(client, scale=Likert(1, 5)), 1.0),
        Gate(judge(client, "A?\n{{ action | untrusted }}", scale=Likert(1, 5), expected=True), 0.9),
        judge(client, "B?\n{{ action | untrusted }}", scale=Choice({"good": 1.0, "bad": 0.0})),
        Checklist(["a", "b"], model="gpt-4o-mini", calls="all", client=client),
    )
    with planned(tree) as plan:
        evaluation = tree.evaluate_sync("hello", None)
    assert evaluation.score == 1.0
    assert plan.total.calls == 4
    assert plan.total.cost is None  # nobody knows what a scripted client costs


def test_a_plan_covers_judges_of_the_end():
    client = ScriptedClient([])
    tree = TrajectoryJudge(scale=Binary(), model="gpt-4o-mini", client=client)
    with planned(tree) as plan:
        episode = tree.episode()
        episode.step("a", "b")
        episode.end()
    assert plan.total.calls == 1
    assert episode.total == 1.0


def test_two_runs_at_once_over_one_tree_are_refused(tmp_path):
    """Else the second would record in the store of the first, which would then stay on the tree."""
    tree = both(yes())
    another = copy.deepcopy(tree)
    before = [asker.exchanger for asker in askers(tree)]
    with equipped(tree, store=tmp_path / "first.jsonl"):
        with pytest.raises(JudgeConfigError, match="another run over this tree"), equipped(tree):
            pass
        with equipped(another, store=tmp_path / "second.jsonl") as own:
            assert all(asker.exchanger.store.path.name == "second.jsonl" for asker in own)
        assert all(asker.exchanger.store.path.name == "first.jsonl" for asker in askers(tree))
    assert [asker.exchanger for asker in askers(tree)] == before
    with equipped(tree):  # it is free again
        pass
