"""What a run would do and cost, without a single request."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rubrics.formats import read
from rubrics.group import GroupRubric
from rubrics.rescoring import judging
from rubrics.rescoring.groups import GroupMethod, groups_as_completed
from rubrics.rescoring.job import Selected, selected
from rubrics.rescoring.replay import Method, prepared
from rubrics.rescoring.rows import Row
from rubrics.rescoring.run import AssumedEnd, Numbered, as_completed, refuse_a_running_loop, row_of
from rubrics.rescoring.types import Types
from rubrics.rubric import Rubric

if TYPE_CHECKING:
    from judges.runs import Plan as JudgePlan  # only its name; nothing of judges is imported unless a tree has any


@dataclass(slots=True)
class DryRun:
    """What a run would do.

    Attributes:
        trajectories: by the status that their rows would have, were every judge to answer.
        steps: recorded steps of those that would be scored.
        nodes: number of nodes of the tree.
        judges: what models would be asked, by model, see `judges.runs.Plan`; None for a tree that asks none.
        reasons: why trajectories would be an error or unreadable, the first few.
    """

    trajectories: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    nodes: int = 0
    judges: JudgePlan | None = None
    reasons: list[str] = field(default_factory=list)


def plan_files(
    files: str | Path | Iterable[str | Path],
    rubric: Rubric | GroupRubric,
    *,
    format: str | None = None,
    where: str | None = None,
    limit: int | None = None,
    group_by: str | None = None,
    group_size: int | None = None,
    assume_end: AssumedEnd | None = None,
    types: Types | None = None,
    store: str | Path | None = None,
    ask_again: bool = False,
    price: tuple[float, float] | None = None,
    on_row: Callable[[Row], None] = lambda row: None,
) -> DryRun:
    """Go through a run without asking a model anything: prompts are rendered, counted and thrown away.

    Plain nodes are run as they are. Judges are taken to give the best score, so that gates open and what stands behind
    them is counted; see `judges.runs.planned` for what is estimated and how.

    Args:
        files, rubric, format, where, limit, group_by, group_size, assume_end, types: as of `rescore_files`.
        store: where the run would keep what models are asked: what is there already, and what is asked more than once,
            costs nothing. None: nothing is kept.
        ask_again: whether the run would ask models also what the store holds.
        price: US dollars a million tokens of the prompt and of the reply, for models of unknown price.
        on_row: told of each row that a run would write, with made-up verdicts.
    """
    if isinstance(rubric, GroupRubric) or rubric.is_async_tree:
        refuse_a_running_loop("call it in another thread: await asyncio.to_thread(plan_files, …)")
    found = DryRun(nodes=1 if isinstance(rubric, GroupRubric) else rubric._compiled().size)
    trajectories = selected(read(files, format), where, limit, group_by)
    numbered = ((number, each, key[1]) for number, key, each in trajectories)

    def note(row: Row) -> None:
        found.trajectories[row.status] += 1
        if row.evaluation is not None:
            found.steps += row.steps
        if row.status in ("error", "unreadable") and len(found.reasons) < 20:
            found.reasons.append(f"{row.id}: {row.reason}" if row.id else f"{row.reason}")
        on_row(row)

    with ExitStack() as stack:
        money = None if price is None else judging.price_of(*price)
        found.judges = stack.enter_context(judging.planned(rubric, judging.store_of(store, ask_again), money))
        if isinstance(rubric, GroupRubric):
            groups = GroupMethod.of(rubric, group_size, group_by, assume_end, types)
            asyncio.run(_groups(trajectories, groups, note))
            return found
        method = prepared(rubric, assume_end, types, "last")
        if rubric.is_async_tree:
            asyncio.run(_trees(numbered, method, note))
        else:
            for _, trajectory, content in numbered:
                note(row_of(trajectory, method, content))
    return found


async def _groups(trajectories: Iterator[Selected], method: GroupMethod, note: Callable[[Row], None]) -> None:
    async with aclosing(groups_as_completed(trajectories, method, 32, lambda *_: False, lambda: False)) as groups:
        async for rows in groups:
            for _, _, row in rows:
                note(row)


async def _trees(trajectories: Iterator[Numbered], method: Method, note: Callable[[Row], None]) -> None:
    async with aclosing(as_completed(trajectories, method, 32)) as rows:
        async for _, row in rows:
            note(row)
