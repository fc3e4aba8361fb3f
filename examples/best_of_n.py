"""Best of n by pairwise judging: every pair in both orders, strengths by Bradley and Terry.

pip install 'rubrics[stats]'                             # for Bradley-Terry
python examples/best_of_n.py                             # the judge replays recorded replies
python examples/best_of_n.py --model openai/gpt-5-mini   # the judge asks a model
"""

import asyncio

from judging import model_options

from judges import JudgeError, JudgeFailure, PairwiseJudge, rank_group

TASK = "Explain to a child of eight why the sky is blue."
ANSWERS = [
    "Sunlight is made of all colours. The air scatters blue light the most, so blue comes to us from everywhere in the "
    "sky, like a ball that bounces off many tiny pins.",
    "The sky is blue.",
    "Rayleigh scattering goes with the inverse fourth power of the wavelength.",
    "Because the sea is blue and the sky is its mirror.",
]


async def main() -> None:
    judge = PairwiseJudge(orders="both", ties=False, reason=False, **model_options("best_of_n"))
    ranking = await rank_group(ANSWERS, judge, by="bradley_terry", task=TASK)
    if isinstance(ranking, JudgeFailure):
        raise JudgeError(ranking)
    for place, index in enumerate(ranking.order, start=1):
        print(f"{place}. {ranking.scores[index]:.2f}  {ANSWERS[index][:60]}")
    games = ranking.comparisons.values()
    print(f"{sum(bool(game.consistent) for game in games)} of {len(games)} pairs got the same answer in both orders")


if __name__ == "__main__":
    asyncio.run(main())
