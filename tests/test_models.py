"""The shared specification: round trips, hashing, copies, schema, and what wrong input is told."""

from __future__ import annotations

import json
import math
import pickle

import jsonschema
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qtheory import models
from qtheory.models import (
    ADT,
    JSQ,
    JSQAS,
    JSR,
    LAWS,
    SYSTEMS,
    T1,
    T1T2,
    T2,
    BoundedPareto,
    CMu,
    Dedicated,
    Deterministic,
    Dispatcher,
    Donor,
    Empirical,
    Erlang,
    Exponential,
    Flexible,
    Gamma,
    Hyperexponential,
    InvalidModel,
    LogNormal,
    MaxWeight,
    Mixture,
    Network,
    NetworkClass,
    NotConverged,
    Pareto,
    PhaseType,
    Product,
    Scipy,
    ServiceRates,
    Uniform,
    Unstable,
    Weibull,
    load,
    parse,
    plain,
    save,
    schema,
)

positive = st.floats(1e-300, 1e300)
moderate = st.floats(1e-3, 1e3)


@st.composite
def shares(draw, size):
    """Probabilities that sum to 1 within rounding."""
    weights = draw(st.lists(st.floats(0.01, 1.0), min_size=size, max_size=size))
    return tuple(w / math.fsum(weights) for w in weights)


@st.composite
def phase_types(draw):
    size = draw(st.integers(1, 3))
    rows = []
    for i in range(size):
        row = draw(st.lists(moderate, min_size=size, max_size=size))
        row[i] = -(math.fsum(row) - row[i]) - draw(moderate)
        rows.append(row)
    return PhaseType(alpha=draw(shares(size)), generator=rows)


@st.composite
def hyperexponentials(draw):
    size = draw(st.integers(1, 4))
    means = draw(st.lists(positive, min_size=size, max_size=size))
    return Hyperexponential(probabilities=draw(shares(size)), means=means)


plain_laws = st.one_of(
    st.builds(Exponential, mean=positive),
    st.builds(Deterministic, value=st.floats(0, 1e300)),
    st.builds(lambda low, width: Uniform(low=low, high=low + width), st.floats(0, 1e6), st.floats(1, 1e6)),
    st.builds(Erlang, shape=st.integers(1, 10**6), mean=positive),
    hyperexponentials(),
    st.builds(Gamma, shape=positive, scale=positive),
    st.builds(Weibull, shape=positive, scale=positive),
    st.builds(LogNormal, mean=positive, scv=positive),
    st.builds(Pareto, shape=positive, minimum=positive),
    st.builds(
        lambda a, m, r: BoundedPareto(shape=a, minimum=m, maximum=m * r), positive, moderate, st.floats(1.5, 1e9)
    ),
    phase_types(),
    st.builds(Empirical, values=st.lists(positive, min_size=1, max_size=5)),
    st.builds(Scipy, name=st.just("gamma"), parameters=st.dictionaries(st.sampled_from(["a", "scale"]), positive)),
)


@st.composite
def mixtures(draw):
    size = draw(st.integers(1, 3))
    return Mixture(weights=draw(shares(size)), laws=draw(st.lists(plain_laws, min_size=size, max_size=size)))


