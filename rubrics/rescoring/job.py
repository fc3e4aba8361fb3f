"""A run from files to a file: what `rubrics rescore` does, as a function.

    finished = rescore_files(["runs.jsonl"], rubric, "rescored.jsonl", budget_usd=5.0)
    print(finished.summary.describe())

A row is in the file as soon as it is done. Killed at any moment, the same call with `resume=True` goes on: rows that
are there stay, and what a model was asked before is answered by the store beside the file.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, aclosing, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rubrics.formats import read
from rubrics.formats.parsing import FormatProblem
from rubrics.group import GroupRubric
from rubrics.rescoring import judging
from rubrics.rescoring.content import content_hash
from rubrics.rescoring.grouping import Numbers
from rubrics.rescoring.groups import GroupMethod, groups_as_completed
from rubrics.rescoring.output import Key, Output, OutputError, refuse_inputs
from rubrics.rescoring.replay import Method, Record, prepared
from rubrics.rescoring.rows import Row, line_of
from rubrics.rescoring.run import AssumedEnd, Numbered, as_completed, in_order, refuse_a_running_loop
from rubrics.rescoring.summary import Summary
from rubrics.rescoring.types import Types
from rubrics.rescoring.where import condition, grouping
from rubrics.rubric import Rubric
from rubrics.trajectory import Trajectory

if TYPE_CHECKING:
    from rubrics.rescoring.engines.ray import Pool

Stopped = Literal["interrupted", "budget", "error"]
Selected = tuple[int, Key, Trajectory | FormatProblem]


@dataclass(slots=True)
class Finished:
    """What became of a run.

    Attributes:
        summary: of all rows in the file.
        kept: number of rows that were there before and stayed.
        written: number of rows that this run wrote.
        stopped: why the run ended before its input did; None where it did not.
        others: rows in the file of trajectories that were not in the input.
        aside: the file with the rows of another rubric that were in the output; None where there were none.
        row: where `stopped` is `"error"`, the row that did.
        split: of a group rubric without `group_by`, how many group numbers stand in several files: each file's is a
            group of its own.
    """

    summary: Summary = field(default_factory=Summary)
    kept: int = 0
    written: int = 0
    stopped: Stopped | None = None
    others: int = 0
    aside: Path | None = None
    row: Row | None = None
    split: int = 0


def rescore_files(
    files: str | Path | Iterable[str | Path],
    rubric: Rubric | GroupRubric,
    out: str | Path,
    *,
    format: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    only_failed: bool = False,
    where: str | None = None,
    limit: int | None = None,
    group_by: str | None = None,
    group_size: int | None = None,
    concurrency: int = 32,
    assume_end: AssumedEnd | None = None,
    types: Types | None = None,
    record: Record | None = None,
    store: str | Path | Literal["beside"] | None = "beside",
    ask_again: bool = False,
    budget_usd: float | None = None,
    price: tuple[float, float] | None = None,
    on_error: Literal["row", "stop"] = "row",
    engine: Literal["local", "ray"] = "local",
    workers: int | None = None,
    worker_timeout: float | None = None,
    stop: threading.Event | None = None,
    on_row: Callable[[Row], None] = lambda row: None,
    on_begin: Callable[[int], None] = lambda kept: None,
) -> Finished:
    """Score recorded trajectories under a rubric, and write one row each to a file.

    Args:
        files: trajectory files and folders, see `rubrics.formats.read`.
        rubric: any tree, or a group rubric, which gets whole groups.
        out: where the rows go: a file that is not there, unless `resume` or `overwrite` is given, and that is none of
            the inputs, nor in a folder among them. At the end they are in the order of the input.
        format: of the files; by default their content tells.
        resume: go on with a file: a row stays where the trajectory's id and content and the tree's fingerprint are the
            same. Unfinished ones are made again with `assume_end`, and those of several steps of which only the last
            was recorded with `record="steps"`. Rows of another tree are set aside into `OUT.before1.jsonl`.
        overwrite: replace the file.
        only_failed: go on with a file of this tree, and make only those of its rows again that failed: an error, or a
            judge that gave no verdict.
        where: a condition on trajectories, see `rubrics.rescoring.where.condition`.
        limit: how many trajectories are scored at most, those included that have a row already.
        group_by: what the trajectories of a group share, as an expression over the names that `where` knows, such as
            `task.id`; by default `metadata["group"]`, in which a whole number counts within its file. `"group"` takes
            it as it is, so that a group may have members in several files.
        group_size: how many members each group should have, for a group rubric; the members of others are unscored.
        concurrency, assume_end, types, record: see `rescore`; for a group rubric, groups judged at once.
        store: where what models were asked is kept, for judges without a store of their own: beside the output, by
            default, as `OUT.verdicts.jsonl`; None keeps nothing.
        ask_again: ask models also what the store holds.
        budget_usd: US dollars that the judges may spend in this run. Where a judge would go beyond it the run stops;
            a trajectory that was not finished has no row then. Every model needs a price that is known.
        price: US dollars a million tokens of the prompt and of the reply, for models of unknown price.
        on_error: `"stop"` ends the run at the first row with the status `"error"`.
        engine: `"local"` scores in this process, `"ray"` in worker processes, with equal rows. With `RAY_ADDRESS`, or a
            Ray that is initialised, those are of that cluster. Group rubrics are local.
        workers: how many worker processes; by default one for each CPU that Ray has. `concurrency`, and that of each
            judge, is divided among them.
        worker_timeout: seconds after which a worker that has something to do and answers nothing is killed. What it had
            is scored again; a trajectory that brings this about alone, twice, has a row `"error"`.
        stop: set it, from a signal handler or another thread, to begin no further trajectory.
        on_row, on_begin: told of each row that was written, and before the first one of the number of rows kept.

    Raises:
        OutputError: the output, or a store, cannot be used or written.
        ConditionError: `where` is no expression.
        FormatError: there is no such format.
        EngineError: the workers cannot load the tree, or die one after another.
        ImportError: the engine is not installed.
        ValueError: arguments that do not go together; `budget_usd` with a model of which no price is known.
        RuntimeError: the tree has async nodes and an event loop runs in this thread: call it in another.
    """
    if engine not in ("local", "ray"):
        raise ValueError(f"engine is 'local' or 'ray', not {engine!r}")
    if engine == "local" and (workers is not None or worker_timeout is not None):
        raise ValueError("workers are of the engine 'ray': give engine='ray' (--engine ray), or leave them out")
    if engine == "ray" and isinstance(rubric, GroupRubric):
        raise ValueError("a group rubric is judged by the engine 'local': its groups come from all over the input")
    if engine == "local" and (isinstance(rubric, GroupRubric) or rubric.is_async_tree):
        refuse_a_running_loop("call it in another thread: await asyncio.to_thread(rescore_files, …)")
    if overwrite and (resume or only_failed):
        going = "resume" if resume else "only_failed"
        raise ValueError(f"{going} goes on with a file, and overwrite replaces it: give one of them")
    if on_error not in ("row", "stop"):
        raise ValueError(f"on_error is 'row' or 'stop', not {on_error!r}")
    out = Path(out)
    files = [files] if isinstance(files, str | Path) else list(files)
    kept_at = store_beside(out) if store == "beside" else store
    for written in (out, kept_at):
        if written is not None:
            refuse_inputs(Path(written), files)
    if kept_at is not None and Path(kept_at).resolve() == out.resolve():
        raise OutputError(f"{out} is to hold the rows and the verdicts (store) as well; give each a file of its own")
    money = None if price is None else judging.price_of(*price)
    if budget_usd is not None:
        judging.refuse_unpriced(rubric, money)
    finished = Finished()
    trajectories = selected(read(files, format), where, limit, group_by)

    def again(data: Mapping[str, Any]) -> bool:
        if data["status"] == "unfinished":
            return assume_end is not None
        unrecorded = record == "steps" and data.get("evaluation") and not data.get("evaluations") and data["steps"] > 1
        return bool(unrecorded) or (only_failed and is_failure(data))

    with ExitStack() as stack:
        budget: Any
        pool: Pool | None = None
        asking: Any = ()
        if engine == "ray":
            from rubrics.rescoring.engines.ray import Pool

            assert isinstance(rubric, Rubric)
            recipe = (types or Types(), assume_end, record, kept_at, ask_again, price)
            budget = pool = Pool(rubric, *recipe, budget_usd, workers, concurrency, worker_timeout)
        else:
            budget = judging.budget_of(budget_usd)
            store_of_run = judging.store_of(kept_at, ask_again)
            asking = stack.enter_context(judging.equipped(rubric, store_of_run, budget, money))
        method: Method | GroupMethod
        if isinstance(rubric, GroupRubric):
            method = GroupMethod.of(rubric, group_size, group_by, assume_end, types)
        else:
            method = prepared(rubric, assume_end, types, record)
        output = stack.enter_context(
            Output(
                out,
                resume=resume or only_failed,
                overwrite=overwrite,
                rubric=method.fingerprint,
                refuse_others=only_failed,
                again=again,
            )
        )
        finished.aside = output.aside
        on_begin(output.good)
        if only_failed:
            trajectories = (each for each in trajectories if output.holds(each[1]))
        job = _Job(output, finished, asking, budget, on_error == "stop", stop or threading.Event(), on_row)
        if isinstance(method, GroupMethod):
            asyncio.run(job.run_groups(trajectories, method, concurrency))
        elif pool is not None:
            job.run_elsewhere(trajectories, method, pool)
        elif method.rubric.is_async_tree:
            asyncio.run(job.run_async(trajectories, method, concurrency))
        else:
            job.run(trajectories, method)
        others = output.finish()
        if finished.stopped is None:
            finished.others = others
        for data in output.kept():
            finished.kept += 1
            finished.summary.add_data(data)
    return finished


def store_beside(out: Path) -> Path | None:
    """Where verdicts are kept by default; None where the rows go into a pipe or to a device."""
    if out.exists() and not out.is_file():
        return None
    return out.with_name(f"{out.name.removesuffix('.jsonl')}.verdicts.jsonl")


def selected(
    trajectories: Iterable[Trajectory | FormatProblem], where: str | None, limit: int | None, group_by: str | None
) -> Iterator[Selected]:
    """The trajectories to score, each with its number and its key. What could not be read is always among them."""
    holds = condition(where) if where else None
    return _selected(trajectories, holds, limit, grouping(group_by) if group_by else None)


def _selected(
    trajectories: Iterable[Trajectory | FormatProblem],
    holds: Callable[[Trajectory], bool] | None,
    limit: int | None,
    group: Callable[[Trajectory], Any] | None,
) -> Iterator[Selected]:
    equal: Counter[tuple[str | None, str | None]] = Counter()
    number = 0
    for trajectory in trajectories:
        if limit is not None and number >= limit:
            return
        if holds is not None and isinstance(trajectory, Trajectory) and not holds(trajectory):
            continue
        id = trajectory.id if isinstance(trajectory, Trajectory) else None
        key = (id, content_hash(trajectory))
        if group is not None and isinstance(trajectory, Trajectory):
            trajectory.metadata["group"] = group(trajectory)
        yield number, (*key, equal[key]), trajectory
        equal[key] += 1
        number += 1


def is_failure(data: Mapping[str, Any]) -> bool:
    """Whether a row, as JSON values, is of a trajectory that may come out well another time.

    Where a tree with judges left a row unscored and only its last step was recorded, an earlier one may have failed.
    """
    if data["status"] != "unscored":
        return bool(data["status"] == "error")
    if data.get("judges") and not data.get("evaluations") and (data.get("steps") or 0) > 1:
        return True
    below = [data["evaluation"]] if data.get("evaluation") else []
    below += [each for each in data.get("evaluations") or () if each]
    while below:
        node = below.pop()
        if node["status"] == "unscored" and "failure" in node["metadata"]:
            return True
        below += node["children"]
    return False


class _Job:
    """The rows of a run on their way into the file."""

    def __init__(
        self,
        output: Output,
        finished: Finished,
        asking: Any,
        budget: Any,
        stops: bool,
        stop: threading.Event,
        on_row: Callable[[Row], None],
    ) -> None:
        self.output, self.finished, self.asking = output, finished, asking
        self.budget, self.stops, self.stop, self.on_row = budget, stops, stop, on_row
        self.keys: dict[int, Key] = {}

    def run(self, trajectories: Iterator[Selected], method: Method) -> None:
        for number, row in in_order(self._missing(trajectories), method):
            self._write(number, *line_of(row))
            if self._is_over():
                break

    async def run_async(self, trajectories: Iterator[Selected], method: Method, concurrency: int) -> None:
        rows = as_completed(self._missing(trajectories), method, concurrency, self._is_over)
        async with aclosing(rows):
            async for number, row in rows:
                self._write(number, *line_of(row))

    def run_elsewhere(self, trajectories: Iterator[Selected], method: Method, pool: Pool) -> None:
        with closing(pool.rows(self._missing(trajectories), method, self._is_over)) as rows:
            for number, row, line in rows:
                self._write(number, row, line)

    async def run_groups(self, trajectories: Iterator[Selected], method: GroupMethod, concurrency: int) -> None:
        numbers = Numbers()

        def noted() -> Iterator[Selected]:
            for number, key, trajectory in trajectories:
                if method.by is None and isinstance(trajectory, Trajectory):
                    numbers.add(trajectory.metadata.get("group"), trajectory.source)
                yield number, key, trajectory

        groups = groups_as_completed(noted(), method, concurrency, self.output.has, self._is_over)
        async with aclosing(groups):
            async for rows in groups:
                for number, key, row in rows:
                    self.keys[number] = key
                    self._write(number, *line_of(row))
        self.finished.split = numbers.split

    def _missing(self, trajectories: Iterator[Selected]) -> Iterator[Numbered]:
        """The trajectories that have no row yet."""
        for number, key, trajectory in trajectories:
            if not self.output.has(key, number):
                self.keys[number] = key
                yield number, trajectory, key[1]
            if self._is_over():
                return

    def _is_over(self) -> bool:
        if self.stop.is_set():
            self.finished.stopped = self.finished.stopped or "interrupted"
        if self.budget is not None and self.budget.exhausted:
            self.finished.stopped = self.finished.stopped or "budget"
        return self.finished.stopped is not None

    def _write(self, number: int, row: Row, line: bytes) -> None:
        if (failure := judging.store_failure(self.asking)) is not None:  # what is paid for from now on would be lost
            raise OutputError(failure)
        if self.budget is not None and row.status in ("error", "unscored") and self.budget.exhausted:
            self.finished.stopped = self.finished.stopped or "budget"
            return
        self.output.add(self.keys.pop(number), line, number)
        self.finished.written += 1
        self.finished.summary.add(row)
        if self.stops and row.status == "error":
            self.finished.stopped, self.finished.row = "error", row
        self.on_row(row)
