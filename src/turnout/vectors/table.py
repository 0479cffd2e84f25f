"""Tables of what is said of packages."""

STATUS = {"open": "as", "deviation": "**deviates**, as"}


def cell(row: dict, vectors: dict[str, dict]) -> str:
    """Return what a table says of one algorithm of a package; never empty.

    Args:
        row: The row of the result.
        vectors: The vectors by name.
    """
    if row["verdict"] == "absent":
        return "not there"
    if row["verdict"] == "unheld":
        return "there, not played yet"
    if row["verdict"] == "cannot":
        return f"cannot be run: {row['why']}"
    if row["verdict"] == "read":
        return f"read: {row['said']} ({row['where']})"
    if row["verdict"] == "equal":
        digits = {"double": "1e-10", "single": "1e-5, in single precision", "rounded": "1e-6, rounded to single precision"}
        return f"equal to {digits[row['precision']]}"
    if row["verdict"] == "variant":
        name = row["variant"]
        precision = "" if row["precision"] == "double" else ", in single precision"
        return f"{STATUS.get(vectors[name]['status'], 'as')} `{name}`{precision}"
    size = "" if row["difference"] is None else f", by {row['difference']:.2g}"
    return f"**differs** from `{row['vector']}`, first at {row['first']}{size}"


def markdown(result: dict, vectors: dict[str, dict]) -> str:
    """Return the tables of a result in Markdown: the packages with their versions, and a row for each family.

    Args:
        result: The result: date, version of turnout, and packages.
        vectors: The vectors by name.
    """
    packages = result["packages"]
    lines = ["| package | versions | Python |", "| --- | --- | --- |"]
    for one in packages:
        installed = {name: version for name, version in one["versions"].items() if name != "python"}
        shown = ", ".join(f"{name} {version}" for name, version in installed.items()) or one["failed"] or "none"
        if "read" in one:
            shown = f"commit {one['read']['commit'][:10]} of {one['read']['date']}, read"
        lines.append(f"| {one['title']} | {shown} | {one['versions'].get('python', 'not run')} |")
    families = {family for one in packages for family in one["rows"]}
    # What no package has is told in one line.
    run = [one for one in packages if one["versions"] or "read" in one]
    nobody = sorted(family for family in families if all(one["rows"][family]["verdict"] == "absent" for one in run))
    lines += ["", "| algorithm | " + " | ".join(one["title"] for one in packages) + " |"]
    lines.append("| --- " * (1 + len(packages)) + "|")
    for family in sorted(families - {*nobody}):
        lines.append(f"| {family} | " + " | ".join(cell(one["rows"][family], vectors) for one in packages) + " |")
    if nobody:
        lines += ["", f"None of these packages has {', '.join(nobody)}."]
    return "\n".join(lines) + "\n"


def lines(result: dict, vectors: dict[str, dict]) -> list[tuple[str, str, str]]:
    """Return (package, algorithm, what is said) for a terminal, without what is not there, and once why nothing else was played.

    Args:
        result: The result.
        vectors: The vectors by name.
    """
    rows = []
    for one in result["packages"]:
        shown = f"{one['title']} {one['requirements'][0].partition('==')[2]}" if one["requirements"] else one["title"]
        told = [
            (shown, family, cell(row, vectors).replace("`", "").replace("**", ""))
            for family, row in one["rows"].items()
            if row["verdict"] != "absent" and row.get("why") != one["failed"]
        ]
        rows += told
        if one["failed"] and "read" not in one:
            rows.append((shown, "all others" if told else "all", f"cannot be run: {one['failed']}"))
    return rows