all_laws = st.one_of(plain_laws, mixtures(), st.builds(Product, factors=st.lists(plain_laws, min_size=1, max_size=3)))
thresholds = st.one_of(st.integers(1, 50), st.just(math.inf))
dispatchers = st.builds(
    Dispatcher,
    servers=st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)),
    time_limit=st.one_of(positive, st.just(math.inf)),
    short_fraction=st.floats(0, 1),
    interarrival=all_laws,
    service0=all_laws,
    service1=all_laws,
    killed_join=st.sampled_from(["back", "head", "low-priority"]),
    checkpoint_share=st.one_of(st.just(0.0), st.floats(0, 1)),
    grace=st.one_of(st.just(0.0), positive),
    grace_completes=st.booleans(),
    limits=st.one_of(st.none(), plain_laws),
)
donors = st.builds(
    Donor,
    arrival_rates=st.tuples(positive, positive),
    service_rates=st.builds(ServiceRates, mu1=positive, mu12=positive, mu2=positive),
    holding_costs=st.tuples(positive, positive),
    policy=st.one_of(
        st.builds(T1, t1=thresholds),
        st.builds(T2, t2=thresholds, reading=st.sampled_from(["source", "idle", "work-conserving"])),
        st.builds(T1T2, t1=thresholds, t2=thresholds),
        st.builds(lambda a, b, c: ADT(low=min(a, b), high=max(a, b), t2=c), thresholds, thresholds, thresholds),
        st.just(CMu()),
        st.just(Dedicated()),
    ),
)
flexibles = st.builds(
    Flexible,
    queues=st.one_of(st.integers(5, 99), st.just("infinite")),
    load=st.floats(0.01, 0.99),
    flexible_fraction=st.floats(0, 1),
    choices=st.integers(2, 5),
    sampling=st.sampled_from(["distinct", "replacement"]),
    ties=st.sampled_from(["random", "lowest"]),
    service=plain_laws,
)
networks = st.builds(
    Network,
    servers=st.fixed_dictionaries({"s1": positive, "s2": positive}),
    policy=st.one_of(
        st.builds(JSQ),
        st.builds(JSR, sharing=st.just("longest")),
        st.builds(JSQAS, switch=st.booleans()),
        st.just(MaxWeight()),
    ),
    classes=st.builds(
        lambda rate, two: [NetworkClass(rate=rate, routes=[["s1"], ["s1", "s2"]] if two else [["s2"]])],
        positive,
        st.booleans(),
    ),
)
systems = st.one_of(dispatchers, donors, flexibles, networks)

E = Dispatcher(
    servers=(3, 4),
    time_limit=3.0,
    short_fraction=0.65,
    interarrival=Exponential(mean=1 / 3),
    service0=Exponential(mean=1.2),
    service1=Exponential(mean=2.0),
)
E_TOML = """\
kind = "dispatcher"
servers = [3, 4]
time_limit = 3.0
short_fraction = 0.65
interarrival = {kind = "exponential", mean = 0.3333333333333333}
service0 = {kind = "exponential", mean = 1.2}
service1 = {kind = "exponential", mean = 2.0}
"""


class TestRoundTrip:
    @settings(max_examples=150, deadline=None)
    @given(systems)
    def test_through_plain_data(self, model):
        text = json.dumps(plain(model), allow_nan=False)
        again = parse(json.loads(text))
        assert again == model
        assert hash(again) == hash(model)
        assert plain(again) == plain(model)

    @settings(max_examples=60, deadline=None)
    @given(systems, st.sampled_from([".toml", ".json"]))
    def test_through_files(self, tmp_path_factory, model, suffix):
        path = tmp_path_factory.mktemp("models") / f"model{suffix}"
        save(model, path)
        assert load(path) == model

    @settings(max_examples=60, deadline=None)
    @given(systems)
    def test_pickle_hash_and_copy(self, model):
        again = pickle.loads(pickle.dumps(model))
        assert again == model
        assert hash(again) == hash(model)
        assert model.replace() == model
        assert len({model, again, model.replace()}) == 1

    @settings(max_examples=60, deadline=None)
    @given(systems)
    def test_files_fit_the_schema(self, model):
        wanted = schema(model.kind())
        assert jsonschema.Draft202012Validator(wanted).is_valid(plain(model))
        assert not jsonschema.Draft202012Validator(wanted).is_valid(plain(model) | {"unknown": 1})

    def test_toml_of_the_manual(self, tmp_path):
        path = tmp_path / "e.toml"
        for text in (E_TOML, E_TOML.replace("\n", "\r\n"), "\ufeff" + E_TOML):
            path.write_bytes(text.encode())
            assert load(path) == E

    def test_infinity_is_a_word_in_json_and_inf_in_toml(self, tmp_path):
        model = E.replace(time_limit=math.inf)
        save(model, tmp_path / "m.json")
        save(model, tmp_path / "m.toml")
        assert json.loads((tmp_path / "m.json").read_text())["time_limit"] == "inf"
        assert "time_limit = inf" in (tmp_path / "m.toml").read_text()
        assert load(tmp_path / "m.json") == load(tmp_path / "m.toml") == model


