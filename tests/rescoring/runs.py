"""Rows and recordings of made-up runs, for the tests of comparisons."""

from collections.abc import Mapping
from typing import Any

from rubrics import Evaluation, Step, Trajectory
from rubrics.rescoring import Row, content_hash


def tree(nodes: Mapping[str, Any], reasons: Mapping[str, str] | None = None) -> Evaluation:
    """A record of these nodes by path, parents first. A value is a score, or a status."""
    found: dict[str, Evaluation] = {}
    for path, value in {"": "skipped", **nodes}.items():
        scored = not isinstance(value, str)
        reason = (reasons or {}).get(path)
        node = Evaluation(path, "Leaf", "scored" if scored else value, value if scored else None, reason)
        found[path] = node
        if path:
            parent = path.rpartition(".")[0]
            found.get(parent, found[""]).children.append(node)
    return found[""]


def row(id: str, reward: float | None, nodes: Mapping[str, Any] | None = None, **more: Any) -> Row:
    """A row with one step; its root has the reward, or the status of the row."""
    status = more.pop("status", "unscored" if reward is None else "scored")
    reasons = more.pop("reasons", None)
    root = {"": "unscored" if reward is None else reward}
    evaluation = tree({**root, **(nodes or {})}, reasons)
    return Row(id, status, reward, **{"evaluation": evaluation, "steps": 1, "end": "terminated", **more})


def recording(id: str, *texts: str, **more: Any) -> Trajectory:
    """A chat in which the agent looks up each of these texts and is answered with it."""
    calls = [[{"id": "c", "name": "look_up", "arguments": {"key": text}}] for text in texts]
    steps = [
        Step(
            {"content": f"looking up {text}", "tool_calls": calls[n - 1]},
            {"messages": [{"role": "tool", "content": text}], "content": text, "done": n == len(texts)},
            0.0,
        )
        for n, text in enumerate(texts, start=1)
    ]
    return Trajectory(id, task={"instruction": "Find it."}, steps=steps, end="terminated", **more)


def row_of(trajectory: Trajectory, reward: float | None, nodes: Mapping[str, Any] | None = None, **more: Any) -> Row:
    """The row of a recording."""
    return row(
        trajectory.id, reward, nodes, content=content_hash(trajectory), **{"steps": len(trajectory.steps), **more}
    )
