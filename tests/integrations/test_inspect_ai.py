"""A tree as a scorer of Inspect, and Inspect's scorers in a tree: driven by its own `eval`, `score` and logs."""

import asyncio
import gc
import math
import time
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai")

from inspect_ai import Task, eval, score, task
from inspect_ai.agent import AgentAttempts, react
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageUser,
    ContentImage,
    ContentText,
    Model,
    ModelName,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import (
    CORRECT,
    INCORRECT,
    NOANSWER,
    PARTIAL,
    Score,
    Target,
    choice,
    collect_score,
    exact,
    includes,
    mean,
    model_graded_qa,
    scorer,
)
from inspect_ai.solver import Generate, TaskState, generate, multiple_choice, solver
from inspect_ai.tool import tool

from rubrics import InvalidScoreError, RubricError, TrajectoryRubric, WeightedSum
from rubrics.formats import read
from rubrics.formats.parsing import FormatError
from rubrics.integrations.inspect_ai import (
    InspectScorer,
    reward_scorer,
    rubric_scorer,
    trajectory_of_state,
)
from rubrics.rescoring import rescore_one
from rubrics.rollouts.conversations import trajectory_of
from rubrics.rollouts.functions import text_of
from rubrics.rollouts.scoring import Scorer
from rubrics.score import Score as NodeScore
from rubrics.trajectory import Trajectory

pytestmark = [  # Inspect's own
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:The 'initial' parameter is deprecated:DeprecationWarning"),
]

PICTURE = "data:image/png;base64," + "iVBORw0KGgo" * 50
USAGE = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # or the mock model fetches a tokeniser


@pytest.fixture(autouse=True, scope="module")
def _streams():
    yield
    gc.collect()  # while their warnings are filtered


@pytest.fixture(autouse=True)
def _quiet(tmp_path, monkeypatch):
    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.setenv("INSPECT_DISPLAY", "none")


def model(*said: str | ModelOutput) -> Model:
    """Inspect's mock model, which says these in turn."""
    outputs = [
        text if isinstance(text, ModelOutput) else ModelOutput.from_content("mockllm/model", text) for text in said
    ]
    for output in outputs:
        output.usage = USAGE
    return get_model("mockllm/model", custom_outputs=outputs, memoize=False)


def call(name: str, **arguments: object) -> ModelOutput:
    return ModelOutput.for_tool_call("mockllm/model", name, arguments)


def run(scorer, *said, samples=None, solver=None, **options) -> EvalLog:
    options.setdefault("max_samples", 1)  # or who gets which answer is a matter of chance
    samples = samples or [Sample(id="s", input="6 times 7?", target="42", metadata={"level": 2})]
    given = {name: options.pop(name) for name in ("epochs", "message_limit", "token_limit") if name in options}
    [log] = eval(
        Task(dataset=samples, solver=solver or generate(), scorer=scorer, **given), model=model(*said), **options
    )
    return log


def metrics(log: EvalLog) -> dict[str, dict[str, float]]:
    """By score and metric."""
    return {found.name: {name: m.value for name, m in found.metrics.items()} for found in log.results.scores}


class Answer(TrajectoryRubric):
    """1 where the target is in the last message."""

    def score_trajectory(self, trajectory):
        found = self.task["target"] in text_of(trajectory[-1][0])
        return NodeScore(float(found), reason="the target is there" if found else "the target is missing")


class Brief(TrajectoryRubric):
    def score_trajectory(self, trajectory):
        return 1.0 if len(trajectory) <= 2 else 0.25


class Judge(TrajectoryRubric):
    """Async; says nothing of an answer with a question mark, and fails on an exclamation mark."""

    async def score_trajectory(self, trajectory):
        await asyncio.sleep(0)
        text = text_of(trajectory[-1][0])
        if "!" in text:
            raise ValueError("no shouting")
        return None if "?" in text else 0.5


TREE = WeightedSum({"answer": Answer(), "brief": Brief()}, {"answer": 0.75, "brief": 0.25})
JUDGED = WeightedSum({"answer": Answer(), "judge": Judge()}, {"answer": 0.5, "judge": 0.5})


# -- a tree as a scorer -----------------------------------------------------------------------------------------------


