"""A tree as a metric of DSPy: driven by its own `Evaluate`, `BootstrapFewShot`, `ReAct`, `GEPA`, with a dummy model."""

import asyncio
import csv

import pytest

pytest.importorskip("dspy")

import dspy
from dspy.teleprompt.gepa.instruction_proposal import InstructionProposer
from dspy.utils.dummies import DummyLM

from rubrics import RubricError, TrajectoryRubric, WeightedSum
from rubrics.integrations.dspy import feedback_metric, rubric_metric, trajectory_of_prediction
from rubrics.rescoring import rescore_one
from rubrics.rollouts.functions import RewardFunction, text_of
from rubrics.rollouts.scoring import Scorer
from rubrics.score import Score


class Right(TrajectoryRubric):
    """Whether the field `answer` is the example's."""

    def score_trajectory(self, trajectory):
        right = trajectory[-1][0]["outputs"]["answer"] == self.task["answer"]
        return Score(float(right), reason=f"the right answer is {self.task['answer']}")


class Short(TrajectoryRubric):
    def score_trajectory(self, trajectory):
        last, _ = trajectory[-1]
        return 1.0 if len(last["content"]) <= 20 else 0.0


GRADED = WeightedSum({"right": Right(), "short": Short()}, {"right": 0.75, "short": 0.25})


def test_the_example():
    metric = rubric_metric(GRADED, unscored="raise")
    with dspy.context(lm=DummyLM([{"answer": "42"}, {"answer": "3"}])):
        result = dspy.Evaluate(devset=DEVSET, metric=metric, max_errors=1)(dspy.Predict("question -> answer"))
    assert result.score == 62.5
    said = feedback_metric(GRADED, unscored=0.0)(DEVSET[1], dspy.Prediction(answer="3"))
    assert said.feedback == "reward: 0.25\nright: 0 (the right answer is 2)\nshort: 1"


class Judge(TrajectoryRubric):
    """Async; says nothing of an answer with a question mark, and fails on an exclamation mark."""

    async def score_trajectory(self, trajectory):
        await asyncio.sleep(0)
        text = text_of(trajectory[-1][0])
        if "!" in text:
            raise ValueError("no shouting")
        return None if "?" in text else 0.5


TREE = WeightedSum({"right": Right(), "judge": Judge()}, {"right": 0.5, "judge": 0.5})
SYNC = WeightedSum(
    {"right": Right(), "short": RewardFunction(lambda completion: float(len(completion) < 9))},
    {"right": 0.75, "short": 0.25},
)


def examples(*pairs: tuple[str, str]) -> list[dspy.Example]:
    return [dspy.Example(question=q, answer=a).with_inputs("question") for q, a in pairs]


DEVSET = examples(("6 times 7?", "42"), ("1 and 1?", "2"))


def evaluate(metric, *answers, devset=DEVSET, **options):
    with dspy.context(lm=DummyLM([{"answer": answer} for answer in answers])):
        return dspy.Evaluate(devset=devset, metric=metric, num_threads=1, **options)(dspy.Predict("question -> answer"))


# -- Evaluate ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tree", "expected"), [(TREE, [0.75, 0.25]), (SYNC, [1.0, 0.25])])
def test_the_reward_of_each_prediction_arrives(tree, expected):
    result = evaluate(rubric_metric(tree, unscored="raise"), "42", "3", max_errors=1)
    assert [score for _, _, score in result.results] == expected
    assert result.score == 50.0 * sum(expected)


def test_what_is_written_to_a_file_bears_the_name_of_the_metric(tmp_path):
    evaluate(rubric_metric(SYNC, unscored="raise"), "42", "3", save_as_csv=str(tmp_path / "out.csv"))
    with open(tmp_path / "out.csv", newline="") as file:
        assert [row["rubric_metric"] for row in csv.DictReader(file)] == ["1.0", "0.25"]


