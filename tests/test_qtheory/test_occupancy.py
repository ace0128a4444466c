"""Occupancy counts and modes against servers kept apart (Kronecker sums) and against each other."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from qtheory.models.errors import InvalidModel
from qtheory.queues.linear import dense
from qtheory.queues.modes import Modes
from qtheory.queues.occupancy import Occupancy, check_size, grown, size, states
from qtheory.queues.phase_type import phase_type

LAW = phase_type(alpha=[0.3, 0.5, 0.2], generator=[[-3.0, 1.0, 0.5], [0.2, -1.0, 0.3], [0.0, 0.4, -0.8]])
EQUILIBRIUM = LAW.equilibrium().alpha


@pytest.mark.parametrize(("servers", "phases"), [(0, 3), (1, 1), (4, 2), (3, 3), (5, 4)])
def test_states_and_their_ranks(servers: int, phases: int) -> None:
    table = states(servers=servers, phases=phases)
    everything = [s for s in product(range(servers + 1), repeat=phases) if sum(s) == servers]
    assert sorted(map(tuple, table.tolist()), reverse=True) == sorted(everything, reverse=True)
    assert list(map(tuple, table.tolist())) == sorted(everything, reverse=True)
    assert len(table) == size(servers=servers, phases=phases)
    larger = states(servers=servers + 1, phases=phases)
    ranks = grown(servers=servers, phases=phases)
    for row, state in enumerate(table):
        for phase in range(phases):
            assert (larger[ranks[row, phase]] - state).tolist() == np.eye(phases, dtype=int)[phase].tolist()


def lumped(servers: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Local, departure and entry rates of labelled servers, lumped to counts by summing over labels."""
    m, t = 3, LAW.generator
    labelled = list(product(range(m), repeat=servers))
    counts = [tuple(s.count(i) for i in range(m)) for s in labelled]
    table = [tuple(s) for s in states(servers=servers, phases=m).tolist()]
    fewer = [tuple(s) for s in states(servers=servers - 1, phases=m).tolist()]
    more = [tuple(s) for s in states(servers=servers + 1, phases=m).tolist()]
    local, down = np.zeros((len(table),) * 2), np.zeros((len(table), len(fewer)))
    up = np.zeros((len(table), len(more)))
    for state in table:
        start, row = labelled[counts.index(state)], table.index(state)
        for server in range(servers):
            i = start[server]
            for k in range(m):
                end = tuple(np.array(state) - np.eye(m, dtype=int)[i] + np.eye(m, dtype=int)[k])
                local[row, table.index(end)] += t[i, k]
            down[row, fewer.index(tuple(np.array(state) - np.eye(m, dtype=int)[i]))] += LAW.exits[i]
        for k in range(m):
            up[row, more.index(tuple(np.array(state) + np.eye(m, dtype=int)[k]))] += LAW.alpha[k]
    return local, down, up


@pytest.mark.parametrize("servers", [1, 2, 4])
def test_operators_against_labelled_servers(servers: int) -> None:
    local, down, up = lumped(servers)
    operators = Occupancy(generator=LAW.generator)
    np.testing.assert_allclose(dense(operators.local(servers)), local, atol=1e-14)
    np.testing.assert_allclose(dense(operators.departures(servers)), down, atol=1e-14)
    np.testing.assert_allclose(dense(operators.entries(servers, LAW.alpha)), up, atol=1e-14)


def test_large_operators_are_sparse_and_balanced() -> None:
    operators = Occupancy(generator=LAW.generator)
    local, down = operators.local(40), operators.departures(40)
    assert not isinstance(local, np.ndarray)
    np.testing.assert_allclose(local.sum(axis=1) + down.sum(axis=1), 0.0, atol=1e-11)
    np.testing.assert_allclose(operators.entries(40, LAW.alpha).sum(axis=1), 1.0, rtol=1e-14)


@pytest.mark.parametrize("servers", [1, 3, 5])
def test_full_depth_is_a_change_of_basis(servers: int) -> None:
    """The block of a busy level has the same spectrum, mass is conserved."""
    plain = Occupancy(generator=LAW.generator)
    modes = Modes(generator=LAW.generator, equilibrium=EQUILIBRIUM, depth=9)
    blocks = [
        dense(op.local(servers)) + dense(op.departures(servers)) @ dense(op.entries(servers - 1, LAW.alpha))
        for op in (plain, modes)
    ]
    spectra = [np.sort(np.linalg.eigvals(block).real) for block in blocks]
    np.testing.assert_allclose(spectra[1], spectra[0], atol=1e-11)
    np.testing.assert_allclose(blocks[1].sum(axis=1), 0.0, atol=1e-12)


@pytest.mark.parametrize("servers", [1, 2, 3, 7, 400])
def test_truncation_conserves_mass(servers: int) -> None:
    modes = Modes(generator=LAW.generator, equilibrium=EQUILIBRIUM, depth=2)
    assert modes.size(servers) == size(servers=min(servers, 2), phases=3)
    outflow = modes.departures(servers).sum(axis=1)
    np.testing.assert_allclose(modes.local(servers).sum(axis=1) + outflow, 0.0, atol=1e-10 * servers)
    np.testing.assert_allclose(modes.entries(servers, LAW.alpha).sum(axis=1), 1.0, rtol=1e-12)
    # The undisturbed state leaves at the full rate of all servers.
    assert outflow[0] == pytest.approx(servers / LAW.mean, rel=1e-12)


@pytest.mark.parametrize("servers", [1, 4])
def test_departures_of_one_kind_only(servers: int) -> None:
    """Ends of service from phase 0 and from the others add up, in counts and in modes."""
    first = LAW.exits * [1.0, 0.0, 0.0]
    for operators in (
        Occupancy(generator=LAW.generator),
        Modes(generator=LAW.generator, equilibrium=EQUILIBRIUM, depth=3),
    ):
        parts = operators.departures(servers, first) + operators.departures(servers, LAW.exits - first)
        np.testing.assert_allclose(parts, operators.departures(servers), atol=1e-12)


def test_equilibrium_is_stationary_in_the_basis() -> None:
    """In an infinite-server queue no server deviates: row 0 of arrivals and of local + departures stays put."""
    modes = Modes(generator=LAW.generator, equilibrium=EQUILIBRIUM, depth=3)
    np.testing.assert_allclose(EQUILIBRIUM @ modes.basis, [1.0, 0.0, 0.0], atol=1e-13)
    weighted = modes.basis.T @ np.diag(EQUILIBRIUM) @ modes.basis
    np.testing.assert_allclose(weighted - np.diag(np.diag(weighted)), 0.0, atol=1e-13)


def test_refusals() -> None:
    with pytest.raises(InvalidModel, match="depth"):
        Modes(generator=LAW.generator, equilibrium=EQUILIBRIUM, depth=0)
    with pytest.raises(InvalidModel, match="fewer servers or phases"):
        check_size(10_000, budget=2_000, what="this queue")
