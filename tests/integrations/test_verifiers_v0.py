"""Trees in the place of verifiers' rubrics before 0.4, in its own environments with a scripted client."""

import asyncio
import json
import pickle
from collections import Counter
from math import isnan
from typing import Any

import pytest

pytest.importorskip("verifiers.legacy")

import verifiers.legacy as vf
from datasets import Dataset
from verifiers.legacy.types import Response, ResponseMessage, State

from rubrics import Rubric, RubricError, WeightedSum
from rubrics.integrations.verifiers_v0 import NoRewardError, TreeRubric, VerifiersFunction, trajectory_of_state
from rubrics.rescoring import rescore_one
from rubrics.rollouts.scoring import Scorer
from rubrics.trajectory import Trajectory
from tests.integrations.polite import Polite, Right, RightAsync, make_tree

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


class ScriptedClient(vf.Client):
    """First it calls a tool where there is one, then it answers; every second rollout says please."""

    def __init__(self) -> None:
        super().__init__(object())
        self.asked: Counter[int] = Counter()

    def setup_client(self, config: Any) -> Any: ...
    async def to_native_tool(self, tool: Any) -> Any: ...
    async def to_native_prompt(self, messages: Any) -> Any: ...
    async def get_native_response(self, *args: Any, **kwargs: Any) -> Any: ...
    async def raise_from_native_response(self, response: Any) -> None: ...
    async def from_native_response(self, response: Any) -> Any: ...
    async def close(self) -> None: ...

    async def get_response(
        self, prompt: Any, model: str, sampling_args: Any, tools: Any = None, **kwargs: Any
    ) -> Response:
        if prompt[0].content.startswith("Break"):
            raise vf.InfraError("it broke")
        calls = None
        if tools and not any(message.role == "tool" for message in prompt):
            calls = [{"id": "call_1", "name": "look", "arguments": '{"what": "numbers"}'}]
        example = kwargs["state"]["example_id"]
        self.asked[example] += calls is None
        text = None if calls else ("it is 7" if self.asked[example] % 2 else "please, it is 7")
        reason = "length" if sampling_args.get("max_tokens") == 1 else "stop"
        message = ResponseMessage(
            content=text, tool_calls=calls, finish_reason=reason, is_truncated=reason == "length", tokens=None
        )
        return Response(id="1", created=1, model=model, message=message)


def rows(*answers: str, question: str = "Which number?") -> Dataset:
    return Dataset.from_list([{"question": question, "answer": answer} for answer in answers])


def play(
    env: Any, *, rollouts: int = 2, columns: list[str] | None = None, together: bool = True, **sampling: Any
) -> list[Any]:
    """The outputs of all rollouts of an environment, sorted by example and what was said."""
    results = asyncio.run(
        env.generate(
            env.get_dataset().repeat(rollouts),
            ScriptedClient(),
            "scripted",
            sampling_args=sampling,
            state_columns=columns,
            independent_scoring=not together,
        )
    )
    outputs: list[Any] = results["outputs"]
    return sorted(outputs, key=lambda output: (output["example_id"], str(output["completion"])))


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("right", [Right, RightAsync])
def test_a_tree_scores_the_rollouts_of_an_environment(right: type[Rubric], together: bool) -> None:
    env = vf.SingleTurnEnv(dataset=rows("7", "8"), rubric=TreeRubric(make_tree(right), unscored="raise"))
    outputs = play(env, together=together)
    assert [output["reward"] for output in outputs] == [0.5, 0.75, 0.0, 0.25]
    assert outputs[1]["metrics"] == {
        "rubric/polite": 1.0,
        "rubric/looked": 0.0,
        "rubric/right": 1.0,
        "num_turns": 1.0,  # verifiers puts a rubric of its own beside the tree
    }


def look(what: str) -> str:
    """Look something up.

    Args:
        what: it
    """
    return f"looked up {what}"


def tool_env(*answers: str, unscored: Any = "error", question: str = "Which number?") -> Any:
    rubric = TreeRubric(make_tree(), unscored=unscored)
    return vf.ToolEnv(dataset=rows(*answers, question=question), tools=[look], rubric=rubric)


