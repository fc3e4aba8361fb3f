"""The sync driver: closures that return an outcome."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from inspect import CORO_CREATED, getcoroutinestate, isawaitable
from time import perf_counter
from typing import Any

from rubrics.engine.frames import FRAME, Frame, Run, annotate
from rubrics.engine.plan import DELAYED, Layers, Place, SyncCall, layered
from rubrics.evaluation import Evaluation
from rubrics.score import InvalidScoreError, Outcome, Score, Unscored, checked, is_pending, public


def build(place: Place, recording: bool) -> SyncCall:
    """The closure of a place whose subtree is sync, built on first use."""
    return layered(place, recording, "sync", _LAYERS)  # type: ignore[no-any-return]


def observe(place: Place, action: Any, observation: Any) -> None:
    """Show a node the step."""
    node: Any = place.node
    try:
        refuse_awaitable(place, "observe", node.observe(action, observation))
    except Exception as error:
        annotate(place, error)
        raise


def failed(place: Place, error: Exception) -> Outcome:
    """What an exception out of a forward means: unscored if it says so; else it goes on with the node's path.

    Raises:
        Exception: the error itself, with a note that names the node (once, the innermost).
    """
    if isinstance(error, Unscored):
        return Unscored(error.reason, error.metadata)
    annotate(place, error)
    raise error


def own_list(frame: Frame, node: Any) -> list[Any]:
    """The pairs that a delayed node with a forward of its own has kept."""
    episode = frame.run.episode
    assert episode is not None
    return episode._journal.list_of(node)


def refuse_awaitable(place: Place, what: str, value: object) -> None:
    """A plain callable must not hand back something that nobody here can await."""
    if value is not None and isawaitable(value):
        if (close := getattr(value, "close", None)) is not None:
            close()
        raise InvalidScoreError(f"{place.who()}: {what} handed back an awaitable; write it as `async def`")


def leaf(place: Place) -> SyncCall:
    node, index, who = place.node, place.index, place.who

    def call(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
        try:
            value = node.forward(action, observation)
            if value.__class__ is not float or value - value != 0.0:
                value = checked(value, who)
        except Exception as error:
            value = failed(place, error)
        last[index] = value
        return value  # type: ignore[no-any-return]

    return call


def container(place: Place, recording: bool) -> SyncCall:
    node: Any = place.node
    runs = [build(child, recording) for child in place.children]
    index, stop, combine = place.index, node.stop, node.compiled()

    def settle(values: list[Outcome], last: list[Outcome | None]) -> Outcome:
        value: Outcome
        try:
            value = combine(values)
            if value.__class__ is not float or value - value != 0.0:
                value = combined(value, place)
        except Exception as error:
            value = failed(place, error)
        last[index] = value
        return value

    if node.routes:

        def routed(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
            chosen = choose(place, action, observation)
            if isinstance(chosen, Unscored):
                skip_rest(place, -1, recording)
                last[index] = chosen
                return chosen
            for i, child in enumerate(place.children):
                if i == chosen:
                    values = [runs[i](action, observation, last)]
                elif recording:
                    skip(child)
            return settle(values, last)

        return routed

    if node.catches:

        def caught(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
            values: list[Outcome] = []
            for i, run in enumerate(runs):
                values.append(attempt(run, action, observation, last) if i == 0 else run(action, observation, last))
                if stop(values[-1]):
                    skip_rest(place, i, recording)
                    break
            return settle(values, last)

        return caught

    if node.stops:

        def ordered(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
            values: list[Outcome] = []
            for run in runs:
                value = run(action, observation, last)
                values.append(value)
                if stop(value):
                    skip_rest(place, len(values) - 1, recording)
                    break
            return settle(values, last)

        return ordered

    def every(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
        values = []
        for run in runs:
            values.append(run(action, observation, last))  # in Python 3.11 a comprehension costs a call
        value: Any  # `settle` once more: a call a container is a twentieth of a deep tree
        try:
            value = combine(values)
            if value.__class__ is not float or value - value != 0.0:
                value = combined(value, place)
        except Exception as error:
            value = failed(place, error)
        last[index] = value
        return value  # type: ignore[no-any-return]

    return every


def attempt(run: SyncCall, action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
    """A child whose exceptions its parent takes for unscored."""
    try:
        return run(action, observation, last)
    except Exception as error:
        return swallowed(error)


def swallowed(error: Exception) -> Unscored:
    """The outcome that stands for an exception where a container catches those of its child."""
    return Unscored(f"{type(error).__name__}: {error}", {"error": type(error).__name__})


def choose(place: Place, action: Any, observation: Any) -> int | Unscored:
    """The index of the child that a routing container picks; unscored where it says that it cannot tell."""
    node: Any = place.node
    try:
        name = node.route(action, observation)
    except Unscored as error:
        return Unscored(error.reason, error.metadata)
    except Exception as error:
        annotate(place, error)
        raise
    return next(i for i, child in enumerate(place.children) if child.name == name)


def skip_rest(place: Place, reached: int, recording: bool) -> None:
    """Record the children after the last one that was reached as skipped."""
    if recording:
        for child in place.children[reached + 1 :]:
            skip(child)


def skip(place: Place) -> None:
    frame = FRAME.get()
    assert frame is not None
    _skip(place, frame.open_record(place))


def _skip(place: Place, record: Evaluation) -> None:
    for child in place.children:
        below = Evaluation(record.path + child.path[len(place.path) :], child.kind_name)
        record.children.append(below)
        _skip(child, below)


def combined(value: object, place: Place) -> Outcome:
    """Check what a container's rule gave."""
    if isinstance(value, Unscored):
        return value
    try:
        return checked(value, place.who)
    except InvalidScoreError as error:
        raise InvalidScoreError(
            str(error).replace("forward returned", "the combination of its children gave")
        ) from None


