"""What a small model needs without loading `scipy.special`, against other roads."""

from __future__ import annotations

import math
import subprocess
import sys

import anchors
import mpmath
import numpy as np
import pytest
from scipy import special, stats

from qtheory import _normal, _poisson_sums
from qtheory.laws import Hypoexponential
from qtheory.models import parse
from qtheory.queues import deterministic_law

MEANS = np.concatenate([[0.0], np.logspace(-8, 2.8, 45)])


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_poisson_sums_are_incomplete_gamma_functions(count):
    exact = [mpmath.gammainc(count, mpmath.mpf(mean), regularized=True) for mean in MEANS]
    assert _poisson_sums.below(count, MEANS) == pytest.approx([float(q) for q in exact], rel=2e-12)
    assert _poisson_sums.at_least(count, MEANS) == pytest.approx(
        [float(1 - q) for q in exact[:25]]
        + [float(mpmath.gammainc(count, 0, mpmath.mpf(mean), regularized=True)) for mean in MEANS[25:]],
        rel=2e-13,
    )


def test_small_poisson_tails_keep_their_digits():
    """P(N >= 3) of a mean of 1e-5 is about 1.7e-16: the complement would have none left."""
    assert _poisson_sums.at_least(3, np.array([1e-5]))[0] == pytest.approx(1e-15 / 6 * (1 - 0.75e-5), rel=1e-9)


@pytest.mark.parametrize("size", [1, 2000])
def test_normal_tail(size):
    x = np.linspace(-3.0, 30.0, size) if size > 1 else np.array([[2.0]])
    assert _normal.tail(x) == pytest.approx(stats.norm.sf(x), rel=1e-13)
    assert _normal.tail(x).shape == x.shape


@pytest.mark.parametrize("share", [1e-6, 0.3, 0.9, 0.99999])
def test_tilt_is_the_root(share):
    """In 50 digits, where Lambert's function in doubles loses its digits beside the branch point."""
    root = mpmath.findroot(
        lambda y: share * y - mpmath.log1p(y), (1.9 * (1 - share) / share + 1e-9, 40 / share), solver="anderson"
    )
    assert deterministic_law._tilt(share) - 1.0 == pytest.approx(float(root), rel=1e-9)


@pytest.mark.parametrize("fast", [3.0, 3.0 * (1.0 - 1e-12), 2.0, 1e-9])
def test_hypoexponential(fast):
    """Moments from the two exponentials it adds up, the distribution by partial fractions in 60 digits."""
    law = Hypoexponential(slow=3.0, fast=fast)
    a, b = mpmath.mpf(3.0), mpmath.mpf(fast)
    assert law.mean == pytest.approx(float(a + b), rel=1e-14)
    assert law.variance == pytest.approx(float(a**2 + b**2), rel=1e-12)
    assert law.moment(3.0) == pytest.approx(float(6 * (a**3 + a * a * b + a * b * b + b**3)), rel=1e-12)
    for t in (1e-3, 1.0, 9.0):
        if a == b:
            exact, density = special.gammaincc(2, t / 3), t / 9 * math.exp(-t / 3)
        else:
            with mpmath.workdps(60):
                exact = float((a * mpmath.exp(-t / a) - b * mpmath.exp(-t / b)) / (a - b))
                density = float((mpmath.exp(-t / a) - mpmath.exp(-t / b)) / (a - b))
        assert law.survival(t) == pytest.approx(exact, rel=1e-12)
        assert law.density(t) == pytest.approx(density, rel=1e-12)
    assert law.laplace(0.4) == pytest.approx(float(1 / ((1 + 0.4 * a) * (1 + 0.4 * b))), rel=1e-14)


def test_a_small_model_loads_no_special_functions():
    model = parse(anchors.EXAMPLE_E_MODEL)
    code = "import sys, qtheory\nfrom qtheory.models import *\n"
    code += f"qtheory.solve({model!r})\nprint('scipy.special' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