class TestRulesForKilledJobs:
    FIELDS = ("killed_join", "checkpoint_share", "grace", "grace_completes", "limits")

    def test_defaults_leave_no_trace_in_files(self, tmp_path):
        same = E.replace(
            killed_join="back", checkpoint_share=np.float64(0), grace=-0.0, grace_completes=True, limits=None
        )
        assert same == E
        for model in (E, same, pickle.loads(pickle.dumps(same)), parse(plain(E) | {"grace": 0, "limits": None})):
            assert not set(plain(model)) & set(self.FIELDS)
            save(model, tmp_path / "m.toml")
            assert not any(name in (tmp_path / "m.toml").read_text() for name in self.FIELDS)

    def test_of_a_file(self, tmp_path):
        path = tmp_path / "e.toml"
        path.write_text(
            E_TOML + 'checkpoint_share = 0.5\nkilled_join = "head"\nlimits = {kind = "uniform", low = 1, high = 2}'
        )
        model = load(path)
        assert model == E.replace(checkpoint_share=0.5, killed_join="head", limits=Uniform(low=1.0, high=2.0))
        assert model.changed_rules == ("killed_join", "checkpoint_share", "limits")
        assert E.replace(grace_completes=False).changed_rules == ()

    def test_schema_shows_fields_and_defaults(self):
        found = schema("dispatcher")["$defs"]["Dispatcher"]
        assert set(self.FIELDS) <= set(found["properties"])
        assert not set(self.FIELDS) & set(found["required"])
        assert [found["properties"][name]["default"] for name in self.FIELDS] == ["back", 0.0, 0.0, True, None]

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("killed_join", "front"),
            ("checkpoint_share", 1.5),
            ("checkpoint_share", "half"),
            ("grace", -1.0),
            ("grace", math.inf),
            ("grace_completes", 1),
            ("limits", 2.0),
            ("graze", 1.0),
        ],
    )
    def test_wrong_rules(self, field, value):
        with pytest.raises(InvalidModel) as found:
            E.replace(**{field: value})
        assert found.value.field == field
        with pytest.raises(InvalidModel) as found:
            parse(plain(E) | {field: value})
        assert found.value.field == field


class TestObjects:
    def test_frozen(self):
        with pytest.raises(AttributeError):
            E.time_limit = 4.0
        network = Network(servers={"s1": 1.0}, policy=JSQ(), classes=[NetworkClass(rate=0.5, routes=[["s1"]])])
        with pytest.raises(TypeError, match="replace"):
            network.servers["s1"] = 2.0
        assert network.classes[0].routes == (("s1",),)

    def test_lists_and_arrays_become_tuples_of_numbers(self):
        law = Empirical(values=np.array([1, 2]))
        assert law.values == (1.0, 2.0)
        assert all(type(value) is float for value in law.values)
        assert Dispatcher(**{f: getattr(E, f) for f in E.__struct_fields__} | {"servers": [3, 4]}) == E

    def test_replace_is_checked(self):
        assert E.replace(servers=(4, 3)).servers == (4, 3)
        with pytest.raises(InvalidModel, match=r"servers\.0"):
            E.replace(servers=(0, 3))
        with pytest.raises(InvalidModel, match="unknown field"):
            E.replace(server=(1, 2))

    def test_order_of_a_mapping_does_not_matter(self):
        one, two = ({"a": 1.0, "scale": 2.0}, {"scale": 2.0, "a": 1.0})
        assert hash(Scipy(name="gamma", parameters=one)) == hash(Scipy(name="gamma", parameters=two))

    def test_kinds_are_those_of_the_files(self):
        assert set(SYSTEMS) == {"dispatcher", "donor", "flexible", "network"}
        assert len(LAWS) == 15
        assert all(name == law.kind() for name, law in LAWS.items())

    def test_errors_survive_pickling(self):
        for error in (
            InvalidModel(field="a", rule="must be b", value=3),
            Unstable(where="group1", load=1.2),
            NotConverged(where="x", residual=0.1, iterations=3, advice="more"),
        ):
            again = pickle.loads(pickle.dumps(error))
            assert (type(again), str(again)) == (type(error), str(error))


