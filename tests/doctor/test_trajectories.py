"""Each fault that trajectories show is planted and found; a sound rubric is left in peace."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rubrics import Record, Rubric, Sequential, Step, Trajectory, TrajectoryRubric, Unscored, WeightedSum
from rubrics.doctor import examine
from rubrics.formats import read
from rubrics.rescoring import rescore


class Says(Rubric):
    """Whether the answer says a word."""

    def __init__(self, word: str = "") -> None:
        super().__init__()
        self.word = word

    def forward(self, action: Any, observation: Any) -> float:
        return float(self.word in action.split())


class Correct(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return float(self.task["answer"] == action.partition("answer: ")[2].strip())


class Formatted(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return float(action.count("answer: ") == 1 and len(action) < 500)


class Long(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return min(1.0, len(action) / 2000)


class Fragile(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        if "7" in action:
            raise ValueError("seven")
        return 1.0


class Sometimes(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        if len(action) % 3 == 0:
            raise Unscored("no idea")
        return float(len(action) % 2)


class Wild(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return 1.0 + len(action) % 2


def episodes(n: int = 120, seed: int = 0, groups: int = 20) -> list[Trajectory]:
    """Single answers, right in half of the cases, of lengths that say nothing of that; formatted in most."""
    chosen = random.Random(seed)
    made = []
    for i in range(n):
        answer = str(chosen.randrange(10, 100))
        right = chosen.random() < 0.5
        said = answer if right else str(int(answer) + 1)
        filler = "word " * chosen.randrange(1, 40)
        opening = filler if chosen.random() < 0.2 else f"{filler}answer: "
        action = f"{opening}{said}"
        made.append(
            Trajectory(
                id=f"e{i}",
                task=Record(question=f"What is {answer} + 0?", answer=answer),
                initial=Record(content=f"What is {answer} + 0?"),
                steps=[Step(action, Record(done=True), reward=float(right and "answer: " in action))],
                end="terminated",
                reward=float(right and "answer: " in action),
                metadata={"group": i % groups, "solved": right},
            )
        )
    return made


SOUND = WeightedSum({"format": Formatted(), "correct": Correct()}, {"format": 0.25, "correct": 0.75})


def checks(tree: Rubric, given: list[Trajectory] | None = None, **options: Any) -> dict[str, list[str]]:
    result = examine(tree, given if given is not None else episodes(), **options)
    found: dict[str, list[str]] = {}
    for each in result.findings:
        found.setdefault(each.check, []).append(each.path)
    return found


def test_a_sound_rubric_is_left_in_peace() -> None:
    result = examine(SOUND, episodes())
    assert result.findings == (), result.text()
    assert {**result.looked_at, "attempts": 0} == {
        "nodes": 3,
        "trajectories": 120,
        "scored": 120,
        "groups": 20,
        "attempts": 0,
    }
    assert result.looked_at["attempts"] > 200 and result.not_looked_at == ()


def test_a_node_that_never_varies() -> None:
    tree = WeightedSum({"sound": SOUND, "never": Says("zebra")}, {"sound": 0.9, "never": 0.1})
    assert checks(tree, attack=False) == {"constant": ["never"]}


def test_a_node_that_hardly_varies() -> None:
    tree = WeightedSum({"sound": SOUND, "rare": Says("99")}, {"sound": 0.9, "rare": 0.1})
    assert checks(tree, attack=False) == {"saturated": ["rare"]}


def test_groups_that_teach_nothing() -> None:
    given = episodes(groups=40)
    for each in given:  # all rollouts of a task are right, or none is
        group = each.metadata["group"]
        answer = each.task["answer"] if group % 2 else "0"
        each.steps = [Step(f"answer: {answer}", Record(done=True))]
        each.reward = None
    result = examine(SOUND, given, attack=False)
    flat = result.of("flat-groups")[0]
    assert (flat.severity, flat.evidence["groups"], flat.evidence["flat"], flat.evidence["at_the_top"]) == (
        "warning",
        40,
        40,
        20,
    )


def test_redundant_nodes() -> None:
    tree = WeightedSum(
        {"correct": Correct(), "again": Correct(), "format": Formatted()}, {"correct": 0.4, "again": 0.4, "format": 0.2}
    )
    assert checks(tree, attack=False) == {"redundant": ["again"]}


def test_one_node_that_decides_everything() -> None:
    tree = WeightedSum({"correct": Correct(), "long": Long()}, {"correct": 0.99, "long": 0.01})
    assert checks(tree, attack=False) == {"decides-alone": ["correct"]}


def test_length_that_pays() -> None:
    tree = WeightedSum({"correct": Correct(), "long": Long()}, {"correct": 0.2, "long": 0.8})
    result = examine(tree, episodes(), attack=False)
    bias = result.of("length-bias")[0]
    assert bias.what == "longer answers get more, among episodes of equal outcome"
    assert bias.evidence["low"] > 0.3 and bias.evidence["n"] == 120


def test_a_reward_that_says_nothing_of_the_outcome() -> None:
    class Parity(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            return float(len(action) % 2)

    result = examine(Parity(), episodes(), attack=False, outcome=lambda episode: episode.metadata["solved"])
    assert [each.check for each in result.findings] == ["disagrees"]
    assert result.findings[0].what == "the reward does not tell episodes recorded as a success from the others"

    class Wrong(Correct):
        def forward(self, action: Any, observation: Any) -> float:
            return 1.0 - super().forward(action, observation)

    found = examine(Wrong(), episodes(), attack=False).of("disagrees")[0]
    assert found.what == "the reward is higher where the episode was recorded as a failure"
    assert found.evidence["auc"] < 0.1 and found.evidence["high"] < 0.5


def test_missing_scores_and_errors() -> None:
    tree = WeightedSum({"sound": SOUND, "some": Sometimes()}, {"sound": 0.5, "some": 0.5})
    result = examine(tree, episodes(), attack=False)
    assert {each.path for each in result.of("unscored")} == {"", "some"}
    assert [each.severity for each in result.of("unscored")] == ["warning", "warning"]
    result = examine(WeightedSum([SOUND, Fragile()], [0.5, 0.5]), episodes(), attack=False)
    error = result.of("errors")[0]
    assert error.severity == "error" and "ValueError: seven" in error.what
    assert error.evidence["errors"] == sum("7" in each.steps[0].action for each in episodes())


def test_a_reward_that_nothing_has_is_an_error_with_its_reasons() -> None:
    class Shy(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            raise Unscored("no tool was called" if len(action) % 3 else "there is no answer")

    finding = examine(Shy(), episodes(), attack=False).of("unscored")[0]
    assert finding.severity == "error"
    assert set(finding.evidence["reasons"]) == {"no tool was called", "there is no answer"}
    assert sum(finding.evidence["reasons"].values()) == finding.evidence["unscored"]


def test_what_cannot_be_read_is_told_apart_from_what_the_rubric_raises(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    result = examine(SOUND, [*episodes(), *read(tmp_path / "empty.jsonl")], attack=False)
    assert [each.check for each in result.findings] == ["unreadable"]
    assert result.findings[0].what.startswith("1 of 121 trajectories could not be read, such as ")
    assert result.findings[0].what.endswith("empty.jsonl:1: the file is empty")


def test_a_node_that_never_runs() -> None:
    tree = Sequential({"zebra": Says("zebra"), "sound": SOUND})
    found = checks(tree, attack=False)
    assert found["never-ran"] == ["sound", "sound.correct", "sound.format"]


def test_a_score_outside_the_declared_range() -> None:
    assert checks(WeightedSum({"wild": Wild(), "sound": SOUND}, {"wild": 0.5, "sound": 0.5}), attack=False)[
        "range"
    ] == ["", "wild"]


class OnEachStep(Rubric):
    """Pays for the state, on each step that has it."""

    def forward(self, action: Any, observation: Any) -> float:
        return float(observation.solved)


class Once(TrajectoryRubric):
    def score_trajectory(self, trajectory: list[tuple[Any, Any]]) -> float:
        return float(trajectory[-1][1].solved)


def long_episodes() -> list[Trajectory]:
    chosen = random.Random(1)
    made = []
    for i in range(40):
        solved_at = chosen.randrange(1, 9)
        steps = [
            Step(f"move {t}", Record(solved=t >= solved_at, done=t == 9), reward=float(t == solved_at))
            for t in range(10)
        ]
        if i % 4 == 0:
            steps = [Step(step.action, Record(solved=False, done=t == 9), 0.0) for t, step in enumerate(steps)]
        reward = sum(step.reward or 0.0 for step in steps)
        made.append(Trajectory(id=f"e{i}", steps=steps, end="terminated", reward=reward, reduction="sum"))
    return made


def test_a_reward_that_rises_after_the_task_is_done() -> None:
    found = examine(OnEachStep(), long_episodes(), attack=False).of("rises-after-done")[0]
    assert found.severity == "error" and found.evidence["episodes"] == 30
    assert 0.5 < found.evidence["share_paid_late"] < 1.0
    assert examine(Once(), long_episodes(), attack=False).of("rises-after-done") == []


@pytest.mark.parametrize(
    ("tree", "attack"),
    [
        (Says(), None),
        (WeightedSum({"correct": Correct(), "long": Long()}, {"correct": 0.3, "long": 0.7}), "huge"),
        (WeightedSum({"correct": Correct(), "long": Long()}, {"correct": 0.3, "long": 0.7}), "padding"),
        (Says("zebra"), "own-words"),
        (Says("yes"), "every-option"),
        (Says('"score":'), "injected-grade"),
    ],
)
def test_exploits_are_found(tree: Rubric, attack: str | None) -> None:
    exploits = {each.evidence["attack"] for each in examine(tree, episodes()).of("exploit")}
    assert (attack in exploits) if attack else not exploits


class Empty(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return float("answer: " not in action)


class Echo(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return float("What is" in action)


class EachSubmit(TrajectoryRubric):
    def score_trajectory(self, trajectory: list[tuple[Any, Any]]) -> float:
        return min(1.0, len(trajectory) / 5)


@pytest.mark.parametrize(("tree", "attack"), [(Empty(), "empty"), (Echo(), "echo"), (EachSubmit(), "repeated-step")])
def test_more_exploits_are_found(tree: Rubric, attack: str) -> None:
    given = episodes()
    for each in given:  # the environment does not end an episode by itself
        each.steps[0].observation = Record()
    found = {each.evidence["attack"]: each for each in examine(tree, given).of("exploit")}
    assert found[attack].severity == "error"
    assert found[attack].evidence["mean"] > found[attack].evidence["mean_of_real"]


def test_an_attempt_that_makes_the_rubric_raise() -> None:
    class Parses(Correct):
        def forward(self, action: Any, observation: Any) -> float:
            action[0]
            return super().forward(action, observation)

    error = examine(Parses(), episodes()).of("errors")[0]
    assert error.what.startswith("an empty answer makes the rubric raise in 30 of 30 attempts: step 1 of 1: IndexError")


MESSAGES: dict[str, Callable[[str], Any]] = {
    "message": lambda text: Record(role="assistant", content=text),
    "parts": lambda text: Record(content=[{"type": "text", "text": text}]),
    "tool call": lambda text: Record(name="submit", input={"answer": text, "n": 1}),
    "chat tool call": lambda text: Record(content="", tool_calls=[{"name": "submit", "arguments": {"answer": text}}]),
}


@pytest.mark.parametrize("shape", MESSAGES)
def test_answers_of_other_shapes_are_attacked_too(shape: str) -> None:
    class Anything(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            return float("zebra" in str(action))

    class Zebra(Anything):
        word = "zebra"

        def __init__(self) -> None:
            super().__init__()
            self.words = ["a zebra"]

    given = episodes()
    for each in given:
        each.steps = [Step(MESSAGES[shape](each.steps[0].action), each.steps[0].observation)]
    exploits = {each.evidence["attack"] for each in examine(Zebra(), given).of("exploit")}
    assert exploits == {"own-words"}


def test_rows_of_a_run_will_do() -> None:
    tree = WeightedSum({"sound": SOUND, "never": Says("zebra")}, {"sound": 0.9, "never": 0.1})
    rows = list(rescore(episodes(), tree, record="last"))
    result = examine(tree, rows=rows)
    assert [each.check for each in result.findings] == ["constant"]
    assert result.not_looked_at == ("attacks: no trajectory has a reward that an attempt could be compared with",)
    result = examine(tree, episodes(), rows=rows)
    assert {each.check for each in result.findings} == {"constant"} and result.looked_at["attempts"] > 200


def test_what_needs_the_live_environment_is_not_attacked() -> None:
    class Live(Correct):
        needs_live_state = True

    tree = WeightedSum({"live": Live(), "format": Formatted()}, {"live": 0.5, "format": 0.5})
    rows = list(rescore(episodes(), SOUND, record="last"))
    result = examine(tree, episodes(), rows=rows)
    assert result.not_looked_at == ("attacks: live cannot be scored without the live environment",)


def test_few_trajectories_are_not_judged() -> None:
    assert checks(WeightedSum([SOUND, Says("zebra")], [0.9, 0.1]), episodes(10), attack=False) == {}
    assert checks(SOUND, [], attack=True) == {}


def test_unfinished_episodes_are_counted() -> None:
    cut = [replace(episode, end=None, steps=episode.steps[:-1]) for episode in long_episodes()[:3]]
    assert examine(Once(), [*long_episodes(), *cut], attack=False).looked_at == {
        "nodes": 1,
        "trajectories": 43,
        "scored": 40,
        "unfinished": 3,
        "groups": 0,
    }


def test_too_few_trajectories_are_told() -> None:
    few = "how scores are spread: 19 trajectories have a reward, 20 are needed"
    assert examine(SOUND, episodes()[:19], attack=False).not_looked_at == (few,)
    assert examine(SOUND, episodes()[:20], attack=False).not_looked_at == ()