def test_reward_and_components_arrive_in_scores_and_metrics_and_in_the_log_on_disk():
    log = run(rubric_scorer(TREE), "it is 42")
    found = log.samples[0].scores["rubric_scorer"]
    assert found.value == {"reward": 1.0, "answer": 1.0, "brief": 1.0}
    assert found.answer == "it is 42"
    assert "answer: 1 (the target is there)" in found.explanation
    assert found.metadata["scores"] == {"answer": 1.0, "brief": 1.0}
    assert found.metadata["reasons"] == {"answer": "the target is there"}
    assert {name: m["mean"] for name, m in metrics(log).items()} == {"reward": 1.0, "answer": 1.0, "brief": 1.0}
    again = read_eval_log(log.location)
    assert again.samples[0].scores["rubric_scorer"].value == found.value
    assert metrics(again) == metrics(log)
    assert next(iter(metrics(log))) == "reward", "the first is what Inspect shows of a task"


def test_the_reward_alone_has_its_components_in_the_metadata():
    log = run(reward_scorer(TREE), "it is 43")
    found = log.samples[0].scores["reward_scorer"]
    assert found.value == 0.25
    assert found.metadata["scores"] == {"answer": 0.0, "brief": 1.0}
    assert metrics(log)["reward_scorer"]["mean"] == 0.25


@tool
def multiply():
    async def execute(a: int, b: int):
        """Multiply.

        Args:
            a: a number
            b: a number
        """
        if a < 0:
            raise RuntimeError("never")
        return str(a * b)

    return execute


