"""Laws of times: moments, parts of moments, distribution function, quantiles, transform.

Each function takes a law of `qtheory.models`; ask `distribution(law)` once where many answers are wanted.
"""

from __future__ import annotations

from qtheory.laws import empirical, exponential_family, mixture, phase_type, power, product, scipy_law, simple
from qtheory.laws._check import check
from qtheory.laws._distribution import Distribution, describes, distribution
from qtheory.laws.conditional import Above, Capped, Upto
from qtheory.laws.functions import (
    atoms,
    capped_moment,
    cdf,
    conditional_moment_above,
    conditional_moment_upto,
    density,
    equilibrium_moment,
    laplace,
    mean,
    mean_residual,
    moment,
    partial_moment,
    quantile,
    scv,
    support,
    survival,
    tail_index,
    tail_moment,
)
from qtheory.laws.hypoexponential import Hypoexponential
from qtheory.laws.mixture import MixtureDistribution
from qtheory.laws.shifted import Shifted
from qtheory.laws.sum import Sum

#: The themes, each of which enters its laws in the table when it is loaded.
THEMES = (empirical, exponential_family, mixture, phase_type, power, product, scipy_law, simple)

__all__ = [
    "THEMES",
    "Above",
    "Capped",
    "Distribution",
    "Hypoexponential",
    "MixtureDistribution",
    "Shifted",
    "Sum",
    "Upto",
    "atoms",
    "capped_moment",
    "cdf",
    "check",
    "conditional_moment_above",
    "conditional_moment_upto",
    "density",
    "describes",
    "distribution",
    "equilibrium_moment",
    "laplace",
    "mean",
    "mean_residual",
    "moment",
    "partial_moment",
    "quantile",
    "scv",
    "support",
    "survival",
    "tail_index",
    "tail_moment",
]
