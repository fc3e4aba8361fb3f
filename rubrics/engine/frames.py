"""Where a running node is: the context variable that nested calls, `memory` and the recorder look at."""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from rubrics.evaluation import Evaluation, Usage
from rubrics.score import Outcome, Unscored, is_pending

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable

    from rubrics.engine.plan import Place, Plan
    from rubrics.episode import Episode

T = TypeVar("T")


class Outcomes(list[Outcome | None]):
    """The outcomes of a run by node index; None where a node was not reached.

    Attributes:
        run: the run.
        shared: what nodes share in this run (see `of_this_run`); not set where they share nothing.
    """

    __slots__ = ("run", "shared")

    run: Run
    shared: dict[Hashable, Any]


class Run:
    """One evaluation of a plan.

    Attributes:
        plan, episode: what is run, and in which episode (None: the root's default one, made when somebody asks).
        memo, records: outcomes and records of this step by (node, action, observation); None where no node can be asked
            twice. A future stands for a node that is running.
        ending: how the episode ends with this step; None while it goes on.
        again: whether this is the last pair once more, because the driver ended the episode.
        lock: guards the memo where parts of the tree run in worker threads.
        recording: whether records are kept.
        threads: whether plain forwards are sent to worker threads (on the library's own loop).
        open: whether calls of nodes are nested in this run; False once it is over.
        over: whether it has ended; code that it left behind then remembers nothing.
        last: outcomes by node index.
        spent: what was spent where nothing is recorded.
    """

    __slots__ = (
        "again",
        "ending",
        "episode",
        "last",
        "lock",
        "memo",
        "open",
        "over",
        "plan",
        "record",
        "recording",
        "records",
        "spent",
        "threads",
    )

    def __init__(self, plan: Plan, episode: Episode | None, recording: bool = False, threads: bool = False) -> None:
        self.plan = plan
        self.episode = episode
        self.recording = recording
        self.threads = threads
        self.memo: dict[tuple[int, int, int], Any] | None = {} if plan.remembers else None
        self.records: dict[tuple[int, int, int], Evaluation] = {}
        self.ending: str | None = None
        self.open = plan.nests
        self.last = Outcomes(plan.blank)
        self.last.run = self
        self.record: Evaluation | None = None
        self.again = False
        self.over = False
        self.spent: list[Usage] = [] if episode is None else episode._spent
        self.lock = Lock() if threads or (plan.threaded and plan.remembers) else None

    def close(self) -> None:
        """The run has ended."""
        self.open = False
        self.over = True


class Frame:
    """One node at work within a run; what its forward calls is noted here.

    Attributes:
        apart: in a worker thread, copies of the memories that nodes have there, taken over when the thread is done.
    """

    __slots__ = ("apart", "coroutines", "counts", "pending", "place", "record", "run", "unscored")

    def __init__(self, run: Run, place: Place | None = None, record: Evaluation | None = None) -> None:
        self.run = run
        self.place = place
        self.record = record
        self.pending: bool = False
        self.unscored: list[tuple[Place, Unscored]] | None = None
        self.coroutines: list[Coroutine[Any, Any, Any]] | None = None
        self.counts: dict[str, int] | None = None
        self.apart: dict[int, tuple[Any, dict[str, Any]]] | None = None

    def note(self, place: Place, outcome: Outcome) -> None:
        """Remember what a child answered to a custom forward."""
        if outcome.__class__ is not float:
            if isinstance(outcome, Unscored):
                self.unscored = [*(self.unscored or ()), (place, outcome)]
            elif is_pending(outcome):
                self.pending = True

    def open_record(self, place: Place) -> Evaluation:
        """A new record for a child of this frame's node, already in its place in the tree."""
        parent = self.record
        if parent is None:
            record = Evaluation("", place.kind_name)
            self.run.record = record
            return record
        path = self._path_of(place, parent)
        record = Evaluation(path, place.kind_name)
        parent.children.append(record)
        return record

    def repeat_record(self, place: Place, record: Evaluation) -> None:
        """Show a node again that was run elsewhere in this step."""
        parent = self.record
        if parent is None:
            self.run.record = record.repeat("")
        else:
            parent.children.append(record.repeat(self._path_of(place, parent)))

    def _path_of(self, place: Place, parent: Evaluation) -> str:
        mine = self.place
        path = place.path
        assert mine is not None
        if not mine.custom and parent.path == mine.path:
            return path
        if mine.path and not path.startswith(f"{mine.path}."):  # a node from another branch
            path = f"{parent.path}.{place.name}"
        elif parent.path != mine.path:  # below an `x#2`
            path = f"{parent.path}{path[len(mine.path) :]}"
        if not mine.custom:
            return path
        counts = self.counts
        if counts is None:
            counts = self.counts = {}
        n = counts[path] = counts.get(path, 0) + 1
        return path if n == 1 else f"{path}#{n}"


FRAME: ContextVar[Frame | None] = ContextVar("rubrics_frame", default=None)


def annotate(place: Place, error: BaseException) -> None:
    """Note the path of the node on an exception, unless an inner node of this run did."""
    if not hasattr(error, "_rubrics_open"):
        with suppress(AttributeError):  # an exception that refuses new attributes goes on as it is
            error._rubrics_open = error._rubrics_path = place.path or place.kind_name  # type: ignore[attr-defined]
            error.add_note(f"in rubric {place.who()}")


def let_go(error: BaseException, record: Evaluation | None = None) -> None:
    """The exception leaves its run: raised again in another, it is noted again. What was recorded goes with it."""
    with suppress(AttributeError):
        if record is not None:
            error._rubrics_evaluation = record  # type: ignore[attr-defined]
        del error._rubrics_open  # type: ignore[attr-defined]


def current_episode() -> Episode | None:
    """The episode of the run that is going on here, or None outside a run."""
    frame = FRAME.get()
    return None if frame is None else frame.run.episode


def of_this_run(key: Hashable, make: Callable[[], T]) -> T:
    """What nodes of one run share under a key, such as one model call that answers several of them.

    Made when first asked for; outside a run it is made anew each time. Not for leaves in worker threads.
    """
    shared = shared_in_this_run()
    if key not in shared:
        shared[key] = make()
    return shared[key]  # type: ignore[no-any-return]


def shared_in_this_run() -> dict[Hashable, Any]:
    """Where `of_this_run` keeps things, for code that counts nanoseconds; outside a run a new dict each time."""
    frame = FRAME.get()
    if frame is None or frame.run.over:
        return {}
    last = frame.run.last  # a run may serve all steps of an episode; its outcomes are of one
    shared: dict[Hashable, Any] | None = getattr(last, "shared", None)
    if shared is None:
        shared = last.shared = {}
    return shared


def add_usage(usage: Usage) -> None:
    """Add what a model call cost to the record of the node that is running, or where there is none to its episode."""
    frame = FRAME.get()
    if frame is None:
        return
    if frame.record is not None:
        frame.record.own_usage = frame.record.own_usage + usage
    else:
        frame.run.spent.append(usage)