class Seen(TrajectoryRubric):
    """Keeps what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Trajectory] = []

    def score_trajectory(self, trajectory):
        self.seen.append((self.task, [dict(action) for action, _ in trajectory], [o for _, o in trajectory]))
        return 1.0


def test_an_agent_with_tools_becomes_steps_and_the_sample_the_task():
    seen = Seen()
    log = run(
        rubric_scorer(seen),
        call("multiply", a=6, b=7),
        call("submit", answer="42"),
        solver=react(tools=[multiply()]),
        samples=[Sample(id="s", input="6 times 7?", target=["42", "forty-two"], metadata={"level": 2})],
    )
    assert log.status == "success"
    [(task, actions, observations)] = seen.seen
    assert task.target == ["42", "forty-two"]
    assert (task.input, task.metadata.level, task.sample_id, task.epoch) == ("6 times 7?", 2, "s", 1)
    assert [[(c["name"], c["arguments"]) for c in action["tool_calls"]] for action in actions] == [
        [("multiply", {"a": 6, "b": 7})],
        [("submit", {"answer": "42"})],
    ]
    assert observations[0].messages[0].content == "42"
    assert observations[0].messages[0].name == "multiply"
    assert text_of(actions[-1]).endswith("42"), "the final output, as Inspect's own scorers see it"
    assert set(actions[0]) == {"content", "tool_calls"}, "no ids and no model's name, which a judge might look at"


def test_a_log_scored_again_gets_the_same_numbers_and_the_same_trajectories():
    seen = Seen()
    tree = WeightedSum(
        {"answer": Answer(), "brief": Brief(), "seen": seen}, {"answer": 0.5, "brief": 0.25, "seen": 0.25}
    )
    said = [call("multiply", a=6, b=7), call("submit", answer="42")]
    log = run(rubric_scorer(tree), *said, solver=react(tools=[multiply()]))
    read = read_eval_log(log.location)
    again = score(read, rubric_scorer(tree), action="overwrite")
    assert again.samples[0].scores["rubric_scorer"].value == log.samples[0].scores["rubric_scorer"].value
    assert metrics(again) == metrics(log)
    assert seen.seen[0] == seen.seen[1]
    both = score(read, rubric_scorer(JUDGED), action="append")
    assert set(both.samples[0].scores) == {"rubric_scorer", "rubric_scorer1"}


@pytest.mark.parametrize("log_format", ["eval", "json"])
@pytest.mark.parametrize("installed", [True, False])
def test_a_log_on_disk_is_read_as_what_was_scored(monkeypatch, log_format, installed):
    seen = Seen()
    tree = WeightedSum({"brief": Brief(), "seen": seen}, {"brief": 0.75, "seen": 0.25})
    samples = [
        Sample(id="x", input="6 times 7?", target=["42", "forty-two"], metadata={"level": 2}),
        Sample(
            id="y",
            target="42",
            input=[
                ChatMessageUser(content="2 times 3?"),
                ChatMessageAssistant(content="6"),
                ChatMessageUser(content=[ContentText(text="and this?"), ContentImage(image=PICTURE)]),
            ],
        ),
    ]
    said = [call("multiply", a=6, b=7), call("submit", answer="42"), call("submit", answer="43")]
    log = run(
        rubric_scorer(tree), *said, solver=react(tools=[multiply()]), samples=samples, log_format=log_format, epochs=1
    )
    if not installed:
        monkeypatch.setattr("rubrics.formats.inspect_logs._inspect_ai", lambda: None)
    trajectories = list(read(log.location))
    assert [trajectory.metadata["group"] for trajectory in trajectories] == ["x", "y"]
    assert PICTURE in str(trajectories[1].initial.messages), "attachments are resolved"
    for trajectory, (row, actions, observations), sample in zip(trajectories, seen.seen, log.samples, strict=True):
        assert trajectory.task == row
        assert [step.action for step in trajectory.steps] == actions
        assert [step.observation for step in trajectory.steps] == observations
        assert trajectory.end == "terminated"
        value = dict(sample.scores["rubric_scorer"].value)
        assert trajectory.reward == value.pop("reward")
        assert trajectory.metadata["components"] == {f"rubric_scorer/{name}": part for name, part in value.items()}


def test_what_was_not_scored_was_cut_off_or_failed_is_told_apart_in_a_log_on_disk():
    said = [call("multiply", a=1, b=2) for _ in range(4)]
    [cut] = read(run(reward_scorer(Brief()), *said, solver=react(tools=[multiply()]), message_limit=5).location)
    assert (cut.end, cut.steps[-1].observation.done) == ("truncated", False)
    [failed] = read(run(reward_scorer(TREE), "42", solver=boom(), fail_on_error=False).location)
    assert (failed.end, failed.reward, failed.metadata["components"]) == ("error", None, {})
    [silent_one] = read(run(reward_scorer(TREE), solver=silent()).location)
    assert (silent_one.end, silent_one.reward, silent_one.steps) == ("terminated", None, [])
    assert silent_one.metadata["components"] == {"reward_scorer": None}
    first, second = read(run(reward_scorer(JUDGED), "42", "is it 42?", epochs=2).location)
    assert (first.reward, second.reward) == (0.75, None)
    assert [(t.metadata["group"], t.metadata["trial"]) for t in (first, second)] == [("s", 1), ("s", 2)]


def test_unscored_is_kept_with_its_reason_and_left_out_of_metrics_and_reducers():
    log = run(rubric_scorer(JUDGED), "42", "is it 42?", epochs=2)
    first, second = (sample.scores["rubric_scorer"] for sample in log.samples)
    assert first.value == {"reward": 0.75, "answer": 1.0, "judge": 0.5}
    assert math.isnan(second.value)
    assert second.reason == "unscored"
    assert "judge is unscored" in second.explanation
    assert second.metadata["scores"] == {"answer": 1.0, "judge": None}
    assert {name: m["mean"] for name, m in metrics(log).items()} == {"reward": 0.75, "answer": 1.0, "judge": 0.5}
    read = read_eval_log(log.location)
    assert read.samples[1].scores["rubric_scorer"].reason == "unscored"


def test_a_component_that_is_unscored_is_no_zero_where_the_whole_is_scored():
    tree = WeightedSum({"answer": Answer(), "judge": Judge()}, {"answer": 0.5, "judge": 0.5}, on_unscored="renormalize")
    log = run(rubric_scorer(tree), "42?", "42", epochs=2)
    value = log.samples[0].scores["rubric_scorer"].value
    assert value["reward"] == 1.0 and math.isnan(value["judge"])
    assert metrics(log)["judge"]["mean"] == 0.5
    assert metrics(log)["reward"]["mean"] == (1.0 + 0.75) / 2


@pytest.mark.parametrize("make", [rubric_scorer, reward_scorer])
def test_where_nothing_is_scored_there_is_no_number(make):
    log = run(make(JUDGED), "42?", "43?", epochs=2)
    assert log.status == "success"
    for found in log.results.scores:
        assert found.scored_samples == 0
        assert math.isnan(found.metrics["mean"].value) or found.metrics["mean"].value == 0.0


def test_a_tree_that_raises_leaves_its_sample_unscored_or_fails_it():
    log = run(rubric_scorer(JUDGED), "42!", "42", epochs=2)
    assert log.status == "success"
    failed = log.samples[0].scores["rubric_scorer"]
    assert math.isnan(failed.value) and failed.reason == "scoring_failed"
    assert "no shouting" in failed.explanation and "judge" in failed.explanation
    assert metrics(log)["reward"]["mean"] == 0.75
    log = run(rubric_scorer(JUDGED, on_error="raise"), "42!")
    assert log.status == "error"
    assert "no shouting" in log.error.message


@pytest.mark.parametrize("reducer", ["mean", "median", "mode", "max", "at_least_1", "pass_at_1", "majority"])
def test_reducers_over_epochs(reducer):
    from inspect_ai import Epochs

    log = run(rubric_scorer(JUDGED), "42", "42?", "43", epochs=Epochs(3, reducer))
    expected = {"mean": 0.5, "median": 0.5, "mode": 0.75, "max": 0.75, "at_least_1": 0.0, "pass_at_1": 0.0}
    found = metrics(log)["reward"]["mean"]
    assert math.isnan(found) or found == 0 if reducer == "majority" else found == expected[reducer]


def test_the_reward_alone_serves_reducers_of_single_values():
    from inspect_ai import Epochs

    log = run(reward_scorer(JUDGED), "42", "42?", "43", epochs=Epochs(3, [collect_score()]))
    assert log.reductions[0].samples[0].value == [0.75, 0.25]


def test_the_reward_alone_serves_an_agent_with_several_attempts():
    log = run(
        reward_scorer(Answer()),
        call("submit", answer="41"),
        call("submit", answer="42"),
        solver=react(attempts=AgentAttempts(attempts=3)),
    )
    assert log.samples[0].scores["reward_scorer"].value == 1.0
    assert len([m for m in log.samples[0].messages if m.role == "assistant"]) == 2


class WasCut(TrajectoryRubric):
    """How the episode ended."""

    def score_trajectory(self, trajectory):
        last = trajectory[-1][1]
        return 1.0 if last["done"] else 0.0


@solver
def boom():
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        await generate(state)
        raise ValueError("boom")

    return solve


@solver
def silent():
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        return state

    return solve


def test_a_rollout_that_a_limit_cut_off_is_truncated_also_in_the_log():
    said = [call("multiply", a=1, b=2) for _ in range(4)]
    for limit in ({"message_limit": 5}, {"token_limit": 5}):
        log = run(reward_scorer(WasCut()), *said, solver=react(tools=[multiply()]), **limit)
        assert log.samples[0].limit is not None
        assert log.samples[0].scores["reward_scorer"].value == 0.0
        again = score(log, reward_scorer(WasCut()), action="overwrite")
        assert again.samples[0].scores["reward_scorer"].value == 0.0
    out_of_tokens = ModelOutput.from_content("mockllm/model", "it is", stop_reason="max_tokens")
    assert run(reward_scorer(WasCut()), out_of_tokens).samples[0].scores["reward_scorer"].value == 0.0
    assert run(reward_scorer(WasCut()), "it is 42").samples[0].scores["reward_scorer"].value == 1.0


def test_a_sample_that_failed_or_said_nothing_is_unscored():
    log = run(reward_scorer(TREE), "42", solver=boom(), score_on_error=True, fail_on_error=False)
    found = log.samples[0].scores["reward_scorer"]
    assert math.isnan(found.value) and "'error'" in found.explanation
    log = run(reward_scorer(TREE), solver=silent())
    found = log.samples[0].scores["reward_scorer"]
    assert math.isnan(found.value) and found.reason == "no_response"


def state_of(messages, output=None, input="q", **more) -> TaskState:
    return TaskState(
        ModelName("mockllm/model"), "s", 1, input, messages, target=Target("t"), output=output, completed=True, **more
    )


def test_examples_are_no_actions_and_a_final_output_is_one():
    examples = [
        ChatMessageUser(content="1+1", source="input"),
        ChatMessageAssistant(content="2", source="input"),
        ChatMessageUser(content="2+2", source="input"),
    ]
    said = ChatMessageAssistant(content="4", source="generate")
    trajectory = trajectory_of_state(state_of([*examples, said]))
    assert [text_of(step.action) for step in trajectory.steps] == ["4"]
    assert [message["role"] for message in trajectory.initial["messages"]] == ["user", "assistant", "user"]
    put_in = [ChatMessageAssistant(content="2"), ChatMessageUser(content="2+2")]
    assert len(trajectory_of_state(state_of([*put_in, said])).steps) == 1
    bridged = [ChatMessageUser(content="2+2"), ChatMessageAssistant(content="4")]
    assert len(trajectory_of_state(state_of(bridged)).steps) == 1
    final = ModelOutput.from_content("mockllm/model", "four")
    assert [text_of(s.action) for s in trajectory_of_state(state_of(examples, final)).steps] == ["four"]
    assert [text_of(s.action) for s in trajectory_of_state(state_of([*examples, said], final)).steps] == ["4", "four"]
    same = ModelOutput.from_message(said)
    assert len(trajectory_of_state(state_of([*examples, said], same)).steps) == 1
    with pytest.raises(FormatError, match="no assistant's message"):
        trajectory_of_state(state_of(examples))


async def test_scored_in_inspect_as_everywhere():
    state = state_of([ChatMessageUser(content="q"), ChatMessageAssistant(content="a t!", source="generate")])
    for tree in (TREE, JUDGED, Answer()):
        trajectory = trajectory_of_state(state)
        here = await reward_scorer(tree)(state, Target("t"))
        there = Scorer(tree).score(trajectory)
        row = rescore_one(trajectory, tree)
        value = None if math.isnan(here.value) else here.value
        assert value == there.reward == row.reward
        assert rescore_one(Trajectory.from_dict(trajectory.to_dict()), tree).reward == value


class Slow(TrajectoryRubric):
    async def score_trajectory(self, trajectory):
        await asyncio.sleep(0.2)
        return 1.0


class Blocking(TrajectoryRubric):
    def score_trajectory(self, trajectory):
        time.sleep(0.05)
        return 1.0


def test_many_samples_at_once():
    samples = [Sample(id=i, input="q", target="t") for i in range(20)]
    log = run(reward_scorer(Slow()), *["a"] * 20, samples=samples, max_samples=20)
    assert metrics(log)["reward_scorer"]["mean"] == 1.0
    times = [e.timestamp.timestamp() for s in log.samples for e in s.events if e.event == "score"]
    assert max(times) - min(times) < 1.0, "one after the other takes four seconds"


async def test_a_tree_without_async_nodes_does_not_block_the_loop():
    state = state_of([ChatMessageUser(content="q"), ChatMessageAssistant(content="a", source="generate")])
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0.005)

    beating = asyncio.create_task(beat())
    await reward_scorer(Blocking())(state, Target("t"))
    beating.cancel()
    assert beats > 3


MODULE = """
from rubrics.integrations.inspect_ai import rubric_scorer
from rubrics import TrajectoryRubric
from inspect_ai.scorer import Scorer, mean, scorer

