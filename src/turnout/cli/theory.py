"""turnout theory: constants, bounds and recommended parameters of a configuration."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from turnout.cli import app
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
) -> None:
    """Show the constants, bounds, sampling errors and recommended parameters of a configuration.

    For a target on "gradient": the costs of the methods of cost-aware client selection.
    """
    from turnout.experiment import config
    from turnout.experiment.build import build
    from turnout.experiment.run import new_folder
    from turnout.experiment.theory import advice_for, costs_of, guarantees, regrets_of, write_guarantees
    from turnout.theory.recommend import UNEVEN

    experiment = config.read(file)
    problem = build(experiment, data).problem
    advice = advice_for(experiment, problem, memory)
    typer.echo(f"sampler recommended: {advice.sampler}, since {advice.reason}")
    if advice.gain >= UNEVEN:
        typer.echo(f"variance of uniform draws over that of draws by weight, for replies of equal norm: {advice.gain:.4g}")
    bounds, no_bounds = _result_or_error(guarantees, experiment, problem)
    costs, no_costs = _result_or_error(costs_of, experiment, problem)
    regrets, no_regrets = _result_or_error(regrets_of, experiment, problem)
    if no_bounds is not None and no_costs is not None and no_regrets is not None:
        raise no_bounds
    if out is not None:
        write_guarantees(bounds, costs, regrets, new_folder(out), command())
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


def show(result) -> None:
    """Print `Guarantees`: the numbers, then the curves."""
    from rich.markup import escape
    from rich.table import Table

    from turnout.cli.tables import console
    from turnout.experiment.theory import milestones

    numbers = Table("what", "value", title=f"Theory of {escape(result.name)}", title_justify="left")
    for what, value in _numbers(result):
        numbers.add_row(what, value)
    console.print(numbers)
    theory, t = result.theory, milestones(result.rounds)
    curves = result.curves(t)
    if isinstance(theory.bound, str):
        console.print(f"No bound: {escape(theory.bound)}.")
    if curves:
        console.print("Bound on E|x_t - x*|^2 for exact solutions of the local problems:")
        shown = Table("round")
        for label in curves:
            shown.add_column(label, justify="right")
        for k, number in enumerate(t):
            shown.add_row(f"{number:,}", *(f"{values[k]:.4g}" for values in curves.values()))
        console.print(shown)


WORST_CASE = (
    "The constants are for the worst case, so the orders do not rank methods: on one problem I-CGM-RG-SAGA was predicted a price "
    "of 183 and FedDyn 29,680, where runs took 118 and 92."
)
"""What to know before prices are compared."""


def show_costs(costs) -> None:
    """Print a `Costs`: the constants, table 1 of cost-aware client selection at each price, and the parameters of I-CGM."""
    from rich.table import Table

    from turnout.cli.tables import console

    if costs.warning is not None:
        typer.echo(f"turnout: warning: {costs.warning}", err=True)
    facts = costs.facts()
    constants = Table("what", "value", title="Constants, at x_0", title_justify="left")
    for what, value in {**facts["constants"], **facts["target"]}.items():
        constants.add_row(what, _amount(value))
    console.print(constants)
    for price in facts["prices"]:
        console.print(_orders(price), _parameters(price))
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
    from rich.table import Table

    from turnout.cli.tables import console

    shown = Table("what", "value", title="Bounds of K-Vib; G is the largest feedback lambda_i |g_i|", title_justify="left")
    for name, value in regrets.facts().items():
        shown.add_row(REGRETS[name], _amount(value))
    console.print(shown)


def _orders(price: dict):
    """Table 1 at one price."""
    from rich.table import Table

    from turnout.theory.selection_complexity import TABLE

    title = f"Orders of the costs to |grad f| <= epsilon, {price['price']}"
    shown = Table("method", "price", "queries", "price grows as", title=title, title_justify="left")
    for row in TABLE:
        shown.add_row(row.method, *map(_amount, price["table"][row.method].values()), row.price_formula)
    return shown


def _parameters(price: dict):
    """The parameters of I-CGM by theory and in practice, and the costs that theory guarantees."""
    from rich.table import Table

    columns = [
        {**values["parameters"], **{name: values[name] for name in ("rounds", "cost", "queries")}}
        for values in price["guarantees"].values()
    ]
    headings = ("I-CGM with", *price["guarantees"], "in practice")
    shown = Table(*headings, title="Parameters, and guaranteed costs", title_justify="left")
    for name in columns[0]:
        label = "price" if name == "cost" else name
        shown.add_row(label, *(_amount(column[name]) for column in columns), _amount(price["practical"].get(name)))
    return shown


def _amount(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}"


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
        rows.append((f"gamma recommended for E|x - x*|^2 <= {result.epsilon:g}", f"{gamma:.4g}"))
        rows.append(("rounds predicted with it", f"{rounds:,}"))
    if result.tolerance is not None:
        rows.append(("b of Lemma 13 for inner = 'auto': |error of a step|^2", f"{result.tolerance:.4g}"))
    for m, floor in zip(COHORTS, theory.floors or (), strict=False):
        rows.append((f"sampling error of {m} cohort{'s' if m > 1 else ''} solved exactly", f"{floor:.4g}"))
    return rows


def _range(values) -> str:
    return f"{values.min():.4g} to {values.max():.4g}"
