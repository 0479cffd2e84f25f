"""The modules that are mutated, and for each the tests that are about it, the quick ones first."""

SAMPLERS, DESIGNS = "tests/samplers/test_samplers.py", "tests/samplers/test_designs.py"

MODULES = {
    "core/records.py": "tests/core/test_records.py tests/core/test_mistakes.py",
    "core/field_checks.py": "tests/core/test_field_checks.py tests/core/test_mistakes.py",
    "core/cohort.py": "tests/core/test_cohort.py",
    "core/replies.py": "tests/core/test_replies.py tests/core/test_lazy_stack.py",
    "accounting/counters.py": "tests/accounting",
    "accounting/ledger.py": "tests/accounting",
    "accounting/prices.py": "tests/accounting",
    "accounting/target.py": "tests/accounting",
    "samplers/base.py": "tests/samplers/test_base.py",
    "samplers/block.py": f"{SAMPLERS} -k block",
    "samplers/delegate.py": f"{SAMPLERS} -k 'delegate or names'",
    "samplers/desraj.py": f"{DESIGNS} -k raj",
    "samplers/draw_by_draw.py": f"{DESIGNS} -k 'raj or replacement or scaled or away or variance'",
    "samplers/fixed_size.py": f"{DESIGNS} -k 'systematic or pivotal or scaled or equal'",
    "samplers/full.py": f"{SAMPLERS} {DESIGNS} -k 'full or everyone'",
    "samplers/full_pass.py": "tests/samplers/test_full_pass.py",
    "samplers/independent.py": f"tests/samplers/test_independent.py {SAMPLERS} -k 'independent or coins or beyond'",
    "samplers/nice.py": f"{SAMPLERS} {DESIGNS} -k 'nice and not shuffled'",
    "samplers/nonuniform.py": f"{SAMPLERS} tests/samplers/test_samplers_runs.py -k 'nonuniform or importance'",
    "samplers/pivotal.py": f"{DESIGNS} -k pivotal",
    "samplers/replacement.py": f"{DESIGNS} -k replacement",
    "samplers/shuffled.py": f"{SAMPLERS} -k 'shuffled or epoch'",
    "samplers/strata.py": f"{SAMPLERS} -k 'strat or block or extreme'",
    "samplers/stratified.py": f"{SAMPLERS} tests/samplers/test_clustering.py -k 'strat or stage or clusters or says_so'",
    "samplers/subsets.py": f"{SAMPLERS} -k 'subset and not nice'",
    "samplers/systematic.py": f"{DESIGNS} -k 'systematic or few'",
    "samplers/weighted.py": "tests/samplers/test_weighted.py",
}
"""Paths below `src/turnout`, and the arguments of pytest."""
