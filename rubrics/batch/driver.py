"""The driver over columns: closures that give the column of a node for some rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from rubrics.batch.rows import Batch, RowRun, Selection
from rubrics.batch.rules import AGAIN, RULES, STOPS, number_of
from rubrics.batch.sums import Column
from rubrics.engine.frames import FRAME, Frame
from rubrics.engine.plan import CONTAINER, LEAF, Place, Plan
from rubrics.node import definer, has_class_forward
from rubrics.score import InvalidScoreError

Ask: TypeAlias = Callable[[Selection], Column]


def columns_of(batch: Batch) -> Column:
    """The scores of the root; `AGAIN` for rows that are to be evaluated by themselves."""
    if not batch.size or not batches(batch.plan):
        return np.full(batch.size, AGAIN)
    return np.array(build(batch.plan.root)(batch.rows))


def batches(plan: Plan) -> bool:
    """Whether a tree is evaluated over columns: it has a leaf that gains by it, and nothing that forbids it."""
    if plan.stateful or plan.self_stateful or plan.nests:
        return False
    places = list(plan.root)
    return any(map(has_batch, places)) and all(map(_allows, places))


def has_batch(place: Place) -> bool:
    """Whether a leaf has a `forward_batch` that stands for its `forward`."""
    node = place.node
    kind = type(node)
    if place.kind != LEAF or not hasattr(kind, "forward_batch") or not has_class_forward(node):
        return False
    return issubclass(definer(kind, "forward_batch"), definer(kind, "forward"))


def _allows(place: Place) -> bool:
    node = place.node
    if node._forward_hooks or node._forward_pre_hooks:
        return False
    if place.kind == CONTAINER:
        return type(node) in RULES
    return place.kind == LEAF and (has_batch(place) or not node._own_async())


def build(place: Place) -> Ask:
    """The closure of a place: the column of some rows."""
    call = place.runs.get(("columns", False))
    if call is None:
        if place.kind == CONTAINER:
            call = _container(place)
        else:
            call = _leaf_batch(place) if has_batch(place) else _leaf(place)
        if place.remembered:
            call = _remembered(place, call)
        place.runs["columns", False] = call
    return call


def _leaf(place: Place) -> Ask:
    node: Any = place.node
    return lambda rows: _noted(one_by_one(rows, node.forward), rows.batch)


def one_by_one(rows: Selection, function: Callable[[Any, Any], Any]) -> Column:
    """What a function of an action and an observation gives for each row, as `number_of` has it."""
    column = np.empty(rows.size, np.float64)
    run = RowRun(rows.batch)
    token = FRAME.set(Frame(run))
    try:
        for i, row in enumerate(rows.index.tolist()):
            run.row = row
            column[i] = number_of(function, rows.actions[i], rows.observations[i])
    finally:
        FRAME.reset(token)
    return column


def _leaf_batch(place: Place) -> Ask:
    node: Any = place.node
    alone = None if node._own_async() else _leaf(place)

    def call(rows: Selection) -> Column:
        try:
            token = FRAME.set(rows.frame)
            try:
                found = node.forward_batch(rows.actions, rows.observations)
            finally:
                FRAME.reset(token)
        except Exception as error:
            return instead(rows, error)
        column = np.asarray(found)
        if column.shape != (rows.size,) or column.dtype.kind not in "fiub":
            raise InvalidScoreError(
                f"{place.who()}: forward_batch gave {column.dtype} of shape {column.shape} for {rows.size} rows; "
                "it gives an array of numbers, one a row, with NaN for what is unscored"
            )
        return _noted(np.ascontiguousarray(column, np.float64), rows.batch)

    def instead(rows: Selection, error: Exception) -> Column:
        """Row by row, which tells which rows it is that fail."""
        if alone is None:
            rows.batch.strange = True
            return np.full(rows.size, AGAIN)
        column = alone(rows)
        if not np.isinf(column).any():
            warnings.warn(
                f"{place.who()}: forward_batch raised {type(error).__name__}: {error}, and forward raises nothing; "
                "its rows were evaluated one by one",
                RuntimeWarning,
                stacklevel=2,
            )
        return column

    return call


def _noted(column: Column, batch: Batch) -> Column:
    if not np.isfinite(column).all() and (odd := np.isinf(column)).any():
        batch.strange = True
        return np.where(odd, AGAIN, column)
    return column


def _container(place: Place) -> Ask:
    node: Any = place.node
    rule = RULES[type(node)]
    stop: Any = STOPS.get(type(node))
    asks = [build(child) for child in place.children]

    def combined(batch: Batch, columns: list[Column]) -> Column:
        odd = np.zeros(0, np.bool_)
        if batch.strange:
            odd = np.logical_or.reduce([np.isinf(column) for column in columns])
            columns = [np.where(odd, np.nan, column) for column in columns]
        with np.errstate(all="ignore"):
            column = rule(node, columns)
        if batch.strange:
            column = np.where(odd, AGAIN, column)
        return _noted(column, batch)

    def every(rows: Selection) -> Column:
        return combined(rows.batch, [ask(rows) for ask in asks])

    def ordered(rows: Selection) -> Column:
        """Children in order, each on the rows that still need it."""
        if not asks:
            return np.full(rows.size, number_of(node.combine, []))
        result = np.empty(rows.size, np.float64)
        left, columns = np.arange(rows.size), []
        for ask in asks:
            here = rows if len(left) == rows.size else rows.part(left)
            columns.append(ask(here))
            stopped = stop(columns[-1]) | np.isinf(columns[-1])
            if ask is asks[-1] or stopped.all():
                break
            if stopped.any():
                result[left[stopped]] = combined(rows.batch, [column[stopped] for column in columns])
                left, columns = left[~stopped], [column[~stopped] for column in columns]
        result[left] = combined(rows.batch, columns)
        return result

    def routed(rows: Selection) -> Column:
        """Each child on the rows for which it is chosen; what else choosing may bring about is as of a leaf."""
        numbers = {child.name: float(i) for i, child in enumerate(place.children)}
        chosen = one_by_one(rows, lambda action, observation: numbers[node.route(action, observation)])
        result = _noted(np.where(np.isfinite(chosen), np.nan, chosen), rows.batch)
        for i, ask in enumerate(asks):
            which = np.flatnonzero(chosen == i)
            if len(which):
                result[which] = ask(rows if len(which) == rows.size else rows.part(which))
        return result

    return routed if node.routes else every if stop is None else ordered


def _remembered(place: Place, inner: Ask) -> Ask:
    """A node at several places is asked once for each row."""

    def call(rows: Selection) -> Column:
        batch = rows.batch
        if place.index not in batch.known:
            batch.known[place.index] = (np.empty(batch.size), np.zeros(batch.size, np.bool_))
        column, known = batch.known[place.index]
        new = np.flatnonzero(~known[rows.index])
        if len(new):
            some = rows if len(new) == rows.size else rows.part(new)
            column[some.index] = inner(some)
            known[some.index] = True
        return column[rows.index]

    return call
