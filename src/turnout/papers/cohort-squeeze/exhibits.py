"""Tables 1, 3 and 4 of the paper with the numbers of each problem, and the clusters of its figure 5."""

import math

import numpy as np
import polars as pl
from scipy.sparse import csr_array
from sklearn.manifold import TSNE

import turnout as t
from turnout.problems.at_optimum import AtOptimum, at_optimum
from turnout.problems.row_formats import plain
from turnout.report.format import number
from turnout.report.lines import SCHEMA
from turnout.studies.cases import Case
from turnout.studies.exhibits import Exhibit, OwnChart, OwnTable
from turnout.theory.bounds import contraction, neighbourhood
from turnout.theory.constants import constants_of
from turnout.theory.design_table import table_4

SPPM = ("sppm-bfgs", "sppm-cg")
GAMMAS = (0.1, 1.0, 10.0, 100.0, 1000.0)
SIZES = (5, 10, 20)
POINTS, SEED = 600, 0
"""Rows of each data set in figure 5, and the seed by which they are drawn and laid out."""


def exhibits(study: t.Study) -> list[Exhibit]:
    """Return the tables and the figure of the problems that were played."""
    played = {*study.runs["problem"].unique()}
    cases = {title: study.case(name) for name, title in study.declaration.problems.items() if name in played}
    known = {title: (case.problem, at_optimum(case.problem, case.optimum)) for title, case in cases.items()}
    shown = [theory(known), designs(known), clusters(cases)]
    return [*([practice(study)] if {*SPPM} & {*study.runs["method"]} else []), *shown]


def practice(study: t.Study) -> OwnTable:
    """Return table 1: what a larger gamma and its best K change, on the seeds that tune."""
    goals, records = list(study.declaration.goals), []
    costs = {goal: study.costs(goal, "exchanges").filter(pl.col("method").is_in(SPPM), purpose="tune") for goal in goals}
    for (problem, gamma), near in costs[goals[0]].partition_by("problem", "algorithm.gamma", as_dict=True).items():
        record = {"problem": study.declaration.problems[problem], "γ": f"{gamma:g}"}
        for goal, frame in costs.items():
            best = frame.filter(pl.col("algorithm.gamma") == gamma, problem=problem).sort("cost", "mean").row(0, named=True)
            below = study.goal(goal).below
            record |= {f"KT to {below:g}": best["cost"], f"K to {below:g}": best["algorithm.inner"]}
            if not math.isfinite(best["cost"]):
                record |= {f"KT to {below:g}": "never", f"K to {below:g}": "–"}
        records.append({key: _text(cell) for key, cell in (record | {"nearest |x − x*|²": near["best"].min()}).items()})
    caption = (
        "SPPM-SS with BFGS or CG at the best K for each γ, medians over the seeds that tune, true exchanges. The paper: with a "
        "larger γ, KT falls and the distance that is reached grows; with the best (γ, K), KT falls."
    )
    frame = pl.DataFrame(records).sort("problem", pl.col("γ").cast(float), maintain_order=True)
    return OwnTable("table-1", "Table 1. Exchanges KT in practice", caption, frame)


def theory(known: dict[str, tuple[t.Problem, AtOptimum]]) -> OwnTable:
    """Return table 3: the rounds T until the start is forgotten, and the neighbourhood, of Theorem 1."""
    records = []
    for title, (problem, at) in known.items():
        chosen = [
            *((f"strata, γ = {gamma:g}", t.Stratified(), gamma) for gamma in GAMMAS),
            *((f"NICE, {size} clients, γ = 1", t.Nice(size), 1.0) for size in SIZES),
            ("blocks, γ = 1", t.Block(), 1.0),
        ]
        for name, sampler, gamma in chosen:
            found = constants_of(problem, sampler.bind(problem.population), at)
            rounds = math.ceil(math.log(1000) / -math.log(contraction(gamma, found.mu)))
            records.append((title, name, rounds, float(neighbourhood(gamma, found.mu, found.sigma2))))
    caption = (
        "T is the number of rounds after which a thousandth of |x₀ − x*|² is left in the bound of Theorem 1, the neighbourhood "
        "its last term. The paper: a larger γ means fewer rounds and a larger neighbourhood, larger cohorts a smaller one, "
        "strata the smallest."
    )
    columns = ["problem", "sampling", "T", "neighbourhood"]
    return OwnTable("table-3", "Table 3. Rate and neighbourhood in theory", caption, pl.DataFrame(records, columns, orient="row"))


def designs(known: dict[str, tuple[t.Problem, AtOptimum]]) -> OwnTable:
    """Return table 4: the constants of each sampling, and the bound of Lemma 1."""
    records = []
    for title, (problem, at) in known.items():
        sampler = t.Stratified().bind(problem.population)
        mu = np.asarray(problem.constants().convexity)
        for name, row in table_4(sampler, problem.population, mu, at.gradients).items():
            bound = _text(row["lemma_1"]) if "lemma_1" in row else "–"
            records.append((title, name, row["clients"], row["mu_as"], row["sigma2_as"], bound))
    columns = ["problem", "sampling", "clients", "μ_AS", "σ²_AS", "bound of Lemma 1"]
    caption = "Cohorts have as many clients as there are strata, of designs with a choice. Strata are the clusters of the split."
    return OwnTable("table-4", "Table 4. Samplings side by side", caption, pl.DataFrame(records, columns, orient="row"))


def clusters(cases: dict[str, Case]) -> OwnChart:
    """Return figure 5: rows in the plane by t-SNE, coloured by the cluster of their client."""
    values, generator = [], np.random.default_rng(SEED)
    for title, case in cases.items():
        (features, _), split = case.problem.rows, case.built.split
        owner = np.repeat(split.strata, split.sizes)
        chosen = np.sort(generator.choice(owner.size, min(POINTS, owner.size), replace=False))
        # Rows are stored sparse or dense.
        dense = csr_array(plain(features, 0, owner.size)[chosen]).toarray()
        plane = TSNE(random_state=SEED, init="pca", perplexity=30).fit_transform(dense)
        values += [
            {"set": title, "x": round(float(x), 1), "y": round(float(y), 1), "cluster": int(owner[row])}
            for (x, y), row in zip(plane, chosen, strict=True)
        ]
    chart = {
        "$schema": SCHEMA,
        "data": {"values": values},
        "facet": {"field": "set", "type": "nominal", "title": None},
        "columns": 2,
        "resolve": {"scale": {"x": "independent", "y": "independent"}},
        "spec": {
            "width": 300,
            "height": 260,
            "mark": {"type": "circle", "size": 9, "opacity": 0.8, "aria": False},
            "encoding": {
                "x": {"field": "x", "type": "quantitative", "axis": None, "scale": {"zero": False}},
                "y": {"field": "y", "type": "quantitative", "axis": None, "scale": {"zero": False}},
                "color": {"field": "cluster", "type": "nominal", "scale": {"scheme": "tableau10"}},
            },
        },
    }
    caption = f"At most {POINTS:,} rows of each set in the plane by t-SNE (seed {SEED}), coloured by the cluster of the split."
    return OwnChart("figure-5", "Figure 5. Clusters of clients", caption, chart)


def _text(cell) -> str:
    return cell if isinstance(cell, str) else number(cell)
