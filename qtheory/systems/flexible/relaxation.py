"""How long parallel queues remember their start."""

from __future__ import annotations

import math

from qtheory.laws import distribution
from qtheory.models.flexible import Flexible
from qtheory.systems.dispatcher.relaxation import second_moment
from qtheory.systems.flexible import answers


def relaxation_jobs(model: Flexible) -> float:
    """Jobs that arrive at all queues during one relaxation time; infinite at load >= 1.

    With services of mean 1 and V = max(1, E[S^2] / 2), M/G/1 at load r relaxes in about T(r) = V / (1 - sqrt r)^2,
    exact for M/M/1 and 2 P / d^2 of reflected Brownian motion (work variance rate P = r E[S^2], spare capacity
    d = 1 - r) near load 1.  Choice only speeds that up.  Where a share p of the jobs looks at d queues of N there are
    three slow modes, and the estimate is the sum of their times or that of a queue without choice, if that is less:

    * all queues pooled, work variance rate N r E[S^2] and spare capacity N (1 - r): T(r) / N;
    * a queue that is longer than the rest, and so attracts dedicated jobs only: T(r (1 - p));
    * the mean number L of a large system.  Near load 1 it relaxes through the balance dL/dt = r - r', where r' is the
      load at which L would be at rest: in dL/dr, about 1 / ((1 - r) log(1 + p (d - 1))) for the fixed point
      s_{k+1} = r ((1 - p) s_k + p s_k^d), in which 1 - s_k grows from 1 - r by the factor 1 + p (d - 1) from level to
      level.

    It is an upper estimate: against the spectral gap of two exponential queues, at loads .3 to .9, it is 1 to 2.1
    times the relaxation time.  Processor sharing has the same workload, which drives its numbers near load 1.
    Sources: Whitt 1989, "Planning queueing simulations", Management Sci. 35; Mitzenmacher 2001, IEEE Trans. Parallel
    Distrib. Syst. 12, for the fixed point.

    >>> one = Flexible(queues=2, load=0.25, flexible_fraction=0.0, choices=2)
    >>> relaxation_jobs(one)  # M/M/1 with rates 1/4 and 1 needs 1 / (1 - 1/2)^2 = 4, half a job a unit of time
    2.0
    """
    assert isinstance(model.queues, int)
    load, p, queues = model.load, model.flexible_fraction, model.queues
    if load >= 1.0:
        return math.inf
    mean = answers.mean_service(model)
    spread = max(1.0, second_moment(distribution(model.service)) / mean**2 / 2.0)

    def alone(at: float) -> float:
        return spread / (1.0 - math.sqrt(at)) ** 2

    longest = alone(load)
    if p > 0.0:
        choices = queues if model.choices == "all" else model.choices
        balance = spread / ((1.0 - load) * math.log1p(p * (choices - 1)))
        longest = min(longest, longest / queues + alone(load * (1.0 - p)) + balance)
    return queues * load * longest
