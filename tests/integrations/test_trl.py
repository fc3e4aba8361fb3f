"""A tree in TRL: reward functions, components, environments and the reverse; with its real trainers on the CPU."""

import asyncio
import inspect
import math
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

from datasets import Dataset
from transformers.utils import get_json_schema
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer
from trl.experimental.online_dpo import OnlineDPOConfig, OnlineDPOTrainer
from trl.rewards import think_format_reward
from trl.trainer.utils import get_callable_name, is_async_callable

from rubrics import EpisodeError, Rubric, RubricError, Score, TrajectoryRubric, Unscored, WeightedSum, add_usage
from rubrics.evaluation import Usage
from rubrics.integrations.trl import BatchRewardFunction, RubricEnvironment, component_functions, reward_function
from rubrics.rescoring import rescore_one
from rubrics.rollouts.conversations import trajectory_of
from rubrics.rollouts.scoring import Scorer
from tests.integrations.tiny_model import actor, grpo_settings, random_model, tokenizer

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*(activation|gradient)_checkpointing.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:You are using 'environment_factory':UserWarning"),
]


class Answer(Rubric):
    """Whether the answer of the row was given; a row without an answer is unscored. Counts its calls."""

    calls = 0

    def forward(self, action: Any, observation: Any) -> Any:
        type(self).calls += 1
        if self.task.answer is None:
            raise Unscored("nobody knows the answer")
        return Score(float(self.task.answer in action.content), "looked for it")


class Short(Rubric):
    """1 for nothing, less for more."""

    def forward(self, action: Any, observation: Any) -> float:
        return 1.0 / (1.0 + len(action.content))


class AsyncAnswer(Answer):
    """The same, from a model that costs a cent."""

    async def forward(self, action: Any, observation: Any) -> Any:
        await asyncio.sleep(0)
        add_usage(Usage(calls=1, cost=0.01))
        return super().forward(action, observation)


class Breaks(Rubric):
    """A leaf with a bug."""

    def forward(self, action: Any, observation: Any) -> float:
        if "bad" in action.content:
            raise ValueError("a bug")
        return 1.0


class Length(TrajectoryRubric):
    """The number of steps."""

    def score_trajectory(self, trajectory: Any) -> float:
        return float(len(trajectory))


WEIGHTS = {"answer": 0.75, "short": 0.25}


def tree(answer: type[Rubric] = Answer) -> WeightedSum:
    return WeightedSum({"answer": answer(), "short": Short()}, WEIGHTS)


BATCH: dict[str, Any] = {
    "prompts": ["1+1?", "1+1?", "the meaning?"],
    "completions": ["2", "it is three", "42"],
    "completion_ids": [[1], [2], [3]],
    "answer": ["2", "2", None],
    "trainer_state": None,
}


def rewards(function: Any, **batch: Any) -> Any:
    """What TRL gets, by its own way to tell a coroutine function."""
    found = function(**(batch or BATCH))
    return asyncio.run(found) if is_async_callable(function) else found


# -- reward functions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaf", [Answer, AsyncAnswer])
@pytest.mark.parametrize("asynchronous", [None, False, True])
def test_a_batch_gets_the_rewards_that_rescoring_gives(leaf: type[Rubric], asynchronous: bool | None) -> None:
    function = reward_function(tree(leaf), asynchronous=asynchronous)
    found = rewards(function)
    rows = zip(BATCH["prompts"], BATCH["completions"], BATCH["answer"], strict=True)
    trajectories = [trajectory_of(prompt, said, task={"answer": answer}) for prompt, said, answer in rows]
    assert found == [rescore_one(each, tree(leaf)).reward for each in trajectories]
    assert found == pytest.approx([0.875, 0.25 / 12, None])
    assert is_async_callable(function) == (leaf is AsyncAnswer if asynchronous is None else asynchronous)
    assert get_callable_name(function) == function.__name__ == "rubric"


@pytest.mark.parametrize("leaf", [Answer, AsyncAnswer])
def test_a_reward_function_can_be_pickled(leaf: type[Rubric]) -> None:
    function = pickle.loads(pickle.dumps(reward_function(tree(leaf), name="good")))
    assert rewards(function) == rewards(reward_function(tree(leaf)))
    assert get_callable_name(function) == "good"


