"""What a run would do and cost, without a single request."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rubrics.formats import read
from rubrics.rescoring import judging
from rubrics.rescoring.job import selected
from rubrics.rescoring.replay import prepared
from rubrics.rescoring.rows import Row
from rubrics.rescoring.run import AssumedEnd, as_completed, refuse_a_running_loop, row_of
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
    rubric: Rubric,
    *,
    format: str | None = None,
    where: str | None = None,
    limit: int | None = None,
    assume_end: AssumedEnd | None = None,
    types: Types | None = None,
    store: str | Path | None = None,
    price: tuple[float, float] | None = None,
    on_row: Callable[[Row], None] = lambda row: None,
) -> DryRun:
    """Go through a run without asking a model anything: prompts are rendered, counted and thrown away.

    Plain nodes are run as they are. Judges are taken to give the best score, so that gates open and what stands behind
    them is counted; see `judges.runs.planned` for what is estimated and how.

    Args:
        files, rubric, format, where, limit, assume_end, types: as of `rescore_files`.
        store: with what models were asked before, which costs nothing.
        price: US dollars a million tokens of the prompt and of the reply, for models of unknown price.
        on_row: told of each row that a run would write, with made-up verdicts.
    """
    if rubric.is_async_tree:
        refuse_a_running_loop("call it in another thread: await asyncio.to_thread(plan_files, …)")
    found = DryRun(nodes=rubric._compiled().size)
    trajectories = ((number, each, key[1]) for number, key, each in selected(read(files, format), where, limit))

    def note(row: Row) -> None:
        found.trajectories[row.status] += 1
        if row.evaluation is not None:
            found.steps += row.steps
        if row.status in ("error", "unreadable") and len(found.reasons) < 20:
            found.reasons.append(f"{row.id}: {row.reason}" if row.id else f"{row.reason}")
        on_row(row)

    with ExitStack() as stack:
        money = None if price is None else judging.price_of(*price)
        found.judges = stack.enter_context(judging.planned(rubric, judging.store_of(store, False), money))
        method = stack.enter_context(prepared(rubric, assume_end, types, "last"))
        if not rubric.is_async_tree:
            for _, trajectory, content in trajectories:
                note(row_of(trajectory, method, content))
            return found

        async def run() -> None:
            rows: Any = as_completed(trajectories, method, 32)
            async with aclosing(rows):
                async for _, row in rows:
                    note(row)

        asyncio.run(run())
    return found
