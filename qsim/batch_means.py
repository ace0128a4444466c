"""Batch means: few long runs, cut into batches whose means stand for independent samples.

One warm-up then serves all batches of a run, which pays where the relaxation time is long.  The means of neighbouring
batches are correlated as long as batches are not many relaxation times long, and intervals are then too narrow; the
lag-1 autocorrelation of the means shows it (von Neumann, Ann. Math. Statist. 12, 1941, 367-395; for batch sizes
Fishman, Management Sci. 24, 1978, 510-521).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from qsim.estimate import Array, Sample
from qsim.student_law import two_sided_quantile

#: Batches that are long enough are called too short with about this probability.
FALSE_ALARM = 1e-4
#: Of one run; each has histograms of its own.
MOST_BATCHES = 128
_NORMAL = 10**9


def batch_means(sample: Sample, *, batches: int) -> dict[str, Any]:
    """Whether the batches of each run are long enough, as plain data.

    ``batches`` is their number in each run; ``autocorrelation`` that of neighbouring means, over all runs; ``bound``
    what independent means exceed with probability 1e-4; ``enough`` says that they do not.  The last three are left
    out where the means do not vary or are too few.

    >>> rng = np.random.default_rng(1)
    >>> batch_means(Sample(values=rng.standard_normal(64)), batches=64)["enough"]
    True
    >>> batch_means(Sample(values=np.cumsum(rng.standard_normal(64))), batches=64)["enough"]
    False
    """
    found: dict[str, Any] = {"batches": batches}
    values = sample.values.reshape(-1, batches)
    runs = len(values)
    deviations: Array = values - values.mean()
    variance = float(np.sum(deviations**2))
    if batches < 3 or not (math.isfinite(variance) and variance > 0):
        return found
    # The mean of the products loses 1 / n to the estimated centre; their variance is about 1 over their number.
    pairs = runs * (batches - 1)
    autocorrelation = float(np.sum(deviations[:, 1:] * deviations[:, :-1])) / variance * (runs * batches / pairs)
    centred = autocorrelation + 1.0 / (runs * batches)
    bound = two_sided_quantile(confidence=1 - 2 * FALSE_ALARM, degrees=_NORMAL) / math.sqrt(pairs)
    return found | {"autocorrelation": centred, "bound": bound, "enough": centred <= bound}
