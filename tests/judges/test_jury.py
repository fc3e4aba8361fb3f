"""`Jury`: several judges, or several samples of one, and one verdict."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
from typing import Any

import pytest

from judges import (
    Binary,
    ChatReply,
    ChatRequest,
    Judge,
    JudgeConfigError,
    JudgeError,
    JudgeFailure,
    Jury,
    Likert,
    LLMJudge,
    PromptError,
    Scale,
    ScriptedClient,
    Usage,
    Verdict,
)
from rubrics import WeightedSum
from tests.leaves import until

ONE_CALL = Usage(1, 10, 0, 2, 12, 0.5)
ANSWER = "{{ answer | untrusted }}"


def reply(score: Any) -> ChatReply:
    return ChatReply(json.dumps({"reason": f"says {score}", "score": score}), "stop", usage=ONE_CALL, model="m")


def judge(*said: Any, scale: Scale | None = None, prompt: str = ANSWER, **options: Any) -> Judge:
    """A judge that gives these scores, or failures, in this order."""
    replies = [each if isinstance(each, JudgeFailure) else reply(each) for each in said]
    options = {"model": "m", "max_wait": 0.0, "retries": 0, **options}
    return Judge(prompt, scale or Likert(1, 5), client=ScriptedClient(replies), **options)


def samples_of(*judges: Judge) -> list[int]:
    requests: list[ChatRequest] = []
    for each in judges:
        requests += each.asker.exchanger.client.requests  # type: ignore[attr-defined]
    return [request.sample for request in requests]


async def verdict(jury: Jury, **inputs: Any) -> Verdict:
    found = await jury.judge(**({"answer": "42"} | inputs))
    assert isinstance(found, Verdict), found
    return found


async def failure(jury: Jury) -> JudgeFailure:
    found = await jury.judge(answer="42")
    assert isinstance(found, JudgeFailure), found
    return found


@pytest.mark.parametrize(
    ("aggregate", "score", "label"), [("median", 0.75, 4), ("mean", 2.0 / 3.0, 4), ("majority", 0.75, 4)]
)
async def test_judges_aggregated(aggregate: Any, score: float, label: int) -> None:
    found = await verdict(Jury([judge(4), judge(3), judge(4)], aggregate=aggregate))
    assert found.score == pytest.approx(score) and found.label == label and found.reason == "says 4"
    assert found.agreement == pytest.approx(2 / 3) and found.usage == Usage(3, 30, 0, 6, 36, 1.5)
    assert [sample.label for sample in found.samples if isinstance(sample, Verdict)] == [4, 3, 4]


async def test_samples_of_one_judge_are_numbered() -> None:
    one = judge(1, 4, 5)
    found = await verdict(Jury(one, samples=3))
    assert samples_of(one) == [0, 1, 2] and found.score == 0.75 and found.agreement == pytest.approx(1 / 3)


async def test_a_judge_that_is_there_twice_gives_two_samples() -> None:
    strict, lenient = judge(1, 2), judge(5, prompt="Be kind. " + ANSWER)
    await verdict(Jury([strict, lenient, strict]))
    assert samples_of(strict) == [0, 1] and samples_of(lenient) == [0]


async def test_equal_judges_give_different_samples_and_different_ones_do_not_count_each_other() -> None:
    client = ScriptedClient([reply(1), reply(2), reply(3), reply(4)])
    same = [Judge(ANSWER, Likert(1, 5), model="m", client=client) for _ in range(2)]
    other = [Judge(ANSWER, Likert(1, 5), model="other", client=client) for _ in range(2)]
    found = await verdict(Jury([*same, *other]))
    assert sorted((request.model, request.sample) for request in client.requests) == [
        ("m", 0),
        ("m", 1),
        ("other", 0),
        ("other", 1),
    ]
    assert found.usage.calls == 4


async def test_a_store_holds_each_sample(tmp_path: Any) -> None:
    first = judge(1, 4, 5, store=tmp_path / "store.jsonl")
    found = await verdict(Jury(first, samples=3))
    again = judge(store=tmp_path / "store.jsonl")
    replayed = await verdict(Jury(again, samples=3))
    assert samples_of(again) == [] and replayed.cached and replayed.usage == Usage()
    assert (replayed.score, replayed.agreement) == (found.score, found.agreement)


async def test_a_quorum_is_of_those_that_gave_a_score() -> None:
    down = JudgeFailure("auth", "no key")
    jury = [judge(down), judge(5), judge(4)]
    assert (await verdict(Jury(copy.deepcopy(jury)))).score == pytest.approx(0.875)
    assert (await failure(Jury(copy.deepcopy(jury), quorum=3))).kind == "auth"
    most = [judge(down), judge(5), judge(down)]
    lost = await failure(Jury(copy.deepcopy(most)))
    assert lost.kind == "auth" and "1 of 3 gave a score, and 2 must" in lost.message and len(lost.samples) == 3
    assert (await verdict(Jury(most, quorum=1))).score == 1.0


async def test_abstentions_have_no_vote() -> None:
    scale = Likert(1, 5, abstain=True)
    found = await verdict(Jury([judge(None, scale=scale), judge(5, scale=scale), judge(5, scale=scale)]))
    assert found.score == 1.0 and found.agreement == 1.0
    most = await verdict(Jury([judge(None, scale=scale), judge(None, scale=scale), judge(5, scale=scale)]))
    assert most.abstained


async def test_no_majority_is_a_failure() -> None:
    assert (await failure(Jury([judge(1), judge(5)], aggregate="majority"))).kind == "ambiguous"


async def test_labels_of_different_scales_are_not_compared() -> None:
    mixed = [judge(5), judge(5, scale=Likert(1, 10)), judge(True, scale=Binary())]
    found = await verdict(Jury(copy.deepcopy(mixed), aggregate="mean"))
    assert found.score == pytest.approx((1 + 4 / 9 + 1) / 3) and found.agreement is None
    with pytest.raises(JudgeConfigError, match="share a scale"):
        Jury(mixed, aggregate="majority")


async def test_in_a_tree() -> None:
    leaf = LLMJudge(Jury([judge(4, prompt="{{ action | untrusted }}"), judge(2, prompt="{{ action | untrusted }}")]))
    record = await WeightedSum([leaf], [1.0]).evaluate("act", None)
    assert record.score == 0.5 and record.usage.calls == 2
    metadata = record["rubric_0"].metadata
    assert metadata["agreement"] == 0.5
    assert [sample["score"] for sample in metadata["samples"]] == [0.75, 0.25]
    json.dumps(record.to_dict(), allow_nan=False)
    down = LLMJudge(Jury(judge(JudgeFailure("auth", "no key"), prompt="{{ action | untrusted }}")))
    with pytest.raises(JudgeError, match=r"auth: 0 of 1 gave a score, and 1 must; no key"):
        await down("act", None)


async def test_each_judge_takes_the_inputs_that_it_knows() -> None:
    jury = Jury([judge(4), judge(2, prompt="{{ question | untrusted }}")])
    assert jury.variables == {"answer", "question"}
    assert (await verdict(jury, answer="a", question="q")).score == 0.5


async def test_a_missing_input_is_raised_and_leaves_nothing_behind() -> None:
    with pytest.raises(PromptError):
        await Jury([judge(4), judge(2, prompt="{{ question | untrusted }}")]).judge(answer="a")
    with pytest.raises(JudgeConfigError, match="no model"):
        await Jury([judge(4), judge(4, model=None)]).judge(answer="a")


async def test_other_judges_are_welcome() -> None:
    class Constant:
        variables = frozenset({"answer"})

        async def judge(self, **inputs: Any) -> Verdict:
            return Verdict(1.0, 5)

    assert (await verdict(Jury([Constant(), judge(1), Constant()]))).score == 1.0


async def test_a_cancelled_jury_cancels_its_requests() -> None:
    started, cancelled = 0, 0

    async def hang(request: ChatRequest) -> Any:
        nonlocal started, cancelled
        started += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled += 1
            raise

    client = ScriptedClient(hang)
    task = asyncio.create_task(Jury(Judge(ANSWER, Likert(1, 5), model="m", client=client), 3).judge(answer="a"))
    await until(lambda: started == 3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled == 3


def test_in_sync_code_copied_and_pickled() -> None:
    jury = Jury([judge(4), judge(2)])
    for each in (pickle.loads(pickle.dumps(jury)), copy.deepcopy(jury), jury):
        found = each.judge_sync(answer="a")
        assert isinstance(found, Verdict) and found.score == 0.5
    assert repr(jury) == "Jury(of 2, aggregate='median', quorum=2)"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Jury([]),
        lambda: Jury("judge"),  # type: ignore[arg-type]
        lambda: Jury([Likert(1, 5)]),  # type: ignore[list-item]
        lambda: Jury([judge(4), Jury([judge(4)])]),
        lambda: Jury(Jury(judge(4)), samples=3),
        lambda: Jury(judge(4), samples=0),
        lambda: Jury(judge(4), samples=True),
        lambda: Jury(judge(4), quorum=0),
        lambda: Jury(judge(4), quorum=2),
        lambda: Jury(judge(4), quorum=1.0),  # type: ignore[arg-type]
        lambda: Jury(judge(4), aggregate="mode"),  # type: ignore[arg-type]
        lambda: Jury([judge(4, samples=2)]),
    ],
)
def test_what_is_no_jury_is_refused(make: Any) -> None:
    with pytest.raises(JudgeConfigError):
        make()
