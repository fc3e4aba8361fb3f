"""A tree as an evaluator of pydantic-evals: driven by its own `Dataset.evaluate`, reports and files."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("pydantic_evals")

from pydantic_evals import Case, Dataset, set_eval_attribute
from pydantic_evals.evaluators import Contains

from rubrics import TrajectoryRubric, WeightedSum
from rubrics.integrations.pydantic_evals import RubricEvaluator
from rubrics.rescoring import LoadError, rescore_one
from rubrics.rollouts.conversations import trajectory_of_output
from rubrics.rollouts.functions import text_of
from rubrics.rollouts.scoring import Scorer
from rubrics.score import Score


class Right(TrajectoryRubric):
    """1 where the output is the expected one."""

    def score_trajectory(self, trajectory):
        right = text_of(trajectory[-1][0]) == self.task["expected_output"]
        return Score(float(right), reason=f"it is {self.task['expected_output']}")


class Short(TrajectoryRubric):
    def score_trajectory(self, trajectory):
        last, _ = trajectory[-1]
        return 1.0 if len(last["content"]) <= 20 else 0.0


GRADED = WeightedSum({"right": Right(), "short": Short()}, {"right": 0.75, "short": 0.25})


async def test_the_example():
    dataset = Dataset(
        name="sums",
        cases=[Case(inputs="6 times 7?", expected_output="42"), Case(inputs="1 and 1?", expected_output="2")],
        evaluators=[RubricEvaluator(GRADED)],
    )

    async def answer(question: str) -> str:
        return "42"

    report = await dataset.evaluate(answer, progress=False)
    assert report.averages().scores == {"rubric": 0.625, "rubric.right": 0.5, "rubric.short": 1.0}


class Judge(TrajectoryRubric):
    """Async; says nothing of an answer with a question mark, and fails on an exclamation mark."""

    async def score_trajectory(self, trajectory):
        await asyncio.sleep(0)
        text = text_of(trajectory[-1][0])
        if "!" in text:
            raise ValueError("no shouting")
        return None if "?" in text else 0.5


TREE = WeightedSum({"right": Right(), "judge": Judge()}, {"right": 0.5, "judge": 0.5})


async def evaluate(evaluator, *answers, task=None, **options):
    cases = [Case(name=f"case {i}", inputs=answer, expected_output="42") for i, answer in enumerate(answers)]
    dataset = Dataset(name="sums", cases=cases, evaluators=[evaluator])

    async def say(inputs: str) -> str:
        return inputs

    return await dataset.evaluate(task or say, progress=False, **options)


def scores(case):
    return {name: found.value for name, found in case.scores.items()}


async def test_reward_and_components_and_reasons_arrive_in_the_report():
    report = await evaluate(RubricEvaluator(TREE), "42", "43")
    assert [scores(case) for case in report.cases] == [
        {"rubric": 0.75, "rubric.right": 1.0, "rubric.judge": 0.5},
        {"rubric": 0.25, "rubric.right": 0.0, "rubric.judge": 0.5},
    ]
    assert report.cases[0].scores["rubric.right"].reason == "it is 42"
    assert report.cases[0].labels["rubric.status"].value == "scored"
    averages = report.averages()
    assert averages.scores == {"rubric": 0.5, "rubric.right": 0.5, "rubric.judge": 0.5}
    assert "rubric.right" in report.render(include_averages=True)


async def test_an_unscored_case_has_no_score_and_the_reason():
    report = await evaluate(RubricEvaluator(TREE), "42", "42?")
    case = report.cases[1]
    assert scores(case) == {"rubric.right": 0.0}
    assert case.labels["rubric.status"].value == "unscored"
    assert "judge is unscored" in case.labels["rubric.status"].reason
    averages = report.averages()
    assert averages.scores["rubric"] == 0.75
    assert averages.labels["rubric.status"] == {"scored": 0.5, "unscored": 0.5}


async def test_a_tree_that_raises_is_a_failure_of_the_evaluator():
    report = await evaluate(RubricEvaluator(TREE, name="quality"), "42", "42!")
    assert [scores(case).get("quality") for case in report.cases] == [0.75, None]
    [failure] = report.cases[1].evaluator_failures
    assert failure.name == "quality" and failure.error_type == "ValueError"
    assert "no shouting" in failure.error_message


async def test_many_cases_at_once_and_other_evaluators_beside():
    class Slow(TrajectoryRubric):
        async def score_trajectory(self, trajectory):
            await asyncio.sleep(0.1)
            return 1.0

    class Blocking(TrajectoryRubric):
        def score_trajectory(self, trajectory):
            time.sleep(0.02)
            return 1.0

    cases = [Case(inputs=str(i)) for i in range(30)]
    evaluators = [RubricEvaluator(Slow(), name="slow"), RubricEvaluator(Blocking(), name="blocking"), Contains("9")]
    began = time.monotonic()
    report = await Dataset(name="many", cases=cases, evaluators=evaluators).evaluate(
        lambda inputs: inputs, progress=False
    )
    assert time.monotonic() - began < 2.5, "one after the other takes 3.6 s"
    assert all(scores(case) == {"slow": 1.0, "blocking": 1.0} for case in report.cases)


@dataclass
class Weather:
    city: str
    degrees: float


async def test_an_output_that_is_no_text_is_in_the_action_and_the_case_in_the_task():
    seen = []

    class Seen(TrajectoryRubric):
        def score_trajectory(self, trajectory):
            [(action, _)] = trajectory
            seen.append((self.task, action))
            return float(action["output"].degrees > 20)

    def forecast(inputs: dict) -> Weather:
        set_eval_attribute("model", "gusts")
        return Weather(inputs["city"], 21.5)

    case = Case(name="a", inputs={"city": "Oslo"}, metadata={"hard": True}, expected_output=Weather("Oslo", 21.0))
    report = await Dataset(name="w", cases=[case], evaluators=[RubricEvaluator(Seen())]).evaluate(
        forecast, progress=False
    )
    assert scores(report.cases[0]) == {"rubric": 1.0}
    [(task, action)] = seen
    assert action.content == '{"city": "Oslo", "degrees": 21.5}'
    assert (task.name, task.inputs.city, task.metadata.hard) == ("a", "Oslo", True)
    assert task.expected_output == Weather("Oslo", 21.0)
    assert task.attributes == {"model": "gusts"}


async def test_a_conversation_is_its_steps():
    class Steps(TrajectoryRubric):
        def score_trajectory(self, trajectory):
            return float(len(trajectory))

    asked = [{"role": "user", "content": "1 and 2?"}]
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
    said = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "3"},
        {"role": "assistant", "content": "3"},
    ]
    for output in (said, [*asked, *said], {"messages": [*asked, *said]}):
        dataset = Dataset(name="c", cases=[Case(inputs=asked)], evaluators=[RubricEvaluator(Steps())])
        report = await dataset.evaluate(lambda inputs, output=output: output, progress=False)
        assert scores(report.cases[0]) == {"rubric": 2.0}
        trajectory = trajectory_of_output(asked, output)
        assert [message["role"] for message in trajectory.initial["messages"]] == ["user"]
    completion = {"choices": [{"message": {"role": "assistant", "content": "3"}, "finish_reason": "stop"}]}
    assert text_of(trajectory_of_output("1 and 2?", completion).steps[0].action) == "3"


MODULE = """
from rubrics import TrajectoryRubric

