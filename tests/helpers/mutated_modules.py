"""The modules that are mutated, and for each the tests that are about it, the quick ones first."""

MODULES = {
    "core/records.py": "tests/core/test_records.py tests/core/test_mistakes.py",
    "core/field_checks.py": "tests/core/test_field_checks.py tests/core/test_mistakes.py",
    "core/cohort.py": "tests/core/test_cohort.py",
    "core/replies.py": "tests/core/test_replies.py tests/core/test_lazy_stack.py",
    "accounting/counters.py": "tests/accounting",
    "accounting/ledger.py": "tests/accounting",
    "accounting/prices.py": "tests/accounting",
    "accounting/target.py": "tests/accounting",
}
"""Paths below `src/turnout`, and the arguments of pytest."""