def test_conversations_with_tool_calls_are_steps() -> None:
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
    said = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "add", "content": "2"},
        {"role": "assistant", "content": "2"},
    ]
    seen: list[Any] = []

    class Sees(TrajectoryRubric):
        def score_trajectory(self, trajectory: Any) -> float:
            seen.append((trajectory, self.task))
            return 1.0

    batch = {"prompts": [[{"role": "user", "content": "1+1?"}]], "completions": [said], "answer": ["2"]}
    assert rewards(reward_function(Sees()), **batch) == [1.0]
    ((first, second), task) = seen[0]
    assert first[0].tool_calls[0].arguments.a == 1 and first[1].content == "2" and second[0].content == "2"
    assert task == {"answer": "2"}


def test_what_an_unscored_rollout_becomes_can_be_chosen() -> None:
    assert rewards(reward_function(tree()))[2] is None
    assert rewards(reward_function(tree(), unscored=-1))[2] == -1.0
    with pytest.raises(RubricError, match="answer is unscored: nobody knows the answer"):
        rewards(reward_function(tree(), unscored="raise"))
    with pytest.raises(ValueError, match="unscored is 'raise' or a finite number"):
        reward_function(tree(), unscored=math.nan)


def test_a_tree_that_raises_leaves_its_rollout_without_a_reward(caplog: pytest.LogCaptureFixture) -> None:
    batch = {"prompts": ["a", "b"], "completions": ["good", "bad"]}
    assert rewards(reward_function(Breaks()), **batch) == [1.0, None]
    assert "the rubric failed" in caplog.text
    with pytest.raises(ValueError, match="a bug"):
        rewards(reward_function(Breaks()), prompts=["a", "b"], completions=["bad", "bad"])
    with pytest.raises(ValueError, match="a bug"):
        rewards(reward_function(Breaks(), on_error="raise"), **batch)


def test_components_reasons_and_cost_are_logged() -> None:
    metrics: dict[str, float] = {}
    table: dict[str, list[Any]] = {}
    rewards(reward_function(tree(AsyncAnswer)), **BATCH, log_metric=metrics.__setitem__, log_extra=table.__setitem__)
    assert metrics == pytest.approx(
        {
            "rubric/answer/mean": 0.5,
            "rubric/short/mean": (1 / 2 + 1 / 12 + 1 / 3) / 3,
            "rubric/unscored": 1 / 3,
            "rubric/cost": 0.01,
        }
    )
    (column,) = table.values()
    assert column[0].splitlines() == ["reward: 0.875", "answer: 1 (looked for it)", "short: 0.5"]
    assert column[2].startswith("reward: unscored (answer is unscored: nobody knows the answer)")


# -- components -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaf", [Answer, AsyncAnswer])
def test_each_child_is_a_reward_function_and_the_batch_is_scored_once(leaf: type[Rubric]) -> None:
    functions, weights = component_functions(tree(leaf))
    assert [get_callable_name(function) for function in functions] == ["answer", "short"] and weights == [0.75, 0.25]
    leaf.calls = 0

    async def at_once() -> list[Any]:
        return await asyncio.gather(*(function(**BATCH) for function in functions))

    found = asyncio.run(at_once()) if leaf is AsyncAnswer else [function(**BATCH) for function in functions]
    assert leaf.calls == 3
    assert found == [[1.0, 0.0, None], [1 / 2, 1 / 12, None]]  # the third rollout has no reward
    total = rewards(reward_function(tree(leaf)))
    assert [math.fsum([0.75 * a, 0.25 * b]) for a, b in zip(found[0][:2], found[1][:2], strict=True)] == total[:2]
    again = pickle.loads(pickle.dumps(functions))
    leaf.calls = 0
    assert [rewards(function) for function in again] == found
    assert leaf.calls == 3


