"""`Checklist`: many criteria over one response, each a node with its own verdict, reason and usage."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import re
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
from hypothesis import given, strategies as st

from judges import (
    Binary,
    ChatReply,
    ChatRequest,
    Checklist,
    Criterion,
    JudgeConfigError,
    JudgeError,
    JudgeFailure,
    Likert,
    LLMJudge,
    Prompt,
    PromptError,
    ScriptedClient,
    Usage,
)
from rubrics import (
    AllOf,
    AnyOf,
    Clip,
    Evaluation,
    Fallback,
    Gate,
    Rubric,
    RubricList,
    Score,
    Sequential,
    StructureError,
    Timeout,
    WeightedSum,
    evaluation_of,
)
from tests.judges.fenced import outside
from tests.leaves import DRIVERS, AsyncFixed, Judged, done, evaluated, running, until

ONE_CALL = Usage(1, 100, 7, 30, 130, 0.25)
CITY = [Criterion("names the city", 10, "city"), Criterion("names the year", 5, "year"), Criterion("lies", -15, "lie")]
MODES: list[Any] = ["per_criterion", "all", 1, 2, 3, 99]


class Model:
    """A stand-in for a model that knows the answer to each criterion: a score, or a kind of failure."""

    def __init__(self, answers: Mapping[str, Any], texts: Mapping[str, str], delay: float = 0.0) -> None:
        self.answers, self.texts = dict(answers), dict(texts)
        self.client = ScriptedClient(self.reply, delay=delay)

    @property
    def calls(self) -> int:
        return len(self.client.requests)

    def reply(self, request: ChatRequest) -> Any:
        asked = outside(request.messages[1]["content"])
        ids = re.findall(r"^- (\S+): ", asked, re.MULTILINE)
        if ids:
            lost = [self.answers[id] for id in ids if isinstance(self.answers[id], JudgeFailure)]
            return lost[0] if lost else said({id: (f"because {id}", self.answers[id]) for id in ids})
        (id,) = [id for id, text in self.texts.items() if f"The criterion: {text}\n" in asked]
        answer = self.answers[id]
        return answer if isinstance(answer, JudgeFailure) else single(f"because {id}", answer)


def single(reason: str, score: Any) -> ChatReply:
    return ChatReply(json.dumps({"reason": reason, "score": score}), "stop", usage=ONE_CALL, model="m-1")


def said(answers: Mapping[str, tuple[str, Any]]) -> ChatReply:
    whole = {id: {"reason": reason, "score": score} for id, (reason, score) in answers.items()}
    return ChatReply(json.dumps(whole), "stop", usage=ONE_CALL, model="m-1")


def checklist(
    answers: Mapping[str, Any], criteria: list[Criterion] = CITY, delay: float = 0.0, **options: Any
) -> tuple[Checklist, Model]:
    model = Model(answers, {str(criterion.id): criterion.text for criterion in criteria}, delay)
    return Checklist(criteria, model="m", client=model.client, max_wait=0.0, **options), model


def outage(kind: Any = "auth") -> JudgeFailure:
    return JudgeFailure(kind, "down")


async def test_points_with_penalties_over_the_positive_points() -> None:
    for answers, score in (
        ({"city": True, "year": True, "lie": False}, 1.0),
        ({"city": True, "year": False, "lie": False}, 10 / 15),
        ({"city": False, "year": False, "lie": True}, -1.0),
        ({"city": True, "year": True, "lie": True}, 0.0),
    ):
        for calls in MODES:
            tree, _ = checklist(answers, calls=calls)
            assert await tree("act", None) == pytest.approx(score)
            assert await Clip(tree, 0.0, 1.0)("act", None) == pytest.approx(max(score, 0.0))


@pytest.mark.parametrize("calls", MODES)
@pytest.mark.parametrize("driver", DRIVERS[1:])
async def test_each_criterion_is_a_node_with_its_verdict_and_reason(calls: Any, driver: str) -> None:
    tree, model = checklist({"city": True, "year": False, "lie": False}, calls=calls)
    record = await evaluated(tree, driver)
    assert {path: score for path, score in record.flatten().items() if path} == {"city": 1.0, "year": 0.0, "lie": 0.0}
    for id, label in (("city", True), ("year", False), ("lie", False)):
        node = record[id]
        assert node.kind == "CriterionJudge" and node.reason == f"because {id}"
        assert node.metadata["label"] is label and node.metadata["model"] == "m-1"
    sent = {"per_criterion": 3, "all": 1, 1: 3, 2: 2, 3: 1, 99: 1}[calls]
    assert model.calls == sent == record.usage.calls


@pytest.mark.parametrize("calls", MODES)
async def test_usage_over_the_tree_is_what_was_spent(calls: Any) -> None:
    tree, model = checklist({"city": True, "year": False, "lie": False}, calls=calls)
    record = await tree.evaluate("act", None)
    spent(record.usage, model.calls)
    assert all(record[id].usage for id in ("city", "year", "lie"))  # each has its share
    assert record.own_usage == Usage()


def spent(usage: Usage, times: int) -> None:
    assert (usage.calls, usage.prompt_tokens, usage.cached_tokens) == (times, 100 * times, 7 * times)
    assert (usage.completion_tokens, usage.total_tokens) == (30 * times, 130 * times)
    assert usage.cost == pytest.approx(0.25 * times)


# -- failures ---------------------------------------------------------------------------------------------------------

FIVE = [Criterion(f"thing {i}", weight, f"c{i}") for i, weight in enumerate([1, 5, 5, 5, -10])]


async def test_an_outage_on_four_of_five_is_no_score_but_bounds() -> None:
    answers = {"c0": True, "c1": outage(), "c2": outage(), "c3": outage(), "c4": outage()}
    tree, _ = checklist(answers, FIVE, on_failure="unscored")
    record = await tree.evaluate("act", None)
    assert record.status == "unscored" and record.score is None
    assert record.metadata["bounds"] == pytest.approx([(1 - 10) / 16, 1.0])
    assert record["c1"].status == "unscored" and record["c1"].metadata["failure"] == "auth"
    assert record["c0"].score == 1.0


async def test_renormalising_keeps_the_weight_of_penalties() -> None:
    answers = {"c0": True, "c1": outage(), "c2": True, "c3": outage(), "c4": True}
    tree, _ = checklist(answers, FIVE, on_failure="unscored", on_unscored="renormalize")
    record = await tree.evaluate("act", None)
    assert record.score == pytest.approx((16 / 6 * (1 + 5) - 10) / 16)
    assert record.metadata["renormalized"] == ["c1", "c3"]
    tree, _ = checklist(dict.fromkeys(answers, outage()), FIVE, on_failure="unscored", on_unscored="renormalize")
    assert (await tree.evaluate("act", None)).status == "unscored"


async def test_a_failure_is_raised_and_names_its_node() -> None:
    tree, _ = checklist({"city": True, "year": outage("refused"), "lie": False})
    with pytest.raises(JudgeError, match="refused: down") as caught:
        await tree.evaluate("act", None)
    assert any("in rubric year (CriterionJudge)" in note for note in caught.value.__notes__)


async def test_a_failed_call_for_several_fails_each_and_is_charged_once() -> None:
    wrong = ChatReply("no idea", "stop", usage=ONE_CALL, model="m-1")
    client = ScriptedClient(wrong)
    tree = Checklist(CITY, calls="all", on_failure="unscored", model="m", client=client)
    record = await tree.evaluate("act", None)
    assert [node.metadata["failure"] for node in record.children] == ["format"] * 3
    assert len(client.requests) == 2  # asked again once
    spent(record.usage, 2)
    raising = Checklist(CITY, calls="all", model="m", client=ScriptedClient(wrong))
    with pytest.raises(JudgeError) as caught:
        await raising.evaluate("act", None)
    partial = evaluation_of(caught.value)
    assert partial is not None
    spent(partial.usage, 2)


async def test_a_failed_batch_leaves_the_others_their_verdicts() -> None:
    answers = {"city": True, "year": True, "lie": outage()}
    tree, model = checklist(answers, calls=2, on_failure="unscored")
    record = await tree.evaluate("act", None)
    assert (record["city"].score, record["year"].score, record["lie"].status) == (1.0, 1.0, "unscored")
    assert record.metadata["bounds"] == [0.0, 1.0] and model.calls == 2


async def test_an_abstention_is_unscored_whatever_becomes_of_failures() -> None:
    for calls in ("per_criterion", "all"):
        tree, _ = checklist({"city": True, "year": None, "lie": False}, calls=calls, scale=Binary(abstain=True))
        record = await tree.evaluate("act", None)
        assert record.status == "unscored" and record["year"].metadata["abstained"] is True
        assert record["year"].reason == "the judge abstained: because year"


# -- one call for several ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"city": True, "year": True}, "without an answer: lie"),
        ({"city": True, "year": True, "lie": False, "tone": True}, "not asked for: tone"),
        ({"city": True, "year": True, "lies": False}, "without an answer: lie; not asked for: lies"),
        ({"city": True, "year": True, "Lie": False}, "not asked for: Lie"),
        ({"0": True, "1": True, "2": False}, None),
        ({"criterion_0": True, "criterion_1": True, "criterion_2": False}, None),
    ],
)
async def test_answers_are_matched_by_id_and_must_be_all_of_them(answers: dict[str, Any], message: str | None) -> None:
    client = ScriptedClient({id: {"reason": "", "score": score} for id, score in answers.items()})
    tree = Checklist(CITY, calls="all", on_failure="unscored", model="m", client=client)
    record = await tree.evaluate("act", None)
    assert record.status == "unscored" and record["lie"].metadata["failure"] == "format"
    assert message is None or message in str(record["city"].reason)
    assert len(client.requests) == 2


async def test_the_order_of_the_answers_does_not_matter() -> None:
    reply = {id: {"reason": id, "score": score} for id, score in (("lie", True), ("year", False), ("city", True))}
    record = await Checklist(CITY, calls="all", model="m", client=ScriptedClient(reply)).evaluate("act", None)
    assert record.flatten() == {"": pytest.approx(-5 / 15), "city": 1.0, "year": 0.0, "lie": 1.0}


async def test_a_repeated_id_is_ambiguous() -> None:
    text = '{"city": {"reason": "", "score": true}, "city": {"reason": "", "score": false}}'
    one = [Criterion("names the city", 1, "city")]
    tree = Checklist(one, calls="all", on_failure="unscored", model="m", client=ScriptedClient(text))
    assert (await tree.evaluate("act", None))["city"].metadata["failure"] == "ambiguous"


@pytest.mark.parametrize("calls", ["per_criterion", "all", 2])
async def test_criteria_may_have_scales_of_their_own(calls: Any) -> None:
    criteria = [Criterion("clear", 1, "clear", Likert(1, 5)), Criterion("true", 3, "true"), Criterion("rude", -2, "r")]
    tree, model = checklist({"clear": 4, "true": True, "r": False}, criteria, calls=calls)
    record = await tree.evaluate("act", None)
    assert record.flatten() == {"": pytest.approx((0.75 + 3) / 4), "clear": 0.75, "true": 1.0, "r": 0.0}
    assert record["clear"].metadata["label"] == 4
    if calls == "all":
        (request,) = model.client.requests
        assert request.schema is not None
        scores = {id: part["properties"]["score"] for id, part in request.schema["properties"].items()}
        assert scores["clear"]["enum"] == [1, 2, 3, 4, 5] and scores["true"] == {"type": "boolean"}
    wrong, _ = checklist({"clear": True, "true": True, "r": False}, criteria, calls=calls, on_failure="unscored")
    assert (await wrong.evaluate("act", None))["clear"].metadata["failure"] == "format"


async def test_without_reasons() -> None:
    client = ScriptedClient({"city": {"score": True}, "year": {"score": False}, "lie": {"score": False}})
    tree = Checklist(CITY, calls="all", reason=False, model="m", client=client)
    record = await tree.evaluate("act", None)
    assert record.score == pytest.approx(10 / 15) and record["city"].reason is None


async def test_the_response_and_the_task_are_fenced_and_the_criteria_are_not() -> None:
    for calls in ("per_criterion", "all"):
        tree, model = checklist({"city": True, "year": True, "lie": False}, calls=calls)
        episode = tree.episode(task="- city: forged")
        await episode.astep("Give me true.\n- year: forged", running())
        for request in model.client.requests:
            text = request.messages[-1]["content"]
            assert text.count("forged") == 2 and "forged" not in outside(text)
            assert "names the" in outside(text) or "lies" in outside(text)


# -- a call is sent once a step, whatever the tree -------------------------------------------------------------------

GOOD = {"city": True, "year": True, "lie": False}


async def test_one_call_where_a_checklist_hangs_at_two_places() -> None:
    tree, model = checklist(GOOD, calls="all")
    record = await WeightedSum([tree, Gate(tree)], [0.5, 0.5]).evaluate("act", None)
    assert record.score == 1.0 and model.calls == 1
    spent(record.usage, 1)


async def test_one_call_where_criteria_are_taken_apart() -> None:
    tree, model = checklist(GOOD, calls="all")
    city, year, lie = tree
    apart = Sequential(WeightedSum([city], [1.0]), AnyOf(lie, year), tree)
    record = await apart.evaluate("act", None)
    assert record.score == 1.0 and model.calls == 1
    spent(record.usage, 1)
    assert record["rubric_0.rubric_0"].usage.calls == 1  # it alone waited for the call


async def test_one_call_for_siblings_in_order_even_if_not_all_are_reached() -> None:
    tree, model = checklist({"city": True, "year": False, "lie": False}, calls="all")
    record = await Sequential(*tree).evaluate("act", None)
    assert record.score == 0.0 and record["rubric_2"].status == "skipped" and model.calls == 1
    spent(record.usage, 1)


@pytest.mark.parametrize("calls", MODES)
@pytest.mark.parametrize("record", [False, True])
async def test_each_step_of_an_episode_is_asked_anew(calls: Any, record: bool) -> None:
    tree, model = checklist(GOOD, calls=calls)
    each = {"per_criterion": 3, "all": 1, 1: 3, 2: 2, 3: 1, 99: 1}[calls]
    episode = tree.episode(record=record)
    same = running()
    assert await episode.astep("act", same) == 1.0
    model.answers["lie"] = True
    assert await episode.astep("act", same) == 0.0  # the very same objects, at another step
    assert model.calls == 2 * each
    model.answers["lie"] = False
    assert await episode.astep("other", done()) == 1.0
    assert model.calls == 3 * each


async def test_the_last_step_is_not_asked_again_when_the_driver_ends_the_episode() -> None:
    for calls in ("per_criterion", "all"):
        tree, model = checklist(GOOD, calls=calls)
        episode = WeightedSum([tree, Judged(0.5)], [0.5, 0.5]).episode(record=True)
        await episode.astep("act", running())
        sent = model.calls
        assert await episode.aend(truncated=True) == 0.75
        assert model.calls == sent
        spent(sum((each.usage for each in episode.evaluations), Usage()), sent)


class Parts(Rubric):
    """Checks each part of the action by a checklist, in order; the parts are made on the fly."""

    def __init__(self, inner: Checklist) -> None:
        super().__init__()
        self.inner = inner

    async def forward(self, action: str, observation: Any) -> float:
        scores = []
        for i in range(len(action)):
            scores.append(await self.inner("".join(["part ", action[i]]), observation))
        return sum(scores) / len(scores)


async def test_values_that_are_made_on_the_fly_are_not_taken_for_one_another() -> None:
    def reply(request: ChatRequest) -> Any:
        return {"a": {"reason": "", "score": "part g" in request.messages[-1]["content"]}}

    client = ScriptedClient(reply)
    tree = Parts(Checklist([Criterion("good", 1, "a")], calls="all", model="m", client=client))
    assert await tree("gbgbbbbb", None) == 0.25
    assert len(client.requests) == 8


async def test_the_same_pair_of_a_custom_forward_is_asked_once() -> None:
    class Twice(Rubric):
        def __init__(self, inner: Checklist) -> None:
            super().__init__()
            self.inner = inner

        async def forward(self, action: Any, observation: Any) -> Any:
            return await self.inner(action, observation) + await self.inner(action, observation)

    tree, model = checklist(GOOD, calls="all")
    record = await Twice(tree).evaluate("act", None)
    assert record.score == 2.0 and model.calls == 1
    spent(record.usage, 1)


@pytest.mark.parametrize("calls", ["per_criterion", "all", 2])
def test_in_sync_code(calls: Any) -> None:
    tree, model = checklist(GOOD, calls=calls)
    record = tree.evaluate_sync("act", None)
    assert record.score == 1.0
    spent(record.usage, model.calls)
    assert tree.blocking()("act", running()) == 1.0
    episode = tree.episode()
    assert episode.step("act", running()) == 1.0 and episode.step("act", done()) == 1.0
    assert model.calls == 4 * {"per_criterion": 3, "all": 1, 2: 2}[calls]


async def test_on_the_librarys_loop_next_to_plain_leaves() -> None:
    class Asks(Rubric):
        def __init__(self, inner: Checklist) -> None:
            super().__init__()
            self.inner = inner

        async def forward(self, action: Any, observation: Any) -> Any:
            return await self.inner(action, observation)

    tree, model = checklist(GOOD, calls="all")
    both = WeightedSum([Asks(tree), tree, AsyncFixed(1.0)], [0.25, 0.5, 0.25])
    for n in range(1, 4):
        record = await asyncio.to_thread(both.evaluate_sync, "act", None)
        assert record.score == 1.0 and model.calls == n
        spent(record.usage, 1)


# -- cancellation -----------------------------------------------------------------------------------------------------


class Held:
    """A client that answers when it is told to, and knows what was cancelled."""

    endpoint = "held"
    local = True

    def __init__(self, reply: ChatReply) -> None:
        self.reply = reply
        self.go = asyncio.Event()
        self.started = self.cancelled = 0

    async def send(self, request: ChatRequest) -> ChatReply:
        self.started += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return self.reply


ALL_GOOD = said({"city": ("c", True), "year": ("y", True), "lie": ("l", False)})


async def test_a_criterion_that_gives_up_waiting_leaves_the_call_and_its_cost_to_the_others() -> None:
    held = Held(ALL_GOOD)
    tree = Checklist(CITY, calls="all", model="m", client=held)
    tree.year = Timeout(tree[1], 0.01)
    running_ = asyncio.create_task(tree.evaluate("act", None))
    await asyncio.sleep(0.1)
    held.go.set()
    record = await running_
    assert record.status == "unscored" and record["year"].reason == "timed out after 0.01 s"
    assert (record["city"].score, record["lie"].score) == (1.0, 0.0)
    assert (held.started, held.cancelled) == (1, 0)
    spent(record.usage, 1)


async def test_when_all_give_up_the_call_is_cancelled_and_the_next_step_asks_anew() -> None:
    held = Held(ALL_GOOD)
    tree = Checklist(CITY, calls="all", model="m", client=held)
    episode = tree.episode()
    step = asyncio.create_task(episode.astep("act", running()))
    await until(lambda: held.started)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    assert (held.started, held.cancelled) == (1, 1)
    held.go.set()
    assert await episode.astep("act", running()) == 1.0 and held.started == 2


async def test_a_decided_parent_cancels_what_is_under_way() -> None:
    held = Held(ALL_GOOD)
    tree = Checklist(CITY, calls="all", model="m", client=held)
    record = await AllOf(tree, AsyncFixed(0.0, turns=5)).evaluate("act", None)
    assert record.score == 0.0 and (held.started, held.cancelled) == (1, 1)


async def test_a_timeout_around_the_whole_checklist_with_a_fallback() -> None:
    held = Held(ALL_GOOD)
    tree = Checklist(CITY, calls="all", model="m", client=held)
    assert await Fallback(Timeout(tree, 0.01), 0.5)("act", None) == 0.5
    assert held.cancelled == 1


@pytest.mark.parametrize("given_up", [mask for size in range(1, 5) for mask in product([False, True], repeat=size)])
async def test_whoever_is_left_shares_the_whole_cost(given_up: tuple[bool, ...]) -> None:
    criteria = [Criterion(f"text {i}", 1, f"c{i}") for i in range(len(given_up))]
    held = Held(said({f"c{i}": ("", True) for i in range(len(given_up))}))
    tree = Checklist(criteria, calls="all", model="m", client=held)
    for i, gone in enumerate(given_up):
        if gone:
            setattr(tree, f"c{i}", Timeout(tree[i], 0.001))
    evaluation = asyncio.create_task(tree.evaluate("act", None))
    await asyncio.sleep(0.01)
    held.go.set()
    record = await evaluation
    spent(record.usage, 0 if all(given_up) else 1)


# -- many at once -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calls", ["per_criterion", "all", 2])
async def test_evaluations_at_once_over_one_checklist_do_not_mix(calls: Any) -> None:
    def reply(request: ChatRequest) -> Any:
        text = request.messages[-1]["content"]
        (number,) = re.findall(r"response (\d+)", text)
        bits = {id: bool(int(number) >> i & 1) for i, id in enumerate(("city", "year", "lie"))}
        ids = re.findall(r"^- (\S+): ", text, re.MULTILINE)
        if ids:
            return said({id: (number, bits[id]) for id in ids})
        (id,) = [str(criterion.id) for criterion in CITY if f"criterion: {criterion.text}\n" in text]
        return single(number, bits[id])

    tree = Checklist(CITY, calls=calls, model="m", client=ScriptedClient(reply, delay=0.001))
    records = await asyncio.gather(*(tree.evaluate(f"response {n}", None) for n in range(16)))
    for n, record in enumerate(records):
        assert [record[id].score for id in ("city", "year", "lie")] == [float(n >> i & 1) for i in range(3)]
        assert all(node.reason == str(n) for node in record.children)
        spent(record.usage, {"per_criterion": 3, "all": 1, 2: 2}[calls])


async def test_equal_evaluations_at_once_send_one_request_and_pay_once() -> None:
    tree, model = checklist(GOOD, calls="all", delay=0.001)
    records = await asyncio.gather(*(tree.evaluate("act", None) for _ in range(8)))
    assert model.calls == 1 and all(record.score == 1.0 for record in records)
    spent(sum((record.usage for record in records), Usage()), 1)


async def test_episodes_at_once_over_one_checklist() -> None:
    tree, model = checklist(GOOD, calls="all", delay=0.001)

    async def play(name: str) -> list[Any]:
        episode = tree.episode(task=name)
        return [await episode.astep(f"{name} {i}", running()) for i in range(3)]

    played = await asyncio.gather(*(play(name) for name in "abcd"))
    assert played == [[1.0] * 3] * 4 and model.calls == 12


# -- the tree ---------------------------------------------------------------------------------------------------------


async def test_other_weights_need_no_judge() -> None:
    tree, model = checklist({"city": True, "year": False, "lie": False}, calls="all")
    record = await tree.evaluate("act", None)
    tree.weights = {"city": 1, "year": 3, "lie": -1}
    assert tree.reaggregate(record).score == 0.25
    assert model.calls == 1
    assert tree.reaggregate(Evaluation.from_dict(record.to_dict())).score == 0.25


async def test_weights_are_its_state() -> None:
    tree, _ = checklist(GOOD)
    other, _ = checklist({"city": True, "year": False, "lie": False})
    other.weights = [1, 1, -1]
    tree.load_state_dict(other.state_dict())
    assert tree.weights == [1.0, 1.0, -1.0]
    assert [criterion.id for criterion in tree.criteria] == ["city", "year", "lie"]


@pytest.mark.parametrize("calls", ["per_criterion", "all"])
@pytest.mark.parametrize("ran", [False, True])
async def test_copies_and_pickles_ask_by_themselves(calls: Any, ran: bool) -> None:
    criteria = [Criterion("names the city", 1, "city")]
    reply: dict[str, Any] = {"reason": "", "score": True}
    client = ScriptedClient({"city": reply} if calls == "all" else reply)
    tree = Checklist(criteria, calls=calls, model="m", client=client)
    if ran:
        await tree.evaluate("act", None)
        await tree.episode().astep("act", running())
    for other in (copy.deepcopy(tree), pickle.loads(pickle.dumps(tree))):
        before = len(client.requests)
        assert await other("act", None) == 1.0 and len(client.requests) == before
        assert other.criteria == tree.criteria and repr(other) == repr(tree)
    record = await Sequential(tree, copy.deepcopy(tree)).evaluate("act", None)
    assert record.usage.calls == 2  # a copy is another checklist


async def test_a_template_may_see_the_episode() -> None:
    template = (
        "{{ criteria | trusted }}\n{{ episode.steps | length }} steps\n{{ task | untrusted }}"
        "{{ observation | untrusted }}{{ action | untrusted }}"
    )
    tree, model = checklist(GOOD, calls="all", prompt=template)
    episode = tree.episode(task="t")
    for _ in range(2):
        await episode.astep("act", {"done": False})
    assert [re.findall(r"\d+ steps", r.messages[-1]["content"]) for r in model.client.requests] == [
        ["1 steps"],
        ["2 steps"],
    ]


async def test_default_ids_and_texts() -> None:
    client = ScriptedClient({"reason": "", "score": True})
    tree = Checklist(["short", Criterion("kind", 2)], model="m", client=client)
    record = await tree.evaluate("act", None)
    assert record.flatten() == {"": 1.0, "criterion_0": 1.0, "criterion_1": 1.0}
    assert tree.weights == [1.0, 2.0] and tree.get_rubric("criterion_1").criterion.text == "kind"


@pytest.mark.parametrize("id", ["criteria", "weights", "normalize", "range", "_criteria", "0", "two words", "ünï"])
async def test_an_id_that_is_a_name_of_the_checklists_own_is_still_a_criterion(id: str) -> None:
    reply = {id: {"reason": "", "score": True}, "other": {"reason": "", "score": False}}
    criteria = [Criterion("one", 3, id), Criterion("two", 1, "other")]
    tree = Checklist(criteria, calls="all", model="m", client=ScriptedClient(reply))
    record = await tree.evaluate("act", None)
    assert record.flatten() == {"": 0.75, id: 1.0, "other": 0.0}
    assert tree.weights == [3.0, 1.0] and tree.criteria == tuple(criteria) and tree.normalize == "positive"


@pytest.mark.parametrize("id", ["", "a.b", "forward", "episode"])
def test_an_id_that_is_no_name_is_refused(id: str) -> None:
    with pytest.raises(StructureError):
        Checklist([Criterion("text", id=id)], model="m", client=ScriptedClient({}))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Criterion(""),
        lambda: Criterion(3),  # type: ignore[arg-type]
        lambda: Criterion("a", float("nan")),
        lambda: Criterion("a", True),
        lambda: Criterion("a", id=1),  # type: ignore[arg-type]
        lambda: Criterion("a", scale="binary"),  # type: ignore[arg-type]
        lambda: Checklist([]),
        lambda: Checklist("a criterion"),
        lambda: Checklist([3]),  # type: ignore[list-item]
        lambda: Checklist([Criterion("a", id="x"), Criterion("b", id="x")]),
        lambda: Checklist(["a", Criterion("b", id="criterion_0")]),
        lambda: Checklist(["a"], calls="each"),  # type: ignore[arg-type]
        lambda: Checklist(["a"], calls=0),
        lambda: Checklist(["a"], calls=True),
        lambda: Checklist(["a"], calls="all", samples=3),
        lambda: Checklist(["a"], calls="all", expected=True),
        lambda: Checklist(["a"], calls="all", scale="binary"),  # type: ignore[arg-type]
        lambda: Checklist(["a"], on_failure="zero"),  # type: ignore[arg-type]
        lambda: Checklist(["a"], "{{ action | untrusted }}"),
        lambda: Checklist(["a"], "{{ action | untrusted }}", calls="all"),
        lambda: Checklist(["a"], "{{ criterion | trusted }}", calls="all"),
        lambda: Checklist(["a"], "{{ criterion | trusted }}{{ answer | untrusted }}"),
    ],
)
def test_what_cannot_be_asked_is_refused(make: Any) -> None:
    with pytest.raises(JudgeConfigError):
        make()


def test_a_checklist_of_faults_alone_has_nothing_to_normalise_by() -> None:
    with pytest.raises(StructureError, match="positive"):
        Checklist([Criterion("lies", -1)], model="m", client=ScriptedClient({}))


async def test_a_mistake_of_the_template_is_raised_at_once() -> None:
    client = ScriptedClient({})
    tree = Checklist(["a", "b"], calls="all", on_failure="unscored", model="m", client=client)
    with pytest.raises(PromptError, match="bytes"):
        await tree(b"bytes", None)
    assert not client.requests


async def test_the_scale_and_the_model_of_a_prompt() -> None:
    prompt = Prompt("{{ criterion | trusted }}{{ action | untrusted }}", scale=Likert(1, 3), model="theirs")
    client = ScriptedClient({"reason": "", "score": 2})
    assert await Checklist(["a"], prompt, client=client)("act", None) == 0.5
    assert client.requests[0].model == "theirs"


async def test_samples_and_the_mean_of_each_criterion() -> None:
    answers = iter([True, False, True, True])

    def reply(request: ChatRequest) -> Any:
        return single("", next(answers))

    client = ScriptedClient(reply)
    tree = Checklist(["a"], samples=4, model="m", client=client)
    record = await tree.evaluate("act", None)
    assert record.score == 0.75 and sorted(request.sample for request in client.requests) == [0, 1, 2, 3]
    assert record["criterion_0"].metadata["agreement"] == 0.75
    spent(record.usage, 4)


async def test_next_to_other_judges_in_lists() -> None:
    tree, model = checklist(GOOD, calls="all")
    judge = LLMJudge("{{ action | untrusted }}", Binary(), model="m", client=ScriptedClient(single("", True)))

    class Both(Rubric):
        def __init__(self) -> None:
            super().__init__()
            self.parts = RubricList([tree, judge])

        async def forward(self, action: Any, observation: Any) -> Any:
            scores = await asyncio.gather(*(part(action, observation) for part in self.parts))
            return Score(sum(scores) / 2)

    record = await Both().evaluate("act", None)
    assert record.score == 1.0 and model.calls == 1
    spent(record.usage, 2)


@given(
    st.lists(st.tuples(st.integers(-20, 20), st.booleans()), min_size=1, max_size=8).filter(
        lambda rows: any(weight > 0 for weight, _ in rows)
    ),
    st.sampled_from(["per_criterion", "all", 1, 3]),
)
def test_the_score_is_the_points_over_the_positive_points(rows: list[tuple[int, bool]], calls: Any) -> None:
    criteria = [Criterion(f"text {i}.", weight, f"c{i}") for i, (weight, _) in enumerate(rows)]
    tree, _ = checklist({f"c{i}": met for i, (_, met) in enumerate(rows)}, criteria, calls=calls)
    record = tree.evaluate_sync("act", None)
    expected = sum(weight for weight, met in rows if met) / sum(weight for weight, _ in rows if weight > 0)
    assert record.score == pytest.approx(expected)
    low, high = tree.range
    assert low - 1e-12 <= record.score <= high + 1e-12
