"""Studies: problems x methods x settings x seeds from one declaration, and the comparisons of their runs."""
