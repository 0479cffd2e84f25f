def findings(study):
    return []
