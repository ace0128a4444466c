"""Matrix-exponential stand-ins of low order for the times of the dispatcher's model."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import block_diag

from qtheory.laws import Distribution
from qtheory.models import InvalidModel, NotConverged
from qtheory.queues.fitting import rational, three_moments, two_moments
from qtheory.queues.linear import Array
from qtheory.queues.phase_algebra import mixture
from qtheory.queues.phase_type import PhaseType, exponential

#: Poles are kept within this factor of the mean: a nearly cancelling pair would make every later step stiff.
_SLOWEST, _FASTEST = 3e-3, 300.0
_CONSTANT_SCV = 1e-7
#: How far a third moment out of reach of two phases is moved inside the region that they reach.
_INSIDE = 0.02
_TIMES = np.logspace(-2.0, 2.0, 80)


def constant(value: float, *, order: int) -> PhaseType:
    """The time `value`, by the Padé approximant [order - 1 / order] of exp(-s value): 2 order - 1 moments right.

    Of order 4 and more each pair of poles is a block of its own, which keeps alpha below 50 up to order 5.

    >>> [round(constant(2.0, order=4).moment(k), 9) for k in (1, 2, 5)]
    [2.0, 4.0, 32.0]
    """
    powers = [value**k for k in range(1, 2 * order)]
    if order == 2:
        return three_moments(m1=powers[0], m2=powers[1], m3=powers[2])
    return rational(powers) if order == 3 else _pade(value, order)


def _pade(value: float, order: int) -> PhaseType:
    series = [(-1.0) ** k / math.factorial(k) for k in range(2 * order)]
    hankel = np.array([[series[k - j] for j in range(1, order + 1)] for k in range(order, 2 * order)])
    denominator = np.array([1.0, *np.linalg.solve(hankel, -np.array(series[order:]))])
    numerator = [float(denominator[: k + 1] @ series[k::-1]) for k in range(order)]
    poles = np.roots(denominator[::-1])
    residues = -np.polyval(numerator[::-1], poles) / (poles * np.polyval(np.polyder(denominator[::-1]), poles))
    blocks: list[Array] = []
    alpha: list[float] = []
    for pole, residue in zip(poles, residues, strict=True):
        if abs(pole.imag) < 1e-9:
            blocks.append(np.array([[pole.real]]))
            alpha.append(float(residue.real))
        elif pole.imag > 0.0:
            # exp(At) (1, 1) turns by the imaginary part of the pole.
            blocks.append(np.array([[pole.real, pole.imag], [-pole.imag, pole.real]]))
            alpha += [float(residue.real - residue.imag), float(residue.real + residue.imag)]
    return PhaseType(alpha=np.array(alpha), generator=block_diag(*blocks) / value)


def moment_fit(law: Distribution, *, order: int) -> PhaseType:
    """The law of the highest order up to `order` (at most 3) that takes 2 order - 1 moments and has sound poles.

    Where even the third moment is out of reach of two phases, or infinite, it is moved to the nearest one within
    reach; the mean and the second moment always hold.

    >>> from qtheory.laws import distribution
    >>> from qtheory.models import Erlang, LogNormal
    >>> moment_fit(distribution(Erlang(shape=5, mean=1.0)), order=3).order
    3
    >>> fit = moment_fit(distribution(LogNormal(mean=1.0, scv=1.5)), order=3)
    >>> round(fit.moment(2), 9)
    2.5
    """
    if law.scv <= _CONSTANT_SCV:
        return constant(law.mean, order=order)
    if not math.isfinite(law.scv):
        raise InvalidModel(field="law", rule="must have a finite second moment to be fitted by moments", value=law.name)
    moments = [law.moment(k) for k in range(1, 2 * order)]
    for count in range(2 * order - 1, 2, -2):
        wanted = moments[:count]
        if not all(map(math.isfinite, wanted)):
            continue
        try:
            fit = rational(wanted) if count > 3 else three_moments(m1=wanted[0], m2=wanted[1], m3=wanted[2])
        except (InvalidModel, NotConverged):
            continue
        if _sound(fit):
            return fit
    return two_phases(mean=law.mean, scv=law.scv, third=moments[2] if len(moments) > 2 else math.inf)


def two_phases(*, mean: float, scv: float, third: float) -> PhaseType:
    """Two phases with this mean and scv, and the third moment as near to `third` as soundness allows."""
    if abs(scv - 1.0) < 1e-3:
        return exponential(mean=mean)
    second = (1.0 + scv) * mean**2
    edge = 1.5 * second**2 / mean
    # Beyond the edge lies no law; far on the other side, or too near the edge, poles run off to 0 or infinity.
    side = -1.0 if scv < 1.0 else 1.0
    wanted = third if math.isfinite(third) else edge * 4.0
    for moved in (wanted, *(edge * (1.0 + side * share) for share in (_INSIDE, 0.05, 0.1, 0.2, 0.4))):
        try:
            fit = three_moments(m1=mean, m2=second, m3=moved)
        except (InvalidModel, NotConverged):
            continue
        if _sound(fit):
            return fit
    return two_moments(mean=mean, scv=scv)


def residual_gap(law: Distribution, fit: PhaseType) -> float:
    """Largest difference of the two residual-life distribution functions, from 1/100 to 100 means.

    With the first two moments right, the residual life is what the wait of a many-server queue still depends on.
    """
    times = law.mean * _TIMES
    ours: Array = np.asarray(fit.equilibrium().survival(times))
    return float(np.abs(ours - law.equilibrium_survival(times)).max())


def atom_and_rest(*, limit: float, share: float, rest: PhaseType | None, order: int) -> PhaseType:
    """The time `limit` with probability `share`, else `rest`: min(S, T) with its atom at T kept apart."""
    if rest is None or share >= 1.0:
        return constant(limit, order=order)
    if share <= 0.0:
        return rest
    return mixture(weights=[share, 1.0 - share], laws=[constant(limit, order=order), rest])


def _sound(fit: PhaseType) -> bool:
    poles = np.linalg.eigvals(fit.generator) * fit.mean
    return bool(-poles.real.max() > _SLOWEST and np.abs(poles).max() < _FASTEST)