def test_what_a_tree_sees_and_a_rollout_scores_as_its_recording() -> None:
    outputs = play(tool_env("7"), rollouts=1)
    trajectory = trajectory_of_state(outputs[0])
    assert trajectory.task.answer == "7" and trajectory.end == "terminated"
    assert [message.content for message in trajectory.initial.messages] == ["Which number?"]
    first, second = trajectory.steps
    assert first.action.tool_calls == [{"id": "call_1", "name": "look", "arguments": {"what": "numbers"}}]
    assert first.observation.content == "looked up numbers"
    assert second.action.content == "it is 7" and second.observation.done
    tree = make_tree()
    assert (
        outputs[0]["reward"] == rescore_one(trajectory, tree).reward == Scorer(tree).score(trajectory).reward == 0.625
    )
    again = Trajectory.from_dict(json.loads(json.dumps(trajectory.to_dict())))
    assert rescore_one(again, tree).reward == 0.625


def test_a_rollout_without_a_reward_has_an_error() -> None:
    scored, unscored, failed = (play(tool_env("7", "unscored", "bug"))[i] for i in (1, 3, 5))
    assert scored["reward"] == 0.875 and scored["error"] is None
    for output, reason in ((unscored, "right is unscored: nobody knows"), (failed, "right: ZeroDivisionError: a bug")):
        assert isnan(output["reward"])
        assert output["error"]["error"] == "NoRewardError" and reason in output["error"]["message"]
    assert unscored["metrics"]["rubric/polite"] == 1.0 and "rubric/right" not in unscored["metrics"]
    assert trajectory_of_state(unscored).end == "terminated"  # what failed was scoring
    assert Scorer(Polite()).score(trajectory_of_state(unscored)).reward == 1.0


def test_a_number_for_a_rollout_without_a_reward() -> None:
    outputs = play(tool_env("unscored", "bug", unscored=-1))
    assert [output["reward"] for output in outputs] == [-1.0] * 4
    assert [output["error"] for output in outputs] == [None] * 4


def test_raising() -> None:
    with pytest.raises(RubricError, match="right is unscored: nobody knows"):
        play(tool_env("unscored", unscored="raise"))
    with pytest.raises(RubricError, match="right: ZeroDivisionError: a bug"):
        play(tool_env("bug", unscored="raise"))


def test_the_rule_is_asked_for() -> None:
    with pytest.raises(TypeError, match="unscored"):
        TreeRubric(make_tree())  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="'raise', 'error' or a finite number"):
        TreeRubric(make_tree(), unscored="zero")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"takes no function \(look\): make it a leaf"):
        TreeRubric(make_tree(), unscored=0.0).add_reward_func(look)
    with pytest.raises(TypeError, match="takes no function"):
        TreeRubric(make_tree(), unscored=0.0).add_metric(look)


def test_ends() -> None:
    (cut,) = play(tool_env("7"), rollouts=1, max_tokens=1)
    assert cut["is_truncated"] and trajectory_of_state(cut).end == "truncated"
    assert cut["reward"] == 0.625
    (broken,) = play(tool_env("7", question="Break"), rollouts=1)
    assert broken["error"]["error"] == "InfraError" and isnan(broken["reward"])
    assert trajectory_of_state(broken).end == "error"


def state(text: str, answer: str, id: str = "") -> State:
    made = State(input={"prompt": [vf.UserMessage(content="?")], "answer": answer, "example_id": 0, "info": {"k": 1}})
    step = {"reward": None, "advantage": None}
    made.update({"completion": [vf.AssistantMessage(content=text)], "trajectory": [step], "trajectory_id": id or text})
    made.update({"reward": None, "metrics": None, "error": None, "is_truncated": False, "timing": {}})
    return made


