"""Docstrings of public names list their parameters, and the examples in docstrings run."""

import doctest
import importlib
import inspect
import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import turnout
from tests.helpers.site_hooks import hook

REFERENCE = hook("reference")
SOURCE = Path(turnout.__file__).parent
PUBLIC = [name for name in turnout.__all__ if callable(getattr(turnout, name)) and not inspect.ismodule(getattr(turnout, name))]


def parameters(target) -> list[str]:
    """Return the names that the docstring of a public class or function must explain; hidden fields are not the user's."""
    if is_dataclass(target):
        return [field.name for field in fields(target) if field.init and field.repr and field.name != "kind"]
    if inspect.isclass(target) and (target.__init__ is object.__init__ or issubclass(target, Exception)):
        return []
    names = [parameter.name for parameter in inspect.signature(target).parameters.values()]
    return [name for name in names if name not in ("self", "args", "kwargs")]


def explained(docstring: str) -> list[str]:
    """Return the names in the section `Args:` of a docstring."""
    section = re.search(r"^Args:\n((?:[ ]{4,}.*\n|\n)*)", inspect.cleandoc(docstring) + "\n", flags=re.MULTILINE)
    return re.findall(r"^ {4}\**(\w+)(?: \(.*?\))?:", section[1], flags=re.MULTILINE) if section else []


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_docstring_explains_every_parameter(name):
    target = getattr(turnout, name)
    docstring = vars(target).get("__doc__") if inspect.isclass(target) else target.__doc__
    assert docstring and not docstring.startswith(f"{name}("), "there is no docstring"
    missing = [parameter for parameter in parameters(target) if parameter not in explained(docstring)]
    assert not missing, f"Args: of {name} lacks {', '.join(missing)}"


def test_a_public_docstring_has_an_example():
    """Also those of modules of parts, which have pages of the reference too."""
    modules = [turnout, *(module for module, _ in REFERENCE.MODULES.values())]
    names = [(module, name) for module in modules for name in (PUBLIC if module is turnout else REFERENCE.public(module))]
    missing = [f"{module.__name__}.{name}" for module, name in names if ">>> " not in (getattr(module, name).__doc__ or "")]
    assert len(names) > 200 and not missing


WITH_EXAMPLES = sorted(path for path in SOURCE.rglob("*.py") if ">>> " in path.read_text() and "template" not in path.parts)


@pytest.mark.tiers(
    quick=[],
    longer=[
        "algorithms/fedac.py",
        "algorithms/fedavg.py",
        "algorithms/fedbn.py",
        "algorithms/fedcm.py",
        "algorithms/feddisco.py",
        "algorithms/fedlin.py",
        "algorithms/fedmuon.py",
        "algorithms/fednl.py",
        "algorithms/fednl_cr.py",
        "algorithms/fedopt.py",
        "algorithms/fedprox.py",
        "algorithms/fedspeed.py",
        "algorithms/fedvarp.py",
        "codecs/base.py",
        "codecs/casts.py",
        "codecs/low_rank.py",
        "core/cache.py",
        "core/client.py",
        "core/cohort.py",
        "core/errors.py",
        "core/messages.py",
        "core/replies.py",
        "core/seeds.py",
        "data/catalogue.py",
        "data/client_file.py",
        "data/client_writer.py",
        "data/dataset.py",
        "data/federated_rules.py",
        "data/hdf5.py",
        "data/holdout.py",
        "data/hugging_face.py",
        "data/leaf.py",
        "data/libsvm.py",
        "data/quadratics.py",
        "data/source.py",
        "data/splits/by_label.py",
        "data/splits/equal_blocks.py",
        "data/splits/flwr_partitioner.py",
        "data/splits/kmeans.py",
        "data/splits/natural.py",
        "data/splits/sizes.py",
        "data/splits/split.py",
        "data/synthetic.py",
        "data/tables.py",
        "data/tff.py",
        "devices/devices.py",
        "devices/fleet.py",
        "devices/spreads.py",
        "hubs/hubs.py",
        "problems/chain.py",
        "problems/logistic.py",
        "problems/means.py",
        "problems/multinomial.py",
        "problems/neural.py",
        "problems/oracles/flower_client.py",
        "problems/oracles/numpy_functions.py",
        "problems/quadratic.py",
        "problems/remote.py",
        "problems/ridge.py",
        "problems/two_layer.py",
        "runs/callbacks.py",
        "runs/own_metrics.py",
        "runs/session.py",
        "runs/trace.py",
        "runs/trackers/mlflow.py",
        "runs/trackers/tensorboard.py",
        "runs/trackers/wandb.py",
        "samplers/available.py",
        "samplers/block.py",
        "samplers/delegate.py",
        "samplers/desraj.py",
        "samplers/divfl.py",
        "samplers/full.py",
        "samplers/independent.py",
        "samplers/nice.py",
        "samplers/nonuniform.py",
        "samplers/pivotal.py",
        "samplers/probabilities/avare.py",
        "samplers/probabilities/drift.py",
        "samplers/probabilities/last_norm.py",
        "samplers/probabilities/mabs.py",
        "samplers/probabilities/optimal.py",
        "samplers/probabilities/osmd.py",
        "samplers/probabilities/static.py",
        "samplers/stratified.py",
        "samplers/subsets.py",
    ],
    slow=[
        "privacy/*",
        "algorithms/fedasync.py",
        "algorithms/fedavg_sppm.py",
        "algorithms/fedbabu.py",
        "algorithms/fedbuff.py",
        "algorithms/feddcd.py",
        "algorithms/feddyn.py",
        "algorithms/fedexp.py",
        "algorithms/fedexprox.py",
        "algorithms/fedgloss.py",
        "algorithms/fedlamb.py",
        "algorithms/fednl_ls.py",
        "algorithms/fednl_pp.py",
        "algorithms/fednova.py",
        "algorithms/fedpage.py",
        "algorithms/fedper.py",
        "algorithms/fedprox_sppm.py",
        "algorithms/fedred.py",
        "algorithms/fedrep.py",
        "algorithms/fedsam.py",
        "algorithms/fedsophia.py",
        "codecs/eigenpairs.py",
        "codecs/exchange.py",
        "codecs/quantisation.py",
        "codecs/sparsification.py",
        "core/algorithm.py",
        "core/records.py",
        "core/robust_means.py",
        "data/made.py",
        "problems/base.py",
        "problems/grouped.py",
        "problems/groups.py",
        "problems/language_model.py",
        "problems/model.py",
        "problems/oracles/base.py",
        "problems/text_classifier.py",
        "runs/api.py",
        "runs/averaging_bias.py",
        "runs/peft.py",
        "runs/sweep.py",
        "samplers/adaptive_size.py",
        "samplers/base.py",
        "samplers/clustered.py",
        "samplers/cube.py",
        "samplers/gradient_strata.py",
        "samplers/loss_biased.py",
        "samplers/oort.py",
        "samplers/probabilities/aocs.py",
        "samplers/probabilities/base.py",
        "samplers/probabilities/delta.py",
        "samplers/probabilities/regularised_leader.py",
        "samplers/replacement.py",
        "samplers/shuffled.py",
        "samplers/systematic.py",
    ],
)
@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_examples_of_a_module_run(path):
    module = importlib.import_module(
        ".".join(("turnout", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
    )
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    report: list[str] = []
    for example in doctest.DocTestFinder(exclude_empty=True).find(module):
        runner.run(example, out=report.append)
    assert runner.tries and not runner.failures, "".join(report)
