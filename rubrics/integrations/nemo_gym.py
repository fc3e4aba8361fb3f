"""NeMo-Gym: a tree as the `verify` of a resources server.

    VERIFIER = Verifier(tree)

    class AnswerResponse(BaseVerifyResponse):
        rubric: dict[str, Any]

    class AnswerServer(SimpleResourcesServer):
        config: AnswerConfig

        async def verify(self, body: AnswerRequest) -> AnswerResponse:
            return AnswerResponse(**body.model_dump(), **await VERIFIER(body))

The model's output is read as a conversation, as in every other host: an assistant's message is an action, the results
of its calls are the observation. `self.task` is what else the request class declares: the columns of the dataset's row.

Checked against the source of NeMo-Gym, whose package needs Python 3.13.14; only `JudgeError` is imported from it, where
there is no reward.
"""

from __future__ import annotations

from typing import Any, Literal

from rubrics.formats.responses import messages_of_items
from rubrics.rollouts.conversations import trajectory_of
from rubrics.rollouts.scoring import Scored, Scorer
from rubrics.rubric import Rubric
from rubrics.score import RubricError
from rubrics.trajectory import End, Trajectory


class Verifier:
    """A tree that scores the requests of `verify`.

    Called with a request it gives the fields of the response that are not the request's own:

        {"reward": 0.75, "reward_components": {"format": 1.0, "judge": 0.5},
         "rubric": {"status": "scored", "scores": {…}, "reasons": {…}, "usage": {…}}}

    of which a response class takes those that it declares (`BaseMultiRewardVerifyResponse` has `reward_components`);
    FastAPI sends only what the class declares that `verify` is annotated with.

    A rollout without a reward raises NeMo-Gym's own `JudgeError`, so that the row goes to the file of failures, out of
    the means, and is tried again on resume. (Where NeMo-Gym has no such error, `RubricError`, an HTTP 500.)

    Args:
        rubric: the tree.
        on_error: `"unscored"`: a tree that raises leaves its rollout without a reward; `"raise"`: the exception goes
            on, an HTTP 500.
    """

    def __init__(self, rubric: Rubric, *, on_error: Literal["unscored", "raise"] = "unscored") -> None:
        self.scorer = Scorer(rubric, on_error=on_error)

    async def __call__(self, body: Any) -> dict[str, Any]:
        """The fields of the response to a request.

        Args:
            body: a `BaseVerifyRequest`, or one of its subclasses.

        Raises:
            JudgeError: of `nemo_gym.judge`: there is no reward.
            FormatError: the request's items are not those of the Responses API.
        """
        scored = await self.scorer.score_async(rollout_of(body))
        if scored.reward is None:
            raise _judge_error()(scored.reason) from scored.error
        return {
            "reward": scored.reward,
            "reward_components": {path: score for path, score in scored.scores.items() if score is not None},
            "rubric": _told(scored),
        }


def rollout_of(body: Any) -> Trajectory:
    """The trajectory of a request of `verify`."""
    given, response = body.responses_create_params, body.response
    prompt = messages_of_items(given.input, place="responses_create_params.input")
    if instructions := getattr(given, "instructions", None):
        prompt.insert(0, {"role": "system", "content": instructions})
    task = body.model_dump(exclude={"responses_create_params", "response"})
    output = messages_of_items(response.output, place="response.output")
    return trajectory_of(prompt, output, task=task, end=_end_of(response))


def _end_of(response: Any) -> End:
    status = getattr(response, "status", None)
    if status == "incomplete" or getattr(response, "incomplete_details", None):
        return "truncated"
    return "error" if status in ("failed", "cancelled") else "terminated"


def _told(scored: Scored) -> dict[str, Any]:
    return {
        "status": scored.status,
        "scores": scored.scores,
        "reasons": scored.reasons,
        "usage": scored.usage.to_dict(),
    }


def _judge_error() -> type[Exception]:
    try:
        from nemo_gym.judge import JudgeError
    except ImportError:
        return RubricError
    return JudgeError  # type: ignore[no-any-return]
