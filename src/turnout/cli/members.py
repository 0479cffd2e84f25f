"""turnout members: the clients of a federation."""

from turnout.cli import app
from turnout.cli.as_json import AsJson, echo_json
from turnout.cli.options import Keys, needing_flower

STATUS = {False: "registered", True: "revoked"}


@app.command()
def members(folder: Keys, as_json: AsJson = False) -> None:
    """Show the clients of a federation: name, rows, fingerprint of the key, status."""
    from turnout.cli.tables import COLUMNS, show_members

    with needing_flower():
        from turnout.engines.flower import membership

    shown = [
        (str(i), member.name, str(member.rows or ""), membership.fingerprint(member), STATUS[member.revoked])
        for i, member in enumerate(membership.members_of(folder))
    ]
    if as_json:
        echo_json([dict(zip(COLUMNS, cells, strict=True)) for cells in shown])
    else:
        show_members(shown, membership.ends(folder))