def custom(place: Place) -> SyncCall:
    node = place.node

    def call(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
        frame, token = enter(place)
        value: Any
        try:
            if frame.run.again and node._is_delayed():  # its forward has appended the last pair already
                value = node.score_trajectory(own_list(frame, node))
            else:
                value = node.forward(action, observation)
            value = concluded(place, frame, value)
        except Exception as error:
            explain(frame, error)
            value = failed(place, error)
        finally:
            FRAME.reset(token)
            discard_coroutines(frame)
        last[place.index] = value
        return value  # type: ignore[no-any-return]

    return call


def enter(place: Place) -> tuple[Frame, Any]:
    """A frame of its own for a custom forward, with the record that stands open."""
    outer = FRAME.get()
    assert outer is not None
    frame = Frame(outer.run, place, outer.record)
    frame.apart = outer.apart
    return frame, FRAME.set(frame)


def concluded(place: Place, frame: Frame, value: object) -> Outcome:
    """The outcome of a custom forward, given what its children answered."""
    outcome = checked(value, place.who)
    if isinstance(outcome, Unscored) and outcome.reason is None and frame.unscored:
        reasons = "; ".join(
            f"{child.name} is unscored: {outcome.reason or 'no reason given'}" for child, outcome in frame.unscored
        )
        return Unscored(reasons)
    if frame.pending and outcome.__class__ is float:
        return Score(outcome, pending=True)
    run = frame.run
    if run.ending is not None and place.node._is_delayed() and not is_pending(outcome):
        run.episode._journal.scored(place.node, outcome)  # type: ignore[union-attr]
    return outcome


def explain(frame: Frame, error: Exception) -> None:
    """Say which child is behind a TypeError: arithmetic with an unscored child, or with one that was not awaited."""
    if not isinstance(error, TypeError):
        return
    for child, outcome in frame.unscored or ():
        error.add_note(f"child {child.name!r} is unscored, which is None here: {outcome.reason or 'no reason given'}")
    if any(getcoroutinestate(coroutine) == CORO_CREATED for coroutine in frame.coroutines or ()):
        error.add_note("an async child was called without await; write `async def forward` and await it")


def discard_coroutines(frame: Frame) -> None:
    """Close what an async child handed to a forward that never awaited it."""
    for coroutine in frame.coroutines or ():
        if getcoroutinestate(coroutine) == CORO_CREATED:
            coroutine.close()


def delayed(place: Place) -> SyncCall:
    node: Any = place.node
    index, who, key = place.index, place.who, id(node)

    def call(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
        run: Run = last.run  # type: ignore[attr-defined]
        journal = run.episode._journal  # type: ignore[union-attr]
        if journal.actions[-1] is not action or journal.observations[-1] is not observation or node.sees == "calls":
            journal.saw(node, action, observation)
        value: Any
        if run.ending is None:
            value = node._intermediate
        else:
            try:
                value = node._judge(run)
                if value.__class__ is not float or value - value != 0.0:
                    value = checked(value, who)
            except Exception as error:
                value = failed(place, error)
            if not run.over:  # a thread that was left behind changes nothing
                journal.scores[key] = value
        last[index] = value
        return value  # type: ignore[no-any-return]

    return call


def hooked(place: Place, inner: SyncCall) -> SyncCall:
    node = place.node
    before, after = list(node._forward_pre_hooks.values()), list(node._forward_hooks.values())

    def call(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
        run_hooks(place, before, action, observation)
        value = inner(action, observation, last)
        run_hooks(place, after, action, observation, public(value))
        return value

    return call


def run_hooks(place: Place, hooks: list[Callable[..., Any]], *args: Any) -> None:
    try:
        for hook in hooks:
            refuse_awaitable(place, "a hook", hook(place.node, *args))
    except Exception as error:
        annotate(place, error)
        raise


def recorded(place: Place, inner: SyncCall) -> SyncCall:
    """Keep a record. In sync code nodes open and close like brackets, so one frame serves all but custom forwards."""
    path, kind, keep = place.path, place.kind_name, place.remembered

    def call(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
        frame: Any = FRAME.get()
        parent, above = frame.record, frame.place
        if parent is None or above.custom or parent.path != above.path:
            record = frame.open_record(place)
        else:
            record = Evaluation(path, kind)
            parent.children.append(record)
        if keep:
            stash(frame, place, record, action, observation)
        frame.record, frame.place = record, place
        start = perf_counter()
        try:
            outcome = inner(action, observation, last)
            record.settle(outcome)
        except BaseException as error:
            record.fail(error)
            raise
        finally:
            record.duration = perf_counter() - start
            frame.record, frame.place = parent, above
        return outcome

    return call


class Failure:
    """An exception in the memo."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


def remembered(place: Place, inner: SyncCall) -> SyncCall:
    def call(action: Any, observation: Any, last: list[Outcome | None]) -> Outcome:
        outer = FRAME.get()
        assert outer is not None
        run = outer.run
        memo = run.memo
        assert memo is not None
        key = memo_key(place, action, observation)
        flight: Future[None] | None = None
        if run.lock is None:
            entry = memo.get(key)
        else:  # worker threads of one step may ask for the same node
            while True:
                with run.lock:
                    entry = memo.get(key)
                    if entry is None:
                        flight = memo[key] = Future()
                        break
                if entry.__class__ is tuple:
                    break
                entry.result()
        if entry is not None:
            return recall(outer, place, entry, last)
        value: Any
        try:
            value = inner(action, observation, last)
        except Exception as error:
            value = Failure(error)
        except BaseException:
            if flight is not None:
                del memo[key]
                flight.set_result(None)
            raise
        remember(outer, key, value, action, observation)
        if flight is not None:
            flight.set_result(None)
        if value.__class__ is Failure:
            raise value.error
        return value  # type: ignore[no-any-return]

    return call


def stash(outer: Frame, place: Place, record: Evaluation, action: Any, observation: Any) -> None:
    """Keep the record of a node that may be shown again in this step."""
    if place.remembered:
        outer.run.records[memo_key(place, action, observation)] = record


def memo_key(place: Place, action: Any, observation: Any) -> tuple[int, int, int]:
    """What an outcome is remembered under: node and pair; of a delayed node, which is scored once, the node alone."""
    return (place.index, 0, 0) if place.kind == DELAYED else (place.index, id(action), id(observation))


def remember(outer: Frame, key: tuple[int, int, int], value: Any, action: Any, observation: Any) -> None:
    """Keep an outcome and its record for this step; the objects too, so that their ids stay theirs."""
    run = outer.run
    run.memo[key] = (value, run.records.get(key), action, observation)  # type: ignore[index]


def recall(outer: Frame, place: Place, entry: tuple[Any, ...], last: list[Outcome | None]) -> Outcome:
    value, record = entry[0], entry[1]
    if outer.run.recording:
        if record is not None:
            outer.repeat_record(place, record)
        else:  # kept from a step that was not recorded
            again = outer.open_record(place)
            if value.__class__ is not Failure:
                again.settle(value)
    if value.__class__ is Failure:
        raise value.error
    last[place.index] = value
    return value  # type: ignore[no-any-return]


_LAYERS = Layers(leaf, container, custom, delayed, hooked, recorded, remembered)
