"""A tree as a scorer of MLflow: driven by its own `mlflow.genai.evaluate`, over a store in a folder."""

import asyncio
import os
import time

import pytest

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # read when it is imported
os.environ["DO_NOT_TRACK"] = "true"
pytest.importorskip("mlflow.genai")

import mlflow
from mlflow.utils.timeout import MlflowTimeoutError

from rubrics import TrajectoryRubric, WeightedSum
from rubrics.integrations.mlflow import RubricScorer
from rubrics.rescoring import rescore_one
from rubrics.rollouts.conversations import trajectory_of_output
from rubrics.rollouts.functions import text_of
from rubrics.rollouts.scoring import Scorer
from rubrics.score import Score

pytestmark = pytest.mark.filterwarnings(  # MLflow's own
    "ignore::DeprecationWarning",
    "ignore::sqlalchemy.exc.SADeprecationWarning",
    "ignore:.*Any type hint is inferred as AnyType:UserWarning",
)


@pytest.fixture(scope="module", autouse=True)
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.create_experiment("rubrics", artifact_location=str(folder / "artifacts"))
    mlflow.set_experiment("rubrics")


class Right(TrajectoryRubric):
    """1 where the answer is the expected one."""

    def score_trajectory(self, trajectory):
        right = text_of(trajectory[-1][0]) == self.task["expectations"]["expected_response"]
        return Score(float(right), reason="as expected" if right else "not as expected")


class Short(TrajectoryRubric):
    def score_trajectory(self, trajectory):
        last, _ = trajectory[-1]
        return 1.0 if len(last["content"]) <= 20 else 0.0


GRADED = WeightedSum({"right": Right(), "short": Short()}, {"right": 0.75, "short": 0.25})


def test_the_example():
    data = [
        {"inputs": {"question": "6 times 7?"}, "expectations": {"expected_response": "42"}},
        {"inputs": {"question": "1 and 1?"}, "expectations": {"expected_response": "2"}},
    ]

    def answer(question: str) -> str:
        return "42"

    result = mlflow.genai.evaluate(data=data, predict_fn=answer, scorers=[RubricScorer(GRADED)])
    assert result.metrics == {"rubric/mean": 0.625, "rubric.right/mean": 0.5, "rubric.short/mean": 1.0}


class Judge(TrajectoryRubric):
    """Async; says nothing of an answer with a question mark, and fails on an exclamation mark."""

    async def score_trajectory(self, trajectory):
        await asyncio.sleep(0)
        text = text_of(trajectory[-1][0])
        if "!" in text:
            raise ValueError("no shouting")
        return None if "?" in text else 0.5


TREE = WeightedSum({"right": Right(), "judge": Judge()}, {"right": 0.5, "judge": 0.5})


def rows(*answers: str) -> list[dict]:
    return [
        {"inputs": {"question": f"{i}?"}, "outputs": answer, "expectations": {"expected_response": "42"}}
        for i, answer in enumerate(answers)
    ]


def by_question(result) -> dict[str, dict[str, object]]:
    found = {}
    for trace_id in result.result_df["trace_id"]:
        trace = mlflow.get_trace(trace_id)
        question = trace.data.spans[0].inputs["question"]
        found[question] = {a.name: a for a in trace.info.assessments if a.feedback is not None}
    return found


def test_feedback_on_every_row_is_in_the_store_and_aggregated():
    result = mlflow.genai.evaluate(data=rows("42", "43"), scorers=[RubricScorer(TREE)])
    found = by_question(result)
    assert {name: a.value for name, a in found["0?"].items()} == {
        "rubric": 0.75,
        "rubric.right": 1.0,
        "rubric.judge": 0.5,
    }
    assert found["1?"]["rubric"].value == 0.25
    assert found["1?"]["rubric.right"].rationale == "not as expected"
    assert found["1?"]["rubric"].rationale == "reward: 0.25\nright: 0 (not as expected)\njudge: 0.5"
    assert result.metrics == {"rubric/mean": 0.5, "rubric.right/mean": 0.5, "rubric.judge/mean": 0.5}


@pytest.mark.parametrize(
    ("answer", "code", "why"), [("4?", "UNSCORED", "judge is unscored"), ("4!", "ValueError", "no")]
)
def test_a_row_without_a_reward_has_an_error_and_is_left_out_of_the_aggregates(answer, code, why):
    result = mlflow.genai.evaluate(data=rows("42", answer), scorers=[RubricScorer(TREE, name="quality")])
    found = by_question(result)["1?"]
    assert found["quality"].value is None
    assert found["quality"].error.error_code == code
    assert why in found["quality"].error.error_message
    assert "quality.judge" not in found
    assert result.metrics["quality/mean"] == 0.75


def test_a_function_that_predicts_and_what_counts_as_good_enough():
    def predict(question: str) -> dict:
        return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": "42"}]}

    data = [{k: row[k] for k in ("inputs", "expectations")} for row in rows("42")]
    scorer = RubricScorer(TREE, aggregations=["min", "max"], pass_if=lambda reward: reward > 0.5)
    result = mlflow.genai.evaluate(data=data, predict_fn=predict, scorers=[scorer])
    assert by_question(result)["0?"]["rubric"].value == 0.75
    assert {"rubric/min", "rubric/max"} <= set(result.metrics)
    assert scorer.pass_if(0.75) and not scorer.pass_if(0.25)


def test_many_rows_at_once():
    class Slow(TrajectoryRubric):
        async def score_trajectory(self, trajectory):
            await asyncio.sleep(0.1)
            return float(text_of(trajectory[-1][0]))

    result = mlflow.genai.evaluate(data=rows(*map(str, range(10))), scorers=[RubricScorer(Slow())])
    assert result.metrics == {"rubric/mean": 4.5}
    assert {q: found["rubric"].value for q, found in by_question(result).items()} == {f"{i}?": i for i in range(10)}


def test_called_directly_and_by_its_run():
    scorer = RubricScorer(TREE)
    row = rows("42")[0]
    for found in (scorer(**row), scorer.run(**row)):
        assert [(a.name, a.value) for a in found] == [("rubric", 0.75), ("rubric.right", 1.0), ("rubric.judge", 0.5)]
    slow = RubricScorer(Blocking(), timeout=0.05)
    with pytest.raises(MlflowTimeoutError, match="timed out"):
        slow.run(**row)
    with pytest.raises(TypeError, match="instance of rubrics"):
        RubricScorer(lambda outputs: 1.0)


class Blocking(TrajectoryRubric):
    def score_trajectory(self, trajectory):
        time.sleep(0.3)
        return 1.0


def test_two_trees_are_two_scorers_to_mlflow():
    one, other = RubricScorer(TREE), RubricScorer(Right())
    row = rows("42")[0]
    digests = set()
    for scorer in (one, RubricScorer(TREE), other):
        result = mlflow.genai.evaluate(data=[row], scorers=[scorer])
        metadata = by_question(result)["0?"]["rubric"].metadata
        digests.add(next(value for key, value in metadata.items() if "digest" in key.lower()))
    assert len(digests) == 2


@pytest.mark.parametrize("answer", ["42", "43", "42?"])
def test_scored_here_as_everywhere(answer):
    [row] = rows(answer)
    trajectory = trajectory_of_output(row["inputs"], answer, task={"expectations": row["expectations"]})
    there = Scorer(TREE).score(trajectory).reward
    assert RubricScorer(TREE)(**row)[0].value == there == rescore_one(trajectory, TREE).reward