class Length(TrajectoryRubric):
    def score_trajectory(self, trajectory):
        return float(len(trajectory))

def make_rubric():
    return Length()

@scorer(metrics={"*": [mean()]})
def length() -> Scorer:
    return rubric_scorer(make_rubric())
"""


def test_a_tree_named_by_its_place_is_named_in_the_log(tmp_path):
    (tmp_path / "lengths.py").write_text(MODULE)
    log = run(rubric_scorer(f"{tmp_path}/lengths.py:make_rubric"), "a")
    assert log.eval.scorers[0].options == {"rubric": f"{tmp_path}/lengths.py:make_rubric"}
    assert log.samples[0].scores["rubric_scorer"].value == {"reward": 1.0}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--scorer", "lengths.py@length"],
        ["--scorer", "rubrics/rubric_scorer", "-S", "rubric=lengths.py:make_rubric"],
    ],
)
def test_the_command_line_scores_a_log_again(tmp_path, monkeypatch, arguments):
    from click.testing import CliRunner
    from inspect_ai._cli.main import inspect as command

    monkeypatch.chdir(tmp_path)
    Path("lengths.py").write_text(MODULE)
    log = run(includes(), "a")
    file = ["--output-file", str(tmp_path / "again.eval"), "--action", "overwrite"]
    result = CliRunner().invoke(command, ["score", log.location, *file, *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    again = read_eval_log(str(tmp_path / "again.eval"))
    [found] = again.samples[0].scores.values()
    assert found.value == {"reward": 1.0}


def test_what_cannot_be_a_scorer_is_said_at_once():
    with pytest.raises(TypeError, match="instance of rubrics"):
        rubric_scorer(lambda state, target: 1.0)
    with pytest.raises(ValueError, match="named 'reward'"):
        rubric_scorer(WeightedSum({"reward": Answer()}, {"reward": 1.0}))
    with pytest.raises(ValueError, match="on_error"):
        reward_scorer(TREE, on_error="zero")


# -- Inspect's scorers in a tree --------------------------------------------------------------------------------------


@scorer(metrics=[mean()])
def grade(value):
    async def score(state: TaskState, target: Target) -> Score | None:
        return value if isinstance(value, Score | None) else Score(value=value, explanation="so it is")

    return score


def outcome(leaf: InspectScorer, completion="it is 42", task=None, prompt="6 times 7?"):
    return Scorer(leaf).score(trajectory_of(prompt, completion, task={"target": "42"} if task is None else task))


def test_a_scorer_of_inspect_judges_rollouts_from_elsewhere():
    assert outcome(InspectScorer(includes())).reward == 1.0
    assert outcome(InspectScorer(includes()), "it is 43").reward == 0.0
    assert outcome(InspectScorer(exact()), "42", {"target": ["41", "42"]}).reward == 1.0
    tree = WeightedSum({"includes": InspectScorer(includes()), "brief": Brief()}, {"includes": 0.5, "brief": 0.5})
    assert Scorer(tree).score(trajectory_of("q", "43", task={"target": "42"})).reward == 0.5
    assert repr(InspectScorer(includes())) == "InspectScorer(includes)"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *[(CORRECT, 1.0), (INCORRECT, 0.0), (PARTIAL, 0.5), (NOANSWER, 0.0), (True, 1.0), (0.3, 0.3), (4, 4.0)],
        *[("yes", 1.0), ("No", 0.0), ("0.25", 0.25), ("0", 0.0)],
    ],
)
def test_grades(value, expected):
    scored = outcome(InspectScorer(grade(value)))
    assert scored.reward == expected
    assert scored.reason == "so it is"


@pytest.mark.parametrize(
    "value", [None, Score.unscored(reason="grader_failed", explanation="no grade in it"), math.nan]
)
def test_no_grade_is_unscored(value):
    scored = outcome(InspectScorer(grade(value)))
    assert scored.status == "unscored"


def test_a_grade_that_is_not_on_the_menu_is_an_error_and_no_zero():
    scored = outcome(InspectScorer(grade("excellent")))
    assert scored.status == "error" and isinstance(scored.error, InvalidScoreError)
    assert "'excellent'" in scored.reason


def test_one_of_several_values_has_to_be_chosen():
    several = grade({"tone": 0.5, "facts": "C", "style": None})
    assert outcome(InspectScorer(several, key="tone")).reward == 0.5
    assert outcome(InspectScorer(several, key="facts")).reward == 1.0
    assert outcome(InspectScorer(several, key="style")).status == "unscored"
    assert outcome(InspectScorer(grade([0.1, 0.2]), key=1)).reward == 0.2
    for leaf in (InspectScorer(several), InspectScorer(several, key="speed")):
        assert "key is one of 'tone', 'facts', 'style'" in outcome(leaf).reason
    assert "has no 'tone'" in outcome(InspectScorer(grade(1.0), key="tone")).reason


def test_a_target_that_is_missing_is_not_contained_in_everything():
    scored = outcome(InspectScorer(includes()), task={"answer": "42"})
    assert scored.status == "error" and isinstance(scored.error, RubricError)
    assert "needs_target=False" in scored.reason
    assert outcome(InspectScorer(grade(1.0), needs_target=False), task={}).reward == 1.0


def test_what_is_no_scorer_is_refused():
    with pytest.raises(TypeError, match="async"):
        InspectScorer(lambda state, target: 1.0)


@scorer(metrics=[mean()])
def shape():
    async def score(state: TaskState, target: Target) -> Score:
        calls = [c.function for m in state.messages if m.role == "assistant" for c in m.tool_calls or []]
        tools = [(m.function, m.text) for m in state.messages if m.role == "tool"]
        return Score(value=1.0, explanation=f"{calls} {tools} {state.input_text} {state.output.completion}")

    return score


def test_a_rollout_with_tools_reaches_the_scorer_in_its_own_form():
    messages = [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "function": {"name": "add", "arguments": "{"}}],
        },
        {"role": "tool", "tool_call_id": "1", "name": "add", "content": "3"},
        {"role": "assistant", "content": [{"type": "text", "text": "three"}]},
    ]
    prompt = [{"role": "developer", "content": "be brief"}, {"role": "user", "content": "1 and 2?"}]
    scored = outcome(InspectScorer(shape()), messages, prompt=prompt)
    assert scored.reason == "['add'] [('add', '3')] 1 and 2? three"
    image = [{"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
    assert "messages.1 is no message that Inspect can hold" in outcome(InspectScorer(shape()), image).reason


def test_in_an_eval_it_gets_the_state_of_the_sample():
    """`choice` looks at marks that only the solver's own state has."""
    tree = WeightedSum({"choice": InspectScorer(choice()), "brief": Brief()}, {"choice": 0.5, "brief": 0.5})
    samples = [
        Sample(id=1, input="q", choices=["a", "b"], target="B"),
        Sample(id=2, input="q", choices=["a", "b"], target="A"),
    ]
    log = run(rubric_scorer(tree), "ANSWER: B", "ANSWER: B", samples=samples, solver=multiple_choice())
    assert [sample.scores["rubric_scorer"].value["choice"] for sample in log.samples] == [1.0, 0.0]