def test_advantages_are_relative_to_what_was_scored() -> None:
    states = [state("please 7", "7"), state("7", "7"), state("", "unscored")]
    rubric = TreeRubric(make_tree(), unscored="error")
    asyncio.run(rubric.score_group(states))
    assert [s["advantage"] for s in states[:2]] == [0.125, -0.125]
    assert [s["trajectory"][0]["reward"] for s in states[:2]] == [0.75, 0.5]
    assert isnan(states[2]["advantage"]) and isnan(states[2]["trajectory"][0]["reward"])
    assert isinstance(states[2]["error"], NoRewardError)
    asyncio.run(rubric.score_group([]))


def test_many_at_once_get_their_own_rewards() -> None:
    for right in (Right, RightAsync):
        states = [state("please 7" if i % 3 else "no", "7", id=str(i)) for i in range(60)]
        rubric = pickle.loads(pickle.dumps(TreeRubric(make_tree(right), unscored="raise").scorer))
        asyncio.run(TreeRubric(rubric.rubric, unscored="raise").score_group(states))
        assert [s["reward"] for s in states] == [0.75 if i % 3 else 0.0 for i in range(60)]


# -- a reward function as a leaf --------------------------------------------------------------------------------------


def exact(prompt: Any, completion: Any, answer: str, info: Any, **rest: Any) -> float:
    assert isinstance(prompt[0], vf.UserMessage) and isinstance(completion[-1], vf.AssistantMessage)
    assert set(rest) >= {"task", "parser"} and info in ({}, {"k": 1})
    return float(completion[-1]["content"].endswith(answer))


async def parsed(completion: Any, answer: str, parser: Any) -> float:
    return float(parser.parse_answer(completion) == answer)


def turns(state: Any) -> float:
    return float(len(state["trajectory"]))


def of_a_group(completions: Any) -> list[float]:
    return [0.0 for _ in completions]


def test_a_reward_function_as_a_leaf() -> None:
    parser = vf.XMLParser(["answer"], answer_field="answer")
    weights = {"exact": 0.25, "parsed": 0.75}
    tree = WeightedSum({"exact": VerifiersFunction(exact), "parsed": VerifiersFunction(parsed, parser=parser)}, weights)
    theirs = vf.Rubric([exact, parsed], list(weights.values()), parser=parser)
    for text in ("7", "<answer>7</answer>", "<answer>7</answer> 7", "no"):
        ours, own = state(text, "7"), state(text, "7")
        asyncio.run(TreeRubric(tree, unscored="raise").score_rollout(ours))
        asyncio.run(theirs.score_rollout(own))
        assert ours["reward"] == own["reward"] == rescore_one(trajectory_of_state(ours), tree).reward
        assert list(ours["metrics"].values()) == list(own["metrics"].values())


def test_functions_of_one_tree_have_their_own_parsers() -> None:
    seen: list[Any] = []

    def looks(completion: Any, parser: Any) -> float:
        seen.append(parser)
        return 1.0

    parsers = [vf.XMLParser(["answer"]), vf.XMLParser(["guess"])]
    leaves = [VerifiersFunction(looks, parser=parser) for parser in parsers]
    asyncio.run(TreeRubric(WeightedSum(leaves, [0.5, 0.5]), unscored="raise").score_rollout(state("7", "7")))
    assert seen == parsers


def test_a_function_that_raises_is_not_zero() -> None:
    ours = state("7", "7")
    tree = VerifiersFunction(lambda completion: completion[5])
    asyncio.run(TreeRubric(tree, unscored="error").score_rollout(ours))
    assert isnan(ours["reward"]) and "IndexError" in str(ours["error"])
    with pytest.raises(TypeError, match="of_a_group is a function of whole groups"):
        VerifiersFunction(of_a_group)


def test_a_function_of_the_state_needs_a_live_one() -> None:
    leaf = VerifiersFunction(turns)
    assert leaf.needs_live_state and not VerifiersFunction(exact).needs_live_state
    live = state("7", "7")
    asyncio.run(TreeRubric(leaf, unscored="raise").score_rollout(live))
    assert live["reward"] == 1.0
    row = rescore_one(trajectory_of_state(live), leaf)
    assert (row.status, row.kept) == ("unscored", [""])
    assert "needs the state of a live rollout" in (Scorer(leaf).score(trajectory_of_state(live)).reason or "")
