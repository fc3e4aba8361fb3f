"""What a trajectory holds, as a hash: the same whatever file it stands in."""

from __future__ import annotations

from hashlib import sha256

import orjson

from rubrics.formats.parsing import FormatProblem, finite, json_line
from rubrics.trajectory import Trajectory, jsonable, plain_object

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME


def content_hash(trajectory: Trajectory | FormatProblem) -> str:
    """32 hexadecimal digits over everything but the id and where it was read; of a problem, over its place and text."""
    if isinstance(trajectory, FormatProblem):
        held: list[object] = [trajectory.path, trajectory.line, trajectory.message]
    else:
        steps = [[step.action, step.observation, step.reward, step.metadata] for step in trajectory.steps]
        held = [trajectory.task, trajectory.initial, steps, trajectory.end, trajectory.reward, trajectory.reduction]
        held.append(trajectory.metadata)
    try:
        data = orjson.dumps(held, plain_object, _OPTIONS)
    except TypeError:  # what it cannot write: numbers of more than 64 bits, half surrogate pairs, keys that are no text
        data = json_line(_sorted(finite(jsonable(held, plain_object), [])))
    return sha256(data).hexdigest()[:32]


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
