"""A number-guessing game and the rubric for it, without any host.

The agent looks for a secret number. Each guess is answered with "higher", "lower" or "correct", and with the numbers
that were still possible when the guess was made.
"""

from dataclasses import dataclass

from rubrics import ExponentialDiscountingTrajectoryRubric, Rubric, Sequential, TrajectoryRubric, WeightedSum

LOWEST, HIGHEST, MOST_GUESSES = 1, 20, 6


@dataclass(frozen=True)
class Guess:
    """The action."""

    number: int


@dataclass(frozen=True)
class Reply:
    """The observation: `low` to `high` were possible before the guess."""

    hint: str
    low: int
    high: int
    done: bool = False


class Game:
    """The rules. An illegal guess uses up a turn and is answered with "illegal"."""

    def __init__(self, secret: int) -> None:
        self.secret, self.turns = secret, 0
        self.low, self.high = LOWEST, HIGHEST

    def start(self) -> Reply:
        return Reply("start", self.low, self.high)

    def guess(self, guess: Guess) -> Reply:
        number, low, high = guess.number, self.low, self.high
        self.turns += 1
        hint = "illegal"
        if LOWEST <= number <= HIGHEST:
            hint = "correct" if number == self.secret else "higher" if number < self.secret else "lower"
        if hint == "higher":
            self.low = max(low, number + 1)
        elif hint == "lower":
            self.high = min(high, number - 1)
        return Reply(hint, low, high, done=hint == "correct" or self.turns == MOST_GUESSES)


class Legal(Rubric):
    """A guess outside the range costs a tenth of a point."""

    range = (-0.1, 1.0)

    def forward(self, action, observation) -> float:
        return 1.0 if LOWEST <= action.number <= HIGHEST else -0.1


class Sensible(Rubric):
    """A guess that the hints had ruled out costs a twentieth."""

    range = (-0.05, 1.0)

    def forward(self, action, observation) -> float:
        return 1.0 if observation.low <= action.number <= observation.high else -0.05


class Found(ExponentialDiscountingTrajectoryRubric):
    """Whether the last guess was the secret number. Earlier guesses get less of the credit."""

    def score_trajectory(self, trajectory) -> float:
        _, last = trajectory[-1]
        return float(last.hint == "correct")


class Quick(TrajectoryRubric):
    """How few guesses it took to find it: 1.0 for one, 0.0 for all there are."""

    def score_trajectory(self, trajectory) -> float:
        _, last = trajectory[-1]
        return 1 - (len(trajectory) - 1) / (MOST_GUESSES - 1) if last.hint == "correct" else 0.0


def make_rubric() -> Rubric:
    """Penalties are paid at once; whether and how quickly the number was found is known at the end."""
    return Sequential(
        {
            "legal": Legal(),
            "sensible": Sensible(),
            "result": WeightedSum(
                {"found": Found(gamma=0.9), "quick": Quick()},
                weights={"found": 0.8, "quick": 0.2},
            ),
        }
    )