def test_the_same_number_in_an_eval_as_offline():
    tree = WeightedSum({"includes": InspectScorer(includes()), "brief": Brief()}, {"includes": 0.5, "brief": 0.5})
    log = run(reward_scorer(tree), "it is 42")
    offline = rescore_one(trajectory_of("6 times 7?", "it is 42", task={"target": "42"}), tree)
    assert log.samples[0].scores["reward_scorer"].value == offline.reward == 1.0


def test_a_scorer_that_asks_a_model_does_so_in_the_eval():
    grader = model("GRADE: C", "GRADE: I")
    tree = WeightedSum(
        {"graded": InspectScorer(model_graded_qa(model=grader)), "brief": Brief()}, {"graded": 0.5, "brief": 0.5}
    )
    log = run(rubric_scorer(tree), "42", "43", epochs=2)
    assert [sample.scores["rubric_scorer"].value["reward"] for sample in log.samples] == [1.0, 0.5]
    assert any(event.event == "model" and event.role is None for event in log.samples[0].events)


# -- the example of the documentation ---------------------------------------------------------------------------------


class Short(TrajectoryRubric):
    def score_trajectory(self, trajectory):
        last, _ = trajectory[-1]
        return 1.0 if len(last["content"]) <= 20 else 0.0


GRADED = WeightedSum({"includes": InspectScorer(includes()), "short": Short()}, {"includes": 0.75, "short": 0.25})


@task
def sums():
    samples = [Sample(input="6 times 7?", target="42"), Sample(input="1 and 1?", target="2")]
    return Task(dataset=samples, solver=generate(), scorer=rubric_scorer(GRADED))


def test_the_example():
    [log] = eval(sums(), model=model("It is 42.", "I think that it is three."))
    for sample in log.samples:
        assert sample.scores["rubric_scorer"].value in (
            {"reward": 1.0, "includes": 1.0, "short": 1.0},
            {"reward": 0.0, "includes": 0.0, "short": 0.0},
        )
    again = score(log, rubric_scorer(GRADED), action="overwrite")
    assert metrics(again)["reward"]["mean"] == 0.5
