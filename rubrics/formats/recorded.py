"""What recordings say beside the conversation: how it ended, what the dataset had of the task, what people added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from rubrics.formats.parsing import FormatError, number, numbers
from rubrics.formats.source import Source
from rubrics.trajectory import End, Record, Step, Trajectory, read_end, wrap

_FINISHED: dict[str, End] = {
    **dict.fromkeys(("stop", "completed", "end_turn", "stop_sequence", "refusal"), "terminated"),
    **dict.fromkeys(
        ("length", "incomplete", "content_filter", "max_tokens", "model_context_window_exceeded"), "truncated"
    ),
    "failed": "error",
    "cancelled": "abandoned",
}


def end_of_finish(reason: Any) -> End | None:
    """How an episode ended whose last word finished for this reason, as OpenAI and Anthropic put it.

    None where it did not end: a call of a tool waits for its result.
    """
    return _FINISHED.get(reason) if isinstance(reason, str) else None


# What datasets call their questions and expected answers. A column that is not among them may as well be a grade, which
# no rubric is to see.
_TASK = (
    "task",
    "question",
    "problem",
    "instruction",
    "answer",
    "expected_answer",
    "ground_truth",
    "reference",
    "solution",
    "target",
    "verifier_metadata",
)


def task_columns(record: Mapping[str, Any], names: tuple[str, ...] = _TASK) -> Record | None:
    """The columns of a record that are the dataset's; None where there are none."""
    return Record({name: record[name] for name in names if record.get(name) is not None}) or None


# --- what people put beside the messages of a conversation ------------------------------------------------------------

_COLUMNS = ("id", "custom_id", "reward", "score", "components", "end", "task")
_GROUPS = ("group", "group_id", "task_id", "instance_id")
_ENDS = get_args(End)


def labelled_end(data: Mapping[str, Any], finish: Any) -> End | None:
    """The end that a record gives itself by `end`, or by a boolean as observations have it, else by how it finished."""
    end: Any = data.get("end")
    if end is not None and end not in _ENDS:
        raise FormatError(f"end: expected one of {', '.join(_ENDS)} or null, found {end!r:.80}")
    return end or read_end(data) or end_of_finish(finish)


def labelled(
    data: Mapping[str, Any],
    source: Source,
    line: int,
    *,
    id: Any = None,
    initial: Any,
    steps: list[Step],
    end: End | None,
    read: tuple[str, ...],
    about: Mapping[str, Any] | None = None,
) -> Trajectory:
    """A conversation with the columns that people put beside its messages.

    The id is `id` or `custom_id`, else the one given, else the name of the file with the group and the trial, or with
    the line. The reward is `reward`, else `score`, and `components` are its parts; the task is the object under `task`,
    else what datasets customarily call theirs; `group`, `group_id`, `task_id` or `instance_id` is the group. The other
    columns, but for those that were `read`, are metadata, as is what there is to say `about` it.
    """
    group = next((data[name] for name in _GROUPS if isinstance(data.get(name), str | int)), None)
    trial = data.get("trial")
    place = f"{line}" if group is None or trial is None else f"{group}/{trial}"
    ids = (data.get("id"), data.get("custom_id"), id, f"{source.stem}/{place}")
    reward = "reward" if data.get("reward") is not None else "score"
    task = data.get("task")
    return Trajectory(
        id=next(str(given) for given in ids if isinstance(given, str | int)),
        task=wrap(task) if isinstance(task, dict) else task_columns(data),
        initial=initial,
        steps=steps,
        end=end,
        reward=number(data.get(reward), reward),
        metadata={
            **(about or {}),
            **{name: value for name, value in data.items() if name not in read and name not in _COLUMNS},
            **({} if group is None else {"group": group}),
            "components": numbers(data.get("components")),
        },
    )
