"""The statistics of judge tests. Each figure comes with n and a 95 % interval (`Interval`).

The page "Statistics of judges" of the documentation says which figure answers which question.

What is not here: `bootstrap(statistic, items)` gives any other statistic its interval.
"""

from judges.ranking import bradley_terry
from judges.testing.agreement import cohen_kappa, kappa_interval, kendall_tau_b, mean_absolute_error, spearman
from judges.testing.bias import (
    accuracy_over_orders,
    both_orders_accuracy,
    consistency,
    first_position_rate,
    self_agreement,
    unanimity,
    verbosity,
)
from judges.testing.calibration import Bin, brier_score, expected_calibration_error, reliability_curve
from judges.testing.classification import (
    Confusion,
    accuracy,
    accuracy_of_parsed,
    confusion,
    precision,
    recall,
    true_negative_rate,
    true_positive_rate,
)
from judges.testing.columns import MetricError
from judges.testing.comparisons import Paired, mcnemar, sign_flip
from judges.testing.decisions import Decision, Outcome, decide
from judges.testing.intervals import Interval, OfSums, bootstrap, mean, paired_difference, proportion, wilson
from judges.testing.rates import Rate, Summary, answer_rates, summarise
from judges.testing.reliability import Level, alpha_interval, krippendorff_alpha
from judges.testing.strengths import strength_intervals

__all__ = [
    # intervals
    "Interval",
    "MetricError",
    "OfSums",
    "bootstrap",
    "mean",
    "paired_difference",
    "proportion",
    "wilson",
    # right or wrong
    "Confusion",
    "accuracy",
    "accuracy_of_parsed",
    "confusion",
    "precision",
    "recall",
    "true_negative_rate",
    "true_positive_rate",
    # agreement
    "Level",
    "alpha_interval",
    "cohen_kappa",
    "kappa_interval",
    "kendall_tau_b",
    "krippendorff_alpha",
    "mean_absolute_error",
    "spearman",
    # bias
    "accuracy_over_orders",
    "both_orders_accuracy",
    "consistency",
    "first_position_rate",
    "self_agreement",
    "unanimity",
    "verbosity",
    # calibration
    "Bin",
    "brier_score",
    "expected_calibration_error",
    "reliability_curve",
    # rates, costs, strengths
    "Rate",
    "Summary",
    "answer_rates",
    "bradley_terry",
    "strength_intervals",
    "summarise",
    # decisions and comparisons
    "Decision",
    "Outcome",
    "Paired",
    "decide",
    "mcnemar",
    "sign_flip",
]
