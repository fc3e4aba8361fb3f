"""The statistics of judge tests. Each figure comes with n and a 95 % interval (`Interval`).

| question | figure |
| --- | --- |
| How often is it right? | `accuracy` over all rows, `accuracy_of_parsed` over those it answers |
| Does it pass the good and fail the bad? | `true_positive_rate`, `true_negative_rate` |
| Which labels does it mix up? | `precision` and `recall` of each, `confusion` |
| Is that better than chance? | `cohen_kappa`, `kappa_interval`; of people: `krippendorff_alpha`, `alpha_interval` |
| Do its scores rise with the gold scores? | `spearman`, `kendall_tau_b`, `mean_absolute_error` |
| Does the order of a pair matter? | `first_position_rate`, `consistency` |
| How often is it right whatever the order? | `accuracy_over_orders`, `both_orders_accuracy` |
| Does length? | `verbosity` |
| Does it say the same twice? | `self_agreement`, `unanimity` |
| Are its probabilities true? | `expected_calibration_error`, `brier_score`, `reliability_curve` |
| How often is there no verdict? What does it cost? | `answer_rates`, `summarise` |
| Who is stronger? | `bradley_terry`, `strength_intervals` |
| Is it good enough? | `decide` |
| Is one judge better than another? | `mcnemar`, `sign_flip` |

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
