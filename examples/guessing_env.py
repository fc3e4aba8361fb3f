"""The number-guessing game as an OpenEnv environment: rewards that are known at the end, and a recording scored again.

python examples/guessing_env.py       # serves it on loopback, plays three games at once, rescores their recording
"""

import asyncio
import random
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from guessing import HIGHEST, LOWEST, Game, Guess, make_rubric
from loopback import serving
from openenv.core import Action, GenericEnvClient, Observation, State

from rubrics.formats import read
from rubrics.integrations.openenv import RubricEnvironment
from rubrics.rescoring import rescore


class GuessAction(Action):
    number: int


class GuessObservation(Observation):
    """`low` to `high` were possible before the guess."""

    hint: str = ""
    low: int = LOWEST
    high: int = HIGHEST


class GuessingEnv(RubricEnvironment[GuessAction, GuessObservation, State]):
    """The game of `guessing.py`; the rubric is the same tree that scores its recordings."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    rubric = make_rubric()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, secret: int | None = None, **kwargs: Any
    ) -> GuessObservation:
        self.secret = random.Random(seed).randint(LOWEST, HIGHEST) if secret is None else secret
        self.game = Game(self.secret)
        return GuessObservation(**asdict(self.game.start()))

    def task_of(self, **reset_arguments: Any) -> dict[str, Any]:
        return {"instruction": f"Find my number, from {LOWEST} to {HIGHEST}.", "secret": self.secret}

    def step(self, action: GuessAction, timeout_s: float | None = None, **kwargs: Any) -> GuessObservation:
        return GuessObservation(**asdict(self.game.guess(Guess(action.number))))

    @property
    def state(self) -> State:
        return State(step_count=self.game.turns)


GAMES = {  # the first finds the number, the second ignores a hint, the third runs out of guesses
    "found": (13, [10, 15, 12, 13]),
    "careless": (4, [10, 15, 5, 4]),
    "lost": (7, [1, 2, 3, 4, 5, 6]),
}


async def play(url: str, name: str) -> tuple[str, list[float], dict[str, Any]]:
    """One game over a connection of its own."""
    secret, guesses = GAMES[name]
    async with GenericEnvClient(base_url=url) as client:
        await client.reset(secret=secret, episode_id=name)
        results = [await client.step({"number": number}) for number in guesses]
    return name, [result.reward for result in results], results[-1].metadata["rubric"]


async def play_all(url: str) -> dict[str, dict[str, Any]]:
    reports = {}
    for name, rewards, report in await asyncio.gather(*(play(url, name) for name in GAMES)):
        reports[name] = report
        values = report["step_rewards"]["values"]
        print(f"{name}: rewards {rounded(rewards)}, credited {rounded(values)}")
    return reports


def rounded(numbers: list[float]) -> str:
    return " ".join(f"{number:.3f}" for number in numbers)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        GuessingEnv.record_to = Path(folder) / "games.jsonl"
        with serving(GuessingEnv, GuessAction, GuessObservation, sessions=len(GAMES)) as url:
            reports = asyncio.run(play_all(url))
        for row in sorted(rescore(read([GuessingEnv.record_to]), make_rubric()), key=lambda row: row.id):
            same = row.step_rewards == reports[row.id]["step_rewards"]
            print(f"{row.id} offline: reward {row.reward:.3f}, {'the same' if same else 'not the same'} as online")


if __name__ == "__main__":
    main()