class Length(TrajectoryRubric):
    def score_trajectory(self, trajectory):
        return float(len(trajectory[-1][0]["content"]))

def make_rubric():
    return Length()
"""


async def test_a_dataset_s_file_names_where_the_tree_is_made(tmp_path):
    (tmp_path / "lengths.py").write_text(MODULE)
    place = f"{tmp_path}/lengths.py:make_rubric"
    kind = Dataset[str, str, Any]
    dataset = kind(name="l", cases=[Case(inputs="four")], evaluators=[RubricEvaluator(place)])
    for name in ("l.yaml", "l.json"):
        dataset.to_file(tmp_path / name, custom_evaluator_types=[RubricEvaluator])
        read = kind.from_file(tmp_path / name, custom_evaluator_types=[RubricEvaluator])
        assert read.evaluators == [RubricEvaluator(place)]
        report = await read.evaluate(lambda inputs: inputs, progress=False)
        assert scores(report.cases[0]) == {"rubric": 4.0}
    with pytest.raises(LoadError):
        RubricEvaluator(f"{tmp_path}/lengths.py:make")
    with pytest.raises(TypeError, match="instance of rubrics"):
        RubricEvaluator(lambda ctx: 1.0)


@pytest.mark.parametrize("answer", ["42", "43", "42?"])
async def test_scored_here_as_everywhere(answer):
    report = await evaluate(RubricEvaluator(TREE), answer)
    trajectory = trajectory_of_output(answer, answer, task={"expected_output": "42"})
    there = (await Scorer(TREE).score_async(trajectory)).reward
    assert rescore_one(trajectory, TREE).reward == there
    assert scores(report.cases[0]).get("rubric") == there
