"""The judges of a tree within a run. Nothing of `judges` is imported unless the tree has any."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rubrics.episode import Episode
from rubrics.rubric import Rubric


def has_judges(rubric: Any) -> bool:
    """Whether a tree, or a group rubric, asks a model."""
    return bool(_runs() and _runs().askers(rubric))


def judge_paths(rubric: Rubric) -> list[str]:
    """The paths of the nodes that ask a model."""
    return _runs().judge_paths(rubric) if _runs() else []


def budget_of(usd: float | None) -> Any:
    """`judges.runs.RunBudget` of so many dollars; None where nothing is limited, or asked."""
    return _runs().RunBudget(usd=usd) if usd is not None and _runs() else None


def refuse_unpriced(rubric: Any, price: Any) -> None:
    """`judges.runs.refuse_unpriced`."""
    if _runs():
        _runs().refuse_unpriced(rubric, price)


def refuse_unnamed(rubric: Any) -> None:
    """`judges.runs.refuse_unnamed`."""
    if _runs():
        _runs().refuse_unnamed(rubric)


def shared_budget_of(usd: float, account: Any) -> Any:
    """`judges.runs.SharedBudget`; None where nothing is asked."""
    return _runs().SharedBudget(usd, account) if _runs() else None


def price_of(prompt: float, completion: float) -> Any:
    """`judges.Price`: US dollars a million tokens."""
    from judges import Price

    return Price(prompt, completion)


def store_of(path: Any, again: bool) -> Any:
    """`judges.Store`, which asks everything again where that is wanted; None where nothing is to be kept."""
    if path is None or not _runs():
        return None
    from judges import Store

    return Store(path, mode="all" if again else "new")


def equipped(rubric: Any, store: Any, budget: Any, price: Any, processes: int = 1) -> AbstractContextManager[list[Any]]:
    """`judges.runs.equipped`."""
    if not _runs():
        return nullcontext([])
    return _runs().equipped(rubric, store=store, budget=budget, price=price, processes=processes)  # type: ignore[no-any-return]


def has_own_budget(rubric: Rubric) -> bool:
    """Whether a judge of a tree was given a budget when it was made."""
    return bool(_runs()) and any(asker.exchanger.budget is not None for asker in _runs().askers(rubric))


def store_failure(asking: Any) -> str | None:
    """Why a store of those that `equipped` gives cannot be used; None where all can."""
    stores = [asker.exchanger.store for asker in asking or ()]
    return next((store.failure for store in stores if store is not None and store.failure is not None), None)


def planned(rubric: Any, store: Any, price: Any) -> AbstractContextManager[Any]:
    """`judges.runs.planned`; it gives None for a tree that asks no model."""
    return _runs().planned(rubric, store=store, price=price) if has_judges(rubric) else nullcontext()


def was_refused(episode: Episode) -> bool:
    """Whether the budget of the run refused a question of this episode."""
    return _runs() is not None and episode in _runs().refused


def _runs() -> Any:
    if "judges" not in sys.modules:  # then no node of the tree is a judge
        return None
    import judges.runs

    return judges.runs
