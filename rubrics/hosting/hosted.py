"""A session of a tree in a host: one episode after another, and what becomes of a step without a reward."""

from __future__ import annotations

import asyncio
import logging
from os import PathLike
from typing import Any, Literal, Protocol

from rubrics.episode import Episode
from rubrics.evaluation import Evaluation
from rubrics.hosting.report import StepReport, append_episode
from rubrics.rescoring.rows import step_rewards_dict
from rubrics.rubric import Rubric
from rubrics.score import CreditError, EpisodeError, EpisodeOverError, RubricError
from rubrics.session import Session

_log = logging.getLogger(__name__)

_OPTIONS = {"on_error": ("null", "raise"), "on_final_error": ("null", "raise"), "expose": ("scores", "full", "none")}


def prepare(cls: Any) -> None:
    """Check a class that an author wrote, and make its tree one that every environment has a session of.

    Raises:
        ValueError: an option has none of its values.
        TypeError: `rubric` is no tree.
    """
    for name, choices in _OPTIONS.items():
        if getattr(cls, name) not in choices:
            raise ValueError(f"{cls.__name__}.{name} is one of {', '.join(choices)}, not {getattr(cls, name)!r}")
    if "rubric" in cls.__dict__:
        tree = cls.__dict__["rubric"]
        cls.rubric = SessionOf(None if tree is None else _tree(tree, cls))


class SessionOf:
    """`rubric`: on the class the tree that all environments share, on an environment its own session of it."""

    def __init__(self, tree: Rubric | None) -> None:
        self.tree = tree

    def __get__(self, environment: Any, owner: type | None = None) -> Rubric | Session | None:
        if environment is None:
            return self.tree
        own: Session | None = environment.__dict__.get("rubric")
        if own is None and self.tree is not None:
            own = environment.__dict__["rubric"] = self.tree.session()
        return own

    def __set__(self, environment: Any, rubric: Rubric | Session | None) -> None:
        if rubric is None:  # Environment.__init__, which was given none
            return
        environment.__dict__["rubric"] = rubric if isinstance(rubric, Session) else _tree(rubric, environment).session()


def _tree(value: object, environment: object) -> Rubric:
    if isinstance(value, Rubric):
        return value
    name = environment.__name__ if isinstance(environment, type) else type(environment).__name__
    raise TypeError(
        f"{name}.rubric must be a tree of this library (an instance of rubrics.Rubric), not {value!r:.80}; "
        "call the function or class that makes it, and import rubrics from `rubrics`"
    )


class Host(Protocol):
    """What authors set on a host's environment; it may change at any time."""

    rubric: Any
    on_error: Literal["null", "raise"]
    on_final_error: Literal["null", "raise"]
    expose: Literal["scores", "full", "none"]
    record_to: str | PathLike[str] | None
    snapshot_steps: bool


