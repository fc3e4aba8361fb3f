"""A code-review environment on OpenEnv: the agent opens files of a small change and then reviews it, with one comment.

python examples/code_review.py        # serves it on loopback, plays two scripted episodes, prints rewards and scores
"""

import ast
from typing import Any, Literal

from loopback import serving
from openenv.core import Action, GenericEnvClient, Observation, State
from pydantic import Field

from rubrics import Gate, Rubric, Score, Sequential, Switch, WeightedSum
from rubrics.integrations.openenv import RubricEnvironment

# Each change has one bug, in the line that is named; the agent is not told.
CHANGES: list[dict[str, Any]] = [
    {
        "files": {
            "stats.py": [
                "def mean(values):",
                "    total = 0",
                "    for i in range(len(values) - 1):",
                "        total += values[i]",
                "    return total / len(values)",
            ],
            "test_stats.py": ["def test_mean_of_equal_values():", "    assert mean([0, 0, 0]) == 0"],
        },
        "bug": {"path": "stats.py", "line": 3},
    },
    {
        "files": {"cart.py": ["def add(item, cart=[]):", "    cart.append(item)", "    return cart"]},
        "bug": {"path": "cart.py", "line": 1},
    },
]


class Look(Action):
    """Open a file, or end with a review: a comment on one line and, if there is one, code to put in its place."""

    kind: Literal["open", "review"]
    path: str
    line: int = 0
    comment: str = ""
    suggestion: str = ""


class Shown(Observation):
    """The numbered lines of a file."""

    text: str = ""
    paths: list[str] = Field(default_factory=list)


class KnownFile(Rubric):
    """Opening a file that the change does not touch costs a tenth of a point."""

    range = (-0.1, 0.0)

    def forward(self, action: Look, observation: Shown) -> float:
        return 0.0 if action.path in observation.paths else -0.1


class CitesLine(Rubric):
    """The comment stands on a line that exists."""

    def forward(self, action: Look, observation: Shown) -> bool:
        lines = CHANGES[self.task["change"]]["files"].get(action.path, [])
        return 1 <= action.line <= len(lines)


class SuggestionParses(Rubric):
    """The suggestion, if there is one, is Python."""

    def forward(self, action: Look, observation: Shown) -> float | Score:
        code = action.suggestion.strip()
        try:
            # A line such as `for x in y:` is a suggestion, though no program of its own.
            ast.parse(code + "\n    pass" if code.endswith(":") else code)
        except SyntaxError as error:
            return Score(0.0, reason=f"not Python: {error.msg}")
        return 1.0


class FindsBug(Rubric):
    """1.0 on the line of the bug, 0.5 beside it."""

    def forward(self, action: Look, observation: Shown) -> float:
        bug = CHANGES[self.task["change"]]["bug"]
        if action.path != bug["path"]:
            return 0.0
        return max(0.0, 1.0 - 0.5 * abs(action.line - bug["line"]))


class Brief(Rubric):
    """1.0 up to 100 characters, 0.0 from 300."""

    def forward(self, action: Look, observation: Shown) -> float:
        return min(1.0, max(0.0, (300 - len(action.comment)) / 200))


def make_rubric() -> Rubric:
    """A review that cites no line, or suggests what is no Python, is worth nothing; the others are weighed."""
    review = Sequential(
        {
            "cites_line": Gate(CitesLine()),
            "suggestion_parses": Gate(SuggestionParses()),
            "quality": WeightedSum(
                {"finds_bug": FindsBug(), "brief": Brief()},
                weights={"finds_bug": 0.8, "brief": 0.2},
            ),
        }
    )
    return Switch(lambda action, observation: action.kind, {"open": KnownFile(), "review": review})


class ReviewEnv(RubricEnvironment[Look, Shown, State]):
    """It opens files and ends with a review; no word of rewards."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    rubric = make_rubric()

    def __init__(self) -> None:
        super().__init__()
        self.change = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Shown:
        self.change = (seed or 0) % len(CHANGES)
        return Shown(text="Review this change.", paths=list(CHANGES[self.change]["files"]))

    def task_of(self, **reset_arguments: Any) -> dict[str, int]:
        """What the rubric reads as `self.task`; it stays on the server."""
        return {"change": self.change}

    def step(self, action: Look, timeout_s: float | None = None, **kwargs: Any) -> Shown:
        files = CHANGES[self.change]["files"]
        lines = files.get(action.path, ["no such file"])
        text = "\n".join(f"{number:>3} {line}" for number, line in enumerate(lines, start=1))
        return Shown(text=text, paths=list(files), done=action.kind == "review")

    @property
    def state(self) -> State:
        return State()


SCRIPTS: list[list[dict[str, Any]]] = [
    [
        {"kind": "open", "path": "setup.py"},
        {"kind": "open", "path": "stats.py"},
        {
            "kind": "review",
            "path": "stats.py",
            "line": 3,
            "comment": "The last value is left out: range(len(values) - 1) stops one short.",
            "suggestion": "for i in range(len(values)):",
        },
    ],
    [
        {"kind": "open", "path": "cart.py"},
        {"kind": "review", "path": "cart.py", "line": 2, "comment": "Looks odd.", "suggestion": "cart += [item"},
    ],
]


def main() -> None:
    with serving(ReviewEnv, Look, Shown) as url, GenericEnvClient(base_url=url).sync() as client:
        for seed, script in enumerate(SCRIPTS):
            print(f"change {seed}: {', '.join(client.reset(seed=seed).observation['paths'])}")
            for action in script:
                result = client.step(action)
                print(f"  {action['kind']:<6} {action['path']:<10} reward {result.reward:5.2f}")
            report = result.metadata["rubric"]
            for path, score in report["scores"].items():
                print(f"    {path:<32} {'skipped' if score is None else f'{score:.2f}'}")
            print(f"  total {report['step_rewards']['total']:.2f}")


if __name__ == "__main__":
    main()