@pytest.mark.parametrize("answer", ["2?", "2!"])
def test_without_a_reward_the_number_that_was_chosen(answer):
    result = evaluate(rubric_metric(TREE, unscored=-1), "42", answer, max_errors=1)
    assert [score for _, _, score in result.results] == [0.75, -1.0]


@pytest.mark.parametrize("answer", ["2?", "2!"])
def test_without_a_reward_it_raises_where_that_was_chosen(answer):
    metric = rubric_metric(TREE, unscored="raise")
    with pytest.raises(RubricError, match="judge"):
        metric(DEVSET[1], dspy.Prediction(answer=answer))
    with pytest.raises(Exception, match="cancelled due to errors"):
        evaluate(metric, "42", answer, max_errors=1)
    with pytest.raises(ValueError, match="no shouting"):
        rubric_metric(TREE, unscored=0.0, on_error="raise")(DEVSET[1], dspy.Prediction(answer="2!"))


def test_the_rule_has_to_be_chosen():
    with pytest.raises(TypeError, match="unscored"):
        rubric_metric(TREE)
    for wrong in (None, "drop", float("nan"), True):
        with pytest.raises(ValueError, match="unscored is 'raise' or a finite number"):
            rubric_metric(TREE, unscored=wrong)
    with pytest.raises(ValueError, match="name a number"):
        feedback_metric(TREE, unscored="raise")


def test_many_at_once_over_threads():
    class Slow(TrajectoryRubric):
        async def score_trajectory(self, trajectory):
            await asyncio.sleep(0.05)
            return float(trajectory[-1][0]["outputs"]["answer"] == self.task["answer"])

    devset = examples(*[(f"{i} and 0?", str(i)) for i in range(40)])
    with dspy.context(lm=DummyLM({f"{i} and 0?": {"answer": str(i % 20)} for i in reversed(range(40))})):
        metric = rubric_metric(Slow(), unscored="raise")
        result = dspy.Evaluate(devset=devset, metric=metric, num_threads=8, max_errors=1)(
            dspy.Predict("question -> answer")
        )
    assert [score for _, _, score in result.results] == [
        float(pred.answer == example.answer) for example, pred, _ in result.results
    ]


def test_an_optimiser_compares_with_its_threshold():
    answers = DummyLM([{"answer": "42"}, {"answer": "3"}])
    optimiser = dspy.BootstrapFewShot(
        metric=rubric_metric(TREE, unscored="raise"), metric_threshold=0.7, max_labeled_demos=0, max_rounds=1
    )
    with dspy.context(lm=answers):
        program = optimiser.compile(dspy.Predict("question -> answer"), trainset=DEVSET)
    assert [demo.answer for demo in program.demos] == ["42"]


# -- predictions as trajectories --------------------------------------------------------------------------------------


def test_a_prediction_is_one_action_and_the_example_its_task():
    example = dspy.Example(question="q", hint="h", answer="a").with_inputs("question", "hint")
    trajectory = trajectory_of_prediction(example, dspy.Prediction(reasoning="because", answer="a"))
    assert trajectory.task == {"question": "q", "hint": "h", "answer": "a"}
    assert trajectory.initial.content == "question: q\n\nhint: h"
    [step] = trajectory.steps
    assert text_of(step.action) == "a"
    assert step.action.outputs == {"reasoning": "because", "answer": "a"}
    assert step.observation.done
    first = trajectory_of_prediction(example, dspy.Prediction(reasoning="because", answer="a"), output="reasoning")
    assert text_of(first.steps[0].action) == "because"
    with pytest.raises(ValueError, match="no field 'reply'; it has: answer"):
        trajectory_of_prediction(example, dspy.Prediction(answer="a"), output="reply")
    with pytest.raises(ValueError, match="it has: none"):
        trajectory_of_prediction(example, dspy.Prediction())
    plain = trajectory_of_prediction(dspy.Example(answer="a"), "a")
    assert plain.initial is None
    assert text_of(plain.steps[0].action) == "a"


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