def test_threads_share_a_batch_and_batches_do_not_mix() -> None:
    functions, _ = component_functions(tree())
    batches = [{**BATCH, "completions": [str(number)] * 3} for number in range(6)]
    Answer.calls = 0
    found: dict[tuple[int, int], Any] = {}

    def ask(number: int, which: int) -> None:
        found[number, which] = functions[which](**batches[number])

    threads = [threading.Thread(target=ask, args=(number, which)) for number in range(6) for which in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Answer.calls == 18
    assert [found[number, 0][0] for number in range(6)] == [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    assert functions[0](**batches[2]) == found[2, 0]
    assert Answer.calls == 21  # who asks again wants to know anew


def test_components_add_up_to_the_reward_over_several_steps() -> None:
    parts = WeightedSum({"short": Short(), "length": Length()}, {"short": 10, "length": -5}, normalize="positive")
    said = [{"role": "assistant", "content": word} for word in ("", "a", "ab")]
    functions, weights = component_functions(parts)
    values = [function(prompts=[None], completions=[said])[0] for function in functions]
    assert weights == [1.0, -0.5] and values == [1 + 1 / 2 + 1 / 3, 3.0]
    assert reward_function(parts)(prompts=[None], completions=[said]) == [pytest.approx(values[0] - 1.5)]


def test_a_child_left_out_by_renormalisation_is_none_alone() -> None:
    parts = WeightedSum({"answer": Answer(), "short": Short()}, WEIGHTS, on_unscored="renormalize")
    answer, short = component_functions(parts)[0]
    assert answer(**BATCH)[2] is None and short(**BATCH)[2] == pytest.approx(1 / 3)


def test_who_waits_for_a_batch_hears_of_its_failure() -> None:
    functions, _ = component_functions(WeightedSum([Breaks(), Short()], [0.5, 0.5]), on_error="raise")
    batch = {"prompts": ["a"], "completions": ["bad"]}
    for function in functions:
        with pytest.raises(ValueError, match="a bug"):
            function(**batch)
    with pytest.raises(TypeError, match="only a WeightedSum has components"):
        component_functions(Short())  # type: ignore[arg-type]


def test_who_asks_again_begins_a_new_round() -> None:
    first, second = component_functions(tree())[0]
    batch = {**BATCH, "completions": ["2", "2", "2"]}
    assert first(**batch)[:2] == [1.0, 1.0]
    batch["completions"][:] = ["no", "no", "no"]  # a trainer that fills the same list again
    assert first(**batch)[:2] == [0.0, 0.0]
    assert second(**batch)[:2] == [1 / 3, 1 / 3]


@pytest.mark.parametrize("cancelled", [0, 1])
def test_one_that_is_cancelled_takes_no_other_with_it(cancelled: int) -> None:
    functions, _ = component_functions(WeightedSum([AsyncAnswer(), Short(), Short()], [0.5, 0.25, 0.25]))

    async def at_once() -> list[Any]:
        asking = [asyncio.ensure_future(function(**BATCH)) for function in functions]
        await asyncio.sleep(0)
        asking[cancelled].cancel()
        return await asyncio.gather(*asking, return_exceptions=True)

    found = asyncio.run(at_once())
    assert isinstance(found.pop(cancelled), asyncio.CancelledError)
    assert found[-1] == [1 / 2, 1 / 12, None]
    assert all(isinstance(values, list) for values in found)


# -- environments -----------------------------------------------------------------------------------------------------


class Found(Rubric):
    """Whether a guess was right, an error costs."""

    def forward(self, action: Any, observation: Any) -> float:
        if observation.error:
            return -0.5
        return float(action.name == "guess" and observation.content == "right")


class AsyncFound(Found):
    async def forward(self, action: Any, observation: Any) -> float:
        await asyncio.sleep(0)
        return super().forward(action, observation)


class Unpaid(RubricEnvironment):
    """Guess a number; its rollouts are scored by `reward_function`."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1

    def reset(self, **row: Any) -> str:
        self.guesses = 0
        return f" It has {len(str(self.task.secret))} digit."

    def guess(self, number: int) -> str:
        """Guess the number.

        Args:
            number: your guess.

        Returns:
            Whether it is right.
        """
        if number < 0:
            raise ValueError("negative")
        self.guesses += 1
        return "right" if number == self.task.secret else "wrong"

    async def hint(self) -> str:
        """Get a hint, which costs a guess.

        Returns:
            The hint.
        """
        await asyncio.sleep(0)
        self.guess(-self.guesses + self.guesses)
        return "it is odd"

    @property
    def left(self) -> int:
        return 5 - self.guesses


class Guessing(Unpaid):
    rubric = Found()


class AsyncGuessing(Unpaid):
    rubric = AsyncFound()


def played(kind: type[Unpaid] = Guessing) -> Unpaid:
    environment = kind()
    environment.reset(prompt=[{"role": "user", "content": "Guess."}], secret=7)
    with pytest.raises(ValueError, match="negative"):
        environment.guess(number=-1)
    assert asyncio.run(environment.hint()) == "it is odd"
    assert environment.guess(7) == "right"
    return environment


def test_tool_calls_are_steps() -> None:
    trajectory = played().trajectory
    assert [(step.action.name, step.action.input) for step in trajectory.steps] == [
        ("guess", {"number": -1}),
        ("hint", {}),
        ("guess", {"number": 7}),
    ]
    assert [dict(step.observation) for step in trajectory.steps] == [
        {"content": "negative", "result": None, "error": "ValueError: negative"},
        {"content": "it is odd", "result": "it is odd", "error": None},
        {"content": "right", "result": "right", "error": None},
    ]
    assert trajectory.task == {"secret": 7}
    assert trajectory.initial.content == "Guess. It has 1 digit."
    assert trajectory.end == "terminated"


@pytest.mark.parametrize("kind", [Guessing, AsyncGuessing])
def test_a_class_with_a_rubric_pays_what_rescoring_gives(kind: Any) -> None:
    environment = played(kind)
    paid = asyncio.run(environment.get_reward()) if kind is AsyncGuessing else environment.get_reward()
    assert paid == 0.5 == Scorer(Found()).score(environment.trajectory).reward
    assert paid == rescore_one(environment.trajectory, Found()).reward
    assert inspect.iscoroutinefunction(kind.get_reward) == (kind is AsyncGuessing)
    environment.reset(secret=1)
    assert environment.trajectory.steps == []
    nothing = asyncio.run(environment.get_reward()) if kind is AsyncGuessing else environment.get_reward()
    assert nothing is None


def test_one_without_is_scored_by_the_reward_function_with_all_others() -> None:
    assert not hasattr(Unpaid, "get_reward")
    metrics: dict[str, float] = {}
    batch = {"prompts": ["", "", ""], "completions": ["", "", ""], "secret": [7, 7, 7]}
    environments = [played(Unpaid), played(Guessing), object()]
    found = reward_function(WeightedSum({"found": Found()}, {"found": 1.0}))
    with pytest.raises(AttributeError):  # what is no RubricEnvironment is scored as a conversation
        reward_function(Found(), on_error="raise")(**batch, environments=environments)
    batch = {name: values[:2] for name, values in batch.items()}
    assert found(**batch, environments=environments[:2], log_metric=metrics.__setitem__) == [0.5, None]
    assert metrics == {"rubric/found/mean": 0.5, "rubric/unscored": 0.0}
    ((component,), _) = component_functions(found.scorer.rubric)  # type: ignore[arg-type]
    assert component(**batch, environments=environments[:2]) == [0.5, None]


def test_tools_keep_their_schemas() -> None:
    schema = get_json_schema(played().guess)["function"]
    assert schema["name"] == "guess" and schema["description"] == "Guess the number."
    assert schema["parameters"]["properties"] == {"number": {"type": "integer", "description": "your guess."}}
    assert inspect.iscoroutinefunction(played().hint)
    tools = [name for name, _ in inspect.getmembers(Guessing, inspect.isfunction) if not name.startswith("_")]
    assert tools == ["get_reward", "guess", "hint", "reset"]


def test_tools_at_once_are_in_the_order_of_their_calls() -> None:
    class Two(RubricEnvironment):
        async def wait(self, turns: int) -> int:
            """Wait."""
            for _ in range(turns):
                await asyncio.sleep(0)
            return turns

    async def play() -> RubricEnvironment:
        environment = Two()
        assert environment.reset() is None
        await asyncio.gather(environment.wait(5), environment.wait(1))
        return environment

    steps = asyncio.run(play()).trajectory.steps
    assert [step.observation.result for step in steps] == [5, 1]
    assert [step.action.input for step in steps] == [{"turns": 5}, {"turns": 1}]


def test_what_cannot_be_an_environment_is_refused() -> None:
    with pytest.raises(EpisodeError, match="call reset first"):
        Guessing().guess(1)
    with pytest.raises(TypeError, match=r"expected a tree"):
        type("Bad", (RubricEnvironment,), {"rubric": Found})
    with pytest.raises(TypeError, match="hides what a RubricEnvironment has"):
        type("Bad", (RubricEnvironment,), {"task": lambda self: 1})
    with pytest.raises(TypeError, match="is static"):
        type("Bad", (RubricEnvironment,), {"tool": staticmethod(lambda: 1)})

    async def reset(self: Any, **row: Any) -> None: ...

    with pytest.raises(TypeError, match="TRL does not await it"):
        type("Bad", (RubricEnvironment,), {"reset": reset})


def test_a_subclass_may_call_up_and_may_pay_by_itself() -> None:
    class Generous(Guessing):
        def guess(self, number: int) -> str:
            """Guess twice."""
            return f"{super().guess(number)}, {super().guess(number + 1)}"

        def get_reward(self) -> float:
            return 9.0

    class Free(Guessing):
        rubric = None

    environment = Generous()
    environment.reset(secret=7)
    assert environment.guess(6) == "wrong, right"
    assert len(environment.trajectory.steps) == 1 and environment.get_reward() == 9.0
    assert "get_reward" not in dict(inspect.getmembers(Free, inspect.isfunction))


# -- the reverse ------------------------------------------------------------------------------------------------------


def mentions(completions: list[str], answer: list[str], **columns: Any) -> list[float | None]:
    return [None if wanted is None else float(wanted in said) for said, wanted in zip(completions, answer, strict=True)]


async def slowly(prompts: list[str], completions: list[str]) -> list[float]:
    await asyncio.sleep(0)
    return [float(len(prompt) < len(said)) for prompt, said in zip(prompts, completions, strict=True)]


def test_a_reward_function_of_trl_is_a_leaf() -> None:
    found = rewards(reward_function(BatchRewardFunction(mentions)))
    assert found == [1.0, 0.0, None] == mentions(**BATCH)
    assert rewards(reward_function(BatchRewardFunction(slowly))) == [0.0, 1.0, 0.0]
    thinks = BatchRewardFunction(think_format_reward, messages=True)
    batch = {"prompts": ["", ""], "completions": ["<think>hm</think>2", "2"]}
    assert rewards(reward_function(thinks), **batch) == [1.0, 0.0]


def test_it_gets_tool_calls_as_trl_has_them() -> None:
    call = {"type": "function", "function": {"name": "guess", "arguments": {"number": 7}}}
    said = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "guess", "content": "right"},
        {"role": "assistant", "content": "done"},
    ]

    def guessed(completions: list[Any], **columns: Any) -> list[float]:
        return [float(messages[0]["tool_calls"][0]["function"]["arguments"]["number"]) for messages in completions]

    leaf = BatchRewardFunction(guessed, messages=True)
    assert rewards(reward_function(leaf), prompts=["?"], completions=[said]) == guessed([said]) == [7.0]


def test_a_function_that_gives_something_else_is_told_so() -> None:
    with pytest.raises(RubricError, match=r"gave \[1, 2\] for one completion"):
        rewards(reward_function(BatchRewardFunction(lambda completions: [1, 2]), on_error="raise"))
    with pytest.raises(RubricError, match="wants 'completion_ids'"):
        rewards(reward_function(BatchRewardFunction(lambda completion_ids: [1]), on_error="raise"))
    with pytest.raises(RubricError, match="wants 'trainer_state'"):
        rewards(reward_function(BatchRewardFunction(lambda trainer_state, **columns: [1]), on_error="raise"))


# -- TRL's own machinery ----------------------------------------------------------------------------------------------


def dataset(**columns: Any) -> Dataset:
    return Dataset.from_dict({"prompt": ["say a", "say b"], "answer": ["a", None], **columns})


def trained(functions: Any, folder: Path, **more: Any) -> GRPOTrainer:
    """One step of training of a random model."""
    vocabulary = tokenizer()
    trainer = GRPOTrainer(
        model=random_model(vocabulary),
        reward_funcs=functions,
        args=GRPOConfig(**grpo_settings(folder, **more)),
        train_dataset=dataset(),
        processing_class=vocabulary,
    )
    trainer.train()
    return trainer


@pytest.mark.slow
@pytest.mark.parametrize("leaf", [Answer, AsyncAnswer])
def test_a_step_of_grpo(leaf: type[Rubric], tmp_path: Path) -> None:
    import pandas

    trainer = trained(reward_function(tree(leaf)), tmp_path, log_completions=True)
    logged = trainer.state.log_history[0]
    given = trainer._logs["rewards"]["rubric"]
    answers = ["a" if prompt == "say a" else None for prompt in trainer._logs["prompt"]]
    rescored = [
        rescore_one(trajectory_of(prompt, said, task={"answer": answer}), tree(leaf)).reward
        for prompt, said, answer in zip(trainer._logs["prompt"], trainer._logs["completion"], answers, strict=True)
    ]
    assert list(given) == pytest.approx([math.nan if reward is None else reward for reward in rescored], nan_ok=True)
    scored = [reward for reward in rescored if reward is not None]
    assert len(scored) == 4  # no reward for the rollouts whose row has no answer
    assert logged["rewards/rubric/mean"] == pytest.approx(sum(scored) / 4)
    assert logged["rubric/unscored"] == 0.5 and 0.0 < logged["rubric/short/mean"] < 1.0
    assert ("rubric/cost" in logged) == (leaf is AsyncAnswer)
    advantages: dict[str, list[float]] = {"say a": [], "say b": []}
    for prompt, advantage in zip(trainer._logs["prompt"], trainer._logs["advantages"], strict=True):
        advantages[prompt].append(advantage)
    assert advantages["say b"] == [0.0] * 4
    assert sum(advantages["say a"]) == pytest.approx(0.0, abs=1e-5)
    (table,) = tmp_path.glob("completions/*.parquet")
    assert len(pandas.read_parquet(table)["rubric/feedback"]) == 8


@pytest.mark.slow
@pytest.mark.parametrize("leaf", [Answer, AsyncAnswer])
def test_a_step_of_grpo_by_components(leaf: type[Rubric], tmp_path: Path) -> None:
    functions, weights = component_functions(tree(leaf))
    leaf.calls = 0
    trainer = trained(functions, tmp_path, reward_weights=weights, multi_objective_aggregation="normalize_then_sum")
    assert leaf.calls == 8
    assert trainer.state.log_history[0]["rewards/short/mean"] > 0.0
    assert [math.isnan(reward) for reward in trainer._logs["rewards"]["short"]] == [
        prompt == "say b" for prompt in trainer._logs["prompt"]
    ]


@pytest.mark.slow
def test_steps_of_rloo_and_online_dpo(tmp_path: Path) -> None:
    vocabulary = tokenizer()
    settings = grpo_settings(tmp_path)
    trainer = RLOOTrainer(
        model=random_model(vocabulary),
        reward_funcs=reward_function(tree(AsyncAnswer)),
        args=RLOOConfig(**settings, beta=0.0),
        train_dataset=dataset(),
        processing_class=vocabulary,
    )
    trainer.train()
    assert trainer.state.log_history[0]["rubric/unscored"] == 0.5

    del settings["num_generations"], settings["max_completion_length"]
    given: list[Any] = []
    function = reward_function(tree(AsyncAnswer), asynchronous=False, unscored=-1.0)

    def recorded(**batch: Any) -> Any:
        given.extend(found := function(**batch))
        return found

    online = OnlineDPOTrainer(
        model=random_model(vocabulary),
        reward_funcs=recorded,
        args=OnlineDPOConfig(**settings, max_new_tokens=8),
        train_dataset=dataset(),
        processing_class=vocabulary,
    )
    online.train()
    assert len(given) == 4 and given.count(-1.0) == 2


def call(**arguments: Any) -> str:
    return f'<tool_call>\n{{"name": "guess", "arguments": {str(arguments).replace(chr(39), chr(34))}}}\n</tool_call>'


HINT = '<tool_call>\n{"name": "hint", "arguments": {}}\n</tool_call>'


def idle(environments: list[Any], **columns: Any) -> list[float | None]:
    """0 for a rollout without a tool call, to which a tree gives no reward; nothing for the others."""
    return [None if environment.trajectory.steps else 0.0 for environment in environments]


class Player:
    """Plays on cue: the rollouts of a group differ in what they try first."""

    def __init__(self) -> None:
        self.rollouts = 0

    def __call__(self, so_far: str) -> str:
        turns = so_far.count("<tool_response>")
        if turns == 0:
            self.rollouts += 1
            return [call(number=7), call(number=-1), HINT, "I give up."][self.rollouts % 4]
        return call(number=7) if turns == 1 and "negative" in so_far else "Done."


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Guessing, AsyncGuessing, Unpaid])
def test_a_step_of_grpo_in_an_environment(kind: type[Unpaid], tmp_path: Path) -> None:
    vocabulary = tokenizer()
    kind.made = 0
    trainer = GRPOTrainer(
        model=actor(vocabulary, Player()),
        reward_funcs=[reward_function(Found()), idle] if kind is Unpaid else None,
        args=GRPOConfig(**grpo_settings(tmp_path, max_completion_length=512, max_steps=2)),
        train_dataset=Dataset.from_dict({"prompt": [[{"role": "user", "content": "Guess."}]] * 2, "secret": [7, 7]}),
        processing_class=vocabulary,
        environment_factory=kind,
    )
    trainer.train()
    assert kind.made == 8  # pooled, and reset for the second step
    paid = list(trainer._logs["rewards"]["rubric" if kind is Unpaid else kind.__name__])
    # right at once; an error, then right; a hint alone; no call, so no steps
    assert sorted(paid[:4], key=str) == pytest.approx(sorted([1.0, 0.5, 0.0, math.nan], key=str), nan_ok=True)
    rescored = [rescore_one(environment.trajectory, Found()).reward for environment in trainer.environments]
    assert paid == pytest.approx([math.nan if reward is None else reward for reward in rescored], nan_ok=True)
    advantages = list(trainer._logs["advantages"])
    none = next(i for i, reward in enumerate(paid) if math.isnan(reward))
    assert advantages[paid.index(1.0)] > 0
    assert advantages[none] < 0 if kind is Unpaid else advantages[none] == 0
    assert trainer.state.log_history[-2]["tools/failure_frequency"] == pytest.approx(2 / 8)
    opening = trainer.environments[0].trajectory.initial.messages
    assert [dict(message) for message in opening] == trainer._logs["prompt"][0]


@pytest.mark.slow
def test_environments_that_pay_for_themselves_beside_others(tmp_path: Path) -> None:
    vocabulary = tokenizer()
    trainer = GRPOTrainer(
        model=actor(vocabulary, Player()),
        reward_funcs=[reward_function(Found())],
        args=GRPOConfig(**grpo_settings(tmp_path, max_completion_length=512)),
        train_dataset=Dataset.from_dict(
            {
                "prompt": [[{"role": "user", "content": "Guess."}]] * 2,
                "secret": [7, 7],
                "environment": ["paid", "free"],
            }
        ),
        processing_class=vocabulary,
        environment_factory={"paid": Guessing, "free": Unpaid},
    )
    trainer.train()
    kinds = [type(environment) for environment in trainer.environments]
    ours, own = trainer._logs["rewards"]["rubric"], trainer._logs["rewards"]["Guessing"]
    for kind, from_function, from_environment in zip(kinds, ours, own, strict=True):
        assert math.isnan(from_function if kind is Guessing else from_environment)
    assert sum(not math.isnan(reward) for reward in (*ours, *own)) == 6  # of 8; two rollouts called no tool
    assert pickle.loads(pickle.dumps(Guessing)) is Guessing  # as AsyncGRPOTrainer needs it