class HostedSession:
    """The episodes of one environment of a host.

    Args:
        host: the environment; its `rubric` is a session of the tree.
        name: of the host, for the `source` of recordings.
        threads: whether async code runs what is not async in the tree in worker threads.
        environment: how recordings call it; by default by its class.
    """

    def __init__(self, host: Host, name: str, threads: bool = False, environment: str | None = None) -> None:
        self._host = host
        self._source = {"host": name, "environment": environment or type(host).__name__}
        self._threads = threads
        self._began = False
        self._busy = False
        self._closed = False
        self._evaluations: dict[int, Evaluation] = {}

    @property
    def session(self) -> Session:
        """The environment's session of its tree."""
        rubric = self._host.rubric
        if rubric is None:  # a tree assigned to the class after it was made, and hidden by the host's own __init__
            rubric = type(self._host).rubric
        if isinstance(rubric, Rubric):
            rubric = self._host.rubric = rubric.session()
        if not isinstance(rubric, Session):
            who = type(self._host).__name__
            raise RubricError(f"{who} has no rubric: give it one in the class body, `rubric = make_rubric()`")
        return rubric

    # -- begin and end ------------------------------------------------------------------------------------------------

    def begin(self, **episode: Any) -> None:
        """Start an episode; the arguments are those of `Rubric.episode`."""
        self.session.reset(**self._first(episode))

    async def begin_async(self, **episode: Any) -> None:
        """Like `begin`, in async code."""
        await self.session.reset_async(**self._first(episode))

    def _first(self, episode: dict[str, Any]) -> dict[str, Any]:
        self._evaluations = {}
        self._began, self._closed = True, False
        return {"snapshot": self._host.snapshot_steps, **episode}

    def abandon(self) -> None:
        """End an episode that is not over, and record it."""
        if (episode := self._unfinished) is not None:
            episode.end("abandoned")
            self._write(episode)

    async def abandon_async(self) -> None:
        """Like `abandon`, in async code."""
        if (episode := self._unfinished) is not None:
            await episode.aend("abandoned")
            await asyncio.to_thread(self._write, episode)

    def close(self) -> None:
        """Abandon an episode that is not over; where a step is being scored, that is done after it."""
        self._closed = True
        if self._began and not self._busy:  # scoring may wait for this very thread
            self.abandon()

    @property
    def _unfinished(self) -> Episode | None:
        session = self.session  # an environment without one is told so before it is reset
        return session.episode_now if self._began and not session.episode_now.over else None

    def running(self) -> Episode:
        """The episode that the next step belongs to.

        Raises:
            EpisodeOverError: it is over.
            EpisodeError: none was begun, and the tree judges episodes.
        """
        if not self._began:
            if self.session.rubric._compiled().stateful:
                raise EpisodeError(
                    f"{type(self._host).__name__}.step before reset: its rubric judges whole episodes. Over HTTP each "
                    "request gets a new environment; use a client that keeps its session"
                )
            self.begin()
        episode = self.session.episode_now
        if episode.over:
            raise EpisodeOverError(f"the episode is over ({episode.status} after {episode.steps} steps): reset first")
        return episode

    # -- a step -------------------------------------------------------------------------------------------------------

    def score(self, episode: Episode, action: Any, observation: Any) -> StepReport:
        """Score a step that the environment has taken; on a tree with async nodes this thread waits.

        Raises:
            RubricError: there is no reward, and `on_error` or `on_final_error` says so.
        """
        self._busy = True
        try:
            report = self._reported(episode, action, observation)
        except BaseException as error:  # the environment has moved on, so the episode must
            episode.step_unscored(action, observation)
            report = StepReport.of_error(error)
            if report.evaluation is None:  # nobody knows how far it came
                report.scores = {path: None for path, _ in self.session.rubric._compiled().paths if path}
        finally:
            self._busy = False
        report = self._finished(episode, report)
        if episode.over:
            self._write(episode)
        elif self._closed:
            self.abandon()
        return self._checked(episode, report)

    def _reported(self, episode: Episode, action: Any, observation: Any) -> StepReport:
        tree = self.session.rubric
        if self._host.expose == "full" or self._host.record_to is not None or not tree._compiled().tells_by_outcomes:
            return StepReport.of_record(self.session.evaluate_sync(action, observation))
        episode.step(action, observation)  # a third of the time of a record
        return StepReport.of_episode(episode, type(tree).__name__)

    async def score_async(self, episode: Episode, action: Any, observation: Any) -> StepReport:
        """Like `score`, in async code."""
        self._busy = True
        try:
            record = await self.session.evaluate(action, observation, threads=self._threads)
            report = StepReport.of_record(record)
        except BaseException as error:  # the environment has moved on, so the episode must
            await episode.astep_unscored(action, observation, threads=self._threads)
            report = StepReport.of_error(error)
        finally:
            self._busy = False
        report = self._finished(episode, report)
        if episode.over:
            await asyncio.to_thread(self._write, episode)
        elif self._closed:
            await self.abandon_async()
        return self._checked(episode, report)

    async def unpaid_async(self, episode: Episode, action: Any, observation: Any) -> dict[str, Any] | None:
        """Take a step that is not to be judged; what the agent may see of it."""
        try:
            await episode.astep_unpaid(action, observation, threads=self._threads)
        except BaseException as error:  # a node's `observe`; the environment has moved on, so the episode must
            await episode.astep_unscored(action, observation, threads=self._threads)
            report = self._finished(episode, StepReport.of_error(error))
            return self.exposed(self._checked(episode, report))
        return None if self._host.expose == "none" else {"status": "unpaid"}

    def _finished(self, episode: Episode, report: StepReport) -> StepReport:
        """The report with what only the episode knows."""
        if episode.over:
            try:
                report.step_rewards = step_rewards_dict(episode.rewards())
            except CreditError as error:
                report = StepReport.of_error(error, report.evaluation)
        if report.evaluation is not None and self._host.record_to is not None:
            self._evaluations[episode.steps - 1] = report.evaluation
        if report.reward is None:
            level = logging.INFO if report.error is None else logging.WARNING
            who = type(self._host).__name__
            _log.log(level, "%s, step %d: %s", who, episode.steps, report.message, exc_info=report.error)
        return report

    def _checked(self, episode: Episode, report: StepReport) -> StepReport:
        if report.error is not None and not isinstance(report.error, Exception):  # a cancellation, an interrupt
            raise report.error
        rule = self._host.on_final_error if episode.over else self._host.on_error
        if report.reward is None and rule == "raise":
            raise RubricError(report.message) from report.error
        return report

    def exposed(self, report: StepReport) -> dict[str, Any] | None:
        """What the agent may see of a step, as JSON values; None for nothing."""
        return None if self._host.expose == "none" else report.to_dict(full=self._host.expose == "full")

    def _write(self, episode: Episode) -> None:
        path = self._host.record_to
        if path is None or not episode.steps:
            return
        try:
            append_episode(path, episode, self._evaluations, dict(self._source))
        except Exception:  # a full disk must not cost a reward
            _log.exception("the episode %r could not be recorded in %s", episode.id, path)
