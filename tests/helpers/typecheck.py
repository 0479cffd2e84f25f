"""The run-time type checker of the tests: beartype, with int accepted for float as type checkers do (PEP 484)."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
