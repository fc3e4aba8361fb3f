"""Views of a tree for hosts that want one rubric object a session."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rubrics.episode import Episode
from rubrics.evaluation import Evaluation
from rubrics.score import Score

if TYPE_CHECKING:
    from rubrics.rubric import Rubric


class NodeView:
    """A node of a shared tree as one session sees it.

    Scores, memory and trajectory are the session's, all else is the node's.
    """

    def __init__(self, node: Rubric, session: Session) -> None:
        self._node = node
        self._session = session

    @property
    def last_score(self) -> float | Score | None:
        """What the node answered at the session's last step."""
        return self._session.episode_now.last_score(self._node)

    @property
    def memory(self) -> dict[str, Any]:
        """The node's memory in the session's episode."""
        return self._session.episode_now.memory_of(self._node)

    @property
    def task(self) -> Any:
        """The task of the session's episode."""
        return self._session.episode_now.task

    @property
    def trajectory(self) -> list[tuple[Any, Any]]:
        """The node's pairs in the session's episode (a copy)."""
        return list(self._session.episode_now.pairs(self._node))

    def compute_step_rewards(self) -> list[float]:
        """The node's credit for each step of the session's episode, after its end."""
        return self._node._step_rewards_in(self._session.episode_now)  # type: ignore[no-any-return]

    def children(self) -> Iterator[NodeView]:
        """Immediate children."""
        return (view for _, view in self.named_children())

    def named_children(self) -> Iterator[tuple[str, NodeView]]:
        """Immediate children with their names."""
        return ((name, NodeView(child, self._session)) for name, child in self._node.named_children())

    def rubrics(self) -> Iterator[NodeView]:
        """All nodes below, depth first."""
        return (view for _, view in self.named_rubrics())

    def named_rubrics(self, prefix: str = "") -> Iterator[tuple[str, NodeView]]:
        """All nodes below with their dotted paths, depth first."""
        return ((path, NodeView(node, self._session)) for path, node in self._node.named_rubrics(prefix))

    def get_rubric(self, path: str) -> NodeView:
        """The node at a dotted path."""
        return NodeView(self._node.get_rubric(path), self._session)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            raise AttributeError(
                f"{name!r} cannot be set on a session, a view of a tree that others may share; set it on the tree"
            )
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(self._node, name)
        if name in ("values", "items") and callable(value):  # of a RubricDict
            return lambda: iter(self._session._seen(list(value())))
        return self._session._seen(value)

    def __len__(self) -> int:
        return len(self._node)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return (self._session._seen(item) for item in self._node)  # type: ignore[attr-defined]

    def __getitem__(self, key: Any) -> Any:
        return self._session._seen(self._node[key])  # type: ignore[index]

    def __contains__(self, key: object) -> bool:
        return key in self._node  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return repr(self._node)


class Session(NodeView):
    """A tree with a default episode of its own: called, reset and introspected like the tree.

    Made by `rubric.session()`. Many sessions over one tree run at once without seeing each other's steps.
    """

    def __init__(self, rubric: Rubric) -> None:
        super().__init__(rubric, self)
        self._episode: Episode | None = None

    def _seen(self, value: Any) -> Any:
        """A node as this session sees it; anything else as it is."""
        from rubrics.rubric import Rubric

        if type(value) in (list, tuple):
            return type(value)(self._seen(item) for item in value)
        return NodeView(value, self) if isinstance(value, Rubric) else value

    @property
    def rubric(self) -> Rubric:
        """The shared tree."""
        return self._node

    @property
    def episode_now(self) -> Episode:
        """The episode in progress, or the one that ended; `reset` replaces it."""
        if self._episode is None:
            self._episode = self._node.episode()
        return self._episode

    def __call__(self, action: Any, observation: Any) -> Any:
        """The score of one step of the session's episode; on a tree with an async node, a coroutine for it."""
        if self._node.is_async_tree:
            return self.episode_now.astep(action, observation)
        return self.episode_now.step(action, observation)

    def reset(self, task: Any = None, initial: Any = None, **options: Any) -> None:
        """Start a new episode; one that was not over is abandoned.

        Args:
            task, initial, options: of the new episode, as for `rubric.episode`.
        """
        self._abandon()
        self._episode = self._node.episode(task=task, initial=initial, **options)

    async def reset_async(self, task: Any = None, initial: Any = None, **options: Any) -> None:
        """Like `reset`; overrides of `reset_async` in the tree are awaited."""
        self.reset(task, initial, **options)
        for node in self._node._compiled().self_stateful:
            await node.reset_async()

    def _abandon(self) -> None:
        if self._episode is not None:
            self._episode.abandon()

    async def evaluate(self, action: Any, observation: Any, *, threads: bool = False) -> Evaluation:
        """Score one step of the session's episode and return the whole record; `threads` as in `Rubric.evaluate`."""
        return await self._node.evaluate(action, observation, self.episode_now, threads=threads)

    def evaluate_sync(self, action: Any, observation: Any) -> Evaluation:
        """Like `evaluate`, for sync code."""
        return self._node.evaluate_sync(action, observation, self.episode_now)


class BlockingSession(Session):
    """A session whose call always returns the score. Made by `rubric.blocking()`.

    On a tree with an async node the calling thread waits; where an event loop runs in that thread, the loop waits too,
    and a warning says so once.
    """

    _warned = False

    def __call__(self, action: Any, observation: Any) -> float | Score | None:
        """The score of one step of the session's episode."""
        if not self._warned and self._node.is_async_tree and _loop_runs_here():
            self._warned = True
            warnings.warn(
                "rubric.blocking() was called where an event loop runs: the loop stands still until the score is "
                "there; use rubric.session() and await it",
                RuntimeWarning,
                stacklevel=2,
            )
        return self.episode_now.step(action, observation)


def _loop_runs_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
