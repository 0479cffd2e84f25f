"""Reports: what results say, as tables, figures and one self-contained page."""
