"""OpenEnv's own rubrics as leaves of our trees: the numbers are those of OpenEnv."""

import asyncio
import copy
import inspect
import random
from typing import Any

import pytest

pytest.importorskip("openenv")

import openenv.core.rubrics as theirs
from openenv.core import Observation
from openenv.core.llm_client import LLMClient, LLMResponse

from rubrics import CreditError, RubricError, Sequential, Unscored, WeightedSum
from rubrics.integrations.openenv_rubrics import OpenEnvRubric
from rubrics.rescoring import rescore_one
from rubrics.rollouts.scoring import Scorer
from tests.leaves import Boom, Fixed


class Said(Observation):
    text: str = ""


class Long(theirs.Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return min(1.0, len(action) / 4)


class Slow(theirs.Rubric):
    async def forward(self, action: Any, observation: Any) -> float:
        await asyncio.sleep(0)
        return 1.0 if "b" in action else 0.5


class Share(theirs.ExponentialDiscountingTrajectoryRubric):
    """The share of actions with an `a` in it; counts how often it scored."""

    scored: list[int] = []

    def score_trajectory(self, trajectory: Any) -> float:
        self.scored.append(len(trajectory))
        return sum("a" in action for action, _ in trajectory) / len(trajectory)


class AsyncShare(Share):
    async def forward(self, action: Any, observation: Any) -> float:  # type: ignore[override]
        return super().forward(action, observation)


class Counting(theirs.Rubric):
    """The number of the step, from 1, on itself."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def forward(self, action: Any, observation: Any) -> float:
        self.count += 1
        return float(self.count)

    def reset(self) -> None:
        self.count = 0


class Judge(LLMClient):
    """A client that no copy of a rubric may copy."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("a client holds locks")

    async def complete(self, prompt: str, **kwargs: Any) -> str:
        self.asked.append(prompt)
        return "Score: 0.25"

    async def complete_with_tools(self, *args: Any, **kwargs: Any) -> LLMResponse:
        raise NotImplementedError


def steps_of(actions: str, done: bool = True) -> list[tuple[str, Said]]:
    words = actions.split()
    return [(word, Said(text=word, done=done and t == len(words) - 1)) for t, word in enumerate(words)]


async def by_openenv(rubric: theirs.Rubric, steps: list[Any]) -> list[float]:
    """The scores of an episode under OpenEnv."""
    rubric.reset()
    scores = []
    for action, observation in steps:
        score = rubric(action, observation)
        scores.append(await score if inspect.isawaitable(score) else score)
    return scores


def make(number: int) -> theirs.Rubric:
    """A random tree of OpenEnv's."""
    dice = random.Random(number)

    def node(depth: int) -> theirs.Rubric:
        kind = dice.randrange(7 if depth else 5)
        if kind < 5:
            leaves = (Long, Slow, lambda: Share(intermediate_reward=0.25), lambda: AsyncShare(gamma=0.5), Counting)
            return leaves[kind]()
        children = [node(depth - 1) for _ in range(3)]
        if kind == 5:
            return theirs.WeightedSum(children, [0.5, 0.25, 0.25])
        return theirs.Sequential(theirs.Gate(children[0], threshold=0.25), *children[1:])

    return node(2)


@pytest.mark.parametrize("number", range(60))
async def test_scores_are_those_of_openenv(number: int) -> None:
    steps = steps_of("ab b aaaa a bab"[: 3 + number % 13])
    expected = await by_openenv(copy.deepcopy(make(number)), steps)
    leaf = OpenEnvRubric(make(number))
    for _ in range(2):  # a second episode begins afresh
        episode = leaf.episode()
        assert [await episode.astep(*step) for step in steps] == expected
    recorded = episode.trajectory
    assert rescore_one(recorded, OpenEnvRubric(make(number))).reward == recorded.reward
    assert (await Scorer(leaf).score_async(recorded)).reward == recorded.reward


def test_a_sync_rubric_makes_no_tree_async() -> None:
    assert not OpenEnvRubric(make_sync()).is_async_tree
    assert OpenEnvRubric(theirs.WeightedSum([Long(), Slow()], [0.5, 0.5])).is_async_tree
    assert OpenEnvRubric(Long())("ab", Said()) == 0.5


async def test_a_hook_may_be_async_and_what_waits_in_secret_is_refused() -> None:
    seen: list[float] = []

    async def hook(rubric: Any, action: Any, observation: Any, score: float) -> None:
        await asyncio.sleep(0)
        seen.append(score)

    hooked = theirs.Sequential(Long())
    hooked.register_forward_hook(hook)
    leaf = OpenEnvRubric(hooked)
    assert leaf.is_async_tree
    assert await leaf("ab", Said()) == 0.5
    assert seen == [0.5]

    class Secretly(theirs.Rubric):
        def forward(self, action: Any, observation: Any) -> Any:
            return Slow().forward(action, observation)

    with pytest.raises(RubricError, match="Secretly waits"):
        OpenEnvRubric(Secretly())("ab", Said())


def make_sync() -> theirs.Rubric:
    return theirs.WeightedSum([Long(), Share()], [0.5, 0.5])


def test_it_is_pending_until_the_end() -> None:
    leaf = OpenEnvRubric(Share())
    tree = Sequential(leaf, Fixed(0.75))
    episode = tree.episode(record=True)
    rewards = [episode.step(*step) for step in steps_of("a a b")]
    assert rewards == [0.0, 0.0, 0.75]  # in OpenEnv an intermediate 0 stops a Sequential too, but as a failure
    assert [evaluation.status for evaluation in episode.evaluations] == ["pending", "pending", "scored"]


@pytest.mark.parametrize("observation", [Said(), {"text": "x"}, type("Plain", (), {})()])
def test_an_end_that_is_said_in_another_way_is_an_end(observation: Any) -> None:
    tree = WeightedSum({"share": OpenEnvRubric(make_sync())}, {"share": 1.0})
    episode = tree.episode()
    assert [episode.step(word, observation) for word in ("aaaa", "b")] == [0.5, 0.125]
    assert episode.end(truncated=True) == 0.125 + 0.25
    assert episode.rewards().total == 0.5 + 0.375
    other = tree.episode()
    other.step("aaaa", {"truncated": False})
    assert other.step("b", {"truncated": True}) == 0.375


def test_episodes_at_once_never_mix() -> None:
    leaf = OpenEnvRubric(theirs.WeightedSum([Share(), Counting()], [0.5, 0.5]))
    first, second = leaf.episode(), leaf.episode()
    rewards: dict[int, list[Any]] = {0: [], 1: []}
    for pair in zip(steps_of("a a a"), steps_of("b b b"), strict=True):
        for number, (episode, step) in enumerate(zip((first, second), pair, strict=True)):
            rewards[number].append(episode.step(*step))
    assert rewards == {0: [0.5, 1.0, 2.0], 1: [0.5, 1.0, 1.5]}
    assert leaf.rubric._rubric_list[1].count == 0  # the original is untouched


async def test_many_async_episodes_at_once() -> None:
    leaf = OpenEnvRubric(theirs.WeightedSum([AsyncShare(), Slow()], [0.5, 0.5]))

    async def play(actions: str) -> list[Any]:
        episode = leaf.episode()
        return [await episode.astep(*step) for step in steps_of(actions)]

    rollouts = await asyncio.gather(*(play("a b") for _ in range(20)))
    assert rollouts == [[0.25, 0.75]] * 20


def test_a_step_that_fails_leaves_it_as_it_was() -> None:
    sometimes = Fixed(1.0)
    leaf = OpenEnvRubric(theirs.WeightedSum([Share(), Counting()], [0.5, 0.5]))
    tree = WeightedSum([leaf, sometimes], [0.5, 0.5])
    episode = tree.episode()
    steps = steps_of("a b")
    episode.step(*steps[0])
    sometimes.value = Boom()
    for _ in range(3):
        with pytest.raises(Boom):
            episode.step(*steps[1])
    sometimes.value = 1.0
    assert episode.step(*steps[1]) == 0.5 * (0.25 + 1.0) + 0.5


def test_credit_is_its_own_and_costs_no_second_judgement() -> None:
    Share.scored.clear()
    leaf = OpenEnvRubric(Share(gamma=0.5))
    episode = WeightedSum({"share": leaf, "fixed": Fixed(1.0)}, {"share": 0.5, "fixed": 0.5}).episode()
    for step in steps_of("a a b b"):
        episode.step(*step)
    rewards = episode.rewards()
    assert Share.scored == [4]
    assert rewards.kind == "credit"
    assert rewards.values.tolist() == [0.5 + 0.5 * 0.5 * 0.5**t for t in (3, 2, 1, 0)]
    mixed = OpenEnvRubric(make_sync()).episode()
    for step in steps_of("aaaa b"):
        mixed.step(*step)
    assert mixed.rewards().kind == "reward"
    assert mixed.rewards().values.tolist() == [0.5, 0.375]


def test_a_gate_before_it_hides_steps_as_in_openenv() -> None:
    class Polite(Fixed):
        def forward(self, action: Any, observation: Any) -> float:
            return float(not action.startswith("!"))

    episode = Sequential(Polite(), OpenEnvRubric(Share(gamma=0.5))).episode()
    rewards = [episode.step(*step) for step in steps_of("a !a !b b")]
    assert rewards == [0.0, 0.0, 0.0, 0.5]
    assert episode.rewards().values.tolist() == [0.25, 0.0, 0.0, 0.5]

    cut = Sequential(Polite(), OpenEnvRubric(Share())).episode()
    for step in steps_of("a !a", done=False):
        cut.step(*step)
    assert cut.end(truncated=True) == 0.0


def test_wrong_credit_is_an_error() -> None:
    class Short(Share):
        def compute_step_rewards(self) -> list[float]:
            return [1.0]

    episode = OpenEnvRubric(Short()).episode()
    for step in steps_of("a b"):
        episode.step(*step)
    with pytest.raises(CreditError, match="for 2 steps"):
        episode.rewards()


async def test_llm_judges_work_and_their_clients_are_shared() -> None:
    client = Judge()
    judged = theirs.LLMJudge("Rate {action} on {observation.text}", client)
    leaf = OpenEnvRubric(theirs.WeightedSum([judged, Share()], [0.5, 0.5]))
    assert [await leaf.episode().astep(*step) for step in steps_of("a")] == [0.625]
    assert client.asked == ["Rate a on a"]


def test_failures_name_the_leaf_and_no_answer_is_unscored() -> None:
    class Breaks(theirs.Rubric):
        def forward(self, action: Any, observation: Any) -> Any:
            if action == "none":
                return None
            if action == "nan":
                return float("nan")
            raise ValueError("boom")

    tree = WeightedSum({"theirs": OpenEnvRubric(Breaks())}, {"theirs": 1.0})
    with pytest.raises(ValueError, match="boom") as caught:
        tree("x", Said())
    assert "theirs" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match="theirs"):
        tree("nan", Said())
    evaluation = tree.evaluate_sync("none", Said())
    assert evaluation.status == "unscored"

    class Mute(Share):
        def score_trajectory(self, trajectory: Any) -> Any:
            raise Unscored("nothing to say")

    episode = OpenEnvRubric(Mute()).episode()
    assert [episode.step(*step) for step in steps_of("a b")] == [0.0, None]
    assert episode.rewards().total is None


def test_bad_rubrics_are_refused() -> None:
    with pytest.raises(TypeError, match=r"instance of openenv\.core\.rubrics\.Rubric"):
        OpenEnvRubric(Share)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"openenv\.core\.rubrics\.Rubric"):
        OpenEnvRubric(Fixed())  # type: ignore[arg-type]

    class Locked(Share):
        def __init__(self) -> None:
            super().__init__()
            self.lock = (n for n in range(3))  # a generator cannot be copied

    with pytest.raises(TypeError, match="Locked keeps state and cannot be copied"):
        OpenEnvRubric(Locked())
    assert repr(OpenEnvRubric(Share())) == "OpenEnvRubric(Share)"
