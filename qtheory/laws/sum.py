"""The sum of a wait and an independent service time."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from qtheory.laws import _quadrature, _roots
from qtheory.laws._distribution import NO_ATOMS, Atoms, Distribution, FloatArray

#: Recorded values beyond this number are joined to groups.
_MOST_ATOMS = 4000


class Sum(Distribution):
    """W + S, W independent of S and without kinks but at 0.

    P(W + S > t) = P(S > t) + E[P(W > t - S); S <= t].  The expectation is a sum over the atoms of S (joined into
    4000 if there are more) and a Gauss-Legendre sum in log s over its density, piece by piece up to t: relative
    error about 1e-9 for smooth laws.
    """

    name = "sum"

    def __init__(self, *, wait: Distribution, service: Distribution) -> None:
        self._wait, self._service = wait, service.tabulated()
        self.tail_index = min(wait.tail_index, service.tail_index)
        self.atoms = self._joint_atoms()

    @property
    def support(self) -> tuple[float, float]:
        (low, high), (low2, high2) = self._wait.support, self._service.support
        return low + low2, high + high2

    def _joint_atoms(self) -> Atoms:
        points, masses = self._service.atoms
        at_zero = self._wait.cdf(0.0)
        return (points, masses * at_zero) if points.size and at_zero > 0.0 else NO_ATOMS

    def _moment(self, order: float) -> float:
        return self._wait.mean + self._service.mean if order == 1.0 else super()._moment(order)

    @cached_property
    def _condensed(self) -> Atoms:
        points, masses = self._service.atoms
        if points.size <= _MOST_ATOMS:
            return points, masses
        groups = np.array_split(np.arange(points.size), _MOST_ATOMS)
        weights = np.array([masses[group].sum() for group in groups])
        return np.array([masses[group] @ points[group] for group in groups]) / weights, weights

    def _survival(self, t: FloatArray) -> FloatArray:
        flat = t.ravel()
        total: FloatArray = np.array(self._service.survival(flat))
        points, masses = self._service.atoms
        if points.size:
            beyond = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
            total -= beyond[np.searchsorted(points, flat, side="right")]
            points, masses = self._condensed
            rest = flat[:, None] - points
            total += np.where(rest >= 0.0, self._wait._survival(np.maximum(rest, 0.0)), 1.0) @ masses
        if self._service.density_share > 1e-15:
            total += self._over_density(flat)
        return np.clip(total, 0.0, 1.0).reshape(t.shape)

    def _quantile(self, p: FloatArray) -> FloatArray:
        # As near as the quadrature is; each step costs one.
        low, high = self.support
        found = _roots.first_at_least(
            cdf=self._cdf,
            survival=self._survival,
            levels=p,
            low=low,
            high=high,
            within=1e-10,
            scale=self.mean,
        )
        return _roots.snapped(found, levels=p, points=self.atoms[0], cdf=self._cdf)

    def _over_density(self, t: FloatArray) -> FloatArray:
        pieces = self._service.pieces
        top = np.log(np.maximum(t, 1e-300))[:, None]
        s, widths = _quadrature.gauss(left=np.minimum(pieces[:-1], top), right=np.minimum(pieces[1:], top))
        weights = widths * s * np.asarray(self._service._density(s))
        rest = np.maximum(t[:, None, None] - s, 0.0)
        return np.asarray((weights * self._wait._survival(rest)).sum(axis=(1, 2)))
