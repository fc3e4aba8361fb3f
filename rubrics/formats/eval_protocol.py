"""eval-protocol: recordings of environments for playback, and its evaluation rows.

A recording has a line for each step of each environment, {env_index, step, messages}, with all messages so far: the
last line of an environment is the episode. An evaluation row, {messages, input_metadata, rollout_status,
evaluation_result, …}, is an episode by itself. The steps of both are those of `rubrics.formats.chat`.

What the environment paid stands with the results of the tools, under `metadata` or `control_plane_step`. It is taken
out of the messages, so that no rubric sees it, and becomes the reward of the step and its metadata.

    reward       of a row, `evaluation_result.score` where it is valid; of a recording, the sum over the steps
    components   `evaluation_result.metrics`
    end          of a row, what `rollout_status` says: an error, a reason that is a limit (truncated), finished
                 (terminated), or still running (unfinished). Else whether the last step said terminated or truncated;
                 if not, the episode is unfinished and has no reward, since what was paid so far is not its outcome
    group        of a row, `input_metadata.row_id`; of a recording, every environment is a task of its own
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rubrics.formats.chat import is_message, steps_from_chat
from rubrics.formats.parsing import FormatError, FormatProblem, Parsed, expect_list, expect_object, number
from rubrics.formats.registry import reader
from rubrics.formats.source import Source
from rubrics.trajectory import End, Step, Trajectory, read_end, wrap

_ROW = ("input_metadata", "rollout_status", "evaluation_result", "execution_metadata", "eval_metadata")
_NOT_SAID = ("metadata", "control_plane_step", "weight", "logprobs")
_LIMITS = ("length", "max_steps")
_OK, _CANCELLED, _FINISHED, _RUNNING = 0, 1, 100, 101  # of google.rpc.Code, and eval-protocol's own


def _eval_protocol(record: Any) -> bool:
    if not isinstance(record, dict) or not isinstance(record.get("messages"), list):
        return False
    return "env_index" in record or any(name in record for name in _ROW)


@reader("eval-protocol", detect=_eval_protocol)
def read_eval_protocol(source: Source) -> Iterator[Trajectory | FormatProblem]:
    """eval-protocol: recordings of {env_index, step, messages}, and evaluation rows."""
    return source.each(lambda record: _trajectory(record, source), _episodes(source))


def _episodes(source: Source) -> Iterator[Parsed | FormatProblem]:
    """The records that are episodes: of a recording the last of each environment, in the order of their first."""
    latest: dict[Any, Parsed] = {}
    for record in source.records():
        data = record.value if isinstance(record, Parsed) else None
        if isinstance(record, FormatProblem) or not isinstance(data, dict) or "env_index" not in data:
            yield record
            continue
        key = str(data["env_index"])
        before = latest.get(key)
        if before is not None and _step(data) < _step(before.value):  # the next recording, in the same file
            yield latest.pop(key)
        latest[key] = record
    yield from latest.values()


def _step(data: Mapping[str, Any]) -> float:
    step = data.get("step")
    return step if isinstance(step, int | float) else 0


def _trajectory(record: Parsed, source: Source) -> Trajectory:
    data = record.value
    if not isinstance(data, dict) or not isinstance(data.get("messages"), list):
        raise FormatError("expected an object with messages")
    messages, said = [], []
    for message in data["messages"]:
        if not is_message(message):
            messages.append(message)
            continue
        messages.append({k: v for k, v in message.items() if k not in _NOT_SAID and (v is not None or k == "content")})
        if message["role"] == "assistant":
            said.append([_control(message)])
        elif said:
            said[-1].append(_control(message))
    paid = [[note for note in notes if note] for notes in said]
    final = read_end(paid[-1][-1]) if paid and paid[-1] else None
    end = _end_of_row(data, final) if any(name in data for name in _ROW) else final
    initial, steps = steps_from_chat(messages, done=end == "terminated")
    for index, (step, notes) in enumerate(zip(steps, paid, strict=True)):
        _pay(step, notes, f"messages: step {index}")
    if "env_index" in data:
        return _recording(data, source, initial, steps, end)
    return _row(data, record, source, initial, steps, end)


def _control(message: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the environment's control plane said with a message."""
    for name in ("control_plane_step", "metadata"):
        note = message.get(name)
        if isinstance(note, dict) and ("reward" in note or "terminated" in note):
            return note
    return None


def _pay(step: Step, notes: list[Mapping[str, Any]], place: str) -> None:
    rewards = [reward for note in notes if (reward := number(note.get("reward"), f"{place}: reward")) is not None]
    if rewards:
        step.reward = sum(rewards)
    if notes:
        step.metadata["control_plane"] = notes


def _recording(data: Mapping[str, Any], source: Source, initial: Any, steps: list[Step], end: End | None) -> Trajectory:
    rewards = [step.reward for step in steps if step.reward is not None]
    total = sum(rewards) if rewards else None
    return Trajectory(
        id=f"{source.stem}/{data['env_index']}",
        initial=initial,
        steps=steps,
        end=end,
        reward=total if end else None,
        reduction="sum" if rewards else None,
        metadata={"group": data["env_index"], "step": data.get("step"), "paid": total, "components": {}},
    )


def _row(
    data: Mapping[str, Any], record: Parsed, source: Source, initial: Any, steps: list[Step], end: End | None
) -> Trajectory:
    given = expect_object(data.get("input_metadata"), "input_metadata")
    run = expect_object(data.get("execution_metadata"), "execution_metadata")
    result = expect_object(data.get("evaluation_result"), "evaluation_result")
    metrics = expect_object(result.get("metrics"), "evaluation_result.metrics")
    row = given.get("row_id")
    task = {
        "row_id": row,
        "ground_truth": data.get("ground_truth"),
        **expect_object(given.get("dataset_info"), "dataset_info"),
    }
    return Trajectory(
        id=str(run.get("rollout_id") or f"{source.stem}/{record.line}"),
        task=wrap(task),
        initial=initial,
        steps=steps,
        end=end,
        reward=_score(result, "evaluation_result"),
        metadata={
            **{name: value for name, value in data.items() if name not in ("messages", "ground_truth")},
            **({} if row is None else {"group": row}),
            "components": {
                name: _score(metric, f"evaluation_result.metrics.{name}") for name, metric in metrics.items()
            },
        },
    )


def _score(given: Any, place: str) -> float | None:
    result = expect_object(given, place)
    return None if result.get("is_score_valid") is False else number(result.get("score"), f"{place}.score")


def _end_of_row(data: Mapping[str, Any], final: End | None) -> End | None:
    status = expect_object(data.get("rollout_status"), "rollout_status")
    run = expect_object(data.get("execution_metadata"), "execution_metadata")
    code = status.get("code")
    if code == _CANCELLED:
        return "abandoned"
    if code not in (None, _OK, _FINISHED, _RUNNING):
        return "error"
    details = [expect_object(detail, "details") for detail in expect_list(status.get("details"), "details")]
    reasons = [expect_object(detail.get("metadata"), "details").get("termination_reason") for detail in details]
    if any(str(reason).endswith("skippable_error") for reason in reasons):
        return "error"
    if any(reason in _LIMITS for reason in (*reasons, run.get("finish_reason"))):
        return "truncated"
    # A row that no processor ran, of a dataset of finished conversations, stays "running"; but it was judged.
    over = code in (_OK, _FINISHED) or data.get("evaluation_result")
    return final or ("terminated" if over else None)
