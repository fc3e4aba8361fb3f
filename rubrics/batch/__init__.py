"""Many steps scored at once: `rubric.evaluate_batch(actions, observations, tasks)`.

A tree is evaluated node by node over columns instead of row by row, where it has leaves with a `forward_batch` and its
other parts allow it. Else it is the loop, as it is for rows of which the columns cannot tell all. The scores are those
of the loop.
"""

from rubrics.batch.evaluation import BatchEvaluation, evaluate_batch

__all__ = ["BatchEvaluation", "evaluate_batch"]
