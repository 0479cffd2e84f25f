"""turnout theory: constants, bounds and recommended parameters of a configuration."""

import dataclasses
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Literal

import typer

from turnout.cli import app
from turnout.cli.as_json import AsJson, echo_json
from turnout.cli.options import Data, command
from turnout.core.errors import UserError

Folder = Annotated[
    Path | None, typer.Option("--out", help="Folder for theory.json and a figure; it must hold no run.", show_default=False)
]
Keeps = Literal["none", "scalars", "vectors"]


@app.command()
def theory(
    file: Annotated[Path, typer.Argument(help="Configuration (TOML).", metavar="FILE.toml")],
    out: Folder = None,
    memory: Annotated[Keeps, typer.Option("--memory", help="What the server may store of each client.")] = "vectors",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show the constants, bounds, sampling errors and recommended parameters of a configuration.

    For a target on "gradient": the costs of the methods of cost-aware client selection.
    """
    from turnout.experiment import config
    from turnout.experiment.build import build
    from turnout.experiment.run import refuse_results
    from turnout.experiment.theory import advice_for, costs_of, facts_of_theory, guarantees, regrets_of, write_guarantees
    from turnout.io.claims import claimed

    experiment = config.read(file)
    with nullcontext() if out is None else claimed(out):
        if out is not None:
            refuse_results(out)
        problem = build(experiment, data).problem
        advice = advice_for(experiment, problem, memory)
        if not as_json:
            show_advice(advice)
        bounds, no_bounds = _result_or_error(guarantees, experiment, problem)
        costs, no_costs = _result_or_error(costs_of, experiment, problem)
        regrets, no_regrets = _result_or_error(regrets_of, experiment, problem)
        if no_bounds is not None and no_costs is not None and no_regrets is not None:
            raise no_bounds
        if out is not None:
            write_guarantees(bounds, costs, regrets, out, command())
    if as_json:
        echo_json({"advice": dataclasses.asdict(advice), **facts_of_theory(bounds, costs, regrets)})
        return
    typer.echo(f"No bound: {no_bounds}.") if bounds is None else show(bounds)
    typer.echo(f"No costs of client selection: {no_costs}.") if costs is None else show_costs(costs)
    typer.echo(f"No bounds of K-Vib: {no_regrets}.") if regrets is None else show_regrets(regrets)
    if out is not None:
        typer.echo(f"written: {out / 'theory.json'}")


def _result_or_error(compute, *arguments):
    """Return the result and None, or None and the `UserError`."""
    try:
        return compute(*arguments), None
    except UserError as error:
        return None, error


def show_advice(advice) -> None:
    """Print an `Advice`: the samplers that can be had, and the recommended one."""
    from turnout.theory.recommend import KEPT, UNEVEN

    if any(row.floor is not None for row in advice.candidates):
        rows = [
            (row.name, _number(row.clients), f"{'at best ' if row.at_best else ''}{row.floor:.3g}", KEPT[row.memory])
            for row in advice.candidates
        ]
        title = f"E[{advice.error}] that the draws leave, a mean over the second half of as many contacts as the run has"
        _print_table(title, ("sampler", "clients", "error", "memory of clients"), rows, text=(0, 3))
    if advice.gain >= UNEVEN:
        typer.echo(f"variance of uniform draws over that of draws by weight, for replies of equal norm: {advice.gain:.4g}")
    typer.echo(f"sampler recommended: {advice.sampler}, since {advice.reason}")


def show(result) -> None:
    """Print `Guarantees`: the numbers, the designs side by side, the curves, and the orders of FedDCD."""
    from turnout.experiment.theory import milestones

    theory, t = result.theory, milestones(result.rounds)
    _print_table(f"Theory of {result.name}", ("what", "value"), _numbers(result))
    _print_table(*_designs(theory.designs))
    curves = result.curves(t)
    if isinstance(theory.bound, str):
        typer.echo(f"No bound: {theory.bound}.")
    if curves:
        rows = [(f"{number:,}", *(_number(values[k]) for values in curves.values())) for k, number in enumerate(t)]
        title = "Bound on E|x_t - x*|^2 for exact solutions of the local problems"
        _print_table(title, ("round", *curves), rows)
    if result.orders is not None:
        rows = [(method, _number(order)) for method, order in result.orders.items()]
        _print_table("Orders of the rounds to E[f - f*] <= epsilon (FedDCD, table 1)", ("method", "rounds"), rows)
        typer.echo("Constant factors are 1: the orders compare growth. A round of AccFedDCD is two cohorts.")


def _designs(designs: dict) -> tuple:
    """Table 4 of Cohort Squeeze: title, headings and rows."""
    columns = {"clients": "clients", "mu_as": "mu_AS", "sigma2_as": "sigma^2_AS", "lemma_1": "at most (Lemma 1)"}
    rows = [(name, *(_number(facts.get(column)) for column in columns)) for name, facts in designs.items()]
    return "Designs side by side (Cohort Squeeze, table 4)", ("design", *columns.values()), rows


def _print_table(title: str, headings, rows, text=(0,)) -> None:
    """Print a table; columns of numbers are those not in `text`, and no column is narrower than its longest word."""
    from rich.markup import escape
    from rich.table import Table

    from turnout.cli.tables import console

    shown = Table(title=escape(title), title_justify="left")
    for k, cells in enumerate(zip(headings, *rows, strict=True)):
        longest = max(len(word) for cell in cells for word in cell.split())
        shown.add_column(escape(cells[0]), justify="left" if k in text else "right", min_width=longest)
    for row in rows:
        shown.add_row(*map(escape, row))
    # Rich would cut off what does not fit, where a terminal goes on in the next line.
    console.print(shown, soft_wrap=True)


WORST_CASE = (
    "Constant factors are 1 and theorems are about the worst case: orders compare growth, and runs may rank methods otherwise."
)
"""What to know before prices are compared."""


def show_costs(costs) -> None:
    """Print a `Costs`: the constants, table 1 of cost-aware client selection at each price, and the parameters of I-CGM."""
    if costs.warning is not None:
        typer.echo(f"turnout: warning: {costs.warning}", err=True)
    facts = costs.facts()
    rows = [(what, _amount(value)) for what, value in {**facts["constants"], **facts["target"]}.items()]
    _print_table("Constants, at x_0", ("what", "value"), rows)
    for price in facts["prices"]:
        _print_table(*_orders(price), text=(0, 3))
        _print_table(*_parameters(price))
    typer.echo(WORST_CASE)


REGRETS = {
    "rounds": "rounds T",
    "clients": "clients N",
    "size": "expected clients in a cohort K",
    "theta": "theta",
    "static_regret": "static regret / G^2 while no p_i reaches 1 (Theorem 5.2)",
    "static_regret_capped": "static regret / G^2 (Theorem 5.2)",
    "hindsight": "best p of each round over best fixed p, / G^2 (Theorem 5.1)",
    "gap": "f(x_0) - f*",
    "smoothness": "L",
    "variance": "sigma_g^2, at x_0",
    "feedback": "G, at x_0",
    "gradient": "least E|grad f|^2 of T rounds (Theorem 4.1)",
}
"""What the bounds of K-Vib are called."""


def show_regrets(regrets) -> None:
    """Print the `RegretBounds` of K-Vib."""
    rows = [(REGRETS[name], _amount(value)) for name, value in regrets.facts().items()]
    _print_table("Bounds of K-Vib; G is the largest feedback lambda_i |g_i|", ("what", "value"), rows)


def _orders(price: dict) -> tuple:
    """Table 1 at one price: title, headings and rows."""
    from turnout.theory.selection_complexity import TABLE

    title = f"Orders of the costs to |grad f| <= epsilon, {price['price']}"
    rows = [(row.method, *map(_amount, price["table"][row.method].values()), row.price_formula) for row in TABLE]
    return title, ("method", "price", "queries", "price grows as"), rows


def _parameters(price: dict) -> tuple:
    """The parameters of I-CGM by theory and in practice, and the costs that theory guarantees: title, headings and rows."""
    columns = [
        {**values["parameters"], **{name: values[name] for name in ("rounds", "cost", "queries")}}
        for values in price["guarantees"].values()
    ]
    rows = [
        (
            "price" if name == "cost" else name,
            *(_amount(column[name]) for column in columns),
            _amount(price["practical"].get(name)),
        )
        for name in columns[0]
    ]
    return "Parameters, and guaranteed costs", ("I-CGM with", *price["guarantees"], "in practice"), rows


def _amount(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _numbers(result) -> list[tuple[str, str]]:
    """Return the names and values of the constants and bounds, in the order of use."""
    from turnout.theory.applicability import COHORTS
    from turnout.theory.bounds import Bound

    theory, constants = result.theory, result.theory.constants
    rows = [
        ("clients n", f"{constants.clients:,}"),
        ("mu_i, smallest and largest", _range(constants.convexity)),
        ("L_i, smallest and largest", _range(constants.smoothness)),
        ("mu_AS", f"{constants.mu:.4g}"),
        ("sigma^2_AS", f"{constants.sigma2:.4g}"),
        ("|x_0 - x*|^2", f"{constants.distance2:.4g}"),
        ("|grad f_i(x*)|^2, smallest and largest", _range(constants.gradient_norms2)),
    ]
    if isinstance(theory.bound, Bound) and result.gamma is None:
        rows.append((f"rate of a round (Theorem {theory.bound.theorem})", f"{theory.bound.rate:.6g}"))
    elif isinstance(theory.bound, Bound):
        what = f"neighbourhood at gamma = {result.gamma:g} (Theorem {theory.bound.theorem})"
        rows.append((what, f"{theory.bound.neighbourhood:.4g}"))
    if result.recommended is not None:
        gamma, rounds = result.recommended
        rows.append((f"gamma of Theorem 1 for E|x - x*|^2 <= {result.epsilon:g}", f"{gamma:.4g}"))
        rows.append(("rounds predicted with it", f"{rounds:,}"))
    if result.tolerance is not None:
        rows.append(("b of Lemma 13 for inner = 'auto': |error of a step|^2", f"{result.tolerance:.4g}"))
    for m, floor in zip(COHORTS, theory.floors or (), strict=False):
        rows.append((f"sampling error of {m} cohort{'s' if m > 1 else ''} solved exactly", f"{floor:.4g}"))
    return rows


def _range(values) -> str:
    return f"{values.min():.4g} to {values.max():.4g}"
