"""Rollouts of NeMo-Gym: one line a rollout, {responses_create_params, response, reward, …}.

The items of `response.output` become messages of chat (`rubrics.formats.responses`), so the steps are those of
`rubrics.formats.chat`; the input and the instructions are the observation before the first action. A rollout is written
once it is verified, so its episode is over: terminated or truncated as its flags say, where it has them, else as the
response's status says; a response without a status was complete.

    reward    `reward`; `reward_components`
    group     `_ng_task_index`; `_ng_rollout_index` is the trial
    task      the columns of the dataset. Verifiers write theirs into the same object, so what is the dataset's is told
              by `<name>_materialized_inputs.jsonl`, which NeMo-Gym writes beside the rollouts; without that file, by
              customary names such as expected_answer and verifier_metadata

Failed attempts (`<name>_failures.jsonl`) ended in an error and have no reward, whatever number they carry. Materialized
inputs hold no rollouts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rubrics.formats.parsing import FormatError, FormatProblem, Parsed, number, numbers
from rubrics.formats.recorded import task_columns
from rubrics.formats.registry import reader
from rubrics.formats.responses import end_of_response, steps_of_response
from rubrics.formats.source import Source
from rubrics.trajectory import End, Record, Step, Trajectory

_TASK, _ROLLOUT, _FAILURE = "_ng_task_index", "_ng_rollout_index", "_ng_failure_class"
_INPUTS = "_materialized_inputs"
_READ = ("responses_create_params", "response", "reward", "reward_components", "terminated", "truncated")


def _nemo_gym(record: Any) -> bool:
    if not isinstance(record, dict):
        return False
    return ("responses_create_params" in record and ("response" in record or _TASK in record)) or _FAILURE in record


@reader("nemo-gym", detect=_nemo_gym)
def read_nemo_gym(source: Source) -> Iterator[Trajectory | FormatProblem]:
    """NeMo-Gym rollouts: {responses_create_params, response, reward, terminated, truncated, …}."""
    if source.stem.endswith(_INPUTS):
        return
    inputs = Source(source.path.with_name(source.stem.removesuffix("_failures") + _INPUTS + ".jsonl"))
    columns: tuple[str, ...] | None = None
    if inputs.path.is_file():
        try:
            columns = _columns(inputs)
        except (FormatError, OSError) as error:
            yield inputs.problem(None, f"cannot be read, so what is the dataset's is told by customary names: {error}")
    yield from source.each(lambda record: _trajectory(record, source, columns))


def _columns(inputs: Source) -> tuple[str, ...]:
    """The names of the dataset's columns, out of the file of inputs beside the rollouts."""
    sample, _ = inputs.sample()
    names = {name for row in sample if isinstance(row, dict) for name in row}
    return tuple(sorted(name for name in names if name not in _READ and not name.startswith("_ng_")))


def _trajectory(record: Parsed, source: Source, columns: tuple[str, ...] | None) -> Trajectory:
    data = record.value
    if not isinstance(data, dict):
        raise FormatError("expected an object with responses_create_params, response and reward")
    failed, given, response = data.get(_FAILURE), data.get("responses_create_params"), data.get("response")
    reward = number(data.get("reward"), "reward")
    initial: Record | None = None
    steps: list[Step] = []
    if failed is not None and not response:
        end: End | None = "error"
    elif isinstance(given, dict) and isinstance(response, dict):
        end = "error" if failed is not None else _end(data, response)
        initial, steps = steps_of_response(given, response, done=end == "terminated", place="response.")
    else:
        raise FormatError("responses_create_params, response: expected objects; this is no rollout")
    task, rollout = data.get(_TASK), data.get(_ROLLOUT)
    metadata = {name: value for name, value in data.items() if name not in _READ}
    if failed is not None:
        metadata["reward"] = reward
    return Trajectory(
        id=f"{source.stem}/{record.line}" if task is None else f"{source.stem}/{task}/{rollout}",
        task=task_columns(data) if columns is None else task_columns(data, columns),
        initial=initial,
        steps=steps,
        end=end,
        reward=None if failed is not None else reward,
        metadata={
            **metadata,
            **({} if task is None else {"group": task, "trial": rollout}),
            "components": numbers(data.get("reward_components")),
        },
    )


def _end(data: Mapping[str, Any], response: Mapping[str, Any]) -> End | None:
    """By the environment's flags, which it sets at every step, else by the response's status."""
    if data.get("terminated") is True:
        return "terminated"
    if data.get("truncated") is True:
        return "truncated"
    if data.get("terminated") is False:
        return None
    return end_of_response(response) if response.get("status") else "terminated"
