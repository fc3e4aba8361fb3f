"""Write the trajectories in examples/trajectories: two agents playing the guessing game, always the same games.

python examples/make_trajectories.py [FOLDER]
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from random import Random

from guessing import HIGHEST, LOWEST, Game, Guess, Reply

from rubrics.formats import write_jsonl
from rubrics.trajectory import Step, Trajectory

Agent = Callable[[Reply, Random], int]

CUT_OFF = {3, 8}  # games that the driver stops after two guesses
BROKEN_OFF = {10}  # a recording that ends with the process that wrote it


def careful(reply: Reply, random: Random) -> int:
    """Halves what is possible, more or less."""
    middle = (reply.low + reply.high) // 2 + random.choice([-1, 0, 1])
    return min(max(middle, reply.low), reply.high)


def hasty(reply: Reply, random: Random) -> int:
    """Listens to the hints half of the time, and counts badly."""
    if random.random() < 0.5:
        return random.randint(reply.low, reply.high)
    return random.randint(LOWEST - 2, HIGHEST + 2)


def play(name: str, agent: Agent, number: int) -> Trajectory:
    """One game. The recorded reward is the host's: 1 for the secret number, else 0, on the last step."""
    random = Random(f"{name} {number}")
    game = Game(secret=random.randint(LOWEST, HIGHEST))
    initial = reply = game.start()
    trajectory = Trajectory(
        id=f"{name}-{number:02}",
        task={"instruction": f"Find my number, from {LOWEST} to {HIGHEST}.", "secret": game.secret},
        initial=asdict(initial),
        reduction="sum",
        metadata={"agent": name},
    )
    low, high = initial.low, initial.high
    while trajectory.end is None:
        guess = Guess(agent(Reply(reply.hint, low, high), random))
        reply = game.guess(guess)
        low, high = game.low, game.high
        reward = float(reply.hint == "correct")
        trajectory.steps.append(Step(asdict(guess), asdict(reply), reward))
        if reply.done:
            trajectory.end = "terminated"
        elif game.turns == 2 and number in CUT_OFF:
            trajectory.end = "truncated"
        elif game.turns == 2 and number in BROKEN_OFF:
            return trajectory
    trajectory.reward = reward
    return trajectory


def games(name: str, agent: Agent) -> Iterator[Trajectory]:
    return (play(name, agent, number) for number in range(1, 13))


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "trajectories")
    folder.mkdir(parents=True, exist_ok=True)
    for name, agent in {"careful": careful, "hasty": hasty}.items():
        path = folder / f"{name}.jsonl"
        path.unlink(missing_ok=True)
        print(path, write_jsonl(path, games(name, agent)))