def test_the_tool_calls_of_an_agent_are_steps():
    agent = dspy.ReAct("question -> answer", tools=[multiply])
    said = [
        {"next_thought": "I multiply", "next_tool_name": "multiply", "next_tool_args": {"a": 6, "b": 7}},
        {"next_thought": "done", "next_tool_name": "finish", "next_tool_args": {}},
        {"reasoning": "the tool says so", "answer": "42"},
    ]
    seen = []

    class Seen(TrajectoryRubric):
        def score_trajectory(self, trajectory):
            seen.append([([c["name"] for c in a.tool_calls], o.content) for a, o in trajectory])
            return 1.0

    tree = WeightedSum({"seen": Seen(), "right": Right()}, {"seen": 0.5, "right": 0.5})
    with dspy.context(lm=DummyLM(said)):
        metric = rubric_metric(tree, unscored="raise")
        result = dspy.Evaluate(devset=DEVSET[:1], metric=metric, num_threads=1, max_errors=1)(agent)
    assert result.score == 100.0
    assert seen == [[(["multiply"], "42"), (["finish"], "Completed."), ([], "")]]


@pytest.mark.parametrize("answer", ["42", "43", "42?"])
def test_scored_in_dspy_as_everywhere(answer):
    pred = dspy.Prediction(answer=answer)
    trajectory = trajectory_of_prediction(DEVSET[0], pred)
    for tree in (TREE, SYNC):
        there = Scorer(tree).score(trajectory).reward
        assert rescore_one(trajectory, tree).reward == there
        assert rubric_metric(tree, unscored=-9)(DEVSET[0], pred) == (-9 if there is None else there)
        assert feedback_metric(tree, unscored=-9)(DEVSET[0], pred).score == (-9 if there is None else there)


# -- GEPA -------------------------------------------------------------------------------------------------------------


def test_feedback_says_scores_and_reasons_in_words():
    found = feedback_metric(TREE, unscored=0.0)(DEVSET[0], dspy.Prediction(answer="43"), None, "self", None)
    assert found.score == 0.25
    assert found.objective_scores == {"right": 0.0, "judge": 0.5}
    assert found.feedback == "reward: 0.25\nright: 0 (the right answer is 42)\njudge: 0.5"
    silent = feedback_metric(TREE, unscored=0.1)(DEVSET[0], dspy.Prediction(answer="43?"))
    assert silent.score == 0.1
    assert silent.objective_scores == {"right": 0.0}
    assert silent.feedback.startswith("reward: unscored (judge is unscored")


def test_gepa_reads_the_feedback_and_takes_the_better_instruction():
    class Program(dspy.Module):
        def __init__(self):
            super().__init__()
            self.answer = dspy.Predict(dspy.Signature("question -> answer", "Answer."))

        def forward(self, question):
            return self.answer(question=question)

    # the program before, before (for the feedback), and with the new instruction
    student = DummyLM([{"answer": said} for said in ["I do not know", "I do not know", *["42"] * 20]])
    reflector = DummyLM(
        [{"new_instruction": "First calculate, then answer."}] * 20, adapter=InstructionProposer().adapter
    )
    gepa = dspy.GEPA(
        metric=feedback_metric(SYNC, unscored=0.0),
        reflection_lm=reflector,
        max_metric_calls=12,
        reflection_minibatch_size=1,
        num_threads=1,
        use_merge=False,
        track_stats=True,
    )
    with dspy.context(lm=student):
        better = gepa.compile(Program(), trainset=DEVSET[:1], valset=DEVSET[:1])
    assert "right: 0 (the right answer is 42)" in str(reflector.history[0]["messages"])
    assert better.answer.signature.instructions == "First calculate, then answer."
    assert better.detailed_results.val_aggregate_scores[0] == 0.0
    assert max(better.detailed_results.val_aggregate_scores) == 1.0
    assert better.detailed_results.val_aggregate_subscores[0] == {"right": 0.0, "short": 0.0}
