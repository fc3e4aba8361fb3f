"""Combinators: each is a rule over the outcomes of its children, and only that.

A rule is two small functions, `stop(value)` (no further child is needed) and `combine(values)`, plus flags that say how
the children are run. The sync, the async and the replaying driver share them.
"""

from rubrics.containers.container import Container
from rubrics.containers.gates import AllOf, AnyOf, Gate, Product, Sequential, Switch
from rubrics.containers.holders import RubricDict, RubricList
from rubrics.containers.transforms import Clip, Fallback, Invert, Map, Scale
from rubrics.containers.waiting import Threaded, Timeout
from rubrics.containers.weighted_sum import WeightedSum

__all__ = [
    "AllOf",
    "AnyOf",
    "Clip",
    "Container",
    "Fallback",
    "Gate",
    "Invert",
    "Map",
    "Product",
    "RubricDict",
    "RubricList",
    "Scale",
    "Sequential",
    "Switch",
    "Threaded",
    "Timeout",
    "WeightedSum",
]
