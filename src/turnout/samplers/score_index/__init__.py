"""An index over the scores of very many clients: draws and updates at a cost that hardly depends on their number."""
