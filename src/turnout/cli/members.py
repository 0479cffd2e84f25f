"""turnout members: the clients of a federation."""

from turnout.cli import app
from turnout.cli.as_json import AsJson, echo_json
from turnout.cli.options import Keys, needing_flower

STATUS = {False: "registered", True: "revoked"}


@app.command()
def members(folder: Keys, as_json: AsJson = False) -> None:
    """Show the clients of a federation: name, rows, fingerprint of the key, status."""
    from turnout.cli.tables import show_members

    with needing_flower():
        from turnout.engines.flower import membership

    told = [
        {
            "client": i,
            "name": member.name,
            "rows": member.rows,
            "key": membership.fingerprint(member),
            "status": STATUS[member.revoked],
        }
        for i, member in enumerate(membership.members_of(folder))
    ]
    if as_json:
        echo_json(told)
    else:
        show_members(told, membership.ends(folder))