def changed(**changes):
    """Example E as plain data with some fields changed; None takes a field away."""
    data = plain(E) | changes
    return {name: value for name, value in data.items() if value is not None}


LAW = {"kind": "exponential", "mean": 1.0}


class TestWrongInput:
    @pytest.mark.parametrize(
        ("raw", "message"),
        [
            (changed(service0=None), "service0: is required"),
            (changed(speed=3), "speed: unknown field"),
            (changed(kind="dispatch"), "kind: must be one of dispatcher, donor, flexible, network, got dispatch"),
            (changed(kind=None), "kind: is required"),
            (changed(servers=[3]), "servers"),
            (changed(servers=[0, 4]), "servers.0"),
            (changed(servers=[3.5, 4]), "servers.0"),
            (changed(servers="three"), "servers: expected a list, got three"),
            (changed(time_limit=0), "time_limit"),
            (changed(time_limit=-1.0), "time_limit"),
            (changed(time_limit="forever"), "time_limit: expected a number, got forever"),
            (changed(short_fraction=1.5), "short_fraction"),
            (changed(short_fraction=math.nan), "short_fraction"),
            (changed(short_fraction="inf"), "short_fraction"),
            (changed(service0=3.0), "service0"),
            (changed(service0={"kind": "exponential"}), "service0.mean: is required"),
            (changed(service0={"mean": 1.0}), "service0"),
            (changed(service0={"kind": "gaussian", "mean": 1.0}), "service0.kind: no such kind, got gaussian"),
            (changed(service0=LAW | {"mean": 0.0}), "service0.mean"),
            (changed(service0=LAW | {"mean": math.inf}), "service0.mean"),
            (changed(service0=LAW | {"mean": "inf"}), "service0.mean: expected a number, got inf"),
            (changed(service0=LAW | {"scale": 1.0}), "service0.scale: unknown field"),
            (changed(service0={"kind": "erlang", "shape": 1.5, "mean": 1.0}), "service0.shape"),
            (changed(service0={"kind": "uniform", "low": 2.0, "high": 1.0}), "service0.low: must be below high"),
            (
                changed(service0={"kind": "hyperexponential", "probabilities": [0.5, 0.6], "means": [1, 2]}),
                "service0.probabilities: must sum to 1",
            ),
            (
                changed(service0={"kind": "hyperexponential", "probabilities": [0.5, 0.5], "means": [1, -2]}),
                "service0.means.1",
            ),
            (
                changed(service0={"kind": "mixture", "weights": [1.0], "laws": [LAW, LAW]}),
                "service0.laws: must have as many entries as weights",
            ),
            (
                changed(service0={"kind": "mixture", "weights": [0.5, 0.5], "laws": [LAW, LAW | {"mean": -1}]}),
                "service0.laws.1.mean",
            ),
            (
                changed(service0={"kind": "phase-type", "alpha": [1.0], "generator": [[0.0]]}),
                "service0.generator.0: must be negative on the diagonal",
            ),
            (
                changed(service0={"kind": "phase-type", "alpha": [1.0, 0.0], "generator": [[-1.0, 1.0], [1.0, -1.0]]}),
                "never ends",
            ),
            (changed(service0={"kind": "empirical", "values": []}), "service0.values"),
            (changed(service0={"kind": "empirical", "values": [0.0]}), "service0.values: must not all be 0"),
            (changed(service0={"kind": "empirical", "values": [1.0, -1.0]}), "service0.values.1"),
            ([1, 2], "must be a table"),
            ({}, "holds no model"),
        ],
    )
    def test_one_line_with_the_field_and_the_value(self, raw, message):
        with pytest.raises(InvalidModel) as caught:
            parse(raw)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("build", "field"),
        [
            (lambda: Exponential(mean=-1.0), "mean"),
            (lambda: Exponential(mean=math.nan), "mean"),
            (lambda: Exponential(mean="1"), "mean"),
            (lambda: Gamma(shape=math.inf, scale=1.0), "shape"),
            (lambda: Empirical(values=[1.0, math.nan]), "values.1"),
            (lambda: E.replace(time_limit=math.nan), "time_limit"),
            (lambda: BoundedPareto(shape=1.0, minimum=2.0, maximum=2.0), "minimum"),
            (lambda: PhaseType(alpha=[0.7, 0.7], generator=[[-1, 0], [0, -1]]), "alpha"),
            (lambda: PhaseType(alpha=[1.0], generator=[[-1, 0]]), "generator.0"),
            (lambda: T1(t1=0), "t1"),
            (lambda: T1(t1=2.5), "t1"),
        ],
    )
    def test_direct_construction_is_as_strict(self, build, field):
        with pytest.raises(InvalidModel) as caught:
            build()
        assert caught.value.field == field

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"", "holds no model"),
            (b"\xff\xfe\x00\x01", "not UTF-8"),
            (b"kind = \n", "line 1, column 8"),
            (E_TOML.replace("65", "65\nservers = [1, 2]").encode(), "TOML syntax"),
            (b'kind = "dispatcher"\nservers = [3,\n', "line 2, column 14"),
            (b"a = " + b"[" * 100_000, "levels deep"),
            (b"a = " + b"[" * 100_000 + b"]" * 100_000, "levels deep"),
        ],
    )
    def test_broken_toml(self, tmp_path, content, words):
        path = tmp_path / "m.toml"
        path.write_bytes(content)
        with pytest.raises(InvalidModel, match=words) as caught:
            load(path)
        assert str(caught.value).startswith(str(path))

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("", "JSON syntax"),
            ("{", "line 1, column 2"),
            ('{"kind": NaN}', "no NaN"),
            ("[]", "table"),
            ("{}", "no model"),
            ("[" * 100_000, "levels deep"),
            ('{"a":' * 100_000, "levels deep"),
            ('{"kind": "donor", "kind": "dispatcher"}', "kind: is given twice, got dispatcher"),
            ('{"kind": "dispatcher", "service0": {"mean": 1.0, "mean": 2.0}}', "mean: is given twice"),
        ],
    )
    def test_broken_json(self, tmp_path, content, words):
        path = tmp_path / "m.json"
        path.write_text(content)
        with pytest.raises(InvalidModel, match=words):
            load(path)

    @pytest.mark.parametrize("depth", [100, 300, 500, 900])
    def test_laws_in_laws_have_an_end(self, depth):
        law = {"kind": "exponential", "mean": 1.0}
        for _ in range(depth):
            law = {"kind": "product", "factors": [law]}
        with pytest.raises(InvalidModel, match="levels deep"):
            parse(changed(service0=law))

    @pytest.mark.parametrize(
        "changes",
        [{"servers": [10**30, 4]}, {"service0": {"kind": "erlang", "shape": 2**64, "mean": 1.0}}],
    )
    def test_whole_numbers_fit_into_the_machine(self, changes):
        with pytest.raises(InvalidModel, match="whole number <= "):
            parse(changed(**changes))

    def test_unreadable_and_unwritable_paths(self, tmp_path):
        with pytest.raises(InvalidModel, match="cannot be read"):
            load(tmp_path / "nowhere.toml")
        with pytest.raises(InvalidModel, match="cannot be read"):
            load(tmp_path)
        with pytest.raises(InvalidModel, match="cannot be written"):
            save(E, tmp_path / "no" / "folder.toml")

    def test_unknown_schema(self):
        with pytest.raises(InvalidModel, match="must be one of"):
            schema("tandem")


class TestSchema:
    def test_says_what_is_wrong_too(self):
        for raw in (
            changed(servers=[0, 4]),
            changed(short_fraction=1.5),
            changed(service0={"kind": "x"}),
            changed(speed=1),
            changed(service0=None),
        ):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(raw, schema("dispatcher"))

    def test_knows_the_word_inf(self):
        jsonschema.validate(changed(time_limit="inf"), schema("dispatcher"))
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(changed(time_limit="infinite"), schema("dispatcher"))


def test_specification_needs_no_numbers_library():
    assert msgspec.structs.fields(Dispatcher)
    assert set(models.__all__) <= set(dir(models))


@pytest.mark.parametrize("value", ["x", True, [3]])
def test_complaints_speak_no_python(value):
    """A threshold of a wrong type: the rule names what is wanted, not a type."""
    with pytest.raises(InvalidModel) as caught:
        T1(t1=value)
    assert caught.value.rule == "expected a whole number or inf"
